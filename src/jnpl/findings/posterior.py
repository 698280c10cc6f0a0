"""Probabilities of the true label, corrected by the estimated confusion between classes (transition matrix).

A network predicts p(t | x), the true class from the sample alone. The given label adds information: how often is a
sample of class t labelled y? With T_ty = P(given y | true t), Bayes' rule gives

    q(t | x, y)  =  p(t | x) T_ty / sum_s p(s | x) T_sy,

and T is what makes the given labels likely: each round of EM (Dempster et al. 1977; for labels Dawid & Skene 1979)
counts true and given classes with the present q, and normalises the counts. Where all mistakes are equally likely, q
ranks labels as p(y | x) does. Where cats become dogs but never ships,
a doubtful ship is a hard photograph and a doubtful dog is a cat.

Two things keep T honest. A mistake has a rate of its own only if it stands out: all others share one, or T would fit
what the network itself confuses. And a network that has learnt wrong labels spreads them over all classes, also where
it is surest: as much as it says there of any other class is taken off everywhere, as far as it goes.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError

Floats: TypeAlias = npt.NDArray[np.float64]

_LEAST = 1e-30  # no probability of 0 is final; a larger floor would tie what a sure network still ranks
_SUREST = 0.01  # of the samples: these tell what is predicted of classes that a sample surely is not
_KEPT = 1e-3  # of a probability, at least, is kept
_STANDS_OUT = 3.0  # times the mean of the others is a rate of its own
_ROUNDS = 100
_ENOUGH = 1e-5  # largest change of an entry of T between two rounds


class Posterior(NamedTuple):
    """(N, C) probabilities of the true class, the given label known, and (C, C) the estimate of P(given | true)."""

    probs: Floats
    transition: Floats


def posterior(probs: npt.ArrayLike, labels: npt.ArrayLike) -> Posterior:
    """(N, C) predictions (rows of nan stay nan and count nothing) and (N,) given labels -> the posterior.

    T starts from 1/2 on its diagonal. Every row has one count more than the data give, spread like the row's own
    mistakes would be if they were all equally likely: a class without samples keeps a valid row.

    >>> sure = [[0.98, 0.01, 0.01]] * 100 + [[0.01, 0.98, 0.01]] * 100 + [[0.01, 0.01, 0.98]] * 100
    >>> labels = [0] * 70 + [1] * 130 + [2] * 100  # 30 of class 0 are called 1
    >>> found = posterior(sure, labels)
    >>> found.transition.round(1).tolist()
    [[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    predicted, given = np.asarray(probs, np.float64), np.asarray(labels)
    if predicted.ndim != 2 or given.shape != predicted.shape[:1]:
        raise InputError(f"probabilities must be (N, C) and labels (N,), not {predicted.shape} and {given.shape}")
    size = predicted.shape[1]
    if len(given) and not 0 <= given.min() <= given.max() < size:
        raise InputError(f"labels must be 0 to {size - 1}, got {given.min()} to {given.max()}")
    known = ~np.isnan(predicted).any(axis=1)
    p, y = without_background(predicted[known]), given[known]
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], np.arange(size))  # of each given label among the sorted samples
    filled = np.flatnonzero(np.bincount(y, minlength=size))
    matrix = np.full((size, size), 0.5 / max(size - 1, 1))
    np.fill_diagonal(matrix, 0.5)
    prior = matrix.copy()
    for _ in range(_ROUNDS if len(y) else 0):
        counts = prior.copy()
        counts[:, filled] += np.add.reduceat(_bayes(p, y, matrix)[order], starts[filled], axis=0).T
        old, matrix = matrix, tied(counts / counts.sum(axis=1, keepdims=True))
        if np.abs(matrix - old).max() < _ENOUGH:
            break
    whole = np.full(predicted.shape, np.nan)
    whole[known] = _bayes(p, y, matrix)
    return Posterior(whole, matrix)


def without_background(probs: Floats) -> Floats:
    """(N, C) -> (N, C) less what the surest samples are predicted to be of any other class, on average.

    >>> without_background(np.array([[0.7, 0.1, 0.1, 0.1], [0.5, 0.3, 0.1, 0.1]])).round(3).tolist()
    [[1.0, 0.0, 0.0, 0.0], [0.666, 0.333, 0.0, 0.0]]
    """
    p = np.maximum(probs, _LEAST)
    p /= p.sum(axis=1, keepdims=True)
    samples, size = p.shape
    if samples and size > 1:
        surest = np.sort(p.max(axis=1))[-max(round(_SUREST * samples), 1) :]
        p = np.maximum(p - (1 - surest.mean()) / (size - 1), _KEPT * p)
        p /= p.sum(axis=1, keepdims=True)
    return p


def tied(matrix: Floats) -> Floats:
    """(C, C) rates -> (C, C), mistakes that do not stand out at one rate, and what is left on the diagonal.

    From the most frequent mistake on, each that has `_STANDS_OUT` times the mean rate of all less frequent ones keeps
    its own.

    >>> tied(np.array([[0.7, 0.28, 0.02], [0.0, 1.0, 0.0], [0.04, 0.04, 0.92]])).round(2).tolist()
    [[0.7, 0.28, 0.02], [0.02, 0.96, 0.02], [0.02, 0.02, 0.96]]
    """
    mistakes = ~np.eye(len(matrix), dtype=bool)
    falling = np.sort(matrix[mistakes])[::-1]
    if len(falling) == 0:
        return matrix
    below = np.append(np.cumsum(falling[::-1])[::-1][1:], 0.0)  # exactly 0 in the end, so that something is shared
    others = np.arange(len(falling) - 1, -1, -1)
    own = int(np.argmin(falling * others > _STANDS_OUT * below))  # the first that does not stand out
    shared = falling[own:].mean()
    result = np.where(matrix > falling[own], matrix, shared)
    np.fill_diagonal(result, 0.0)
    np.fill_diagonal(result, np.maximum(1 - result.sum(axis=1), matrix.diagonal() / 2))  # few counts may leave nothing
    result /= result.sum(axis=1, keepdims=True)
    return result


def _bayes(p: Floats, y: npt.NDArray[np.int64], matrix: Floats) -> Floats:
    q = p * matrix[:, y].T
    q /= q.sum(axis=1, keepdims=True)
    return q
