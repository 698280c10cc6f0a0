"""Probabilities of the true label, corrected by the estimated confusion between classes (transition matrix).

A network predicts p(t | x), the true class from the sample alone. The given label adds information: how often is a
sample of class t labelled y? With T_ty = P(given y | true t), Bayes' rule gives

    q(t | x, y)  =  p(t | x) T_ty / sum_s p(s | x) T_sy,

and T is what makes the given labels likely: each round of EM (Dempster et al. 1977; for labels Dawid & Skene 1979)
counts true and given classes with the current q, and normalises the counts. Where all mistakes are equally likely, q
ranks labels as p(y | x) does. Where cats are often labelled dog but never ship, an uncertain ship is probably a
difficult photograph, and an uncertain dog a cat.

T is regularised in two ways. Only a mistake much more frequent than the others has a rate of its own; all others share
one rate, because T would otherwise fit the network's own confusions (`tied`). And a network that has learnt wrong
labels gives some probability to all classes, even for its most certain samples; this background is subtracted from all
predictions (`without_background`). With more than 500 classes no mistake has a rate of its own, and no matrix is kept.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError

Floats: TypeAlias = npt.NDArray[np.float64]

_MIN_PROB = 1e-30  # a larger floor would make small but different probabilities equal
_MOST_CERTAIN = 0.01  # share of the samples from which the background is estimated
_MIN_KEPT = 1e-3  # share of a probability that stays after the subtraction
_OWN_RATE = 3.0  # times the mean rate of the less frequent mistakes: a mistake above it keeps its own rate
_MAX_ROUNDS = 100
_TOLERANCE = 1e-5  # EM stops when no entry of T changes by more
_BLOCK = 1 << 22  # numbers that are worked on at once
_MANY_NUMBERS = 1 << 26  # probabilities from which float32 is enough
_MAX_MATRIX = 500  # classes up to which mistakes may have rates of their own
_NEARLY_ALL = 0.99  # rate of right labels above which the shares of classes are as given
SHARE_ROWS = 50_000  # samples that the true shares of classes are estimated by
_SHARE_ROUNDS, _MOST_FACTOR = 20, 10.0  # in which the factors of classes are found; largest over smallest factor


class Posterior(NamedTuple):
    """(N, C) probabilities of the true class given sample and label, and the (C, C) estimate of P(given | true).

    The matrix is None above 500 classes, where all mistakes share one rate.
    """

    probs: npt.NDArray[np.floating]
    transition: Floats | None


def posterior(
    probs: npt.ArrayLike,
    labels: npt.ArrayLike,
    decided: npt.ArrayLike | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Posterior:
    """Return (N, C) probabilities of the true classes and the (C, C) transition matrix, estimated by EM.

    T starts with 1/2 on its diagonal and equal mistakes. This start is also added as one pseudo-count to every row, so
    that a class without samples has a valid row.

    Args:
        probs: (N, C) predicted probabilities; rows of nan stay nan and do not count.
        labels: (N,) given labels.
        decided: (N,) true classes where they are known, -1 elsewhere. They count in T with certainty.
        progress: called with the share done, 0..1, by the largest number of rounds; what it raises stops the work.

    Example:
        >>> sure = [[0.98, 0.01, 0.01]] * 100 + [[0.01, 0.98, 0.01]] * 100 + [[0.01, 0.01, 0.98]] * 100
        >>> labels = [0] * 70 + [1] * 130 + [2] * 100  # 30 of class 0 are labelled 1
        >>> posterior(sure, labels).transition.round(1).tolist()
        [[0.7, 0.3, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    predicted, given = np.asarray(probs), np.asarray(labels)
    if predicted.ndim != 2 or given.shape != predicted.shape[:1]:
        raise InputError(f"probabilities must be (N, C) and labels (N,), not {predicted.shape} and {given.shape}")
    size = predicted.shape[1]
    if len(given) and not 0 <= given.min() <= given.max() < size:
        raise InputError(f"labels must be 0 to {size - 1}, got {given.min()} to {given.max()}")
    if size > _MAX_MATRIX:
        return Posterior(_one_rate(predicted, given, decided), None)
    rows = np.flatnonzero(~np.isnan(predicted).any(axis=1))
    rows = rows[np.argsort(given[rows], kind="stable")]  # class by class: memory for a class at a time is enough
    p = without_background(predicted[rows])
    true = np.full(len(rows), -1) if decided is None else np.asarray(decided)[rows]
    bounds = np.searchsorted(given[rows], np.arange(size + 1))
    parts = {label: slice(*bounds[label : label + 2]) for label in np.flatnonzero(np.diff(bounds)).tolist()}
    matrix = np.full((size, size), 0.5 / max(size - 1, 1))
    np.fill_diagonal(matrix, 0.5)
    prior = matrix.copy()
    for done in range(_MAX_ROUNDS if len(rows) else 0):
        counts = prior.copy()
        for number, (label, part) in enumerate(parts.items()):
            progress((done + number / len(parts)) / _MAX_ROUNDS)
            counts[:, label] += _bayes(p[part], matrix[:, label], true[part]).sum(axis=0)
        old, matrix = matrix, tied(counts / counts.sum(axis=1, keepdims=True))
        if np.abs(matrix - old).max() < _TOLERANCE:
            break
    whole = np.full(predicted.shape, np.nan, p.dtype)
    for label, part in parts.items():
        whole[rows[part]] = _bayes(p[part], matrix[:, label], true[part])
    return Posterior(whole, matrix)


def share_factors(
    probs: npt.NDArray[np.floating], labels: npt.NDArray[np.integer], transition: Floats
) -> Floats | None:
    """Return a factor (C,) for each class, by which probabilities (N, C) predict it as often as it truly occurs.

    Wrong labels fill a small class with samples of the others, and class weights let these count more: a network that
    has learnt them predicts the class too often. If all mistakes share one rate r, and right labels have the rate d, a
    class of share s has the share g = s d + (1 - s) r of the given labels, which tells s. None where some mistakes have
    rates of their own, or hardly any label is wrong. Rows of nan do not count.

    >>> given = np.repeat([0, 1, 2], [66, 17, 17])  # of 80, 10 and 10 samples a fifth is labelled as another class
    >>> one_rate = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    >>> share_factors(np.full((100, 3), 1 / 3), given, one_rate).round(3).tolist()
    [1.0, 0.125, 0.125]
    """
    size = len(transition)
    rates, right = transition[~np.eye(size, dtype=bool)], float(transition.diagonal().mean())
    readable = np.flatnonzero(~np.isnan(probs[:, 0]))
    if size < 3 or not len(readable) or np.ptp(rates) > _TOLERANCE or not rates[0] < right < _NEARLY_ALL:
        return None
    given = np.bincount(labels[readable], minlength=size) / len(readable)
    shares = np.maximum((given - rates[0]) / (right - rates[0]), given / _MOST_FACTOR)
    shares /= max(shares.sum(), _MIN_PROB)
    some, factors = probs[readable[:: len(readable) // SHARE_ROWS + 1]], np.ones(size)
    for _ in range(_SHARE_ROUNDS):
        predicted = some * factors
        predicted /= predicted.sum(axis=1, keepdims=True)
        factors *= shares / np.maximum(predicted.mean(axis=0), _MIN_PROB)
        factors = np.clip(factors / factors.max(), 1 / _MOST_FACTOR, 1.0)
    return factors


def float_type(numbers: int) -> type[np.floating]:
    """Return the type of so many probabilities: float64 would double the memory of a million samples."""
    return np.float32 if numbers > _MANY_NUMBERS else np.float64


def without_background(probs: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return (N, C) probabilities minus the mean probability of the other classes in the most certain samples.

    >>> without_background(np.array([[0.7, 0.1, 0.1, 0.1], [0.5, 0.3, 0.1, 0.1]])).round(3).tolist()
    [[1.0, 0.0, 0.0, 0.0], [0.666, 0.333, 0.0, 0.0]]
    """
    p: npt.NDArray[np.floating] = np.maximum(probs, _MIN_PROB, dtype=float_type(probs.size))
    p /= p.sum(axis=1, keepdims=True)
    samples, size = p.shape
    if samples and size > 1:
        certain = np.sort(p.max(axis=1))[-max(round(_MOST_CERTAIN * samples), 1) :]
        background, block = float(1 - certain.mean()) / (size - 1), max(_BLOCK // size, 1)
        for start in range(0, samples, block):
            part = p[start : start + block]
            np.maximum(part - background, _MIN_KEPT * part, out=part)
            part /= part.sum(axis=1, keepdims=True)
    return p


def tied(matrix: Floats) -> Floats:
    """Return (C, C) rates in which all mistakes but the most frequent share one rate; rows sum to 1.

    In falling order, a mistake keeps its own rate as long as it is above `_OWN_RATE` times the mean rate of all less
    frequent ones. Where C mistakes are about equally frequent, as in pair noise, the first ones may fail this test
    because of the others: then it begins with the first of the C most frequent that passes.

    >>> tied(np.array([[0.7, 0.28, 0.02], [0.0, 1.0, 0.0], [0.04, 0.04, 0.92]])).round(2).tolist()
    [[0.7, 0.28, 0.02], [0.02, 0.96, 0.02], [0.02, 0.02, 0.96]]
    >>> tied(np.array([[0.7, 0.3, 0.0], [0.0, 0.7, 0.3], [0.3, 0.0, 0.7]])).round(2).tolist()
    [[0.7, 0.3, 0.0], [0.0, 0.7, 0.3], [0.3, 0.0, 0.7]]
    """
    mistakes = ~np.eye(len(matrix), dtype=bool)
    falling = np.sort(matrix[mistakes])[::-1]
    if len(falling) == 0:
        return matrix
    below = np.append(np.cumsum(falling[::-1])[::-1][1:], 0.0)  # the last is exactly 0, so that at least one is shared
    others = np.arange(len(falling) - 1, -1, -1)
    passes = falling * others > _OWN_RATE * below
    first = int(np.argmax(passes[: len(matrix)]))  # 0 if none passes
    separate = first + int(np.argmin(passes[first:]))  # the number of mistakes with their own rate
    shared = falling[separate:].mean()
    result = np.where(matrix > falling[separate], matrix, shared)
    np.fill_diagonal(result, 0.0)
    np.fill_diagonal(result, np.maximum(1 - result.sum(axis=1), matrix.diagonal() / 2))  # at least half
    result /= result.sum(axis=1, keepdims=True)
    return result


def _one_rate(
    probs: npt.NDArray[np.floating], labels: npt.NDArray[np.int64], true: npt.ArrayLike | None
) -> npt.NDArray[np.floating]:
    """Return the posterior (N, C), of the type of `probs`, if all mistakes are equally likely; rows of nan stay nan.

    Only the given label's probability tells: q_y = p_y d / (p_y d + (1 - p_y) r), r the rate of each mistake and d the
    rate of right labels, and the others keep their proportions.
    """
    size, rows = probs.shape[1], np.arange(len(labels))
    given_probs = np.clip(probs[rows, labels].astype(np.float64), _MIN_PROB, 1.0)
    predicted, right = ~np.isnan(given_probs), 0.5
    quality = given_probs
    for _ in range(_MAX_ROUNDS if predicted.any() else 0):
        mistake = (1 - right) / (size - 1)
        quality = given_probs * right / (given_probs * right + (1 - given_probs) * mistake)
        old, right = right, float(np.clip(quality[predicted].mean(), 1 / size, 1 - 1e-9))
        if abs(right - old) < _TOLERANCE:
            break
    result = probs * ((1 - quality) / np.maximum(1 - given_probs, _MIN_PROB)).astype(probs.dtype)[:, None]
    result[rows, labels] = quality
    if true is not None:
        _make_certain(result, np.asarray(true))
    return result


def _make_certain(q: npt.NDArray[np.floating], true: npt.NDArray[np.int64]) -> None:
    """Set rows whose true class is known, in place; -1: unknown."""
    sure = np.flatnonzero(true >= 0)
    q[sure] = 0
    q[sure, true[sure]] = 1


def _bayes(p: npt.NDArray[np.floating], rates: Floats, true: npt.NDArray[np.int64]) -> Floats:
    """Return the posterior (M, C) of samples with one given label, whose `rates` (C,) are P(given | true)."""
    q = p * rates
    q /= q.sum(axis=1, keepdims=True)
    _make_certain(q, true)
    return q
