"""What label noise asks of its arguments: an InputError that names what came and what would be right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from jnpl.internal.checks import whole
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    from jnpl.noise.class_maps import IntArray

Value = TypeVar("Value")


def labels_and_size(labels: npt.ArrayLike, num_classes: int | None) -> tuple[IntArray, int]:
    """Return checked labels (N,) and the number of classes, by default one more than the highest label."""
    raw = as_array(labels, "labels")
    if raw.ndim != 1 or raw.size == 0:
        raise InputError(f"labels must be a non-empty list of one label per sample, got shape {raw.shape}")
    if raw.dtype.kind not in "buif":
        raise InputError(f"labels must be whole numbers 0..C-1, got dtype {raw.dtype}")
    if num_classes is not None and whole(num_classes, "num_classes") < 2:
        raise InputError(f"num_classes must be at least 2, got {num_classes}")
    wrong = (raw != np.floor(raw)) if raw.dtype.kind == "f" else np.zeros(raw.shape, dtype=np.bool_)
    # a million classes is more likely a column of something else: it must be asked for
    wrong |= ~((raw >= 0) & (raw < (10**6 if num_classes is None else num_classes)))
    if wrong.any():
        where = int(wrong.argmax())
        top = "C-1" if num_classes is None else num_classes - 1
        raise InputError(f"labels must be whole numbers 0..{top}, got {raw[where]} at position {where}")
    clean = raw.astype(np.int64)
    return clean, max(2, int(clean.max()) + 1) if num_classes is None else int(num_classes)


def as_array(values: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """Return anything like an array as one, of any shape."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors on a GPU or with a gradient
        raise InputError(f"{name} cannot be read as an array: {str(error).splitlines()[0]}") from error


def checked_rate(rate: float) -> float:
    """Return a share from 0 to 1."""
    try:
        share = float(rate)
    except (TypeError, ValueError):
        raise InputError(f"rate must be a number from 0 to 1, got {rate!r}") from None
    if not 0 <= share <= 1:
        raise InputError(f"rate must be from 0 to 1, got {share:g}")
    return share


def is_exact(count: str) -> bool:
    """Tell "exact" from "bernoulli"."""
    if count not in ("exact", "bernoulli"):
        raise InputError(f"count must be 'exact' or 'bernoulli', got {count!r}")
    return count == "exact"


def needed(value: Value | None, name: str, kind: str) -> Value:
    """Return the value, which this kind of noise cannot do without."""
    if value is None:
        raise InputError(f"{kind} noise needs a {name}")
    return value
