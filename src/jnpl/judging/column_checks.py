"""Checks of what is given for N samples: labels, names of classes, ids and paths."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError
from jnpl.internal.files import printable

Array: TypeAlias = npt.NDArray[Any]
Labels: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]


def checked_labels(labels: npt.ArrayLike, num_samples: int, num_classes: int) -> Labels:
    """Return a copy of (N,) labels in 0..C-1, N >= 1, as int64."""
    given = np.asarray(labels)
    if given.shape != (num_samples,) or given.dtype.kind not in "iu":
        raise InputError(f"labels must be {num_samples} whole numbers, not {given.dtype} of shape {given.shape}")
    if not num_samples:
        raise InputError("there are no samples")
    if given.min() < 0 or given.max() >= num_classes:
        raise InputError(f"labels must lie in 0..{num_classes - 1}, not {given.min()}..{given.max()}")
    return given.astype(np.int64)


def checked_mask(mask: npt.ArrayLike, num_samples: int) -> Mask:
    """Return a copy of (N,) booleans."""
    array = np.asarray(mask)
    if array.shape != (num_samples,) or array.dtype != bool:
        raise InputError(f"unreadable must be {num_samples} booleans, not {array.dtype} of shape {array.shape}")
    return array.copy()


def checked_names(names: Iterable[object] | None, num_classes: int) -> tuple[str, ...] | tuple[int, ...] | None:
    """Return C different names, all strings or all integers."""
    if names is None:
        return None
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    if len(plain) != num_classes:
        raise InputError(f"class_names must name {num_classes} classes, not {len(plain)}")
    if len(set(plain)) < num_classes:
        raise InputError(f"class_names must differ: {max(plain, key=plain.count)!r} comes twice")
    whole = tuple(name for name in plain if type(name) is int)
    texts = tuple(printable(name) for name in plain if isinstance(name, str))
    if num_classes not in {len(whole), len(texts)}:
        raise InputError(f"class_names must be all texts or all whole numbers, not {plain[:5]}")
    return texts or whole


def checked_ids(ids: npt.ArrayLike, num_samples: int) -> Array:
    """Return (N,) ids, integers or strings."""
    array = np.asarray(ids)
    if array.dtype.kind not in "iu":
        return checked_texts("ids", [str(name) for name in array.tolist()], num_samples)
    if array.shape != (num_samples,):
        raise InputError(f"ids must be {num_samples}, one per sample, not {array.size}")
    return array.astype(np.int64)


def checked_texts(what: str, texts: list[str], length: int) -> Array:
    """Return (N,) strings of dtype object, all of them valid Unicode."""
    if len(texts) != length:
        raise InputError(f"{what} must be {length}, one per sample, not {len(texts)}")
    array = np.empty(length, object)
    array[:] = [printable(text) for text in texts]
    return array
