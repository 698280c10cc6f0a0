"""Tables with a label column and image paths, features, embeddings or texts."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from jnpl.data.options import ModelInputs, OpenOptions
from jnpl.data.source import Array, InMemory, Inputs, Labels, Source, Texts
from jnpl.data.sources.arrays import WHOLE_NUMBER, as_labels, number_together
from jnpl.data.sources.columns import group_names, is_measured, kind_of, levels, with_text_names
from jnpl.data.sources.columns import values as values_of
from jnpl.data.sources.encoding import AS_THEY_ARE, ROW_NAMES, Encoding, lone_text
from jnpl.data.sources.images import absolute, any_exists, are_image_paths, file_samples
from jnpl.data.sources.sample_columns import holds_images, images_of, texts_of
from jnpl.data.sources.user_embedding import embed_with
from jnpl.data.sources.votes import MAJORITY, most_frequent, number_votes, read_votes
from jnpl.data.split import SplitColumn, divide, find_split
from jnpl.data.tags import Mask, Tags, are_lists, tags_of_columns, tags_of_lists
from jnpl.internal.errors import InputError
from jnpl.internal.json_files import parse_json
from jnpl.internal.tables import DATA_SUFFIXES, NAMED, data_suffix, is_missing, listed, load_table, require_columns

IMAGE_NAMES = ("image", "image_path", "path", "file", "filename", "file_name")
EMBEDDING_NAMES = ("embedding", "embeddings")
NOTHING_TO_EMBED = (
    "embed (--embed) needs text_column (--text-column) or image_column (--image-column), what it turns into vectors"
)
_INPUTS = ("image_column", "feature_columns", "embedding_column", "text_column", "encoding")
_TOGETHER = ({"image_column", "embedding_column"}, {"embedding_column", "text_column"})
_LABEL_NAME = re.compile(r"(?i)(.*[ _.-])?(labels?|target|class|truth|y)")
MOST_NUMBERS = 100  # different whole numbers above which labels may be a regression target ...
ROWS_PER_NUMBER = 50  # ... if each has fewer rows than this
MOST_FRACTIONS = 20  # different numbers with a fraction (0.5, 1, 1.5, ...) that may be classes
_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)?(\.\d*)?([eE][+-]?\d+)?")  # 01.5 is a code
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_LOG = logging.getLogger("jnpl")


def load(path_or_frame: str | Path | pd.DataFrame, options: OpenOptions | None = None, **changes: Any) -> Source:
    """Read a .csv, .tsv or .parquet table (also .csv.gz, .tsv.gz), or a data frame, of N rows.

    The inputs are images, features, embeddings or texts: one of `image_column`, `feature_columns`, `embedding_column`,
    `text_column` and `encoding` is given; with `embedding_column`, an image or text column is kept for reports. Without
    any, a column `embedding` of lists holds embeddings; a column of image bytes, or one named as in `IMAGE_NAMES` if
    no column holds numbers, holds the images; else all columns but the labels are features, which
    `jnpl.data.sources.encoding.Encoding` encodes; the log says what was done.

    A column `split` with the values train, test and validation divides the table: the rows of train are the data. The
    labels of the other rows are those of `true_label_column`, else of `label_column`.

    Args:
        path_or_frame: the table. Image paths are relative to its folder (of a data frame: the working directory).
        options: how to open it; by default, the labels are in the column `label`.
        **changes: options by name.

    Returns:
        The source; its ids are the image paths, else the row positions.

    Example:
        >>> frame = pd.DataFrame({"length": [1.0, 2.0], "width": [3, 4], "label": ["cat", "dog"]})
        >>> source = load(frame)
        >>> source.inputs.read(1), source.class_names
        (array([2., 4.], dtype=float32), ('cat', 'dog'))
    """
    options = replace(options or OpenOptions(), **changes)
    table, has_inputs = open_table(path_or_frame, options), _names_inputs(options)
    frame, where = table.frame, table.where
    _check_frame(frame, where)
    split = None if options.encoding is not None else find_split(frame, options.columns())
    labels = _tagged_rows(table, split, options) or _split_labels(table, split, options)
    given_by = [*(options.label_columns or ()), *(options.tag_columns or ())]
    aside = {column for column in (table.label_column, options.true_label_column, split and split.name) if column}
    aside = (aside & set(frame.columns)) | set(given_by)
    votes = {column: frame[column].tolist() for column in options.label_columns or ()}
    numbered_votes = number_votes(read_votes(votes), labels.classes) or None
    _refuse_measured_labels(labels, table.label_column, where, features=False)
    rows, columns = labels.rows["train"], options.group_columns or ()
    groups = {column: _groups(frame[column], rows, column, where) for column in columns}

    def source(inputs: Inputs, ids: Array | None = None, **more: Any) -> Source:
        ids = np.arange(len(frame)) if ids is None else ids
        whole = Source(
            table.name,
            inputs,
            labels.given,
            labels.classes,
            ids,
            labels.true,
            groups=groups or None,
            votes=numbered_votes,
            tags=labels.tags,
            **more,
        )
        divided = whole if len(labels.rows["train"]) == len(frame) else divide(whole, labels.rows)
        return divided if options.embed is None else embed_with(divided, options.embed)

    embedding_column, image_column, text_column = options.embedding_column, options.image_column, options.text_column
    if not has_inputs:
        unused = {*aside, *groups, *(options.exclude or ())}
        embedding_column = guess_embedding_column(frame, unused) if options.embed is None else None
        image_column = None if embedding_column else _guess_image_column(frame, unused, table.root, where)
        if embedding_column is None and image_column is None:
            text_column = guess_text_column(frame, unused, labels.classes)
            if text_column is not None:
                _LOG.warning("%s: learning from the texts in column %r (--text-column)", where, text_column)
    if embedding_column is not None:
        values = InMemory(_embeddings(frame[embedding_column], embedding_column, where), embedded=True)
        shown = beside_embeddings(table, aside, image_column, text_column)
        cells = None if "ids" in shown else _cells(frame, {*aside, embedding_column})
        return source(values, **shown, cells=cells)
    if image_column is not None:
        return source(**images(table, image_column))
    if text_column is not None:
        texts, unreadable = texts_of(frame[text_column], text_column, where)
        return source(Texts(texts), texts=texts, unreadable=unreadable)
    if options.embed is not None:
        raise InputError(NOTHING_TO_EMBED)
    cells = _cells(frame, aside, options.feature_columns or ())
    if options.encoding is None:
        _refuse_measured_labels(labels, table.label_column, where, features=True)
        train = frame.iloc[labels.rows["train"]]
        learnt = learn(train, {*aside, *groups}, labels.classes, where, options.feature_columns, options.exclude or ())
    else:
        learnt = Encoding.from_dict(options.encoding)
    return source(InMemory(learnt.apply(frame, where)), encoding=learnt.to_dict(), cells=cells)


@dataclass(frozen=True, eq=False)
class Table:
    """A table of samples as it was read, and what the options say about it."""

    frame: pd.DataFrame  # the N rows; the names of the columns are texts
    where: str  # the table in error messages
    name: str  # of the data
    root: Path  # the folder that image paths are relative to
    label_column: str  # the column of given labels; a table of new data may have no such column


def open_table(path_or_frame: str | Path | pd.DataFrame, options: OpenOptions, *, new: bool = False) -> Table:
    """Read a table that must have the columns of the options; a table of `new` data need not have labels."""
    votes = options.label_columns or ()
    if votes and options.label_column is not None:
        raise InputError("label_column (--label-column) and label_columns (--label-columns) exclude each other")
    if len(set(votes)) != len(votes):
        raise InputError(f"label_columns (--label-columns) names a column twice: {', '.join(votes)}")
    _check_tag_options(options)
    label_column = options.label_column or (votes[0] if votes else "label")
    if isinstance(path_or_frame, pd.DataFrame):
        frame, name, where, folder = path_or_frame, "table", "the data frame", Path()
    else:
        path = Path(path_or_frame)
        as_text = {options.image_column, label_column, *votes, options.true_label_column, options.text_column} - {None}
        frame, name, where, folder = read(path, as_text), table_name(path), repr(str(path_or_frame)), path.parent
    frame = with_text_names(frame)
    needed = [] if new or options.tag_columns else [label_column]
    require_columns(frame.columns, [*options.columns(), *needed], where)
    if votes and not new:
        label_column = MAJORITY
        frame = frame.assign(
            **{MAJORITY: most_frequent(read_votes({column: frame[column].tolist() for column in votes}))}
        )
    return Table(frame, where, name, Path(options.image_root or folder), label_column)


def load_new(path_or_frame: str | Path | pd.DataFrame, model: ModelInputs) -> dict[str, Any]:
    """Return the samples of a table, and labels or tags if it has any, as `open_new` takes them."""
    table = open_table(path_or_frame, model.options, new=True)
    frame, column = table.frame, table.label_column
    labels = _new_labels(frame[column].tolist()) if column in frame.columns and not model.several else None
    tags = _new_tags(table, model) if model.several else None
    fields = {"name": table.name, "labels": labels, "tags": tags, **_new_samples(table, model)}
    if model.part is None:
        return fields
    split = find_split(frame, model.options.columns())
    if split is None or not len(rows := split.rows[model.part]):
        raise InputError(f"part={model.part!r} has no meaning for {table.where}: it has no column split with such rows")
    return fields | {"rows": rows}


def _new_labels(cells: list[Any]) -> list[Any]:
    """Return one label per cell, None where missing; 3.0 becomes 3 (missing values turn integers into floats)."""
    plain = [cell.strip() or None if isinstance(cell, str) else cell for cell in cells]
    present = [None if is_missing(cell) else cell for cell in plain]
    return [int(cell) if isinstance(cell, float) and cell.is_integer() else cell for cell in present]


def _new_tags(table: Table, model: ModelInputs) -> Tags | None:
    """Return the tags of a table: of its columns with the names of all tags, or of lists in its label column."""
    names = [str(name) for name in model.classes]
    if set(names) <= set(table.frame.columns):
        return tags_of_columns(table.frame, names, table.where)
    if table.label_column not in table.frame.columns:
        return None
    cells = table.frame[table.label_column].tolist()
    return tags_of_lists(cells, f"column {table.label_column!r} of {table.where}")


def _new_samples(table: Table, model: ModelInputs) -> dict[str, Any]:
    """Return the samples of a table as `open_new` takes them: inputs, and where they have them ids, unreadable."""
    options = model.options
    if model.kind == "text":
        if options.image_column is not None:
            raise InputError("image_column (--image-column) has no meaning here: the model was trained on texts")
        return _new_texts(table, model)
    if model.kind == "image" and options.text_column is not None:
        raise InputError("text_column (--text-column) has no meaning here: the model was trained on images")
    if model.kind == "image" or (options.embed is not None and options.text_column is None):
        return _new_images(table, options.image_column)
    if options.text_column is not None and options.embedding_column is None:
        if model.encoding is not None:
            columns = "the model was trained on the columns of a table, which it finds by name"
            raise InputError(f"text_column (--text-column) has no meaning here: {columns}")
        if options.embed is None:
            raise InputError("the model takes vectors: --embed names the function that turns texts into them")
        return _new_texts(table, model)
    return _new_vectors(table, model)


def _new_texts(table: Table, model: ModelInputs) -> dict[str, Any]:
    column = model.options.text_column or guess_text_column(table.frame, {table.label_column}, model.classes)
    if column is None:
        shown = listed(list(table.frame.columns), NAMED)
        raise InputError(
            f"the model was trained on texts: text_column (--text-column) names the column of {table.where} that "
            f"holds them (there are {shown})"
        )
    texts, unreadable = texts_of(table.frame[column], column, table.where)
    return {"inputs": Texts(texts), "unreadable": unreadable}


def _new_vectors(table: Table, model: ModelInputs) -> dict[str, Any]:
    """Return float32 (N, F), as in training, and the ids of embeddings that have images beside them."""
    options, frame, where = model.options, table.frame, table.where
    if model.encoding is not None:
        if named := {"embedding_column", "feature_columns", "image_column"} & set(options.changed()):
            reason = "the model stores which columns it was trained on, and how they are encoded"
            raise InputError(f"{', '.join(sorted(named))} has no meaning here: {reason}")
        encoding = Encoding.from_dict(model.encoding)
        if not {column.name for column in encoding.columns} & set(frame.columns):
            trained_on, there = (
                listed(names, NAMED) for names in ([column.name for column in encoding.columns], list(frame.columns))
            )
            raise InputError(f"the model was trained on a table of {trained_on}; {where} has only {there}")
        return {"inputs": InMemory(encoding.apply(frame, where))}
    tags = set(map(str, model.classes)) if model.several else set()
    labels = ({table.label_column} | tags) & set(frame.columns)
    column = options.embedding_column
    if column is None and options.feature_columns is None:
        column = guess_embedding_column(frame, labels)
    if column is None and options.image_column is not None:
        raise InputError("image_column has no meaning for a model of vectors, without --embed or --embedding-column")
    samples: dict[str, Any] = {"inputs": InMemory(vectors(frame, labels, where, options.feature_columns, column))}
    if column is not None:
        beside = beside_embeddings(table, labels, options.image_column, options.text_column)
        samples |= {"ids": beside["ids"]} if "ids" in beside else {}
    return samples


def _new_images(table: Table, column: str | None) -> dict[str, Any]:
    """Return the images of a table, inside it or in files, as `open_new` takes them."""
    frame = table.frame
    columns = {column.casefold(): column for column in reversed(list(frame.columns))}
    named = (columns[name] for name in IMAGE_NAMES if name in columns)
    inside = (name for name in frame.columns if holds_images(frame[name]))
    column = column or next(named, None) or next(inside, None)
    if column is None:
        shown = listed(list(frame.columns), NAMED)
        raise InputError(
            f"the model was trained on images, and {table.where} is a table: give a folder of images, or name the "
            f"column of paths or bytes with image_column, --image-column (there are {shown})"
        )
    fields = images(table, column, new=True)
    return {name: fields[name] for name in ("inputs", "ids", "unreadable")}


def table_name(path: Path) -> str:
    """Return the name of a table file without its suffix.

    >>> table_name(Path("data/news.csv.gz"))
    'news'
    """
    return path.name[: -len(data_suffix(path))] or path.name


def _cells(frame: pd.DataFrame, hidden: Collection[str], first: Sequence[str] = ()) -> pd.DataFrame | None:
    """Return the table to show in reports: without `hidden`, with the columns `first` in front; None if empty."""
    kept = [column for column in dict.fromkeys([*first, *frame.columns]) if column not in hidden]
    return frame[kept] if kept else None


def _groups(cells: pd.Series[Any], rows: Labels, name: str, where: str) -> Array:
    """Return the groups (N,) that a column names, at least one of them in some rows (M,)."""
    groups = group_names(cells)
    if all(group is None for group in groups[rows].tolist()):
        raise InputError(f"column {name!r} of {where} names no group (--group-column): it is empty")
    return groups


def _names_inputs(options: OpenOptions) -> bool:
    """Return whether the options name the inputs; two kinds are an error, except for what is shown of embeddings."""
    if options.exclude and options.feature_columns is not None:
        raise InputError("feature_columns (--feature-column) and exclude (--exclude) exclude each other")
    named = [name for name in _INPUTS if getattr(options, name) is not None]
    if len(named) > 1 and set(named) not in _TOGETHER:
        kinds = "images, features, embeddings or texts"
        raise InputError(f"the inputs are one of {kinds}, but {' and '.join(named)} are given")
    if options.embed is not None and (other := [name for name in named if name not in ("image_column", "text_column")]):
        raise InputError(f"{NOTHING_TO_EMBED}, not {other[0]}")
    return bool(named)


class _SplitLabels(NamedTuple):
    """Labels of all N rows as class numbers; in rows of no part, they have no meaning."""

    given: Labels
    true: Labels | None
    classes: tuple[str, ...] | tuple[int, ...]
    rows: dict[str, Labels]  # of each part
    tags: Mask | None = None  # of samples with several, (N, C)


def _split_labels(table: Table, split: SplitColumn | None, options: OpenOptions) -> _SplitLabels:
    """Return the labels of a table: given and true ones of the training rows, the best ones of the others."""
    frame, where, label_column = table.frame, table.where, table.label_column
    true_label_column = options.true_label_column
    train = np.arange(len(frame)) if split is None else split.rows["train"]
    if options.skip_unlabelled:
        train = _labelled(frame[label_column], train, label_column, where)
    label_lists = {"train": _labels(frame[label_column], label_column, where, train)}
    if true_label_column is not None:
        label_lists["true"] = _labels(frame[true_label_column], true_label_column, where, train)
    rows = {"train": train, "test": train[:0], "validation": train[:0]}
    lines = []
    for part in ("test", "validation") if split is not None else ():
        if split is None or not len(at := split.rows[part]):
            continue
        complete = (
            label_name
            for label_name in (true_label_column, label_column)
            if label_name and not _missing(frame[label_name])[at].any()
        )
        if (column := next(complete, None)) is None:
            lines.append(f"{len(at):,} {part} rows are left out: some have no label")
        else:
            rows[part], label_lists[part] = at, _labels(frame[column], column, where, at)
            lines.append(f"{len(at):,} are {part} data with the labels in {column!r}")
    if split is not None:
        lines = [f"{len(train):,} rows are the data", *lines]
        _LOG.warning("%s: by its column %r, %s", where, split.name, ", ".join(lines))
    numbered, classes = number_together(label_lists)
    class_numbers = np.zeros(len(frame), np.int64)
    for part in ("train", "test", "validation"):
        class_numbers[rows[part]] = numbered.get(part, 0)
    true = None
    if true_label_column is not None:
        true = class_numbers.copy()
        true[train] = numbered["true"]
    return _SplitLabels(class_numbers, true, classes, rows)


def _check_tag_options(options: OpenOptions) -> None:
    if not (options.tag_columns or options.multi_label):
        return
    for name in ("label_columns", "true_label_column", *(["label_column"] if options.tag_columns else [])):
        if getattr(options, name):
            tags = "tag_columns (--tag-columns)" if options.tag_columns else "multi_label (--multi-label)"
            raise InputError(f"{name} (--{name.replace('_', '-')}) and {tags} exclude each other")


def _tags(table: Table, options: OpenOptions) -> Tags | None:
    """Return the tags of all rows, if they are asked for or the label column holds lists; else None."""
    frame, where = table.frame, table.where
    if options.tag_columns:
        return tags_of_columns(frame, options.tag_columns, where)
    if options.label_columns:
        return None
    cells = frame[table.label_column].tolist() if options.multi_label or table.label_column in frame.columns else []
    if not options.multi_label and (not cells or options.encoding is not None or not are_lists(cells)):
        return None
    return tags_of_lists(cells, f"column {table.label_column!r} of {where}")


def _tagged_rows(table: Table, split: SplitColumn | None, options: OpenOptions) -> _SplitLabels | None:
    """Return tags in place of labels; None if there are none."""
    tags = _tags(table, options)
    if tags is None:
        return None
    rows = {"train": np.arange(len(table.frame))} if split is None else dict(split.rows)
    if options.skip_unlabelled:
        rows = {name: at[tags.given[at].any(1)] for name, at in rows.items()}
        if not len(rows["train"]):
            raise InputError(f"{table.where} has no tag at all")
    none = np.empty(0, np.int64)
    rows = {"test": none, "validation": none, **rows}
    return _SplitLabels(np.zeros(len(table.frame), np.int64), None, tags.names, rows, tags.given)


def _labelled(column: pd.Series[Any], rows: Labels, name: str, where: str) -> Labels:
    """Return those of some rows (M,) that have a label; the log says how many have none."""
    missing = _missing(column)[rows]
    if missing.all():
        raise InputError(f"{where} has no label in column {name!r} at all")
    if missing.any():
        _LOG.warning("%s: %s rows without a label are skipped", where, f"{int(missing.sum()):,}")
    return rows[~missing]


def _refuse_measured_labels(labels: _SplitLabels, name: str, where: str, *, features: bool) -> None:
    """Raise an InputError if labels are a quantity, not classes.

    A quantity is more than `MOST_FRACTIONS` different numbers of which some have a fraction. In a table of features it
    is also more than `MOST_NUMBERS` different whole numbers with few rows each, unless they count from 0 or 1 without a
    gap; photos and texts may have thousands of numbered classes, such as articles.
    """
    if labels.tags is not None:
        return
    rows, values = len(labels.rows["train"]), [label for label in labels.classes if isinstance(label, int)]
    many = features and len(values) > MOST_NUMBERS and rows < ROWS_PER_NUMBER * len(values)
    if many and values[0] in (0, 1) and values[-1] - values[0] + 1 == len(values):
        return
    texts = [label for label in labels.classes if isinstance(label, str)]
    fractions = len(texts) > MOST_FRACTIONS and all(map(_is_number, texts))  # whole numbers are no texts here
    if many or fractions:
        raise InputError(
            f"column {name!r} of {where} holds {len(labels.classes):,} different numbers in {rows:,} rows: it looks "
            "like a regression target, and jnpl finds wrong classes. Name another --label-column, or turn the numbers "
            "into a few classes first (pandas.cut); if they are codes of classes, put a letter in front"
        )


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text)) and text.strip("+-.") != ""


def learn(
    frame: pd.DataFrame,
    labels: set[str],
    classes: Sequence[str] | Sequence[int],
    where: str,
    feature_columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
) -> Encoding:
    """Learn how the columns of a table, without the labels and `exclude`, become features; the log says what was done.

    Without `feature_columns`, other columns that hold labels are left out: they would leak the labels.
    """
    features, names = _without_labels(frame, {*labels, *exclude}, where, feature_columns), set(map(str, classes))
    twins = [column for column in features.columns.tolist() if _holds_labels(features[column], column, names)]
    if twins and feature_columns is None:
        note = f"left out because they hold labels too: {', '.join(twins)} (--true-label-column names the true ones)"
        if len(twins) == features.shape[1]:
            raise InputError(f"{where} has no column to learn from: {note}")
        encoding = Encoding.fit(features.drop(columns=twins), None, where)
        encoding = replace(encoding, notes=[*encoding.notes, note])
    else:
        encoding = Encoding.fit(features, feature_columns, where)
    for note in encoding.notes:
        plain = note.startswith(AS_THEY_ARE)  # nothing that a Python user must be told
        _LOG.log(logging.INFO if plain else logging.WARNING, "%s: %s", where, note)
    return encoding


def _holds_labels(cells: pd.Series[Any], name: str, classes: set[str]) -> bool:
    """Whether a column is named like labels and holds only classes."""
    if not _LABEL_NAME.fullmatch(name) or kind_of(cells) not in ("number", "category", "boolean"):
        return False
    return set(levels(cells)[1]) <= classes


def _without_labels(
    frame: pd.DataFrame, labels: set[str], where: str, feature_columns: Sequence[str] | None
) -> pd.DataFrame:
    if leaked := [column for column in feature_columns or () if column in labels]:
        raise InputError(f"feature_columns of {where} holds the label column {leaked[0]!r}")
    features = frame.drop(columns=list(labels))
    if features.shape[1] == 0:
        raise InputError(f"{where} has no columns beside the labels; name image_column, feature_columns or embeddings")
    return features


def vectors(
    frame: pd.DataFrame,
    labels: set[str],
    where: str,
    feature_columns: Sequence[str] | None = None,
    embedding_column: str | None = None,
) -> Array:
    """Return float32 (N, F) without learning an encoding: embeddings, or columns of numbers.

    For tables that must have the same F features without knowing each other.
    """
    if embedding_column is not None:
        return _embeddings(frame[embedding_column], embedding_column, where)
    features = _without_labels(frame, labels, where, feature_columns)
    columns: list[str] = features.columns.tolist() if feature_columns is None else list(feature_columns)
    if feature_columns is None:
        columns = [name for name in columns if name.casefold() not in ROW_NAMES or not features[name].is_unique]
    if not columns:
        raise InputError(f"{where} has no columns but the labels and those that number the rows; use feature_columns")
    if refused := [repr(column) for column in columns if not is_measured(features[column])]:
        raise InputError(f"features must be numbers, but {where} has {', '.join(refused)}; use feature_columns")
    numbers = np.stack([values_of(features[column], "number", column, where) for column in columns], axis=1)
    if (empty := np.isnan(numbers).all(axis=0)).any():
        raise InputError(f"column {columns[int(empty.argmax())]!r} of {where} holds no numbers at all")
    return np.where(np.isnan(numbers), np.nanmedian(numbers, axis=0), numbers).astype(np.float32)


def read(path: Path, as_text: Collection[str | None] = ()) -> pd.DataFrame:
    """Read a table file of `DATA_SUFFIXES`. Of a text file, `as_text` columns stay text: a class may be called 007."""
    if not data_suffix(path):
        raise InputError(f"a table is one of {', '.join(DATA_SUFFIXES)}, not {str(path)!r}")
    return load_table(path, as_text=as_text, missing=_MISSING)


def _check_frame(frame: pd.DataFrame, where: str) -> None:
    if len(frame) == 0:
        raise InputError(f"{where} has no rows")
    if twice := frame.columns[frame.columns.duplicated()].tolist():
        raise InputError(f"{where} has {frame.columns.tolist().count(twice[0])} columns named {twice[0]!r}")


def _labels(column: pd.Series[Any], name: str, where: str, rows: Labels) -> list[str] | list[int]:
    """Return the M labels in some rows (M,) of a column; texts that are all whole numbers become numbers."""
    missing = _missing(column)[rows]
    if missing.any():
        row, count = int(rows[missing.argmax()]), int(missing.sum())
        raise InputError(
            f"{where} has no label in column {name!r} of row {row} (counted from 0); {count:,} "
            f"{'row has' if count == 1 else 'rows have'} none: --skip-unlabelled (skip_unlabelled) leaves them out"
        )
    cells = [cell.strip() if isinstance(cell, str) else cell for cell in column.iloc[rows].tolist()]
    if all(isinstance(cell, str) and WHOLE_NUMBER.fullmatch(cell) for cell in cells):
        return [int(cell.partition(".")[0]) for cell in cells]
    if (
        measured := next((cell for cell in cells if isinstance(cell, float) and not cell.is_integer()), None)
    ) is not None:
        raise InputError(
            f"column {name!r} of {where} holds {measured:g}, which looks like a regression target; labels are names or "
            "whole numbers. Name another --label-column, or turn the numbers into a few classes first (pandas.cut)"
        )
    return as_labels(cells, f"column {name!r} of {where}")


def _missing(column: pd.Series[Any]) -> npt.NDArray[np.bool_]:
    """Return (N,) true where a cell is missing, or a text without letters."""
    empty = np.array([isinstance(cell, str) and not cell.strip() for cell in column.tolist()], bool)
    missing: npt.NDArray[np.bool_] = column.isna().to_numpy() | empty
    return missing


def guess_embedding_column(frame: pd.DataFrame, labels: Collection[str]) -> str | None:
    """Return the column called `embedding`, as `jnpl embed` writes it, if it holds lists of numbers."""
    for column in frame.columns:
        if column.casefold() in EMBEDDING_NAMES and column not in labels and not is_measured(frame[column]):
            first = next((cell for cell in frame[column].tolist() if cell is not None), None)
            if isinstance(first, list | tuple | np.ndarray) or (isinstance(first, str) and first.startswith("[")):
                return str(column)
    return None


def beside_embeddings(
    table: Table, labels: Collection[str], image_column: str | None = None, text_column: str | None = None
) -> dict[str, Any]:
    """Return the images or texts beside embeddings, as fields of a `Source`: pictures, ids and root, or texts.

    Without a column by name, they are in one that is named as in `IMAGE_NAMES` or called `text`; it does not matter if
    the files are gone.
    """
    frame, where = table.frame, table.where
    columns = {column.casefold(): column for column in reversed(list(frame.columns)) if column not in labels}
    if image_column is None and text_column is None:
        named = (columns[name] for name in IMAGE_NAMES if _has_images(frame, columns.get(name), table.root))
        image_column = next(named, None)
    if image_column is not None:
        fields = images(table, image_column)
        return {"pictures": fields["inputs"], "ids": fields["ids"], "root": fields["root"]}
    text = columns.get("text") if text_column is None else text_column
    if text is None or (text_column is None and not pd.api.types.is_string_dtype(frame[text].dtype)):
        return {}
    return {"texts": texts_of(frame[text], text, where)[0]}


def guess_text_column(
    frame: pd.DataFrame, unused: Collection[str], classes: Sequence[str] | Sequence[int]
) -> str | None:
    """Return the only column worth learning from if it holds texts; columns that hold labels too do not count."""
    names = set(map(str, classes))
    others = [name for name in frame.columns if name not in unused and not _holds_labels(frame[name], name, names)]
    return lone_text(frame[others])


def _has_images(frame: pd.DataFrame, column: str | None, root: Path) -> bool:
    """Whether a column holds images, or paths of which one of the first is there."""
    if column is None:
        return False
    cells = frame[column]
    return holds_images(cells) or any_exists([cell for cell in cells if isinstance(cell, str) and cell], root)


def _guess_image_column(frame: pd.DataFrame, labels: Collection[str], root: Path, where: str) -> str | None:
    others = [column for column in frame.columns if column not in labels]
    inside = [column for column in others if holds_images(frame[column])]
    if len(inside) > 1 and "image" not in inside:
        raise InputError(
            f"{where} has several columns of images, {', '.join(inside)}; image_column (--image-column) names one"
        )
    if inside:
        return "image" if "image" in inside else inside[0]
    features = [name for name in others if is_measured(frame[name]) and name.casefold() not in ROW_NAMES]
    if features:
        return None
    named = {column.casefold(): column for column in reversed(others) if not is_measured(frame[column])}
    by_name = next((named[name] for name in IMAGE_NAMES if name in named), None)
    return by_name or next((name for name in others if _holds_image_paths(frame[name], root)), None)


def _holds_image_paths(cells: pd.Series[Any], root: Path) -> bool:
    """Whether all cells that are not missing are paths of images, of which one of the first is there."""
    present = [] if is_measured(cells) else cells[cells.notna()].tolist()
    return bool(present) and are_image_paths(present) and any_exists(present, root)


def images(table: Table, name: str, *, new: bool = False) -> dict[str, Any]:
    """Return the N images of a column as fields of a `Source`: inputs, ids, unreadable, and the root of files.

    Of `new` data, a cell that is no path is an unreadable sample, and all files may be missing.
    """
    column, root, where = table.frame[name], table.root, table.where
    if holds_images(column):
        inputs, ids, unreadable = images_of(column, name, where, root)
        in_files = inputs.path(0) is not None
        return {
            "inputs": inputs,
            "ids": ids,
            "unreadable": unreadable,
            "root": absolute(root) if in_files else None,
        }
    missing, cells = column.isna().to_numpy(), column.tolist()
    wrong = next((cell for cell, none in zip(cells, missing, strict=True) if not none and not _is_path(cell)), None)
    if wrong is not None and not new:
        raise InputError(f"column {name!r} of {where} must hold paths, not {type(wrong).__name__}")
    paths = [os.fspath(cell) if _is_path(cell) else "" for cell in cells]
    named = [path for path in paths if path]
    if named and not new and not any_exists(named, root):
        raise InputError(
            f"{where} names images in column {name!r} that are not there, first {named[0]!r} "
            f"in {str(root)!r}; image_root (--image-root) says where the paths start"
        )
    return file_samples(paths, root)


def _embeddings(column: pd.Series[Any], name: str, where: str) -> Array:
    """Return float32 (N, F) from N lists, arrays or JSON texts of F numbers each."""
    rows = [_embedding(cell, row, name, where) for row, cell in enumerate(column.tolist())]
    for row, values in enumerate(rows):
        if values.shape != rows[0].shape:
            first = f"{values.size} numbers in row {row}, but {rows[0].size} in row 0"
            raise InputError(f"embeddings in column {name!r} of {where} differ in length: {first}")
    return np.stack(rows)


def _embedding(cell: Any, row: int, name: str, where: str) -> Array:
    try:
        with np.errstate(over="ignore"):
            values = np.asarray(parse_json(cell) if isinstance(cell, str) else cell, np.float32)
    except (ValueError, TypeError):
        values = np.empty(0, np.float32)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        shown = f"{str(cell)[:40]!r} in row {row} (counted from 0)"
        raise InputError(f'column {name!r} of {where} must hold lists of finite numbers like "[0.1, 0.2]", not {shown}')
    return values


def _is_path(cell: object) -> bool:
    return isinstance(cell, str | os.PathLike)
