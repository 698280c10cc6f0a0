"""Labels, features, matrices and class maps as users keep them in files; a mistake is told in one line."""

from __future__ import annotations

import json
import os
import re
import warnings
import zipfile
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing
from jnpl.internal.tables import load_parquet, save_parquet
from jnpl.noise.class_maps import MAP_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

TABLES = (".csv", ".parquet")
NOISY_COLUMN = "noisy_label"


@dataclass(frozen=True, eq=False)
class LabelFile:
    """What a label file says: labels (N,), as class numbers.

    `class_names` are the names of the classes, where known; `holds_names` says whether the labels stand in
    the file as those names rather than as numbers; `table` is the whole table that they are a column of.
    """

    labels: npt.NDArray[Any]
    class_names: tuple[str, ...] | None = None
    holds_names: bool = False
    table: pd.DataFrame | None = None

    def class_count(self, asked: int | None) -> int | None:
        """Return the number of classes: that of the names if there are any, else what was asked for."""
        if self.class_names is None:
            return asked
        if asked not in (None, len(self.class_names)):
            raise InputError(f"there are {len(self.class_names)} class names, got num_classes={asked}")
        return len(self.class_names)


def read_labels(path: Path, *, key: str | None = None, label_column: str = "label") -> LabelFile:
    """Read labels (N,) from .npy, .npz (`key`, else y or labels), .csv, .parquet (a column) or .txt (lines).

    Names are numbered in sorted order. Lines and CSV cells that are all whole numbers are class numbers.
    """
    suffix = path.suffix.lower()
    if key is not None and suffix != ".npz":
        raise InputError(f"a key chooses an array inside an .npz, got key {key!r} for {str(path)!r}")
    if suffix in (".npy", ".npz"):
        labels = _array(path, ("y", "labels") if key is None else (key,))
        if labels.ndim == 1 and labels.dtype.kind in "US":
            return _numbered(labels.astype(str).tolist())
        return LabelFile(labels, _class_names(path))
    if suffix in TABLES:
        return _from_table(path, label_column)
    if suffix == ".txt":
        return _from_text(_text(path).rstrip().splitlines(), path)
    raise InputError(f"cannot read labels from {str(path)!r}: use .npy, .npz, .csv, .parquet or .txt")


def read_features(path: Path) -> npt.NDArray[Any]:
    """Read features (N, ...) from an .npy, or from `x` in an .npz."""
    if path.suffix.lower() not in (".npy", ".npz"):
        raise InputError(f"cannot read features from {str(path)!r}: use .npy, or .npz with an array x")
    return _array(path, ("x",))


def read_matrix(path: Path) -> npt.NDArray[Any]:
    """Read a transition matrix (C, C) from an .npy or from a .csv of bare numbers."""
    if path.suffix.lower() == ".npy":
        return _array(path, ())
    if path.suffix.lower() != ".csv":
        raise InputError(f"cannot read a matrix from {str(path)!r}: use .npy or .csv")
    rows = [line.split(",") for line in _text(path).splitlines() if line.strip()]
    if len({len(row) for row in rows}) > 1:
        raise InputError(f"the rows of {str(path)!r} differ in length; a matrix has C rows of C numbers")
    try:
        return np.array([[float(cell) for cell in row] for row in rows])
    except ValueError as error:
        raise InputError(f"{str(path)!r} must hold numbers only: {error}") from error


def read_mapping(text: str, class_names: Sequence[str] | None) -> dict[int, int] | str:
    """Read {source: target} from JSON text or from a .json file, with numbers or names; other text is a name.

    >>> read_mapping('{"cat": "dog", "dog": "cat"}', ["bird", "cat", "dog"])
    {1: 2, 2: 1}
    >>> read_mapping("cifar10", None)
    'cifar10'
    """
    if not text.lstrip().startswith("{"):
        if text in MAP_NAMES or not (text.endswith(".json") or os.path.isfile(text)):  # noqa: PTH113 - never raises
            return text
        text = _text(Path(text))
    try:
        pairs = json.loads(text)
    except ValueError as error:
        raise InputError(f"mapping is not valid JSON: {error}") from error
    if not isinstance(pairs, dict):
        raise InputError(f"mapping must be a JSON object {{source: target}}, got {type(pairs).__name__}")
    return {_class_id(source, class_names): _class_id(to, class_names) for source, to in pairs.items()}


def write_table(path: Path, source: LabelFile, noisy: npt.NDArray[np.int64]) -> None:
    """Write the table of `source` with the column `noisy_label` (N,) added, whole or not at all."""
    if source.table is None:
        raise InputError("a table can be written only when the labels came from a .csv or .parquet table")
    if NOISY_COLUMN in source.table.columns:
        raise InputError(f"the table has a column {NOISY_COLUMN!r} already")
    names = source.class_names if source.holds_names else None
    table = source.table.assign(**{NOISY_COLUMN: noisy if names is None else [names[label] for label in noisy]})
    with replacing(path) as draft:
        if path.suffix.lower() == ".csv":
            table.to_csv(draft, index=False)
        else:
            save_parquet(draft, table)


def _class_id(label: object, class_names: Sequence[str] | None) -> int:
    names = list(class_names or ())
    if isinstance(label, str) and label in names:
        return names.index(label)
    if isinstance(label, str) and re.fullmatch(r"-?\d+", label):
        return int(label)  # JSON keys are always text
    if isinstance(label, int) and not isinstance(label, bool):
        return label
    known = f"the classes are {', '.join(names[:20])}" if names else "these labels are numbers"
    raise InputError(f"mapping names class {label!r}, but {known}")


def _from_table(path: Path, label_column: str) -> LabelFile:
    import pandas as pd  # noqa: PLC0415 - half a second that the other formats need not wait for

    try:
        if path.suffix.lower() == ".csv":  # as text: what is written back is what was there
            with warnings.catch_warnings():
                warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the last column
                table = pd.read_csv(path, dtype=str, keep_default_na=False, index_col=False).fillna("")
        else:
            table = load_parquet(path).to_pandas()
    except (OSError, ValueError, pd.errors.ParserWarning) as error:
        raise _unreadable(path, error) from error
    if label_column not in table.columns:
        columns = ", ".join(str(column) for column in table.columns)
        raise InputError(f"{str(path)!r} has no column {label_column!r}; its columns are {columns}")
    column = table[label_column]
    if column.isna().any():
        raise InputError(f"{str(path)!r} has no label in row {int(column.isna().to_numpy().argmax())}")
    if path.suffix.lower() == ".csv":
        found = _from_text([str(cell) for cell in column], path)
    elif pd.api.types.is_numeric_dtype(column.dtype):
        found = LabelFile(np.array(column.tolist()))
    else:
        found = _numbered([str(cell) for cell in column])
    return replace(found, table=table)


def _from_text(cells: Sequence[str], path: Path) -> LabelFile:
    """Class numbers if every cell is a whole number, else names."""
    cells = [cell.strip() for cell in cells]
    if "" in cells:
        raise InputError(f"{str(path)!r} has no label in row {cells.index('')} (counted from 0)")
    if all(re.fullmatch(r"[+-]?\d{1,18}(\.0*)?", cell) for cell in cells):
        return LabelFile(np.array([int(cell.split(".")[0]) for cell in cells], dtype=np.int64))
    for cell in cells:
        if re.fullmatch(r"[+-]?\d*\.\d+", cell):
            raise InputError(f"labels are class names or whole numbers, got {cell!r} in {str(path)!r}")
    return _numbered(cells)


def _numbered(names: Sequence[str]) -> LabelFile:
    classes = tuple(sorted(set(names)))
    number = {name: label for label, name in enumerate(classes)}
    return LabelFile(np.array([number[name] for name in names], dtype=np.int64), classes, holds_names=True)


def _array(path: Path, keys: Sequence[str]) -> npt.NDArray[Any]:
    """Return the array of an .npy, or the first of `keys` that an .npz has."""
    try:
        with path.open("rb") as file:
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            for key in keys:
                if key in loaded.files:
                    return np.asarray(loaded[key])
            inside = ", ".join(loaded.files)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise _unreadable(path, error) from error
    raise InputError(f"{str(path)!r} has no array {' or '.join(keys)}; its arrays are {inside}")


def _class_names(path: Path) -> tuple[str, ...] | None:
    if not zipfile.is_zipfile(path):  # an .npy
        return None
    with zipfile.ZipFile(path) as archive:
        known = "class_names.npy" in archive.namelist()
    return tuple(str(name) for name in _array(path, ("class_names",)).ravel()) if known else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"no such file: {str(path)!r}")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else f"not a valid {path.suffix} file"
    return InputError(f"cannot read {str(path)!r}: {reason}")
