"""One column of a table: whether it holds numbers, booleans, dates or categories, and its values."""

from __future__ import annotations

import datetime as dt
import numbers
import re
from collections.abc import Hashable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.data.source import Array, Labels

ColumnKind = Literal["number", "boolean", "date", "category"]
COLUMN_KINDS: tuple[ColumnKind, ...] = get_args(ColumnKind)
# ISO 8601 only: 03/04 may be in March or in April.
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY = 86_400 * 10**6  # microseconds
_FEW_GROUPS = 12  # different values that stay as they are
_PERIODS = (
    ("D", 14),
    ("W", 90),
    ("M", 1100),
    ("Y", 10**9),
)  # of groups of dates, and the days up to which they are used
_TRUTH = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}


def kind_of(cells: pd.Series[Any]) -> ColumnKind | str:
    """Return one of `COLUMN_KINDS`, or the name of another type; an empty column counts as numbers.

    Numbers, booleans and dates may be stored as objects or as text.

    >>> kind_of(pd.Series(["2024-02-29", None])), kind_of(pd.Series(["1.5", "2"])), kind_of(pd.Series([[1, 2]]))
    ('date', 'number', 'list')
    """
    types, dtype = pd.api.types, cells.dtype
    stored: dict[ColumnKind, bool] = {
        "category": isinstance(dtype, pd.CategoricalDtype),  # first: its categories may be booleans
        "boolean": types.is_bool_dtype(dtype),
        "number": is_measured(cells),
        "date": types.is_datetime64_any_dtype(dtype),
    }
    for kind, is_so in stored.items():
        if is_so:
            return kind
    if not (types.is_object_dtype(dtype) or types.is_string_dtype(dtype)):
        return str(dtype)
    try:
        return _kind_of_objects(distinct(cells)[1])
    except TypeError:  # lists and the like have no hash
        return next((type(cell).__name__ for cell in cells if not isinstance(cell, Hashable)), "tuple")


def with_text_names(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with texts as column names: those of an array are numbers."""
    return frame.set_axis([str(column) for column in frame.columns], axis=1)


def is_measured(cells: pd.Series[Any]) -> bool:
    """Whether cells are stored as real numbers (not as booleans)."""
    types, dtype = pd.api.types, cells.dtype
    return bool(types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype) and not types.is_complex_dtype(dtype))


def values(cells: pd.Series[Any], kind: ColumnKind, name: str, where: str) -> Array:
    """Return numbers, booleans as 0 and 1, or dates as days since 1970-01-01: float64 (N,), NaN where missing.

    A cell of another kind is an InputError: new data may differ from the training data.
    """
    if kind == "number" and is_measured(cells):
        missing = cells.isna().to_numpy()
        parsed: Array = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    elif kind == "date" and pd.api.types.is_datetime64_any_dtype(cells.dtype):
        missing = cells.isna().to_numpy()
        stamps = pd.to_datetime(cells, utc=True).dt.tz_localize(None).to_numpy().astype("datetime64[us]")
        parsed = np.where(missing, np.nan, stamps.astype(np.int64) / _DAY)
    else:
        codes, present = distinct(cells)
        missing = codes < 0
        parsed = np.append(_parsed(present, kind), np.nan)[codes]
    with np.errstate(over="ignore"):
        strange = ~missing & ~np.isfinite(parsed.astype(np.float32))
    if strange.any():
        row = int(strange.argmax())
        shown = repr(cells.iloc[row])[:60] if np.isnan(parsed[row]) else f"{parsed[row]:g}"
        right = {"boolean": "true or false", "date": "a date like 2024-12-31"}.get(kind, "a finite number below 3e38")
        raise InputError(f"column {name!r} of {where} holds {shown} in row {row} (counted from 0), not {right}")
    return parsed


def levels(cells: pd.Series[Any]) -> tuple[Labels, list[str]]:
    """Return the category number of each cell (N,), -1 where missing, and the category names in sorted order."""
    codes, distinct_cells = distinct(cells)
    names = [_level(cell) for cell in distinct_cells]
    ordered = sorted(set(names))
    number = {name: at for at, name in enumerate(ordered)}
    return np.array([*(number[name] for name in names), -1], np.int64)[codes], ordered


def distinct(cells: pd.Series[Any]) -> tuple[Labels, list[Any]]:
    """Return the number of each cell's value (N,), -1 where missing, and the different values, texts stripped."""
    codes, distinct_cells = pd.factorize(cells)
    plain = [cell.strip() if isinstance(cell, str) else cell for cell in distinct_cells.tolist()]
    present: dict[Any, int] = {}
    again = [-1 if isinstance(cell, str) and not cell else present.setdefault(cell, len(present)) for cell in plain]
    return np.array([*again, -1], np.int64)[codes], list(present)


def _level(cell: object) -> str:
    """Return the name of a category; 3.0 is "3", because missing values turn a column of integers into floats."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _kind_of_objects(present: list[Any]) -> ColumnKind | str:
    types = set(map(type, present))
    if types and types <= {bool, np.bool_}:
        return "boolean"
    if types == {str}:
        if all(map(_DATE.fullmatch, present)) and np.isfinite(_parsed(present, "date")).all():
            return "date"
        return "number" if np.isfinite(_parsed(present, "number")).all() else "category"
    if all(issubclass(cell_type, numbers.Number) and not issubclass(cell_type, bool | complex) for cell_type in types):
        return "number"
    if all(issubclass(cell_type, dt.date) for cell_type in types):
        return "date"
    plain = (str, numbers.Number, np.bool_, dt.date)  # mixed types become categories by their text
    strange = [cell_type.__name__ for cell_type in types if not issubclass(cell_type, plain)]
    return min(strange) if strange else "category"


def _parsed(present: list[Any], kind: ColumnKind) -> Array:
    """Return cells as float64 (K,); NaN where a cell is of another kind."""
    if kind == "date":
        return np.array([_day(cell) for cell in present], np.float64)
    if kind == "boolean":
        return np.array([_TRUTH.get(_level(cell).casefold(), np.nan) for cell in present], np.float64)
    return np.array([_number(cell) for cell in present], np.float64)


def _number(cell: Any) -> float:
    if isinstance(cell, str) and "_" in cell:  # a code such as 2_0, which Python would read as 20
        return np.nan
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _day(cell: Any) -> float:
    """Days since 1970-01-01; a time without a zone is UTC."""
    if not isinstance(cell, dt.date) and not (isinstance(cell, str) and _DATE.fullmatch(cell)):
        return np.nan
    try:
        moment = _moment(cell)
    except ValueError:  # no such day
        return np.nan
    zoned = moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment
    return (zoned - _EPOCH) / dt.timedelta(days=1)


def _moment(cell: dt.date | str) -> dt.datetime:
    if isinstance(cell, str):
        try:
            return dt.datetime.fromisoformat(cell)  # a tenth of the time that pandas takes
        except ValueError:  # digits of another script
            pass
    return pd.Timestamp(cell).to_pydatetime(warn=False)


def group_names(cells: pd.Series[Any]) -> Array:
    """Return the groups (N,) that a column names, None where it is empty: dates by day, week, month or year, many
    different numbers by fifths.

    >>> dates = [f"2024-{month:02}-{day:02}" for month in range(1, 13) for day in (1, 15)]
    >>> group_names(pd.Series(dates))[:3].tolist()
    ['2024-01', '2024-01', '2024-02']
    """
    cells = cells.reset_index(drop=True)
    try:
        many = cells.nunique() > _FEW_GROUPS
    except TypeError:  # lists and the like have no hash
        wrong = kind_of(cells)
        raise InputError(f"group_columns (--group-column): {cells.name!r} holds cells of type {wrong}") from None
    if many:
        if is_measured(cells):
            numbers = pd.to_numeric(cells).astype(np.float64)
            cells = pd.qcut(numbers.where(np.isfinite(numbers)), 5, duplicates="drop")
        else:
            with suppress(ValueError, TypeError):
                dates = pd.to_datetime(cells, utc=True, format=None if cells.dtype.kind == "M" else "ISO8601")
                days = (dates.max() - dates.min()).days
                period = next(name for name, most in _PERIODS if days <= most)
                cells = dates.dt.tz_localize(None).dt.to_period(period)
    names = np.empty(len(cells), object)
    names[:] = [None if missing else str(cell) for cell, missing in zip(cells, cells.isna(), strict=True)]
    return names
