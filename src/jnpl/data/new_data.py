"""New data for a trained model: with labels or without, in any form that training takes, and a few more."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.datasets import DATASETS
from jnpl.data.opening import HUB, is_saved_dataset, open_source
from jnpl.data.source import InMemory, Source, Texts
from jnpl.data.sources.arrays import WHOLE_NUMBER, as_inputs, as_labels, as_texts, read_npz
from jnpl.data.sources.text_column import texts_of
from jnpl.data.sources.user_embedding import embed_inputs
from jnpl.data.split import part as part_of
from jnpl.internal.errors import InputError
from jnpl.internal.files import printable
from jnpl.internal.tables import data_suffix, is_missing, require_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from jnpl.data.source import Array, Inputs, Kind, Labels
    from jnpl.data.sources.user_embedding import Embed

PARTS = ("train", "test", "validation")


@dataclass(frozen=True)
class TableColumns:
    """The options of `open_source` that name the columns of a table."""

    image_column: str | None = None
    label_column: str | None = None
    feature_columns: Sequence[str] | None = None
    embedding_column: str | None = None
    text_column: str | None = None
    embed: str | Embed | None = None
    image_root: str | os.PathLike[str] | None = None

    def given(self) -> dict[str, Any]:
        """Return the options that are given."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, eq=False)
class NewData:
    """Samples to predict, and their labels if the data have any; the labels inside `source` have no meaning.

    `labels` are class numbers of the model (N,): -1 where a sample has no label, -2 where the model does not know it.
    """

    source: Source
    labels: Labels | None = None


def open_new(
    data: Any,
    classes: Sequence[Any],
    *,
    kind: Kind,
    encoding: dict[str, Any] | None = None,
    part: str | None = None,
    root: str | os.PathLike[str] | None = None,
    columns: TableColumns | None = None,
) -> NewData:
    """Open data to predict, for a model with these classes and this kind of input.

    Args:
        data: everything that `open_source` takes, and a folder of images of any depth, one image file, a table without
            labels, an .npz with x only, a data frame, and arrays, tensors or lists (N, ...). In a folder every file
            that is not hidden is a sample; its label is the outermost folder around it that has the name of a class.
        classes: names of the model's classes.
        kind: "image", "text" or "vector".
        encoding: of the table that the model was trained on (`Source.encoding`).
        part: "train", "test" or "validation" of data that have parts.
        root: folder of the named data sets.
        columns: of a table.

    Returns:
        The samples, and their labels if there are any.
    """
    if part is not None and part not in PARTS:
        raise InputError(f"part is one of {', '.join(PARTS)}, not {part!r}")
    given = {} if columns is None else columns.given()
    if "embed" in given and kind != "vector":
        raise InputError(f"embed (--embed) has no meaning for a model of {kind}s: it was not trained on vectors")
    reader = _NewDataReader(tuple(classes), kind, encoding, given.get("embed"))
    named = isinstance(data, str) and (data in DATASETS or data.startswith(HUB))
    if isinstance(data, str | os.PathLike) and not named and Path(data).exists():
        return _open_path(Path(data), reader, part, given)
    if hasattr(data, "columns") and hasattr(data, "iloc"):
        return reader.table(data, "the data frame", "table", Path(), given, part)
    if kind == "text" and not isinstance(data, os.PathLike) and (texts := as_texts(data)) is not None:
        _refuse_part(part, "texts")
        return reader.inputs(Texts(texts), "texts")
    if hasattr(data, "shape") or (isinstance(data, list) and not _is_pairs(data)):
        _refuse_part(part, "an array")
        return reader.inputs(InMemory(as_inputs(data, "x")), "x")
    return reader.labelled(open_source(data, root=root, **given), part)


def _open_path(path: Path, reader: _NewDataReader, part: str | None, given: dict[str, Any]) -> NewData:
    """Open an existing file or folder."""
    suffix = path.suffix.lower() if path.is_file() else ""
    if path.is_file() and data_suffix(path):
        from jnpl.data.sources.table import read, table_name  # noqa: PLC0415 - arrays and images do without pandas

        as_text = (given.get("label_column", "label"), given.get("image_column"), given.get("text_column"))
        return reader.table(read(path, as_text), repr(str(path)), table_name(path), path.parent, given, part)
    if is_saved_dataset(path):
        return reader.labelled(open_source(path, **given), part)
    if strange := [name for name in given if name != "embed"]:
        raise InputError(f"{', '.join(strange)} has no meaning for {str(path)!r}, which is not a table")
    if suffix == ".npz":
        return reader.npz(path, part)
    _refuse_part(part, repr(str(path)))
    if not path.is_dir():
        from jnpl.data.sources.images import ImageFiles  # noqa: PLC0415 - vectors do without Pillow

        return reader.files([path.name], ImageFiles([path]), path.name)
    from jnpl.data.sources.folder import files_in, walk  # noqa: PLC0415 - vectors do without Pillow

    if not (files := sorted(walk(path))):
        raise InputError(f"the folder {str(path)!r} holds no files")
    return reader.files([file.path for file in files], files_in(path, files), path.resolve().name or str(path))


@dataclass(frozen=True)
class _NewDataReader:
    """Opens each form of data for a model with these classes, kind of input and encoding.

    `embed` turns texts and images into the model's vectors.
    """

    classes: tuple[Any, ...]
    kind: Kind
    encoding: dict[str, Any] | None
    embed: str | Embed | None = None

    def inputs(
        self,
        inputs: Inputs,
        name: str,
        *,
        ids: Array | None = None,
        labels: Sequence[Any] | None = None,
        unreadable: dict[int, str] | None = None,
    ) -> NewData:
        if len(inputs) == 0:
            raise InputError(f"{name} holds no samples")
        if self.embed is not None:
            values, unreadable = embed_inputs(inputs, self.embed, name, unreadable)
            inputs = InMemory(values)
        none = np.zeros(len(inputs), np.int64)
        where = np.arange(len(inputs)) if ids is None else ids
        source = Source(name, inputs, none, self.classes, where, unreadable=unreadable)
        return NewData(source, None if labels is None else self.numbers(labels))

    def numbers(self, labels: Sequence[Any]) -> Labels | None:
        """Return the class numbers (N,) of labels given by name (None: no label); None if no sample has a label."""
        number = {str(name): at for at, name in enumerate(self.classes)}
        whole = all(type(name) is int for name in self.classes)
        found = np.array([-1 if each is None else number.get(_key(each, whole), -2) for each in labels], np.int64)
        return None if (found == -1).all() else found

    def labelled(self, source: Source, part: str | None) -> NewData:
        """Return a source for training, or a part of it, as new data."""
        parts = {"test": source.test, "validation": source.validation}
        chosen = parts.get(part, source) if part is not None else source
        if chosen is None:
            raise InputError(f"{source.name} has no {part} data")
        return NewData(chosen, self.numbers([chosen.class_names[label] for label in chosen.labels.tolist()]))

    def files(self, paths: list[str], inputs: Inputs, name: str) -> NewData:
        ids = np.array([printable(path) for path in paths], object)
        known = {str(label) for label in self.classes}
        labels = [next((step for step in each.split("/")[:-1] if step in known), None) for each in ids.tolist()]
        return self.inputs(inputs, name, ids=ids, labels=labels)

    def npz(self, path: Path, part: str | None) -> NewData:
        ending = {"test": "_test", "validation": "_val"}.get(part or "", "")
        found = read_npz(path, [f"x{ending}"], [f"y{ending}", "class_names"])
        values = as_inputs(found[f"x{ending}"], f"x{ending} of {str(path)!r}")
        if f"y{ending}" not in found:
            return self.inputs(InMemory(values), path.stem)
        labels: Sequence[Any] = as_labels(found[f"y{ending}"], f"y{ending} of {str(path)!r}")
        if len(labels) != len(values):
            raise InputError(f"{str(path)!r} holds {len(values)} samples, but {len(labels)} labels")
        if "class_names" in found and all(isinstance(label, int) for label in labels):
            names = as_labels(found["class_names"], "class_names")  # labels are names from it, or positions in it
            if not set(labels) <= set(names):
                labels = [names[label] if 0 <= label < len(names) else label for label in labels]
        return self.inputs(InMemory(values), path.stem, labels=labels)

    def table(
        self, frame: pd.DataFrame, where: str, name: str, folder: Path, given: dict[str, Any], part: str | None = None
    ) -> NewData:
        from jnpl.data.sources.columns import with_text_names  # noqa: PLC0415 - arrays and images do without pandas

        frame = with_text_names(frame)
        named = [value for key, value in given.items() if key.endswith("_column")]
        require_columns(frame.columns, [*named, *given.get("feature_columns", ())], where)
        label_column = given.get("label_column", "label")
        labels = _labels(frame[label_column].tolist()) if label_column in frame.columns else None
        found = self.inputs(**self._columns(frame, where, folder, given), name=name, labels=labels)
        if part is None:
            return found
        from jnpl.data.sources.split_column import find_split  # noqa: PLC0415

        split = find_split(frame, named)
        if split is None or not len(rows := split.rows[part]):
            raise InputError(f"part={part!r} has no meaning for {where}: it has no column split with such rows")
        return NewData(part_of(found.source, rows), None if found.labels is None else found.labels[rows])

    def _columns(self, frame: pd.DataFrame, where: str, folder: Path, given: dict[str, Any]) -> dict[str, Any]:
        """Return the samples of a table as arguments of `inputs`: inputs, and where they have them ids, unreadable."""
        root, images = Path(given.get("image_root", folder)), given.get("image_column")
        if self.kind == "text":
            if "image_column" in given:
                raise InputError("image_column (--image-column) has no meaning here: the model was trained on texts")
            return self._texts(frame, where, given)
        if self.kind == "image" and "text_column" in given:
            raise InputError("text_column (--text-column) has no meaning here: the model was trained on images")
        if self.kind == "image" or (self.embed is not None and "text_column" not in given):
            return _pictures(frame, where, root, images)
        if "text_column" in given and "embedding_column" not in given:
            if self.encoding is not None:
                columns = "the model was trained on the columns of a table, which it finds by name"
                raise InputError(f"text_column (--text-column) has no meaning here: {columns}")
            if self.embed is None:
                raise InputError("the model takes vectors: --embed names the function that turns texts into them")
            return self._texts(frame, where, given)
        return self._vectors(frame, where, root, given)

    def _texts(self, frame: pd.DataFrame, where: str, given: dict[str, Any]) -> dict[str, Any]:
        column = given.get("text_column")
        if column is None:
            shown = ", ".join(frame.columns)
            raise InputError(
                f"the model was trained on texts: --text-column names the column of {where} that holds them "
                f"(there are {shown})"
            )
        texts, unreadable = texts_of(frame[column], column, where)
        return {"inputs": Texts(texts), "unreadable": unreadable}

    def _vectors(self, frame: pd.DataFrame, where: str, root: Path, given: dict[str, Any]) -> dict[str, Any]:
        """Return float32 (N, F), as in training, and the ids of embeddings that have images beside them."""
        from jnpl.data.sources.table import beside_embeddings, guess_embedding_column, vectors  # noqa: PLC0415

        if self.encoding is not None:
            if named := {"embedding_column", "feature_columns", "image_column"} & set(given):
                reason = "the model stores which columns it was trained on, and how they are encoded"
                raise InputError(f"{', '.join(sorted(named))} has no meaning here: {reason}")
            from jnpl.data.sources.encoding import Encoding, listed  # noqa: PLC0415

            encoding = Encoding.from_dict(self.encoding)
            if not {column.name for column in encoding.columns} & set(frame.columns):
                known, there = listed([column.name for column in encoding.columns]), listed(list(frame.columns))
                raise InputError(f"the model was trained on a table of {known}; {where} has only {there}")
            return {"inputs": InMemory(encoding.apply(frame, where))}
        labels = {given.get("label_column", "label")} & set(frame.columns)
        features, column = given.get("feature_columns"), given.get("embedding_column")
        if column is None and features is None:
            column = guess_embedding_column(frame, labels)
        images, texts = given.get("image_column"), given.get("text_column")
        if column is None and images is not None:
            raise InputError(
                "image_column has no meaning for a model of vectors, without --embed or --embedding-column"
            )
        found: dict[str, Any] = {"inputs": InMemory(vectors(frame, labels, where, features, column))}
        beside = {} if column is None else beside_embeddings(frame, labels, where, root, images, texts)
        return found | ({"ids": beside["ids"]} if "ids" in beside else {})


def _pictures(frame: pd.DataFrame, where: str, root: Path, column: str | None) -> dict[str, Any]:
    """Return the images of a table, inside it or in files, as arguments of `inputs`."""
    from jnpl.data.sources.image_column import holds_images, images_of  # noqa: PLC0415
    from jnpl.data.sources.table import IMAGE_NAMES, image_files  # noqa: PLC0415

    columns = {column.casefold(): column for column in reversed(list(frame.columns))}
    inside = [each for each in frame.columns if holds_images(frame[each])]
    column = column or next((columns[each] for each in IMAGE_NAMES if each in columns), inside[0] if inside else None)
    if column is None:
        shown = ", ".join(frame.columns)
        raise InputError(
            f"the model was trained on images, and {where} is a table: give a folder of images, or name the column of "
            f"paths or bytes with --image-column (there are {shown})"
        )
    if column in inside:
        images, ids, unreadable = images_of(frame[column], column, where, root)
        return {"inputs": images, "ids": ids, "unreadable": unreadable}
    paths = [os.fspath(cell) if isinstance(cell, str | os.PathLike) else "" for cell in frame[column].tolist()]
    files, ids, unreadable = image_files(paths, root)
    return {"inputs": files, "ids": ids, "unreadable": unreadable}


def _labels(cells: list[Any]) -> list[Any]:
    """Return one label per cell, None where missing; 3.0 becomes 3 (missing values turn integers into floats)."""
    plain = [cell.strip() or None if isinstance(cell, str) else cell for cell in cells]
    present = [None if is_missing(cell) else cell for cell in plain]
    return [int(cell) if isinstance(cell, float) and cell.is_integer() else cell for cell in present]


def _key(label: Any, whole: bool) -> str:
    """Return a label as text; if classes are numbers, 07 and 7.0 are "7", as in training."""
    text = str(label)
    if whole and WHOLE_NUMBER.fullmatch(text):
        return str(int(text.partition(".")[0]))
    return text


def _is_pairs(data: list[Any]) -> bool:
    """Whether a list is a data set of (input, label) items, not a list of samples."""
    first = data[0] if data else None
    return isinstance(first, tuple) and len(first) == 2 and not np.isscalar(first[0])


def _refuse_part(part: str | None, what: str) -> None:
    if part is not None:
        raise InputError(f"part={part!r} has no meaning for {what}")
