"""Pseudo-labels: the targets that a fresh network is trained on after the method has found the wrong labels.

The paper's text names one step: labels that the filter keeps stay, the others become its mean prediction. The
predecessor's code takes two: a first network learns from the kept samples alone, its mean predictions teach a second.
"""

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import LearningError
from jnpl.methods.base import Method
from jnpl.methods.pseudo_label import Targets
from jnpl.recipes.schema import Pseudo, Recipe, Training

Labels: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]


class PseudoLabelSettings(NamedTuple):
    """How a classifier is trained on pseudo-labels after the method."""

    mode: Literal["paper", "nlnl", "predicted"]
    soft: bool
    by_class: bool
    warm: bool
    plan: Training

    def as_json(self) -> dict[str, Any]:
        """Return the settings as run.json has them."""
        return {**self._asdict(), "plan": self.plan.model_dump(mode="json")}


def pseudo_label_settings(recipe: Recipe, method: type[Method]) -> PseudoLabelSettings | None:
    """Return the recipe's settings, with the method's defaults; None if neither trains on pseudo-labels."""
    if recipe.pseudo is None and method.pseudo_mode is None:
        return None
    settings = recipe.pseudo or Pseudo()
    mode = settings.mode or method.pseudo_mode or "paper"
    if mode == "none":
        return None
    weight = settings.class_weight or ("nlnl" if mode == "nlnl" else "none")
    return PseudoLabelSettings(mode, settings.soft, weight == "nlnl", settings.warm, settings.train or recipe.train)


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
    """Return the targets of a step with pseudo-labels: (N,), (N,), (N, C) -> (N, C).

    `mean_probs` are those of the filter, or in the second step (step 1) of mode "nlnl" of the first step's network.
    In mode "predicted" they are the targets of all samples.
    """
    if mode == "paper":
        probs = corrected(labels, is_label_issue, mean_probs, soft=soft)
    elif mode == "nlnl" and step == 0:
        probs = kept(labels, is_label_issue, mean_probs.shape[1])
    else:
        probs = predicted(mean_probs, soft=soft)
    probs[np.isnan(mean_probs).any(axis=1)] = np.nan  # never seen or unreadable: not trained on
    return Targets(probs, sample_weights(probs, by_class=by_class), mode == "nlnl" and step == 0)


def corrected(labels: Labels, is_label_issue: Mask, mean_probs: Floats, *, soft: bool = True) -> Floats:
    """Return the targets of the paper's one step: (N,), (N,), (N, C) -> (N, C).

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
    """Return the targets of the predecessor's first step: the given labels of kept samples; rows of issues are nan."""
    probs = one_hot(labels, num_classes)
    probs[is_label_issue] = np.nan
    return probs


def predicted(mean_probs: Floats, *, soft: bool = True) -> Floats:
    """Return the targets of the predecessor's second step: (N, C) mean predictions, or one-hot their largest class."""
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
    used = ~np.asarray(np.isnan(probs).any(axis=1))
    if not used.any():
        raise LearningError(
            "no label was kept, so nothing can be taught (the findings are written): train longer, or lower "
            "verdict.threshold, in a new folder"
        )
    weights = np.where(used, np.float32(1), np.float32(0))
    if by_class:
        largest = np.where(used, np.nan_to_num(probs).argmax(1), 0)
        counts = np.bincount(largest[used], minlength=probs.shape[1])
        weights[used] = (counts.max() / np.maximum(counts, 1))[largest[used]]
    return weights
