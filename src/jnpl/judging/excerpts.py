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
    scores = UsualCells(cells, given).unusual(cells.iloc[rows], given[rows], suggested)
    shown = np.argsort(-scores, axis=1, kind="stable")[:, :_CELLS]
    columns = [cells.iloc[rows, at].tolist() for at in range(cells.shape[1])]
    texts = []
    for row, chosen in enumerate(shown.tolist()):
        values = [(cells.columns[at], columns[at][row]) for at in chosen]
        parts = [f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in values]
        texts.append(shortened(", ".join(parts)))
    return texts


class UsualCells:
    """What is usual in each column of a table, by given label (N,): mean and deviation, or the share of each value.

    Columns of more than 50 different texts are left out.
    """

    def __init__(self, cells: pd.DataFrame, given: npt.NDArray[np.int64]) -> None:
        self._classes = np.unique(given)
        self._columns = [self._describe(cells.iloc[:, at], given) for at in range(cells.shape[1])]

    def _describe(self, column: pd.Series[Any], given: npt.NDArray[np.int64]) -> pd.DataFrame | None:
        """Return a row per class: `mean` and `std`, or a column per value."""
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            by_class = pd.Series(column.to_numpy(np.float64, na_value=np.nan)).groupby(given)
            return pd.DataFrame({"mean": by_class.mean(), "std": by_class.std().clip(lower=1e-9)})
        codes, kinds = pd.factorize(column.astype(str))
        if len(kinds) > _MAX_VALUES:
            return None
        return pd.crosstab(given, codes, normalize="index").rename(columns=dict(enumerate(kinds)))

    def unusual(
        self, rows: pd.DataFrame, given: npt.NDArray[np.int64], other: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Return by how many standard deviations more the cells of rows (M, F) are off in the given class than in the
        other one, both (M,)."""
        scores = np.zeros(rows.shape)
        for at, usual in enumerate(self._columns):
            if usual is None:
                continue
            cells, ours, theirs = rows.iloc[:, at], usual.reindex(given), usual.reindex(other)
            if list(usual.columns) == ["mean", "std"]:
                values = cells.to_numpy(np.float64, na_value=np.nan)
                off = [np.abs(values - of["mean"].to_numpy()) / of["std"].to_numpy() for of in (ours, theirs)]
                scores[:, at] = np.nan_to_num(off[0] - off[1], nan=0.0)
            else:
                place = usual.columns.get_indexer(pd.Index(cells.astype(str)))
                share = [np.nan_to_num(of.to_numpy())[np.arange(len(rows)), place] for of in (ours, theirs)]
                scores[:, at] = _CATEGORY * (share[1] - share[0])
        return scores

    def usual(self, label: int) -> list[str]:
        """Return what is usual in a class (F,): a mean, or the most frequent value; empty where nothing is."""
        texts = []
        for usual in self._columns:
            if usual is None or label not in usual.index:
                texts.append("")
            elif list(usual.columns) == ["mean", "std"]:
                mean = float(usual["mean"].to_dict()[label])
                texts.append("" if np.isnan(mean) else f"{mean:.4g}")
            else:
                texts.append(str(usual.loc[label].idxmax()))
        return texts
