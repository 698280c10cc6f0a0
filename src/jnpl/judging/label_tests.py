"""Which labels of new samples are too unlikely to be right: conformal p-values, by the right labels of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from jnpl.data.source import Labels

Floats: TypeAlias = "npt.NDArray[np.floating]"

_PENALTY = 1e-2  # of the regression, relative to the mean square of a number
_BLOCK = 1 << 22  # numbers that are worked on at once


def label_p_values(old: Floats, weights: Floats, new: Floats) -> npt.NDArray[np.float64]:
    """Return for M new labels the share of the right labels of a run that have as little support.

    If a new label is right and its sample of the run's kind, the p-value is below a level at most that often.

    `old` (N,) is the support of the labels of the run, by predictions that have not seen them, and `weights` (N,) the
    probability that each of them is right; `new` (M,) is the support of the new labels.

    >>> label_p_values(np.arange(99.0), np.ones(99), np.array([-1.0, 4.0, 1000.0])).tolist()
    [0.01, 0.06, 1.0]
    """
    order = np.argsort(old, kind="stable")
    below = np.append(0.0, np.cumsum(weights[order], dtype=np.float64))
    as_low = below[np.searchsorted(old[order], new, side="right")]
    return np.asarray((1 + as_low) / (1 + below[-1]), np.float64)


def regression_support(
    old: Floats, labels: Labels, weights: Floats, new: Floats, new_labels: Labels, classes: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the support (N,) and (M,) of labels by ridge regression of the classes: that of each label beyond that of
    the best other class.

    Samples of the run, vectors (N, F), are predicted without their own label, exactly and in one fit: with the hat
    matrix H, a prediction without the sample is (f - H_ii t) / (1 - H_ii). `weights` (N,) say how much each counts.

    >>> x = np.array([[-1.0], [-1.1], [-0.9], [1.0], [1.1], [0.9]])
    >>> old, new = regression_support(x, np.array([0, 0, 0, 1, 1, 1]), np.ones(6), x[:1], np.array([1]), 2)
    >>> bool((old > 0).all()), bool(new[0] < 0)
    (True, True)
    """
    inputs = _with_one(old)
    weighted = inputs * np.asarray(weights, np.float64)[:, None]
    products = weighted.T @ inputs
    penalty = np.full(len(products), _PENALTY * max(float(np.trace(products)) / len(products), 1e-12))
    penalty[-1] = 1e-9  # of the constant
    inverse = np.linalg.inv(products + np.diag(penalty))
    moments = np.zeros((len(products), classes))
    np.add.at(moments.T, labels, weighted)
    coefficients = inverse @ moments
    leverage = ((inputs @ inverse) * weighted).sum(axis=1)
    step = max(_BLOCK // classes, 1)
    supports = []
    for values, given, share in ((inputs, labels, leverage), (_with_one(new), new_labels, np.zeros(len(new)))):
        parts = [np.zeros(0)]
        for start in range(0, len(values), step):
            rows = slice(start, start + step)
            predicted, at = values[rows] @ coefficients, np.arange(len(values[rows]))
            predicted[at, given[rows]] -= share[rows]
            predicted /= np.maximum(1 - share[rows], 1e-9)[:, None]
            parts.append(margins(predicted, given[rows]))
        supports.append(np.concatenate(parts))
    return supports[0], supports[1]


def margins(predicted: Floats, labels: Labels) -> npt.NDArray[np.float64]:
    """Return what (N, C) predictions give the labels (N,), beyond what they give the best other class.

    >>> margins(np.array([[0.7, 0.2, 0.1]]), np.array([1])).round(1).tolist()
    [-0.5]
    """
    others, at = np.array(predicted, np.float64), np.arange(len(labels))
    of_label = others[at, labels]
    others[at, labels] = -np.inf
    return np.asarray(of_label - others.max(axis=1), np.float64)


def _with_one(values: Floats) -> npt.NDArray[np.float64]:
    return np.concatenate([values, np.ones((len(values), 1))], axis=1, dtype=np.float64)
