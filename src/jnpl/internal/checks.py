"""Checks of single numbers: an InputError names the value received and what would be right."""

from __future__ import annotations

import operator

from jnpl.internal.errors import InputError


def whole(value: int, name: str) -> int:
    """Return a whole number, of Python or numpy, as an int."""
    try:
        return operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}") from None


def checked_seed(seed: int) -> int:
    """Return a seed, a whole number of at least 0, as an int."""
    if whole(seed, "seed") < 0:
        raise InputError(f"seed must not be negative, got {seed}")
    return operator.index(seed)
