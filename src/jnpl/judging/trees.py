"""Out-of-fold predictions of decision trees, which on tables often know more than a network.

A forest of extremely randomised trees predicts every sample with the trees that were not trained on it (out of bag).
Its leaf size, and whether gradient boosting joins it, are chosen by the agreement with the given labels. A second
forest is NL+ for trees: exhaustive NL+ has the gradient of cross-entropy times p_y, so every sample counts with the
probability that the first trees give its label, and wrong labels hardly count.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

Floats: TypeAlias = npt.NDArray[np.float32]
Labels: TypeAlias = npt.NDArray[np.int64]

LEAVES = (1, 2, 5, 10, 20)  # smallest numbers of samples in a leaf that are tried
TRIED_TREES, TREES = 100, 200  # of a forest that is tried, and of one that predicts
TRIED_ROWS, TREE_ROWS = 20_000, 50_000  # the leaf size is chosen on as many rows at most; a tree is grown on as many
BOOSTING_SIZE = 400_000  # rows x classes up to which boosting is tried: it grows a tree per class and step
_FOREST_BYTES = 2 << 30  # that trees may take together: each node has a number for every class
_FEW = 5  # samples of a class that boosting needs, to divide them into folds and validation data
_SMALLEST = 1e-3  # probability: no tree is certain


class TreePredictions(NamedTuple):
    """Probabilities (N, C) of trees that have not seen the label, their agreement with it, and which trees."""

    probs: Floats
    agreement: float
    description: str


def tree_predictions(
    vectors: Floats,
    labels: Labels,
    fold: Labels,
    num_classes: int,
    *,
    weights: npt.NDArray[np.float32] | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> TreePredictions:
    """Return what trees predict for every sample, without having seen its label.

    Args:
        labels: (N,) given labels in 0..C-1.
        fold: (N,) fold of each sample, for boosting (`jnpl.judging.out_of_fold.deal_folds`).
        progress: called with the share done, 0..1; what it raises stops the work.

    Example:
        >>> x = np.repeat([[-1.0], [1.0]], 50, axis=0).astype(np.float32)
        >>> given = np.repeat([0, 1], 50)
        >>> given[:5] = 1  # five of the first class are labelled 1
        >>> found = tree_predictions(x, given, np.arange(100) % 5, num_classes=2)
        >>> found.probs.argmax(1)[:5].tolist(), round(found.agreement, 2)
        ([0, 0, 0, 0, 0], 0.95)
    """
    report, rows = progress or (lambda _: None), np.arange(len(labels))
    leaf = _best_leaf(vectors, labels, num_classes, weights, seed)
    report(0.3)
    first = _forest(vectors, labels, num_classes, leaf, TREES, weights, seed)
    report(0.5)
    parts, names = [first], ["a random forest"]
    boosted = _boosting(vectors, labels, fold, num_classes, weights, seed)
    report(0.8)
    if boosted is not None and share_agreeing((first + boosted) / 2, labels) > share_agreeing(first, labels):
        parts, names = [*parts, boosted], [*names, "gradient boosting"]
    trust = np.mean(parts, axis=0)[rows, labels]
    parts.append(
        _forest(vectors, labels, num_classes, leaf, TREES, trust if weights is None else trust * weights, seed + 1)
    )
    report(1.0)
    probs: Floats = np.mean(parts, axis=0, dtype=np.float32)
    return TreePredictions(probs, share_agreeing(probs, labels), " and ".join(names))


def share_agreeing(probs: npt.NDArray[Any], labels: Labels) -> float:
    """Return the share of samples whose most probable class (N, C) is the given label (N,)."""
    return float((probs.argmax(axis=1) == labels).mean())


def _best_leaf(
    vectors: Floats, labels: Labels, num_classes: int, weights: npt.NDArray[np.float32] | None, seed: int
) -> int:
    """Return the leaf size with which a forest agrees most often with labels that it has not seen."""
    if len(labels) > TRIED_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(len(labels), TRIED_ROWS, replace=False))
        vectors, labels, weights = vectors[rows], labels[rows], None if weights is None else weights[rows]

    def agreement(leaf: int) -> float:
        return share_agreeing(_forest(vectors, labels, num_classes, leaf, TRIED_TREES, weights, seed), labels)

    return max(LEAVES, key=agreement)


def _forest(
    vectors: Floats,
    labels: Labels,
    num_classes: int,
    leaf: int,
    trees: int,
    weights: npt.NDArray[Any] | None,
    seed: int,
) -> Floats:
    """Return the out-of-bag probabilities (N, C) of a forest.

    Trees that would take too much memory together are grown in groups, of which only the predictions are kept.
    """
    from sklearn.ensemble import ExtraTreesClassifier  # noqa: PLC0415 - slow to import

    rows = min(len(labels), TREE_ROWS)
    together = max(_FOREST_BYTES // (2 * rows // leaf * num_classes * 8 + 1), 1)
    total, shares = np.zeros((len(labels), num_classes)), np.zeros((len(labels), 1))
    for first in range(0, trees, together):
        forest = ExtraTreesClassifier(
            min(together, trees - first),
            min_samples_leaf=leaf,
            bootstrap=True,
            max_samples=rows,
            oob_score=True,
            n_jobs=torch.get_num_threads(),
            random_state=(seed + first) % 2**32,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of few samples, one may be in every bag
            warnings.simplefilter("ignore", RuntimeWarning)  # ... and has no prediction
            forest.fit(vectors, labels, sample_weight=weights)
        probs = forest.oob_decision_function_
        predicted = ~np.isnan(probs[:, :1])
        share = len(forest.estimators_) / trees
        total[:, forest.classes_] += np.where(predicted, probs, 0) * share
        shares += predicted * share
    total /= np.where(shares > 0, shares, 1)
    total[shares[:, 0] == 0] = 1 / num_classes
    return _of_all_classes(total, np.arange(num_classes), num_classes)


def _boosting(
    vectors: Floats,
    labels: Labels,
    fold: Labels,
    num_classes: int,
    weights: npt.NDArray[np.float32] | None,
    seed: int,
) -> Floats | None:
    """Return the out-of-fold probabilities (N, C) of gradient boosting; None where it takes too long, or cannot."""
    counts = np.bincount(labels)
    present = counts[counts > 0]
    if len(labels) * len(present) > BOOSTING_SIZE or present.min() < _FEW or len(labels) < 20 * len(present):
        return None
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 - slow to import

    probs = np.zeros((len(labels), num_classes), np.float32)
    for number in range(int(fold.max()) + 1):
        is_held_out = fold == number
        # Small trees, and no more than validation data want: later ones learn the wrong labels.
        model = HistGradientBoostingClassifier(
            max_leaf_nodes=15, l2_regularization=1.0, early_stopping=True, random_state=seed % 2**32
        )
        model.fit(
            vectors[~is_held_out],
            labels[~is_held_out],
            sample_weight=None if weights is None else weights[~is_held_out],
        )
        probs[is_held_out] = _of_all_classes(model.predict_proba(vectors[is_held_out]), model.classes_, num_classes)
    return probs


def _of_all_classes(present: npt.NDArray[Any], classes: Labels, num_classes: int) -> Floats:
    """Return probabilities (N, K) of the classes that occur as (N, C), none of them 0."""
    probs = np.full((len(present), num_classes), _SMALLEST, np.float32)
    probs[:, classes] += present
    probs /= probs.sum(axis=1, keepdims=True)
    return probs
