"""Leaks: columns of a table that tell the label (a copy, a code for it), and test samples that are trained on."""

from __future__ import annotations

import logging
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.analysis.problems import common_samples
from jnpl.data.source import Labels, Source

if TYPE_CHECKING:
    from collections.abc import Collection

    import pandas as pd

_SURE = 0.99  # share of the labels that a column predicts
_BEYOND = 0.1  # part of the error of the largest class that may be left
_LEAST = 20  # rows
_TAGS = 100  # the first of them, that are compared with columns
_COMMON = 0.1  # share of the test samples
_LOG = logging.getLogger("jnpl")


def label_columns(source: Source) -> dict[str, float]:
    """Return the learnt columns of a table that predict labels, or a tag, one alone, with the share of the rows.

    The other rows with the same value predict a label, or, of a column of many numbers, a neighbour in the order of the
    values. With wrong labels no honest column can predict nearly all of them.
    """
    if source.encoding is None or source.cells is None or len(source) < _LEAST:
        return {}
    rows = np.asarray(source.ids, np.int64)  # a part of the rows has the whole table
    learnt = dict.fromkeys(str(column["name"]) for column in source.encoding["columns"] if column["kind"] != "text")
    of_tags = () if source.tags is None else source.tags.T[:_TAGS].astype(np.int64)
    leaks: dict[str, float] = {}
    for labels in [source.labels] if source.tags is None else of_tags:
        if labels.min() == labels.max():  # anything predicts it
            continue
        least = max(_SURE, 1 - _BEYOND * (1 - float(np.bincount(labels).max()) / len(source)))
        shares = {name: _share(source.cells[name].iloc[rows], labels) for name in learnt if name not in leaks}
        leaks |= {name: share for name, share in shares.items() if share >= least}
    return leaks


def warn_of_leaks(source: Source) -> None:
    """Log a line for each column that predicts the label, and for test data that are training data."""
    common = 0 if source.test is None else common_samples(source, source.test)
    if source.test is not None and common >= _COMMON * len(source.test):
        shown = f"{common:,} of the {len(source.test):,} test samples ({source.test.name}) are training samples too"
        _LOG.warning("%s: the test accuracy is that of remembered labels", shown)
    for line in column_lines(source):
        _LOG.warning("%s", line)


def column_lines(source: Source) -> list[str]:
    """Return a line for each column that predicts the label."""
    return [
        f"{_predicts(name)} {100 * share:.3g} % of the rows: if it tells it, leave it out with "
        f"--exclude {shlex.quote(name)} (exclude)"
        for name, share in label_columns(source).items()
    ]


def new_column_lines(source: Source, lines: Collection[str]) -> list[str]:
    """Return a line for each column that predicts the label, but not in a run, by the lines on its data."""
    return [
        f"{_predicts(name)} {100 * share:.3g} % of the rows, and did not in the run"
        for name, share in label_columns(source).items()
        if not any(line.startswith(_predicts(name)) for line in lines)
    ]


def _predicts(name: str) -> str:
    return f"column {name!r} predicts the label in"


def _share(cells: pd.Series[Any], labels: Labels) -> float:
    """Return the share of N labels that the other rows predict by the values (N,) of a column."""
    from jnpl.data.sources.columns import distinct, is_measured  # noqa: PLC0415 - pandas is slow to import

    codes, present = distinct(cells)
    if 2 * len(present) > len(labels):
        if not is_measured(cells):
            return 0.0
        ordered = labels[np.argsort(cells.to_numpy(np.float64, na_value=np.nan), kind="stable")]
        same = ordered[1:] == ordered[:-1]
        return float((np.append(same, False) | np.append(False, same)).mean())
    classes = int(labels.max()) + 1
    pairs, counts = np.unique((codes + 1) * classes + labels, return_counts=True)
    order = np.lexsort((-counts, pairs // classes))
    values, counts = pairs[order] // classes, counts[order]
    first = np.append(True, values[1:] != values[:-1])
    second = np.where(np.append(first[1:], True), 0, np.append(counts[1:], 0))  # of the next label with this value
    return float(counts[first & (counts > np.maximum(second, 1))].sum() / len(labels))
