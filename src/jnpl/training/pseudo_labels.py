"""Pseudo-labels: what a fresh network is taught after the filter has spoken.

The paper's text names one step: labels that the filter keeps stay, the others become its mean prediction. The
predecessor's code takes two: a first network learns from the kept samples alone, its mean predictions teach a second.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import LearningError
from jnpl.methods.pseudo_label import Targets

Labels: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]


def targets(
    labels: Labels,
    is_label_issue: Mask,
    mean_probs: Floats,
    *,
    mode: Literal["paper", "nlnl", "predicted"],
    step: int = 0,
    soft: bool = True,
    by_class: bool = False,
) -> Targets:
    """Targets of a step with pseudo-labels: (N,), (N,), (N, C) -> (N, C).

    `mean_probs` are those of the filter, or in the second step (step 1) of mode "nlnl" of the first step's network.
    Mode "predicted" teaches them to all samples: with the filter's posterior each sample is taught what is known of it.
    """
    if mode == "paper":
        probs = corrected(labels, is_label_issue, mean_probs, soft=soft)
    elif mode == "nlnl" and step == 0:
        probs = kept(labels, is_label_issue, mean_probs.shape[1])
    else:
        probs = predicted(mean_probs, soft=soft)
    probs[np.isnan(mean_probs).any(axis=1)] = np.nan  # never seen, or not to be read: not taught, not counted
    return Targets(probs, sample_weights(probs, by_class=by_class), mode == "nlnl" and step == 0)


def corrected(labels: Labels, is_label_issue: Mask, mean_probs: Floats, *, soft: bool = True) -> Floats:
    """Targets of the paper's one step: (N,), (N,), (N, C) -> (N, C).

    A kept sample has its given label, an issue the mean prediction of the filter (soft) or its largest class.
    Rows of issues that were never predicted are nan.

    >>> corrected(np.array([0, 1]), np.array([False, True]), np.array([[0.9, 0.1], [0.8, 0.2]], np.float32))
    array([[1. , 0. ],
           [0.8, 0.2]], dtype=float32)
    """
    probs = one_hot(labels, mean_probs.shape[1])
    probs[is_label_issue] = predicted(mean_probs[is_label_issue], soft=soft)
    return probs


def kept(labels: Labels, is_label_issue: Mask, num_classes: int) -> Floats:
    """Targets of the predecessor's first step: the given labels of kept samples; rows of issues are nan."""
    probs = one_hot(labels, num_classes)
    probs[is_label_issue] = np.nan
    return probs


def predicted(mean_probs: Floats, *, soft: bool = True) -> Floats:
    """Targets of the predecessor's second step: mean predictions (N, C) of all samples, or their largest class."""
    if soft:
        return mean_probs.astype(np.float32)
    probs = one_hot(mean_probs.argmax(1), mean_probs.shape[1])
    probs[np.isnan(mean_probs).any(1)] = np.nan
    return probs


def one_hot(labels: Labels, num_classes: int) -> Floats:
    """(N,) -> (N, C)."""
    return np.eye(num_classes, dtype=np.float32)[labels]


def sample_weights(probs: Floats, *, by_class: bool) -> Floats:
    """(N, C) -> (N,): 0 for rows of nan; else 1, or by class the largest count / the count of its largest class.

    >>> sample_weights(np.array([[1, 0], [1, 0], [0.3, 0.7], [np.nan, np.nan]], np.float32), by_class=True)
    array([1., 1., 2., 0.], dtype=float32)
    """
    taught = ~np.asarray(np.isnan(probs).any(axis=1))
    if not taught.any():
        raise LearningError(
            "no label was kept, so nothing can be taught (the findings are written): train longer, or lower "
            "verdict.threshold, in a new folder"
        )
    weights = np.where(taught, np.float32(1), np.float32(0))
    if by_class:
        largest = np.where(taught, np.nan_to_num(probs).argmax(1), 0)
        counts = np.bincount(largest[taught], minlength=probs.shape[1])
        weights[taught] = (counts.max() / np.maximum(counts, 1))[largest[taught]]
    return weights
