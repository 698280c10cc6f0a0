"""How likely is a given label the true one, if the classes are confused in a way of their own?

A network says p(t | x), what the true class may be, from the sample alone. The given label says more: how often does a
true t come to be called y? With T_ty = P(given y | true t), Bayes' rule gives

    q(t | x, y)  =  p(t | x) T_ty / sum_s p(s | x) T_sy,

and T is what makes the given labels likeliest: each round of EM (Dempster et al. 1977; for labels Dawid & Skene 1979)
counts who was called what with the present q, and divides. Where all mistakes are equally likely, q ranks labels as
p(y | x) does. Where cats become dogs but never ships, a doubtful ship is a hard photograph and a doubtful dog is a cat.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.errors import InputError

Floats: TypeAlias = npt.NDArray[np.float64]

_LEAST = 1e-30  # no probability of 0 is final; a larger floor would tie what a sure network still ranks
_ROUNDS = 100
_ENOUGH = 1e-5  # largest change of an entry of T between two rounds


class Posterior(NamedTuple):
    """(N, C) probabilities of the true class, the given label known, and (C, C) the estimate of P(given | true)."""

    probs: Floats
    transition: Floats


def posterior(probs: npt.ArrayLike, labels: npt.ArrayLike) -> Posterior:
    """(N, C) predictions (rows of nan stay nan and count nothing) and (N,) given labels -> the posterior.

    T starts from 1/2 on its diagonal. Every row has one count more than the data give, spread like the row's own
    mistakes would be if they were all equally likely: a class that nobody seems to belong to keeps a proper row.

    >>> sure = [[0.98, 0.01, 0.01]] * 100 + [[0.01, 0.98, 0.01]] * 100 + [[0.01, 0.01, 0.98]] * 100
    >>> labels = [0] * 70 + [1] * 130 + [2] * 100  # 30 of class 0 are called 1
    >>> found = posterior(sure, labels)
    >>> found.transition.round(1).tolist()
    [[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    said, given = np.asarray(probs, np.float64), np.asarray(labels)
    if said.ndim != 2 or given.shape != said.shape[:1]:
        raise InputError(f"probabilities must be (N, C) and labels (N,), not {said.shape} and {given.shape}")
    size = said.shape[1]
    known = ~np.isnan(said).any(axis=1)
    p = np.maximum(said[known], _LEAST)
    p /= p.sum(axis=1, keepdims=True)
    y = given[known]
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], np.arange(size))  # of each given label among the sorted samples
    filled = np.flatnonzero(np.bincount(y, minlength=size))
    matrix = np.full((size, size), 0.5 / max(size - 1, 1))
    np.fill_diagonal(matrix, 0.5)
    prior = matrix.copy()
    q = p
    for _ in range(_ROUNDS):
        q = _bayes(p, y, matrix)
        counts = np.zeros((size, size))
        if len(y):
            counts[:, filled] = np.add.reduceat(q[order], starts[filled], axis=0).T
        counts += prior
        old, matrix = matrix, counts / counts.sum(axis=1, keepdims=True)
        if np.abs(matrix - old).max() < _ENOUGH:
            break
    whole = np.full(said.shape, np.nan)
    whole[known] = _bayes(p, y, matrix)
    return Posterior(whole, matrix)


def _bayes(p: Floats, y: npt.NDArray[np.int64], matrix: Floats) -> Floats:
    q = p * matrix[:, y].T
    q /= q.sum(axis=1, keepdims=True)
    return q
