"""A column `split` of a table: which rows are training data, test data or validation data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jnpl.data.split import part

if TYPE_CHECKING:
    from collections.abc import Collection

    import pandas as pd

    from jnpl.data.source import Labels, Source

_NAME = "split"
_PARTS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
}


class SplitColumn(NamedTuple):
    """The name of the column, and the rows (M,) of each part: train, and test, validation or both."""

    name: str
    rows: dict[str, Labels]


def find_split(frame: pd.DataFrame, used: Collection[str | None] = ()) -> SplitColumn | None:
    """Return the split of a table; None if it has no such column, or other values or only one part in it.

    Args:
        frame: the table.
        used: columns that the user names for something else.

    >>> import pandas as pd
    >>> find_split(pd.DataFrame({"split": ["train", "test", "train"]})).rows["train"]
    array([0, 2])
    """
    column = next((str(each) for each in frame.columns if str(each).casefold() == _NAME and each not in used), None)
    if column is None:
        return None
    parts = np.array([_part(cell) for cell in frame[column].tolist()], object)
    found = set(parts.tolist())
    if None in found or "train" not in found or len(found) == 1:
        return None
    return SplitColumn(column, {name: np.flatnonzero(parts == name) for name in ("train", "test", "validation")})


def _part(cell: Any) -> str | None:
    return _PARTS.get(cell.strip().casefold()) if isinstance(cell, str) else None


def divide(whole: Source, rows: dict[str, Labels]) -> Source:
    """Return the training rows of a source, with the others as test and validation data; validation alone is a test."""
    others = {
        name: replace(part(whole, rows[name]), name=f"{whole.name}/{name}", true_labels=None)
        for name in ("test", "validation")
        if len(rows[name])
    }
    test = others.get("test", others.get("validation"))
    validation = others.get("validation") if "test" in others else None
    return replace(part(whole, rows["train"]), test=test, validation=validation)
