"""Texts: a column of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from jnpl.data.source import Array


def texts_of(column: pd.Series[Any], name: str, where: str) -> tuple[Array, dict[int, str] | None]:
    """Return the texts of a column (N,), empty where missing, and {row: reason} of the missing ones, or None."""
    missing = column.isna().tolist()
    cells = ["" if gone else cell for cell, gone in zip(column.tolist(), missing, strict=True)]
    for row, cell in enumerate(cells):
        if not isinstance(cell, str):
            found = f"{type(cell).__name__} in row {row} (counted from 0)"
            raise InputError(f"column {name!r} of {where} must hold texts, not {found}")
    unreadable = {row: "the table has no text" for row, cell in enumerate(cells) if not cell.strip()}
    if len(unreadable) == len(cells):
        raise InputError(f"column {name!r} of {where} holds no text at all")
    return np.array(cells, object), unreadable or None
