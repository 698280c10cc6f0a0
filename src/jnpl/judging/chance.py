"""Whether a model predicts labels that it has not seen better than chance: else nothing can be said of them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Labels: TypeAlias = npt.NDArray[np.int64]

_DEVIATIONS = 4.0  # of the mean probability, if the labels were shuffled; choosing among trees takes some of them


def above_chance(unseen_probs: npt.NDArray[np.floating[Any]], labels: Labels) -> bool:
    """Return whether predictions (N, C) without their labels (N,) tell the labels from shuffled ones.

    The mean probability of the given label is compared with its mean and variance over all orders of the labels
    (Hoeffding 1951), which are exact. Rows of nan do not count.

    >>> above_chance(np.eye(2)[[0, 1] * 10], np.array([0, 1] * 10))
    True
    >>> above_chance(np.full((20, 2), 0.5), np.array([0, 1] * 10))
    False
    """
    usable = ~np.isnan(unseen_probs[:, 0])
    probs, given = (unseen_probs, labels) if usable.all() else (unseen_probs[usable], labels[usable])
    count = len(given)
    if count < 2:
        return False
    share = np.bincount(given, minlength=probs.shape[1]) / count
    expected = np.einsum("nc,c->n", probs, share)  # of a random label; einsum makes no float64 copy of (N, C)
    spread = probs.mean(axis=0, dtype=np.float64) - expected.mean()
    squares = np.einsum("nc,nc,c->", probs, probs, share) - (expected**2).sum() - count * (share @ spread**2)
    deviation = float(max(squares, 0.0) / (count - 1)) ** 0.5 * count**0.5
    lead = float((probs[np.arange(count), given] - expected).sum())
    return bool(lead > max(_DEVIATIONS * deviation, 1e-6 * count))
