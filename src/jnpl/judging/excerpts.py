"""What a person reads of a sample in a list: the beginning of a text, or the cells of a row that decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from jnpl.data.source import Source
from jnpl.judging.findings import Findings

_CHARACTERS = 100
_CELLS = 3
_MAX_VALUES = 50  # of a column whose values are compared one by one
_CATEGORY = 3.0  # standard deviations that a value counts which only the suggested class has


def excerpts(source: Source, findings: Findings) -> npt.NDArray[Any] | None:
    """Return (N,) short texts, None for samples of a table that are no suspects; None for images and embeddings."""
    if source.texts is not None:
        return np.array([shortened(text) for text in source.texts.tolist()], object)
    if source.cells is None or source.ids.dtype.kind not in "iu":
        return None
    short: npt.NDArray[Any] = np.full(len(source), None, object)
    suspects = np.flatnonzero(findings.is_label_issue)
    other = np.where(findings.is_unclear, findings.others[0], findings.suggested_labels)
    if len(suspects):
        short[suspects] = _decisive(source.cells.iloc[source.ids], findings.given_labels, suspects, other[suspects])
    return short


def shortened(text: str) -> str:
    """Return a text on one line, cut after 100 characters.

    >>> shortened("two\\n lines"), len(shortened("x" * 500))
    ('two lines', 100)
    """
    line = " ".join(str(text[: 4 * _CHARACTERS]).split())
    return line if len(line) <= _CHARACTERS else f"{line[: _CHARACTERS - 1]}…"


def _decisive(
    cells: pd.DataFrame, given: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], suggested: npt.NDArray[np.int64]
) -> list[str]:
    """Return for some rows (M,) of a table the three cells that are most unusual in the given class and not in the
    suggested one."""
    scores = np.stack([_unusual(cells.iloc[:, at], given, rows, suggested) for at in range(cells.shape[1])], axis=1)
    shown = np.argsort(-scores, axis=1, kind="stable")[:, :_CELLS]
    names = [str(name) for name in cells.columns]
    columns = [cells.iloc[rows, at].tolist() for at in range(cells.shape[1])]
    return [
        shortened(", ".join(f"{names[at]}={_cell(columns[at][row])}" for at in chosen))
        for row, chosen in enumerate(shown.tolist())
    ]


def _unusual(
    column: pd.Series[Any], given: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], suggested: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return by how many standard deviations more the cells of some rows (M,) are off in the given class."""
    if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
        values = column.to_numpy(np.float64, na_value=np.nan)
        by_class = pd.Series(values).groupby(given)
        middle, spread = by_class.mean(), by_class.std().clip(lower=1e-9)
        off = [
            np.abs(values[rows] - middle.reindex(label).to_numpy()) / spread.reindex(label).to_numpy()
            for label in (given[rows], suggested)
        ]
        unusual: npt.NDArray[np.float64] = np.nan_to_num(off[0] - off[1], nan=0.0)
        return unusual
    codes, kinds = pd.factorize(column.astype(str))
    if len(kinds) > _MAX_VALUES:
        return np.zeros(len(rows))
    shares = pd.crosstab(given, codes, normalize="index").reindex(columns=range(len(kinds)), fill_value=0.0)
    share = [
        shares.reindex(label, fill_value=0.0).to_numpy()[np.arange(len(rows)), codes[rows]]
        for label in (given[rows], suggested)
    ]
    likelier: npt.NDArray[np.float64] = _CATEGORY * (share[1] - share[0])
    return likelier


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
