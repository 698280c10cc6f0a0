"""Texts: a column of a table, as it is or embedded by the user's own function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from jnpl.data.sources.arrays import as_inputs
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.importing import import_by_name

if TYPE_CHECKING:
    import pandas as pd

    from jnpl.data.source import Array

BATCH = 256  # texts per call of the function
Embed: TypeAlias = Callable[[list[str]], Any]  # n texts -> (n, F): an array, a tensor or lists


def require_text_for_embed(text_column: str | None, embed: str | Embed | None) -> None:
    """Raise an InputError if there is a function to embed texts, but no column of texts."""
    if embed is not None and text_column is None:
        raise InputError("embed (--embed) needs text_column (--text-column), the column of texts that it embeds")


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


def embedded(texts: Array, embed: str | Embed, unreadable: dict[int, str] | None = None) -> Array:
    """Embed texts (N,) -> float32 (N, F) with a function, or the one at "module:function"; unreadable rows are zeros.

    >>> embedded(np.array(["a", "bb"], object), lambda texts: [[len(text), 1] for text in texts]).tolist()
    [[1.0, 1.0], [2.0, 1.0]]
    """
    function: Any = import_by_name(embed, "embed", "MODULE:FUNCTION") if isinstance(embed, str) else embed
    called = f"embed {embed!r}" if isinstance(embed, str) else f"embed {getattr(embed, '__name__', embed)!r}"
    if not callable(function):
        raise InputError(f"{called} must be a function, not {type(function).__name__}")
    rows = np.setdiff1d(np.arange(len(texts)), list(unreadable or ()))
    values: Array | None = None
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        part = _called(function, texts[batch].tolist(), called, f"rows {batch[0]} to {batch[-1]}")
        if values is None:
            values = np.zeros((len(texts), part.shape[1]), np.float32)
        if part.shape[1] != values.shape[1]:
            raise InputError(f"{called} gave {values.shape[1]} numbers a text, then {part.shape[1]}")
        values[batch] = part
    if values is None:
        raise InputError(f"there is no text for {called}")
    return values


def _called(function: Embed, batch: list[str], called: str, which: str) -> Array:
    try:
        found = function(batch)
    except Exception as error:  # the user's function may raise anything
        raise InputError(f"{called} failed on {which}: {one_line(error)}") from error
    try:
        values = as_inputs(found, "its result")
    except InputError as error:
        raise InputError(f"{called} must return finite numbers (n, F), but on {which} {error}") from error
    if values.ndim != 2 or len(values) != len(batch):
        shape = f"({len(batch)}, F)"
        raise InputError(f"{called} must return {shape} for {len(batch)} texts, not {np.shape(found)}")
    return values
