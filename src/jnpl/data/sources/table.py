"""Tables with a label column and image paths, features, embeddings or texts."""

from __future__ import annotations

import json
import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jnpl.data.source import InMemory, Source, Texts
from jnpl.data.sources.arrays import WHOLE_NUMBER, as_labels, number_together
from jnpl.data.sources.columns import is_measured, kind_of, levels, with_text_names
from jnpl.data.sources.columns import values as values_of
from jnpl.data.sources.encoding import ROW_NAMES, Encoding
from jnpl.data.sources.images import ImageFiles
from jnpl.data.sources.text_column import embedded, require_text_for_embed, texts_of
from jnpl.internal.errors import InputError
from jnpl.internal.tables import DATA_SUFFIXES, load_table, require_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jnpl.data.source import Array, Inputs
    from jnpl.data.sources.text_column import Embed

IMAGE_NAMES = ("image", "image_path", "path", "file", "filename", "file_name")
_LABEL_NAME = re.compile(r"(?i)(.*[ _.-])?(labels?|target|class|truth|y)")
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_LOG = logging.getLogger("jnpl")


def load(
    path_or_frame: str | Path | pd.DataFrame,
    *,
    image_column: str | None = None,
    label_column: str = "label",
    true_label_column: str | None = None,
    feature_columns: Sequence[str] | None = None,
    embedding_column: str | None = None,
    text_column: str | None = None,
    embed: str | Embed | None = None,
    encoding: dict[str, Any] | None = None,
    image_root: str | Path | None = None,
) -> Source:
    """Read a .csv, .tsv or .parquet table, or a data frame, of N rows.

    The inputs are images, features, embeddings or texts: at most one of `image_column`, `feature_columns`,
    `embedding_column`, `text_column` and `encoding` is given. Without any, a column named as in `IMAGE_NAMES` holds the
    images if no column holds numbers, else all columns but the labels are features.

    Args:
        path_or_frame: the table.
        image_column: the column of image paths.
        label_column: the column of given labels.
        true_label_column: the column of true labels.
        feature_columns: the columns to learn from; `jnpl.data.sources.encoding.Encoding` says how they become features,
            and the log says what was done.
        embedding_column: the column of vectors, lists of equal length.
        text_column: the column of texts.
        embed: the function that turns texts into vectors, or its place as "module:function"; None: they stay texts.
        encoding: the encoding of another source, to be used for this table.
        image_root: the folder that image paths are relative to; by default the table's folder (of a data frame: the
            working directory).

    Returns:
        The source; its ids are the image paths, else the row positions.

    Example:
        >>> frame = pd.DataFrame({"length": [1.0, 2.0], "width": [3, 4], "label": ["cat", "dog"]})
        >>> source = load(frame)
        >>> source.inputs.read(1), source.class_names
        (array([2., 4.], dtype=float32), ('cat', 'dog'))
    """
    chosen = {
        "image_column": image_column,
        "feature_columns": feature_columns,
        "embedding_column": embedding_column,
        "text_column": text_column,
        "encoding": encoding,
    }
    named = _named_inputs(chosen, embed)
    if isinstance(path_or_frame, pd.DataFrame):
        frame, name, where, folder = path_or_frame, "table", "the data frame", Path()
    else:
        path = Path(path_or_frame)
        as_text = {image_column, label_column, true_label_column, text_column} - {None}
        frame, name, where, folder = read(path, as_text), path.stem, repr(str(path_or_frame)), path.parent
    frame = with_text_names(frame)
    wanted = [*(feature_columns or ()), image_column, embedding_column, text_column, label_column, true_label_column]
    require_columns(frame.columns, [column for column in wanted if column is not None], where)
    _refuse_repeated_columns(frame, where)
    if len(frame) == 0:
        raise InputError(f"{where} has no rows")
    given = {label_column: _labels(frame[label_column], label_column, where)}
    if true_label_column is not None:
        given[true_label_column] = _labels(frame[true_label_column], true_label_column, where)
    numbered, classes = number_together(given)
    true_labels = None if true_label_column is None else numbered[true_label_column]

    def source(inputs: Inputs, ids: Array | None = None, **more: Any) -> Source:
        ids = np.arange(len(frame)) if ids is None else ids
        return Source(name, inputs, numbered[label_column], classes, ids, true_labels, **more)

    if not named:
        image_column = _guess_image_column(frame, set(given))
    if image_column is not None:
        root = Path(image_root or folder)
        files, paths, unreadable = _images(frame[image_column], image_column, root, where)
        return source(files, paths, unreadable=unreadable, root=os.path.abspath(root))  # noqa: PTH100 - keeps links
    if text_column is not None:
        texts, unreadable = texts_of(frame[text_column], text_column, where)
        inputs = Texts(texts) if embed is None else InMemory(embedded(texts, embed, unreadable))
        return source(inputs, texts=texts, unreadable=unreadable)
    cells = _cells(frame, {*given, embedding_column}, feature_columns or ())
    if embedding_column is not None:
        return source(InMemory(_embeddings(frame[embedding_column], embedding_column, where)), cells=cells)
    if encoding is None:
        learnt = learn(frame, set(given), classes, where, feature_columns)
    else:
        learnt = Encoding.from_dict(encoding)
    return source(InMemory(learnt.apply(frame, where)), encoding=learnt.to_dict(), cells=cells)


def _cells(frame: pd.DataFrame, hidden: Collection[str | None], first: Sequence[str]) -> pd.DataFrame | None:
    """Return the table to show in reports: without `hidden`, with the columns `first` in front; None if empty."""
    kept = [column for column in dict.fromkeys([*first, *frame.columns]) if column not in hidden]
    return frame[kept] if kept else None


def _named_inputs(chosen: dict[str, Any], embed: str | Embed | None) -> list[str]:
    """Return the option that names the inputs, if one does; two of them, or `embed` without texts, are an error."""
    named = [name for name, value in chosen.items() if value is not None]
    if len(named) > 1:
        kinds = "images, features, embeddings or texts"
        raise InputError(f"the inputs are one of {kinds}, but {' and '.join(named)} are given")
    require_text_for_embed(chosen["text_column"], embed)
    return named


def learn(
    frame: pd.DataFrame,
    labels: set[str],
    classes: Sequence[str] | Sequence[int],
    where: str,
    feature_columns: Sequence[str] | None = None,
) -> Encoding:
    """Learn how the columns of a table, without the labels, become features; the log says what was done.

    Without `feature_columns`, other columns that hold labels are left out: they would leak the labels.
    """
    features, names = _without_labels(frame, labels, where, feature_columns), set(map(str, classes))
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
        _LOG.warning("%s: %s", where, note)
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
    """Read a .csv, .tsv or .parquet file. Of a text file, `as_text` columns stay text: a class may be called 007."""
    if path.suffix.lower() not in DATA_SUFFIXES:
        raise InputError(f"a table is one of {', '.join(DATA_SUFFIXES)}, not {str(path)!r}")
    return load_table(path, as_text=as_text, missing=_MISSING)


def _refuse_repeated_columns(frame: pd.DataFrame, where: str) -> None:
    if twice := frame.columns[frame.columns.duplicated()].tolist():
        raise InputError(f"{where} has {frame.columns.tolist().count(twice[0])} columns named {twice[0]!r}")


def _labels(column: pd.Series[Any], name: str, where: str) -> list[str] | list[int]:
    """Return the N labels of a column; texts that are all whole numbers become numbers."""
    cells = [cell.strip() if isinstance(cell, str) else cell for cell in column.tolist()]
    missing = column.isna().to_numpy() | np.array([isinstance(cell, str) and cell == "" for cell in cells], bool)
    if missing.any():
        row, count = int(missing.argmax()), int(missing.sum())
        raise InputError(
            f"{where} has no label in column {name!r} of row {row} (counted from 0); {count} rows have none"
        )
    if all(isinstance(cell, str) and WHOLE_NUMBER.fullmatch(cell) for cell in cells):
        return [int(cell.partition(".")[0]) for cell in cells]
    return as_labels(cells, f"column {name!r} of {where}")


def _guess_image_column(frame: pd.DataFrame, labels: set[str]) -> str | None:
    others = [column for column in frame.columns if column not in labels]
    features = [name for name in others if is_measured(frame[name]) and name.casefold() not in ROW_NAMES]
    if features:
        return None
    named = {column.casefold(): column for column in reversed(others) if not is_measured(frame[column])}
    return next((named[name] for name in IMAGE_NAMES if name in named), None)


def _images(
    column: pd.Series[Any], name: str, root: Path, where: str
) -> tuple[ImageFiles, Array, dict[int, str] | None]:
    """Return the N image files of a column, their ids (N,), and {row: reason} of empty cells, or None."""
    missing = column.isna().to_numpy()
    cells = column.tolist()
    wrong = next((cell for cell, none in zip(cells, missing, strict=True) if not none and not _is_path(cell)), None)
    if wrong is not None:
        raise InputError(f"column {name!r} of {where} must hold paths, not {type(wrong).__name__}")
    paths = ["" if none else os.fspath(cell) for cell, none in zip(cells, missing, strict=True)]
    named = [path for path in paths if path]
    if named and not any(os.path.exists(root / path) for path in named[:20]):  # noqa: PTH110 - never raises
        raise InputError(
            f"{where} names images in column {name!r} that are not there, first {named[0]!r} "
            f"in {str(root)!r}; image_root says where the paths start"
        )
    return image_files(paths, root)


def image_files(paths: list[str], root: Path) -> tuple[ImageFiles, Array, dict[int, str] | None]:
    """Return the image files of N rows, their ids (N,), and {row: reason} of rows without a path, or None."""
    unreadable = {row: "the table names no file" for row, path in enumerate(paths) if not path}
    ids = np.array([Path(path).as_posix() if path else f"row {row}" for row, path in enumerate(paths)], object)
    return ImageFiles(paths, root), ids, unreadable or None


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
            values = np.asarray(json.loads(cell) if isinstance(cell, str) else cell, np.float32)
    except (ValueError, TypeError):
        values = np.empty(0, np.float32)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        shown = f"{str(cell)[:40]!r} in row {row} (counted from 0)"
        raise InputError(f'column {name!r} of {where} must hold lists of finite numbers like "[0.1, 0.2]", not {shown}')
    return values


def _is_path(cell: object) -> bool:
    return isinstance(cell, str | os.PathLike)
