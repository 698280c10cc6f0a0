"""Labels in files: labels of all samples in order, labels by id, and the features, matrices and class maps of noise.

- `read_labels`: class numbers of all samples in order (`jnpl corrupt`)
- `read_label_rows`, `place_labels`: labels by id, as `jnpl apply` writes them
- `with_labels`: a source with the given labels of either file
- `read_features`, `read_matrix`, `read_mapping`: what kinds of noise need
- `writing_table`: a table with a column of noisy labels
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.data.source import Labels, Source, number
from jnpl.data.sources.arrays import WHOLE_NUMBER, as_labels, open_arrays
from jnpl.data.split import part
from jnpl.data.tags import tags_of_lists
from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing, require_text_file
from jnpl.internal.json_files import parse_json
from jnpl.internal.tables import (
    SUFFIXES,
    escaped,
    is_missing,
    load_table,
    require_columns,
    save_parquet,
    suffix_of,
    unescaped,
)
from jnpl.noise.kinds import MAP_NAMES
from jnpl.noise.noisy_labels import NoisyLabels

if TYPE_CHECKING:
    import pandas as pd

NOISY_COLUMN = "noisy_label"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
LabelRows: TypeAlias = list[tuple[str, Any]]  # id, and a label or a `WithoutLabel`


class WithoutLabel(Enum):
    """What a review decided about a sample in place of a label; `place_labels` returns the value."""

    DROP = -2  # leave the sample out
    UNSURE = -3  # it keeps its label


@dataclass(frozen=True, eq=False)
class LabelFile:
    """The content of a label file: labels (N,) as class numbers.

    `class_names` are the names of the classes, where known; `holds_names` says whether the file holds these names
    rather than numbers; `table` is the whole table if the labels are a column of one.
    """

    labels: npt.NDArray[Any]
    class_names: tuple[str, ...] | None = None
    holds_names: bool = False
    table: pd.DataFrame | None = None

    def class_count(self, num_classes: int | None) -> int | None:
        """Return the number of class names if there are any, else `num_classes`."""
        if self.class_names is None:
            return num_classes
        if num_classes not in (None, len(self.class_names)):
            raise InputError(f"there are {len(self.class_names)} class names, got num_classes={num_classes}")
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
            return _numbered([str(label) for label in as_labels(labels, "labels")])
        return LabelFile(labels, _class_names(path))
    if suffix in (".csv", ".parquet"):
        return _from_table(path, label_column)
    if suffix == ".txt":
        return _from_text(_text(path).rstrip().splitlines(), path)
    raise InputError(f"cannot read labels from {str(path)!r}: use .npy, .npz, .csv, .parquet or .txt")


def without_gaps(file: LabelFile, num_classes: int | None) -> LabelFile:
    """Return labels in which only classes count that there are, where the numbers 0 to C-1 have gaps.

    Labels 1, 2, 5 are three classes with these names; no noise may invent a class 0, 3 or 4.
    """
    present = np.unique(file.labels)
    whole = num_classes is not None or file.class_names is not None or file.labels.dtype.kind not in "iu"
    if whole or not len(present) or np.array_equal(present, np.arange(len(present))):
        return file
    names = tuple(map(str, present.tolist()))
    return replace(file, labels=np.searchsorted(present, file.labels), class_names=names, holds_names=True)


def with_labels(source: Source, path: Path) -> Source:
    """Return the source with given labels from a file.

    Args:
        path: an .npz of `jnpl corrupt`, made from this source's own labels; or a .csv, .parquet or .json table with the
            columns id and label, or id and tags, as `jnpl apply` writes it.

    Returns:
        The source with the new given labels; without the samples that a table does not name.
    """
    if source.tags is not None:
        return _with_tags(source, source.tags, path)
    if path.suffix.lower() in SUFFIXES:
        return _corrected(source, path)
    noisy = NoisyLabels.load(path)
    clean = source.labels if source.true_labels is None else source.true_labels
    if len(noisy.labels) != len(source) or (noisy.clean_labels != clean).any():
        raise InputError(f"the labels of {str(path)!r} were made from others than those of {source.name}")
    return replace(source, labels=noisy.labels.copy(), true_labels=clean, name=f"{source.name}+{noisy.sha256[:12]}")


def _corrected(source: Source, path: Path) -> Source:
    labels = place_labels(
        read_label_rows(path, decisions=False),
        source.ids,
        source.class_names,
        table_name=f"{str(path)!r} names",
        data_name=source.name,
    )
    kept = np.flatnonzero(labels >= 0)
    if not len(kept):
        raise InputError(f"{str(path)!r} names no samples; it needs rows of id and label")
    some = source if len(kept) == len(source) else part(source, kept)
    return replace(some, labels=labels[kept], test=source.test, validation=source.validation)


def _with_tags(source: Source, given: npt.NDArray[np.bool_], path: Path) -> Source:
    """Return the source with the tags of a table with the columns id and tags, and without samples it does not name."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{str(path)!r} holds one label per sample: tags are in a table with the columns id and tags")
    frame, where = load_table(path), repr(str(path))
    if suffix_of(path) == ".csv":
        frame = frame.map(unescaped)
    require_columns(frame.columns, ("id", "tags"), where)
    tags, names = tags_of_lists(frame["tags"].tolist(), f"column 'tags' of {where}"), list(map(str, source.class_names))
    if strange := [name for name in tags.names if name not in names]:
        raise InputError(f"{where} has the tag {strange[0]!r}, which no sample of {source.name} has")
    rows: LabelRows = [(str(name), row) for row, name in enumerate(frame["id"].tolist())]
    placed = place_labels(rows, source.ids, range(len(rows)), table_name=f"{where} names", data_name=source.name)
    kept = np.flatnonzero(placed >= 0)
    if not len(kept):
        raise InputError(f"{where} names no samples; it needs rows of id and tags")
    chosen = np.zeros((len(kept), given.shape[1]), bool)
    chosen[:, [names.index(name) for name in tags.names]] = tags.given[placed[kept]]
    some = source if len(kept) == len(source) else part(source, kept)
    return replace(some, tags=chosen, test=source.test, validation=source.validation)


def read_label_rows(
    path: str | os.PathLike[str], *, decisions: bool = True, columns: tuple[str, str] = ("id", "label")
) -> LabelRows:
    """Read (id, label) rows from a .csv, .parquet or .json table, such as `jnpl apply` writes.

    A row without a label may have drop or unsure in the column action, as exported by `jnpl review`. Other columns are
    ignored. Ids are texts; labels are as stored (texts, in a .csv). The apostrophe that `jnpl` writes before formulas
    in a .csv is removed; `match` finds texts that had one before.

    Args:
        decisions: whether the table may be an export of `jnpl review`, which names some of the samples only.
    """
    suffix = suffix_of(path)
    frame = load_table(path)
    if suffix == ".csv":
        frame = frame.map(unescaped)
    require_columns(frame.columns, columns, repr(str(path)))
    if not decisions and {"action", "reviewer"} <= set(frame.columns):
        hint = "take --review RUN, or the table that jnpl apply writes"
        raise InputError(f"{str(path)!r} holds the decisions of a review, not the labels of all samples: {hint}")
    actions = frame["action"].tolist() if "action" in frame.columns else [None] * len(frame)
    label_rows: LabelRows = []
    for row, (name, label, action) in enumerate(
        zip(*(frame[column].tolist() for column in columns), actions, strict=True)
    ):
        where = f"in row {row} (counted from 0), id {str(name)!r}"
        word = action.strip() if isinstance(action, str) else ""
        without = _WITHOUT_LABEL.get(word)
        has_label = not is_missing(label) and bool(str(label).strip())
        if without is not None and has_label:
            raise InputError(f"{str(path)!r} has the action {action!r} and the label {label!r} {where}; clear one")
        if without is None and not has_label:
            hint = f"; without one the action is {' or '.join(_WITHOUT_LABEL)}, got {word!r}" if word else ""
            raise InputError(f"{str(path)!r} has no label {where}{hint}")
        label_rows.append((str(name), label if without is None else without))
    return label_rows


_WITHOUT_LABEL = {kind.name.lower(): kind for kind in WithoutLabel}


def match(text: str, texts: Iterable[str] | dict[str, Any]) -> str | None:
    """Return the known text that `read_label_rows` read as `text`; None if there is none.

    If the table was not written by `jnpl`, the removed apostrophe may have belonged to the text.
    """
    return next((candidate for candidate in (text, f"'{text}") if candidate in texts), None)


def _class_named(label: str, names: dict[str, int]) -> str | None:
    """Return the class that a label names: exactly, or but for spaces around it if that leaves one class only."""
    if (exact := match(label, names)) is not None:
        return exact
    near = [name for name in names if name.strip() == label.strip()]
    return near[0] if len(near) == 1 else match(label.strip(), names) if not near else None


def place_labels(
    table: LabelRows, ids: npt.NDArray[Any], names: Sequence[str | int], *, table_name: str, data_name: str
) -> Labels:
    """Return the class number of each sample (N,) according to (id, label) rows, or the value of a `WithoutLabel`; -1
    for samples that have no row.

    Where several samples share an id, one row is for all of them; as many rows as samples are taken in their order.

    Args:
        table_name: the table in error messages, with a verb: "the decisions name".
        data_name: the data in error messages.
    """
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(ids.tolist()):
        rows.setdefault(str(name), []).append(row)
    numbers = {str(name): label for label, name in enumerate(names)}
    numbered: dict[str, list[int]] = {}
    for name, label in table:
        at = match(name, rows)
        if at is None:
            like = next(iter(rows))
            raise InputError(f"{table_name} id {name!r}, which is not in {data_name}: an id is one like {like!r}")
        if isinstance(label, WithoutLabel):
            numbered.setdefault(at, []).append(label.value)
            continue
        to = _class_named(str(label), numbers)
        if to is None:
            shown = ", ".join(list(numbers)[:20])
            raise InputError(
                f"{table_name} {name!r} with the label {label!r}, which is no class of {data_name}: {shown}"
            )
        numbered.setdefault(at, []).append(numbers[to])
    chosen = np.full(len(ids), -1, np.int64)
    for at, labels in numbered.items():
        where = rows[at]
        if len(labels) != len(where) and len(set(labels)) > 1:
            meanings = {decision.value: decision.name.lower() for decision in WithoutLabel} | dict(enumerate(names))
            shown = " and ".join(repr(str(meanings[label])) for label in sorted(set(labels))[:2])
            what = f"id {at!r} in {len(labels)} rows, as {shown}"
            raise InputError(f"{table_name} {what}, but {data_name} has {len(where)} of that id")
        chosen[where] = labels if len(labels) == len(where) else labels[0]
    return chosen


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
        pairs = parse_json(text)
    except ValueError as error:
        raise InputError(f"mapping is not valid JSON: {error}") from error
    if not isinstance(pairs, dict):
        raise InputError(f"mapping must be a JSON object {{source: target}}, got {type(pairs).__name__}")
    return {_class_id(source, class_names): _class_id(to, class_names) for source, to in pairs.items()}


@contextmanager
def writing_table(path: Path, source: LabelFile, noisy: npt.NDArray[np.int64]) -> Iterator[None]:
    """Write the table of `source` with the column `noisy_label` (N,) added; it appears when the block has succeeded.

    In a .csv, a text that a spreadsheet would run as a formula gets an apostrophe in front, unless it is a number.
    """
    if source.table is None:
        raise InputError("a table can be written only when the labels came from a .csv or .parquet table")
    if NOISY_COLUMN in source.table.columns:
        raise InputError(f"the table has a column {NOISY_COLUMN!r} already")
    names = source.class_names if source.holds_names else None
    table = source.table.assign(**{NOISY_COLUMN: noisy if names is None else [names[label] for label in noisy]})
    with replacing(path) as draft:
        if path.suffix.lower() == ".csv":
            table.map(_safe_cell).rename(columns=_safe_cell).to_csv(draft, index=False)
        else:
            save_parquet(draft, table)
        yield


def _safe_cell(cell: Any) -> Any:
    if not isinstance(cell, str) or _NUMBER.fullmatch(cell.strip()):
        return cell
    return escaped(cell)


def _class_id(label: object, class_names: Sequence[str] | None) -> int:
    names = list(class_names or ())
    if isinstance(label, str) and label in names:
        return names.index(label)
    if isinstance(label, str) and re.fullmatch(r"-?\d+", label):
        return int(label)  # JSON keys are always text
    if isinstance(label, int) and not isinstance(label, bool):
        return label
    choices = f"the classes are {', '.join(names[:20])}" if names else "these labels are numbers"
    raise InputError(f"mapping names class {label!r}, but {choices}")


def _from_table(path: Path, label_column: str) -> LabelFile:
    from pandas.api.types import is_numeric_dtype  # noqa: PLC0415 - slow to import

    table = load_table(path)
    require_columns(table.columns, [label_column], repr(str(path)))
    column = table[label_column]
    if column.isna().any():
        raise InputError(f"{str(path)!r} has no label in row {int(column.isna().to_numpy().argmax())}")
    if path.suffix.lower() == ".csv":
        labels = _from_text([str(cell) for cell in column], path)
    elif is_numeric_dtype(column.dtype):
        labels = LabelFile(np.array(column.tolist()))
    else:
        labels = _numbered(list(map(str, as_labels(column.tolist(), f"column {label_column!r} of {str(path)!r}"))))
    return replace(labels, table=table)


def _from_text(cells: Sequence[str], path: Path) -> LabelFile:
    """Class numbers if every cell is a whole number, else names."""
    cells = [cell.strip() for cell in cells]
    if "" in cells:
        raise InputError(f"{str(path)!r} has no label in row {cells.index('')} (counted from 0)")
    if all(WHOLE_NUMBER.fullmatch(cell) for cell in cells):
        return LabelFile(np.array([int(cell.split(".")[0]) for cell in cells], dtype=np.int64))
    for cell in cells:
        if re.fullmatch(r"[+-]?\d*\.\d+", cell):
            raise InputError(f"labels are class names or whole numbers, got {cell!r} in {str(path)!r}")
    return _numbered(cells)


def _numbered(names: Sequence[str]) -> LabelFile:
    labels, classes = number(list(names))
    return LabelFile(labels, tuple(map(str, classes)), holds_names=True)


def _array(path: Path, keys: Sequence[str]) -> npt.NDArray[Any]:
    """Return the array of an .npy, or the first of `keys` that an .npz has."""
    try:
        with open_arrays(path) as loaded:
            if isinstance(loaded, np.ndarray):
                return loaded
            for key in keys:
                if key in loaded.files:
                    return np.asarray(loaded[key])
            inside = ", ".join(loaded.files)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    raise InputError(f"{str(path)!r} has no array {' or '.join(keys)}; its arrays are {inside}")


def _class_names(path: Path) -> tuple[str, ...] | None:
    with open_arrays(path) as loaded:
        if isinstance(loaded, np.ndarray) or "class_names" not in loaded.files:
            return None
        return tuple(str(name) for name in as_labels(loaded["class_names"], "class_names"))


def _text(path: Path) -> str:
    try:
        return require_text_file(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(f"no such file: {str(path)!r}")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else f"not a valid {path.suffix} file"
    return InputError(f"cannot read {str(path)!r}: {reason}")
