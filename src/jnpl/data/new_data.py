"""New data for a trained model: with labels or without, in any form that training takes, and a few more."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.datasets import DATASETS
from jnpl.data.opening import form_of, open_source, options_of_form
from jnpl.data.options import OpenOptions
from jnpl.data.source import Array, InMemory, Inputs, Kind, Labels, Source, Texts
from jnpl.data.sources.arrays import WHOLE_NUMBER, as_image_paths, as_inputs, as_labels, as_texts, read_npz
from jnpl.data.sources.user_embedding import embed_inputs
from jnpl.data.spellings import spelling_key
from jnpl.data.split import find_split
from jnpl.data.split import part as part_of
from jnpl.data.tags import Mask, Tags, tags_of_columns, tags_of_lists, with_names
from jnpl.internal.errors import InputError
from jnpl.internal.files import printable
from jnpl.internal.tables import is_missing

if TYPE_CHECKING:
    from jnpl.data.sources.table import Table

PARTS = ("train", "test", "validation")


@dataclass(frozen=True, eq=False)
class NewData:
    """Samples to predict, and their labels if the data have any; the labels inside `source` have no meaning.

    `labels` are class numbers of the model (N,): -1 where a sample has no label, -2 where the model does not know it.
    `tags` are those of a model of tags (N, T).
    """

    source: Source
    labels: Labels | None = None
    tags: Mask | None = None


def open_new(
    data: Any,
    classes: Sequence[Any],
    options: OpenOptions | None = None,
    *,
    kind: Kind,
    encoding: dict[str, Any] | None = None,
    part: str | None = None,
    several: bool = False,
) -> NewData:
    """Open data to predict, for a model with these classes and this kind of input.

    Args:
        data: everything that `open_source` takes, and a folder of images of any depth, one image file, a table without
            labels, an .npz with x only, a data frame, and arrays, tensors or lists (N, ...). In a folder every file
            that is not hidden is a sample; its label is the outermost folder around it that has the name of a class.
        encoding: of the table that the model was trained on (`Source.encoding`).
        part: "train", "test" or "validation" of data that have parts.
        several: the classes are tags, of which a sample may have several.
    """
    options = options or OpenOptions()
    if part is not None and part not in PARTS:
        raise InputError(f"part is one of {', '.join(PARTS)}, not {part!r}")
    if options.embed is not None and kind != "vector":
        raise InputError(f"embed (--embed) has no meaning for a model of {kind}s: it was not trained on vectors")
    reader = _NewDataReader(tuple(classes), kind, encoding, options, part, several)
    form = form_of(data)
    readers = {"table": reader.table, "folder": reader.folder, "npz": reader.npz}
    is_image = form is None and isinstance(data, str | os.PathLike) and data not in DATASETS and Path(data).exists()
    if is_image or (form is not None and form.name in readers):
        options_of_form(data, form, options)
        return reader.image(Path(data)) if form is None else readers[form.name](data)
    if form is None or form.name == "items":
        if kind == "text" and (texts := as_texts(data)) is not None:
            reader.refuse_part("texts")
            return reader.inputs(Texts(texts), "texts")
        if kind == "image" and (paths := as_image_paths(data, "x")) is not None:
            from jnpl.data.sources.images import file_samples  # noqa: PLC0415 - vectors do without Pillow

            reader.refuse_part("paths")
            files = file_samples(paths, Path())
            return reader.inputs(files["inputs"], "images", ids=files["ids"])
        if hasattr(data, "shape") or (isinstance(data, list) and not _is_pairs(data)):
            reader.refuse_part("an array")
            return reader.inputs(InMemory(as_inputs(data, "x")), "x")
    if form is not None and form.name == "boxes":
        options = replace(options, crops=not several)
    return reader.labelled(open_source(data, options))


@dataclass(frozen=True)
class _NewDataReader:
    """Opens each form of data for a model with these classes, kind of input and encoding."""

    classes: tuple[Any, ...]
    kind: Kind
    encoding: dict[str, Any] | None
    options: OpenOptions
    part: str | None
    several: bool = False

    def image(self, path: Path) -> NewData:
        """Open one image file."""
        from jnpl.data.sources.images import ImageFiles  # noqa: PLC0415 - vectors do without Pillow

        self.refuse_part(repr(str(path)))
        return self.files([path.name], ImageFiles([path]), path.name)

    def folder(self, folder: str | os.PathLike[str]) -> NewData:
        """Open all files in a folder."""
        from jnpl.data.sources.folder import files_in, walk  # noqa: PLC0415 - vectors do without Pillow

        path = Path(folder)
        self.refuse_part(repr(str(path)))
        if not (files := sorted(walk(path))):
            raise InputError(f"the folder {str(path)!r} holds no files")
        return self.files([file.path for file in files], files_in(path, files), path.resolve().name or str(path))

    def refuse_part(self, what: str) -> None:
        if self.part is not None:
            raise InputError(f"part={self.part!r} has no meaning for {what}")

    def inputs(
        self,
        inputs: Inputs,
        name: str,
        *,
        ids: Array | None = None,
        labels: Sequence[Any] | None = None,
        unreadable: dict[int, str] | None = None,
        tags: Tags | None = None,
    ) -> NewData:
        if len(inputs) == 0:
            raise InputError(f"{name} holds no samples")
        if self.options.embed is not None:
            values, unreadable = embed_inputs(inputs, self.options.embed, name, unreadable)
            inputs = InMemory(values)
        none = np.zeros(len(inputs), np.int64)
        where = np.arange(len(inputs)) if ids is None else ids
        source = Source(name, inputs, none, self.classes, where, unreadable=unreadable)
        model_tags = None if tags is None else with_names(tags, self.classes).given
        return NewData(source, None if labels is None or self.several else self.numbers(labels), model_tags)

    def numbers(self, labels: Sequence[Any]) -> Labels | None:
        """Return the class numbers (N,) of labels given by name (None: no label); None if no sample has a label."""
        number = {str(name): at for at, name in enumerate(self.classes)}
        keys = [spelling_key(name) for name in self.classes]
        count = Counter(keys)
        by_spelling = {key: at for at, key in enumerate(keys) if count[key] == 1}
        whole = all(type(name) is int for name in self.classes)
        class_numbers = np.array(
            [
                -1 if label is None else number.get(_key(label, whole), by_spelling.get(spelling_key(label), -2))
                for label in labels
            ],
            np.int64,
        )
        return None if (class_numbers == -1).all() else class_numbers

    def labelled(self, source: Source) -> NewData:
        """Return a source for training, or a part of it, as new data."""
        chosen = {"test": source.test, "validation": source.validation}.get(self.part or "train", source)
        if chosen is None:
            raise InputError(f"{source.name} has no {self.part} data")
        if self.several:
            tags = None if chosen.tags is None else Tags(chosen.tags, tuple(map(str, chosen.class_names)))
            return NewData(chosen, tags=None if tags is None else with_names(tags, self.classes).given)
        return NewData(chosen, self.numbers([chosen.class_names[label] for label in chosen.labels.tolist()]))

    def files(self, paths: list[str], inputs: Inputs, name: str) -> NewData:
        ids = np.array([printable(path) for path in paths], object)
        class_names = {str(label) for label in self.classes}
        labels = [next((step for step in path.split("/")[:-1] if step in class_names), None) for path in ids.tolist()]
        return self.inputs(inputs, name, ids=ids, labels=labels)

    def npz(self, file: str | os.PathLike[str]) -> NewData:
        path = Path(file)
        ending = {"test": "_test", "validation": "_val"}.get(self.part or "", "")
        arrays = read_npz(path, [f"x{ending}"], [f"y{ending}", "class_names"])
        values = as_inputs(arrays[f"x{ending}"], f"x{ending} of {str(path)!r}")
        if f"y{ending}" not in arrays:
            return self.inputs(InMemory(values), path.stem)
        labels: Sequence[Any] = as_labels(arrays[f"y{ending}"], f"y{ending} of {str(path)!r}")
        if len(labels) != len(values):
            raise InputError(f"{str(path)!r} holds {len(values)} samples, but {len(labels)} labels")
        if "class_names" in arrays and all(isinstance(label, int) for label in labels):
            names = as_labels(arrays["class_names"], "class_names")  # labels are names from it, or positions in it
            if not set(labels) <= set(names):
                labels = [names[label] if 0 <= label < len(names) else label for label in labels]
        return self.inputs(InMemory(values), path.stem, labels=labels)

    def table(self, path_or_frame: Any) -> NewData:
        from jnpl.data.sources.table import open_table  # noqa: PLC0415 - arrays and images do without pandas

        table = open_table(path_or_frame, self.options, new=True)
        frame, column = table.frame, table.label_column
        labels = _labels(frame[column].tolist()) if column in frame.columns and not self.several else None
        tags = self._tags(table) if self.several else None
        new = self.inputs(**self._samples(table), name=table.name, labels=labels, tags=tags)
        if self.part is None:
            return new
        split = find_split(frame, self.options.columns())
        if split is None or not len(rows := split.rows[self.part]):
            raise InputError(
                f"part={self.part!r} has no meaning for {table.where}: it has no column split with such rows"
            )
        return NewData(
            part_of(new.source, rows),
            None if new.labels is None else new.labels[rows],
            None if new.tags is None else new.tags[rows],
        )

    def _tags(self, table: Table) -> Tags | None:
        """Return the tags of a table: of its columns with the names of all tags, or of lists in its label column."""
        names = [str(name) for name in self.classes]
        if set(names) <= set(table.frame.columns):
            return tags_of_columns(table.frame, names, table.where)
        if table.label_column not in table.frame.columns:
            return None
        cells = table.frame[table.label_column].tolist()
        return tags_of_lists(cells, f"column {table.label_column!r} of {table.where}")

    def _samples(self, table: Table) -> dict[str, Any]:
        """Return the samples of a table as arguments of `inputs`: inputs, and where they have them ids, unreadable."""
        options = self.options
        if self.kind == "text":
            if options.image_column is not None:
                raise InputError("image_column (--image-column) has no meaning here: the model was trained on texts")
            return self._texts(table)
        if self.kind == "image" and options.text_column is not None:
            raise InputError("text_column (--text-column) has no meaning here: the model was trained on images")
        if self.kind == "image" or (options.embed is not None and options.text_column is None):
            return _pictures(table, options.image_column)
        if options.text_column is not None and options.embedding_column is None:
            if self.encoding is not None:
                columns = "the model was trained on the columns of a table, which it finds by name"
                raise InputError(f"text_column (--text-column) has no meaning here: {columns}")
            if options.embed is None:
                raise InputError("the model takes vectors: --embed names the function that turns texts into them")
            return self._texts(table)
        return self._vectors(table)

    def _texts(self, table: Table) -> dict[str, Any]:
        from jnpl.data.sources.sample_columns import texts_of  # noqa: PLC0415

        column = self.options.text_column
        if column is None:
            from jnpl.data.sources.table import guess_text_column  # noqa: PLC0415

            column = guess_text_column(table.frame, {table.label_column}, self.classes)
        if column is None:
            shown = ", ".join(table.frame.columns)
            raise InputError(
                f"the model was trained on texts: text_column (--text-column) names the column of {table.where} that "
                f"holds them (there are {shown})"
            )
        texts, unreadable = texts_of(table.frame[column], column, table.where)
        return {"inputs": Texts(texts), "unreadable": unreadable}

    def _vectors(self, table: Table) -> dict[str, Any]:
        """Return float32 (N, F), as in training, and the ids of embeddings that have images beside them."""
        from jnpl.data.sources.table import beside_embeddings, guess_embedding_column, vectors  # noqa: PLC0415

        options, frame, where = self.options, table.frame, table.where
        if self.encoding is not None:
            if named := {"embedding_column", "feature_columns", "image_column"} & set(options.changed()):
                reason = "the model stores which columns it was trained on, and how they are encoded"
                raise InputError(f"{', '.join(sorted(named))} has no meaning here: {reason}")
            from jnpl.data.sources.encoding import Encoding, listed  # noqa: PLC0415

            encoding = Encoding.from_dict(self.encoding)
            if not {column.name for column in encoding.columns} & set(frame.columns):
                trained_on, there = listed([column.name for column in encoding.columns]), listed(list(frame.columns))
                raise InputError(f"the model was trained on a table of {trained_on}; {where} has only {there}")
            return {"inputs": InMemory(encoding.apply(frame, where))}
        tags = set(map(str, self.classes)) if self.several else set()
        labels = ({table.label_column} | tags) & set(frame.columns)
        column = options.embedding_column
        if column is None and options.feature_columns is None:
            column = guess_embedding_column(frame, labels)
        if column is None and options.image_column is not None:
            raise InputError(
                "image_column has no meaning for a model of vectors, without --embed or --embedding-column"
            )
        samples: dict[str, Any] = {"inputs": InMemory(vectors(frame, labels, where, options.feature_columns, column))}
        if column is not None:
            beside = beside_embeddings(table, labels, options.image_column, options.text_column)
            samples |= {"ids": beside["ids"]} if "ids" in beside else {}
        return samples


def _pictures(table: Table, column: str | None) -> dict[str, Any]:
    """Return the images of a table, inside it or in files, as arguments of `inputs`."""
    from jnpl.data.sources.sample_columns import holds_images  # noqa: PLC0415
    from jnpl.data.sources.table import IMAGE_NAMES, images  # noqa: PLC0415

    frame = table.frame
    columns = {column.casefold(): column for column in reversed(list(frame.columns))}
    named = (columns[name] for name in IMAGE_NAMES if name in columns)
    inside = (name for name in frame.columns if holds_images(frame[name]))
    column = column or next(named, None) or next(inside, None)
    if column is None:
        shown = ", ".join(frame.columns)
        raise InputError(
            f"the model was trained on images, and {table.where} is a table: give a folder of images, or name the "
            f"column of paths or bytes with image_column, --image-column (there are {shown})"
        )
    fields = images(table, column, new=True)
    return {name: fields[name] for name in ("inputs", "ids", "unreadable")}


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
