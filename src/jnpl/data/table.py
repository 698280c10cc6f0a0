"""Tables: a label column beside image paths, numeric features or embeddings."""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from jnpl.data.arrays import as_labels, number_together
from jnpl.data.images import ImageFiles
from jnpl.data.source import InMemory, Source
from jnpl.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.data.source import Array

SUFFIXES = (".csv", ".tsv", ".parquet")
IMAGE_NAMES = ("image", "image_path", "path", "file", "filename", "file_name")
ROW_NAMES = ("id", "index", "unnamed: 0")  # columns of these names are no features if they tell every row apart
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
    image_root: str | Path | None = None,
) -> Source:
    """Read a .csv, .tsv or .parquet table, or a data frame, of N rows.

    The inputs are one of: images, by path in `image_column`, counted from `image_root`, else from the table's folder
    (a data frame's: the working directory); embeddings, lists of equal length in `embedding_column`; or the numbers
    in `feature_columns`, by default all columns but the labels. Numbers are kept as they are, not standardised.
    A missing number becomes the median of its column, and the log says so. Where no column holds numbers, a column
    named as in `IMAGE_NAMES` is the image column. `ids` are the image paths, else the row positions.

    >>> frame = pd.DataFrame({"length": [1.0, 2.0], "width": [3, 4], "label": ["cat", "dog"]})
    >>> source = load(frame)
    >>> source.inputs.read(1), source.class_names
    (array([2., 4.], dtype=float32), ('cat', 'dog'))
    """
    chosen = {"image_column": image_column, "feature_columns": feature_columns, "embedding_column": embedding_column}
    asked = [name for name, value in chosen.items() if value is not None]
    if len(asked) > 1:
        raise InputError(f"the inputs are one of images, features or embeddings, but {' and '.join(asked)} are given")
    as_text = {column for column in (image_column, label_column, true_label_column) if column is not None}
    if isinstance(path_or_frame, pd.DataFrame):
        frame, name, where, folder = path_or_frame, "table", "the data frame", Path()
    else:
        path = Path(path_or_frame)
        frame, name, where, folder = _read(path, as_text), path.stem, repr(str(path_or_frame)), path.parent
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1)  # an array's columns are numbers
    wanted = [*(feature_columns or ()), image_column, embedding_column, label_column, true_label_column]
    _require_columns(frame, [column for column in wanted if column is not None], where)
    if len(frame) == 0:
        raise InputError(f"{where} has no rows")
    given = {label_column: _labels(frame[label_column], label_column, where)}
    if true_label_column is not None:
        given[true_label_column] = _labels(frame[true_label_column], true_label_column, where)
    numbered, classes = number_together(given)
    true_labels = None if true_label_column is None else numbered[true_label_column]
    if not asked:
        image_column = _guess_image_column(frame, set(given))
    if image_column is None:
        values = vectors(frame, set(given), where, feature_columns, embedding_column)
        ids = np.arange(len(frame))
        return Source(name, InMemory(values), numbered[label_column], classes, ids, true_labels)
    inputs, paths, unreadable = _images(frame[image_column], image_column, Path(image_root or folder), where)
    return Source(name, inputs, numbered[label_column], classes, paths, true_labels, unreadable=unreadable)


def vectors(
    frame: pd.DataFrame,
    labels: set[str],
    where: str,
    feature_columns: Sequence[str] | None = None,
    embedding_column: str | None = None,
) -> Array:
    """Take the features, float32 (N, F), from N rows: an embedding column, or all numeric columns but the labels."""
    if embedding_column is not None:
        return _embeddings(frame[embedding_column], embedding_column, where)
    if feature_columns is None:
        columns = [column for column in frame.columns if column not in labels]
        naming = [column for column in columns if column.casefold() in ROW_NAMES and frame[column].is_unique]
        if naming:
            _LOG.info("%s: %s names the rows and is no feature", where, ", ".join(naming))
        columns = [column for column in columns if column not in naming]
    else:
        columns = list(feature_columns)
        if leaked := [column for column in columns if column in labels]:
            raise InputError(f"feature_columns of {where} holds the label column {leaked[0]!r}")
    if not columns:
        raise InputError(f"{where} has no columns beside the labels; name image_column, feature_columns or embeddings")
    refused = [f"{column!r} ({_what(frame[column])})" for column in columns if not _is_numeric(frame[column])]
    if refused:
        raise InputError(
            f"features must be numbers, but {where} has {', '.join(refused)}; "
            "name the numeric ones with feature_columns, or the images with image_column"
        )
    return np.stack([_filled(frame[column], column, where) for column in columns], axis=1)


def _read(path: Path, as_text: set[str]) -> pd.DataFrame:
    """Read a table. In a text file the columns `as_text` stay text, so that a class may be called NA or 007."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"a table is one of {', '.join(SUFFIXES)}, not {str(path)!r}")
    separator = "\t" if suffix == ".tsv" else ","
    try:
        if suffix == ".parquet":
            return pd.read_parquet(path)
        with path.open(encoding="utf-8-sig", newline="") as file, warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # a row with cells beyond the last column
            columns = list(pd.read_csv(file, sep=separator, nrows=0).columns)
            file.seek(0)
            return pd.read_csv(
                file,
                sep=separator,
                index_col=False,
                keep_default_na=False,
                na_values={column: list(_MISSING) for column in columns if column not in as_text},
                dtype={column: str for column in columns if column in as_text},
                low_memory=False,
            )
    except FileNotFoundError as error:
        raise InputError(f"no such file: {str(path)!r}") from error
    except (OSError, ValueError, pd.errors.ParserWarning) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else f"not a valid {suffix} table"
        raise InputError(f"cannot read {str(path)!r}: {reason}") from error


def _require_columns(frame: pd.DataFrame, columns: list[str], where: str) -> None:
    known = list(frame.columns)
    for column in columns:
        if column not in known:
            raise InputError(f"{where} has no column {column!r}; its columns are {', '.join(known) or 'none'}")
    if twice := frame.columns[frame.columns.duplicated()].tolist():
        raise InputError(f"{where} has {known.count(twice[0])} columns named {twice[0]!r}")


def _labels(column: pd.Series[Any], name: str, where: str) -> list[str] | list[int]:
    """Take N labels from a column; text that is all whole numbers counts as numbers."""
    cells = [cell.strip() if isinstance(cell, str) else cell for cell in column.tolist()]
    missing = column.isna().to_numpy() | np.array([isinstance(cell, str) and cell == "" for cell in cells], bool)
    if missing.any():
        row, count = int(missing.argmax()), int(missing.sum())
        raise InputError(
            f"{where} has no label in column {name!r} of row {row} (counted from 0); {count} rows have none"
        )
    if all(isinstance(cell, str) and re.fullmatch(r"[+-]?\d{1,18}(\.0*)?", cell) for cell in cells):
        return [int(cell.partition(".")[0]) for cell in cells]
    return as_labels(cells, f"column {name!r} of {where}")


def _guess_image_column(frame: pd.DataFrame, labels: set[str]) -> str | None:
    others = [column for column in frame.columns if column not in labels]
    features = [name for name in others if _is_numeric(frame[name]) and name.casefold() not in ROW_NAMES]
    if features:
        return None
    named = {column.casefold(): column for column in reversed(others) if not _is_numeric(frame[column])}
    return next((named[name] for name in IMAGE_NAMES if name in named), None)


def _images(
    column: pd.Series[Any], name: str, root: Path, where: str
) -> tuple[ImageFiles, Array, dict[int, str] | None]:
    """Take N paths from a column: the files, their ids (N,), and the rows that name none."""
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
    unreadable = {row: "the table names no file" for row, path in enumerate(paths) if not path}
    ids = np.array([Path(path).as_posix() if path else f"row {row}" for row, path in enumerate(paths)], object)
    return ImageFiles(paths, root), ids, unreadable or None


def _embeddings(column: pd.Series[Any], name: str, where: str) -> Array:
    """Take float32 (N, F) from N lists, arrays or JSON texts of F numbers each."""
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


def _filled(column: pd.Series[Any], name: str, where: str) -> Array:
    """Take float32 (N,) from a column, with its median where a number is missing."""
    values: Array = column.to_numpy(dtype=np.float64, na_value=np.nan).copy()
    missing = np.isnan(values)
    if missing.all():
        raise InputError(f"column {name!r} of {where} holds no numbers at all; leave it out of feature_columns")
    if missing.any():
        median = float(np.median(values[~missing]))
        values[missing] = median
        _LOG.warning("%s: %d missing in column %r, filled with its median %g", where, missing.sum(), name, median)
    with np.errstate(over="ignore"):
        result = values.astype(np.float32)
    finite = np.isfinite(result)
    if not finite.all():
        row = int((~finite).argmax())
        raise InputError(f"column {name!r} of {where} holds {values[row]:g} in row {row} (counted from 0)")
    return result


def _is_numeric(column: pd.Series[Any]) -> bool:
    kinds = pd.api.types
    dtype = column.dtype
    return bool(kinds.is_numeric_dtype(dtype) and not kinds.is_bool_dtype(dtype) and not kinds.is_complex_dtype(dtype))


def _what(column: pd.Series[Any]) -> str:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "categories"
    return "text" if pd.api.types.is_string_dtype(column.dtype) else str(column.dtype)


def _is_path(cell: object) -> bool:
    return isinstance(cell, str | os.PathLike)
