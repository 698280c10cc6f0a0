"""A model of the given labels: how much of the disagreement with a network is noise, how much overlap of the classes.

A network predicts the class of every sample, best without having seen its label (`judging/out_of_fold`). Low
probability of the given label has two causes: the label is wrong, or the sample lies where classes overlap, and the
network would be unsure with right labels too. The model has a term for each:

    p(t | x) ~ exp(a log p_network(t | x) + b_t)                      the true class, as sure as the data allow
    P(y | x) = (1 - m) sum_t p(t | x) T_ty + m s(y | x)               the given label

With probability 1 - m the label follows the transition matrix T, the same for easy and difficult samples. With
probability m the noise depends on the sample (instance-dependent noise): s is the softmax of
0.55 a log p_network(t | x) + b_t, so that classes which look alike are exchanged where they do. The temperature a and
the biases b_t make p a calibrated probability *of the true label* without knowing one: they, T and m are what makes the
given labels most likely (EM, Dempster et al. 1977). What tells noise from overlap is the shape: where the network is
surest, overlap ends, and noise does not.

Noise that is frequent where classes overlap looks like more overlap: from labels alone, a smaller a explains it as
well. So a needs a prior. Linear heads trained with exhaustive NL+ and judged out of fold have one: on the sets of
docs/owners.md, with any noise, their probabilities are nearly those of the true class (the a that fits the true labels
best is 0.79 to 1.15, the mean of a set's columns). The prior is a penalty that grows with the samples: however many
they are, the model is not exact. Other predictions have no prior.

In T, all mistakes share one rate, but those that are much more frequent have their own. Whether there are any, and
whether noise depends on the sample, is decided by likelihood against number of parameters (BIC, Schwarz 1978).
A class that is not among the 30 likeliest ones of a sample counts together with all such classes, and T is stored by
its entries: memory grows with N, not with N C or C^2. With more than 30 classes this is an approximation: that
one of the other classes is the true one enters the likelihood, but neither the counts of T nor the step for a.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError
from jnpl.internal.progress import part_of

Floats: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = npt.NDArray[np.int64]

EXPONENT = 0.55  # of instance-dependent noise
_INSTANCE_PRIOR = 20.0  # samples without instance-dependent noise, added to the data
_SCALE_PRIOR = 1.0  # penalty of (a - expected a)^2 / 2 for each sample, where an a is expected
_BIAS_PRIOR = 10.0  # 1 / variance of the biases: classes of a few samples have almost none
_MAX_CANDIDATES = 30  # classes of a sample with a probability of their own
_MIN_FITTED, _MAX_FITTED, _FITTED_PER_CLASS = 10_000, 50_000, 200  # samples that the model is fitted to
_RESAMPLED = 3_000  # samples of each fit for the interval
# Other settings that fit about as well, for the interval: exponent (0: noise does not depend on the sample) and factor
# of the expected a, or of the fitted one where none is expected.
_VARIANTS = ((0.0, 1.0), (0.45, 1.0), (0.75, 1.0), (EXPONENT, 0.85), (EXPONENT, 1.2), (0.0, 0.85), (0.0, 1.2))
# The overlap is known to a part of itself at best, and a share that is called overlap is no noise: the interval reaches
# as far as the overlap beyond a tenth would have to be wrong, on the sets of docs/results/noise-rate.md, and farther
# with few samples per class.
_CLEAR_OVERLAP, _OVERLAP_ERROR, _FEW_ERROR = 0.1, 0.45, 8.0
_MIN_LOG = -25.0  # of a probability relative to the sample's largest one
_FREE_ROUNDS = 8  # first rounds in which T is free, or has one rate
_MAX_ROUNDS, _TOLERANCE = 300, 1e-6  # of EM; mean log-likelihood
_START_TOLERANCE = _RESAMPLED_TOLERANCE = 1e-5  # of fits that are only compared
_MAX_WRONG = 0.9  # share of a class in its mistakes
_TIE = 1e-4  # part of a calibrated quality that keeps the order of the scores
_BLOCK = 1 << 22  # numbers that are worked on at once
_NORMAL_90 = 1.645  # standard deviations to either side that hold 90 % of a normal distribution


class Candidates(NamedTuple):
    """The likeliest classes of N samples, the given one first, and the log probability of each other class."""

    classes: Labels  # (N, K)
    logs: Floats  # (N, K), relative to the largest
    rest: Floats  # (N,) of a class that is not listed; nan if all are
    num_classes: int

    def part(self, rows: npt.NDArray[np.integer]) -> Candidates:
        """Return the candidates of some samples, each class contiguous in memory: sums over classes are faster."""
        classes, logs = np.asfortranarray(self.classes[rows]), np.asfortranarray(self.logs[rows])
        return Candidates(classes, logs, self.rest[rows], self.num_classes)

    @property
    def others(self) -> int:
        """Number of classes that are not listed."""
        return self.num_classes - int(self.classes.shape[1])


class LabelProbabilities(NamedTuple):
    """What the model says of N labels."""

    quality: Floats  # (N,) probability that the given label is right
    other_class: Floats  # (N,) that another class, which the caller names, is right
    overlap: Floats  # (N,) probability that the network's best class would be wrong without any noise


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """The fitted parameters."""

    scale: float  # a, the inverse temperature
    bias: Floats  # (C,) b
    instance: float  # m, the share of instance-dependent labels
    exponent: float  # of those labels
    # the rate that all other mistakes have. own_pairs, own_rates: mistakes with a rate of their own, as true * C +
    # given in rising order
    shared: float
    own_pairs: Labels
    own_rates: Floats
    diagonal: Floats  # (C,) T_tt
    log_likelihood: float = -np.inf  # mean over the samples

    def transition(self, pairs: Labels, true: Labels, given: Labels) -> Floats:
        """Return T_ty for pairs true * C + given, of any shape."""
        rates = np.where(true == given, self.diagonal[true], self.shared)
        if len(self.own_pairs):
            at = np.minimum(np.searchsorted(self.own_pairs, pairs), len(self.own_pairs) - 1)
            rates = np.where(self.own_pairs[at] == pairs, self.own_rates[at], rates)
        return rates


class Interval(NamedTuple):
    """An estimate with its 90 % interval."""

    value: float
    low: float
    high: float


class NoiseEstimate(NamedTuple):
    """Share of wrong labels, its 90 % interval, and the share in which classes overlap.

    unlikely: share of labels to which the network gives a probability below 1/2, if that is known. caveat: why the
    estimate may be far off, in words (`jnpl.judging.caveats`). checked: labels of an audit, whose rate this is; 0: the
    model's.
    """

    rate: float
    low: float
    high: float
    overlap: float
    unlikely: float | None = None
    caveat: str | None = None
    checked: int = 0


class Calibrated(NamedTuple):
    """The calibrated probabilities of every label, and the estimate of the noise rate."""

    labels: LabelProbabilities
    estimate: NoiseEstimate


def calibrate(
    probs: npt.ArrayLike,
    labels: npt.ArrayLike,
    other_classes: npt.ArrayLike | None = None,
    *,
    expected_scale: float | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Calibrated:
    """Return the calibrated quality of every label and the noise rate with its 90 % interval.

    The interval is the spread of fits to resampled samples with other settings, between which the data cannot decide;
    wider where classes overlap much, or have few samples.

    Args:
        probs: (N, C) predicted probabilities, best by models that did not see the label; rows of nan stay nan.
        labels: (N,) given labels.
        other_classes: (N,) classes whose probability is wanted too, by default the given ones.
        expected_scale: the a that such predictions have (see above), about 1 for out-of-fold NL+ heads; None: unknown.
        seed: of the resampling.
        progress: called with the share done, 0..1; what it raises stops the work.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> true = rng.integers(3, size=3000)
        >>> logits = 6 * np.eye(3)[true] + 2 * rng.normal(size=(3000, 3))
        >>> probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        >>> given = np.where(rng.random(3000) < 0.3, (true + 1) % 3, true)
        >>> round(calibrate(probs, given).estimate.rate, 1)
        0.3
    """
    progress = progress or (lambda _: None)
    predicted, given = np.asarray(probs), np.asarray(labels, np.int64)
    wanted = given if other_classes is None else np.asarray(other_classes, np.int64)
    if predicted.ndim != 2 or given.shape != predicted.shape[:1]:
        raise InputError(f"probabilities must be (N, C) and labels (N,), not {predicted.shape} and {given.shape}")
    rows = np.flatnonzero(~np.isnan(predicted[:, 0]))
    label_probs = LabelProbabilities(*(np.full(len(given), np.nan) for _ in range(3)))
    if not len(rows):
        return Calibrated(label_probs, NoiseEstimate(0.0, 0.0, 1.0, 0.0))
    candidates = candidate_classes(predicted, given, rows)
    rng = np.random.default_rng(seed)
    most, chosen = min(max(_MIN_FITTED, _FITTED_PER_CLASS * predicted.shape[1]), _MAX_FITTED), np.arange(len(rows))
    if len(rows) > most:
        chosen = np.sort(rng.choice(len(rows), most, replace=False))
    model = fit(candidates.part(chosen), expected_scale, progress=part_of(progress, 0, 0.6))
    calibrated = label_probabilities(model, candidates, wanted[rows])
    for column, values in zip(label_probs, calibrated, strict=True):
        column[rows] = values
    rate = float(1 - calibrated.quality.mean())
    rates = []
    if expected_scale is None:  # the fitted a is the one to expect; in units of it, its prior is as for other models
        unit = model.scale
        candidates = candidates._replace(logs=candidates.logs * unit, rest=candidates.rest * unit)
        model, expected_scale = replace(model, scale=1.0), 1.0
    for number, (exponent, factor) in enumerate(_VARIANTS):
        part = candidates.part(rng.choice(len(rows), min(len(rows), _RESAMPLED)))  # with replacement
        share = 0.6 + 0.4 * number / len(_VARIANTS)
        instance = max(model.instance, 0.05) if exponent else 0.0
        start = replace(model, exponent=exponent, instance=instance, log_likelihood=-np.inf)
        show, enough = part_of(progress, share, share), _RESAMPLED_TOLERANCE
        other = _em(part, start, expected_scale * factor, progress=show, tolerance=enough)
        rates.append(float(1 - label_probabilities(other, part, part.classes[:, 0]).quality.mean()))
    progress(1.0)
    margin = _NORMAL_90 * float(np.sqrt(np.mean((np.array(rates) - rate) ** 2)))
    overlap = float(calibrated.overlap.mean())
    per_class = len(rows) / len(np.unique(given[rows]))
    margin = max(margin, _OVERLAP_ERROR * (overlap - _CLEAR_OVERLAP)) + _FEW_ERROR * overlap / per_class
    return Calibrated(label_probs, NoiseEstimate(rate, max(rate - margin, 0.0), min(rate + margin, 1.0), overlap))


def candidate_classes(probs: npt.NDArray[np.floating], labels: Labels, rows: npt.NDArray[np.integer]) -> Candidates:
    """Return the likeliest classes of some rows of (N, C) probabilities, block by block.

    >>> candidate_classes(np.array([[0.7, 0.2, 0.1]]), np.array([1]), np.array([0])).classes.tolist()
    [[1, 0, 2]]
    """
    size = probs.shape[1]
    kept = min(size, _MAX_CANDIDATES)
    classes, logs = np.empty((len(rows), kept), np.int64), np.empty((len(rows), kept))
    rest = np.full(len(rows), np.nan)
    for part in _blocks(len(rows), size):
        block, given = probs[rows[part]].astype(np.float64), labels[rows[part], None]
        np.maximum(block, 0, out=block)
        given_probs = np.take_along_axis(block, given, 1)
        np.put_along_axis(block, given, -1.0, 1)  # listed first, not among the others
        order = np.arange(size - 1)[None, :]
        order = order + (order >= given) if kept == size else np.argpartition(-block, kept - 2, axis=1)[:, : kept - 1]
        values = np.hstack([given_probs, np.take_along_axis(block, order, 1)])
        top = values.max(1, keepdims=True)
        classes[part], logs[part] = np.hstack([given, order]), _relative(values, top)
        if kept < size:
            total = block.sum(1) + 1.0 + given_probs[:, 0]  # the given class was set to -1
            left = np.maximum(total - values.sum(1), 0.0) / (size - kept)
            rest[part] = _relative(left, top[:, 0])
    return Candidates(classes, logs, rest, size)


def likeliest_other(probs: npt.NDArray[np.floating], labels: Labels) -> Labels:
    """Return the likeliest class (N,) that is not the given one, block by block; of rows of nan any.

    >>> likeliest_other(np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1]]), np.array([0, 1])).tolist()
    [1, 0]
    """
    best = np.empty(len(labels), np.int64)
    for part in _blocks(len(labels), probs.shape[1]):
        block = np.nan_to_num(probs[part])
        block[np.arange(len(block)), labels[part]] = -1.0
        best[part] = block.argmax(1)
    return best


def fit(
    candidates: Candidates, expected_scale: float | None = None, *, progress: Callable[[float], None] = lambda _: None
) -> NoiseModel:
    """Return the likeliest model, with or without instance-dependent noise, and with own rates or without."""
    starts = [(exponent, free) for exponent in (0.0, EXPONENT) for free in (False, True)]
    models = []
    for number, (exponent, free) in enumerate(starts):
        share = part_of(progress, number / (len(starts) + 1), (number + 1) / (len(starts) + 1))
        start = _first(candidates.num_classes, exponent)
        models.append(_em(candidates, start, expected_scale, free=free, progress=share, tolerance=_START_TOLERANCE))
    best = max(models, key=lambda model: _evidence(model, len(candidates.classes), expected_scale))
    return _em(candidates, best, expected_scale, progress=part_of(progress, len(starts) / (len(starts) + 1), 1.0))


def label_probabilities(model: NoiseModel, candidates: Candidates, other_classes: Labels) -> LabelProbabilities:
    """Return the probabilities that the given class and another one are right, and the overlap, of N samples."""
    quality, other, overlap = (np.empty(len(candidates.classes)) for _ in range(3))
    for block in _blocks(len(candidates.classes), 8 * candidates.classes.shape[1]):
        part = candidates.part(np.arange(block.start, block.stop))
        shares = _responsibilities(model, part, model.transition(_pairs(part), part.classes, part.classes[:, :1]))
        true = shares.by_matrix + shares.by_instance[:, None] * shares.p
        quality[block] = true[:, 0]
        other[block] = (true * (part.classes == other_classes[block, None])).sum(1)
        overlap[block] = 1 - shares.p.max(1)
    return LabelProbabilities(*(np.clip(values, 0, 1) for values in (quality, other, overlap)))


def monotone(score: npt.ArrayLike, target: npt.ArrayLike) -> Floats:
    """Return (N,) the rising function of a score that is nearest to a target, its mean included; equal steps are
    broken in the order of the score by less than 0.0001, so that the order stays.

    >>> monotone([0.1, 0.2, 0.3, 0.4], [0.0, 0.6, 0.4, 1.0]).round(3).tolist()
    [0.0, 0.5, 0.5, 1.0]
    """
    scores, wanted = np.asarray(score, np.float64), np.asarray(target, np.float64)
    _, rank = np.unique(scores, return_inverse=True)
    count = np.bincount(rank).astype(np.float64)
    means = np.bincount(rank, wanted) / np.maximum(count, 1)  # samples of one score have one quality
    level = np.clip(_isotonic(means, count), 0, 1)
    result: Floats = (1 - _TIE) * level[rank] + _TIE * rank / max(rank.max(initial=0), 1)
    return result


def _first(size: int, exponent: float) -> NoiseModel:
    """Return the model that EM starts from."""
    none, share = np.empty(0, np.int64), 0.4 / max(size - 1, 1)
    instance = 0.1 if exponent else 0.0
    return NoiseModel(1.0, np.zeros(size), instance, exponent, share, none, np.empty(0), np.full(size, 0.6))


def _isotonic(values: Floats, weight: Floats) -> Floats:
    """Return the rising sequence nearest to values (N,) in weighted squares: falling neighbours are pooled until none
    is left. As scikit-learn's `isotonic_regression`, whose import would take longer than all the rest of judging."""
    block, total, size = np.arange(len(values)), values * weight, weight
    while True:
        mean = total / size
        rises = np.diff(mean, prepend=-np.inf) > 0
        if rises.all():
            return mean[block]
        pooled = np.cumsum(rises) - 1
        block = pooled[block]
        total, size = (np.bincount(pooled, sums).astype(np.float64) for sums in (total, size))


def _em(
    candidates: Candidates,
    model: NoiseModel,
    expected_scale: float | None,
    *,
    free: bool | None = None,
    progress: Callable[[float], None],
    tolerance: float = _TOLERANCE,
) -> NoiseModel:
    """Return a local maximum of the likelihood (and prior), beginning with `model`.

    `free`: whether each mistake has its own rate in the first rounds, or none has; None: no such rounds.
    """
    size, samples = candidates.num_classes, len(candidates.classes)
    pairs = _pairs(candidates)
    known_pairs, place = np.unique(pairs, return_inverse=True)
    place = np.asfortranarray(place.reshape(pairs.shape))
    first_rounds = 0 if free is None else _FREE_ROUNDS
    order, true = place.ravel("F"), known_pairs // size

    def by_pair(values: Floats) -> Floats:
        return np.bincount(order, values.ravel("F"), len(known_pairs)).astype(np.float64)

    def by_class(values: Floats) -> Floats:  # sums of few classes wait for each other: those of pairs do not
        return np.bincount(true, by_pair(values), size).astype(np.float64)

    for number in range(_MAX_ROUNDS):
        rates = model.transition(known_pairs, true, known_pairs % size)
        shares = _responsibilities(model, candidates, rates[place.T].T)
        reached = float(np.log(shares.likelihood).mean())
        if number > first_rounds and abs(reached - model.log_likelihood) < tolerance:
            break
        forced = free if number < first_rounds else None
        shared, own_pairs, own_rates, diagonal = _rates(known_pairs, by_pair(shares.by_matrix), size, forced)
        scale, bias = _temperature(model, candidates, shares, expected_scale, by_class)
        instance = float(shares.by_instance.sum() / (samples + _INSTANCE_PRIOR))
        rest = (model.exponent, shared, own_pairs, own_rates, diagonal)
        model = NoiseModel(scale, bias, instance, *rest, log_likelihood=reached)
        progress(number / _MAX_ROUNDS)
    return model


def _evidence(model: NoiseModel, samples: int, expected_scale: float | None) -> float:
    """Return the log-likelihood, with the priors, less BIC's half log N for each own rate."""
    prior = _INSTANCE_PRIOR * np.log1p(-min(model.instance, 1 - 1e-9)) - 0.5 * _BIAS_PRIOR * float(
        (model.bias**2).sum()
    )
    if expected_scale is not None:
        prior -= 0.5 * _SCALE_PRIOR * samples * (model.scale - expected_scale) ** 2
    return float(
        samples * model.log_likelihood + prior - 0.5 * np.log(samples) * (len(model.own_pairs) + (model.exponent > 0))
    )


class _Responsibilities(NamedTuple):
    """The E step: probabilities of the true class from the sample alone, and posteriors given the label too."""

    p: Floats  # (N, K)
    rest: Floats  # (N,) of all classes not listed
    soft: Floats  # (N, K) of an instance-dependent label
    soft_rest: Floats
    likelihood: Floats  # (N,)
    by_matrix: Floats  # (N, K) of true classes whose label followed T
    by_instance: Floats  # (N,) that the label is instance-dependent, which says nothing more of the true class


def _responsibilities(model: NoiseModel, candidates: Candidates, rates: Floats) -> _Responsibilities:
    """Do the E step; `rates` (N, K) are those of the given label for each true class."""
    p, rest = _softmax(model, candidates, 1.0)
    joint = (1 - model.instance) * p * rates
    soft, soft_rest = _softmax(model, candidates, model.exponent) if model.instance else (p, rest)
    likelihood = joint.sum(1) + model.instance * soft[:, 0] + (1 - model.instance) * rest * model.shared
    likelihood = np.maximum(likelihood, 1e-300)
    joint /= likelihood[:, None]
    return _Responsibilities(p, rest, soft, soft_rest, likelihood, joint, model.instance * soft[:, 0] / likelihood)


def _softmax(model: NoiseModel, candidates: Candidates, exponent: float) -> tuple[Floats, Floats]:
    """Return probabilities (N, K) and that of all classes not listed (N,)."""
    # No logit is above the largest bias, and a prior holds those near 0: exp would overflow above 709.
    weights = np.exp(exponent * model.scale * candidates.logs + model.bias[candidates.classes])
    left = np.zeros(len(weights))
    if candidates.others:
        left = np.exp(exponent * model.scale * candidates.rest + np.log(candidates.others))
    total = weights.sum(1) + left
    weights /= total[:, None]
    return weights, left / total


def _temperature(
    model: NoiseModel,
    candidates: Candidates,
    shares: _Responsibilities,
    expected_scale: float | None,
    by_class: Callable[[Floats], Floats],
) -> tuple[float, Floats]:
    """Return scale and biases after a Newton step each on the expected log-likelihood (both with normal priors).

    `by_class` sums numbers (N, K) of candidates for each class (C,).
    """
    logs, rest = candidates.logs, np.nan_to_num(candidates.rest)
    slope = float((shares.by_matrix * logs).sum() + model.exponent * (shares.by_instance * logs[:, 0]).sum())
    targets = shares.by_matrix.copy("K")  # as the others, in columns: sums over classes are faster
    targets[:, 0] += shares.by_instance
    curve, bend = 0.0, np.zeros_like(targets)
    parts = [(1.0, shares.by_matrix.sum(1), shares.p, shares.rest)]
    if model.instance:
        parts.append((model.exponent, shares.by_instance, shares.soft, shares.soft_rest))
    for exponent, weight, p, left in parts:
        weighted = weight[:, None] * p
        moment = p * logs
        mean = moment.sum(1) + left * rest
        moment *= logs
        square = moment.sum(1) + left * rest**2
        slope -= float(exponent * (weight * mean).sum())
        curve += float(exponent**2 * (weight * (square - mean**2)).sum())
        targets -= weighted
        bend += weighted * (1 - p)
    if expected_scale is not None:
        slope -= _SCALE_PRIOR * len(logs) * (model.scale - expected_scale)
        curve += _SCALE_PRIOR * len(logs)
    bias = model.bias + (by_class(targets) - _BIAS_PRIOR * model.bias) / (_BIAS_PRIOR + by_class(bend))
    return float(np.clip(model.scale + slope / max(curve, 1e-9), 0.05, 20.0)), bias - bias.mean()


def _rates(pairs: Labels, counts: Floats, size: int, forced: bool | None) -> tuple[float, Labels, Floats, Floats]:
    """Return the shared rate, pairs with own rates, those rates, and the diagonal (C,) of T, from expected counts of
    pairs. `forced`: True: every pair has its own rate; False: none has; None: those that BIC asks for."""
    true, given = pairs // size, pairs % size
    total: Floats = np.bincount(true, counts, size).astype(np.float64) + 1e-9
    wrong = true != given
    own_rate = wrong & bool(forced)
    if forced is None:
        own_rate = _frequent(counts, total[true], wrong, total.sum() * (size - 1))
    expected_by_rate = total.sum() * (size - 1) - total[true[own_rate]].sum()
    shared = max(float(counts[wrong & ~own_rate].sum()) / max(expected_by_rate, 1e-9), 1e-9)
    rates = counts[own_rate] / total[true[own_rate]]
    own_sum = np.bincount(true[own_rate], rates, size)
    mistakes = own_sum + shared * (size - 1 - np.bincount(true[own_rate], minlength=size))
    shrink = np.minimum(1.0, _MAX_WRONG / np.maximum(mistakes, 1e-12))
    return shared, pairs[own_rate], rates * shrink[true[own_rate]], 1 - np.minimum(mistakes, _MAX_WRONG)


def _frequent(counts: Floats, of_class: Floats, wrong: npt.NDArray[np.bool_], places: float) -> npt.NDArray[np.bool_]:
    """Return which mistakes have a rate of their own: in falling order of the rates, as many as BIC asks for.

    `counts` and `of_class` are expected numbers of each pair and of its true class; `places` is the latter, summed over
    all possible mistakes.
    """
    order = np.flatnonzero(wrong)
    order = order[np.argsort(-counts[order] / of_class[order], kind="stable")]
    ordered, size = counts[order], of_class[order]
    # Counts that share a rate if 0, 1, ... mistakes have their own:
    rarer = np.maximum(ordered.sum() - np.append(0.0, ordered.cumsum()), 0)
    shared = rarer / np.maximum(places - np.append(0.0, size.cumsum()), 1e-9)
    gained = np.append(0.0, (ordered * np.log(np.maximum(ordered, 1e-300) / size)).cumsum())
    penalty = 0.5 * np.log(max(counts.sum(), 1.0)) * np.arange(len(gained))
    has_own_rate = np.zeros(len(counts), bool)
    has_own_rate[order[: int(np.argmax(gained + rarer * np.log(np.maximum(shared, 1e-300)) - penalty))]] = True
    return has_own_rate


def _pairs(candidates: Candidates) -> Labels:
    return candidates.classes * candidates.num_classes + candidates.classes[:, :1]


def _relative(values: Floats, top: Floats) -> Floats:
    """Return log(values / top), at least `_MIN_LOG`."""
    logs: Floats = np.maximum(np.log(np.maximum(values, 1e-300)) - np.log(np.maximum(top, 1e-300)), _MIN_LOG)
    return logs


def _blocks(rows: int, width: int) -> Iterator[slice]:
    """Yield slices of rows with about `_BLOCK` numbers each."""
    step = max(_BLOCK // max(width, 1), 1)
    for start in range(0, rows, step):
        yield slice(start, min(start + step, rows))
