"""A model of given tags: which are missing, which are extra, and which a network is merely unsure of.

For every tag t and sample x, from the logit z of a network that has not seen the sample's tags:

    p(t | x) = (1 - w) sigmoid(a z + b_t) + w sigmoid(0.4 a z + b_t)          the true tag, as sure as the data allow
    P(given | x) = p (1 - m_t) + (1 - p) e_t                                  the given tag

m_t is the probability that a true tag is missing, e_t that an absent one is given. What tells noise from overlap is the
shape: where the network is surest, overlap ends, and noise does not. The second sigmoid is there because overlap ends
slowly. All tags share m and e. A tag has rates of its own only where these raise the likelihood by more than two more
parameters cost (BIC, Schwarz 1978). Where overlap is large the rates can hardly be told from it, least of all that of
extra tags: a prior says that about 4 % of the given tags are extra. The 90 % intervals are the spread of fits to
resampled samples with other w and other priors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.judging.noise_model import Interval, monotone
from jnpl.judging.tag_findings import TagNoise
from jnpl.models.tag_head import SOFT_SLOPE

if TYPE_CHECKING:
    from collections.abc import Callable

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_SOFT_SHARE = 0.2  # w; it and the slope of the second sigmoid are chosen on seed 0 of docs/tags.md
_EXTRA_SHARE, _MISSING_RATE = 0.04, 0.15  # the means of the priors on the rates, ...
_EXTRA_PRECISION, _MISSING_PRECISION = 4.0, 1.0  # ... 1 / variance of their logits, ...
_BIAS_PRECISION = 0.3  # ... and of the biases
_SHARED, _OF_A_TAG = 1e-2, 1.0  # variance of the logits of a tag's rates around the common ones, or of its own
_COST = 3.0  # of own rates, in units of the logarithm of the samples: 1 is BIC, which takes the model for exact
_ROUNDS, _TOLERANCE, _FARTHEST = 60, 0.02, 2.0
_MOST_PAIRS, _RESAMPLED_PAIRS = 2_000_000, 200_000  # that the model, and those for the interval, are fitted to
# (w, mean share of extra tags) of the fits for the interval
_VARIANTS = ((0.0, 0.04), (0.1, 0.04), (0.2, 0.02), (0.2, 0.08), (0.3, 0.04), (0.3, 0.02), (0.1, 0.08), (0.2, 0.04))
_NORMAL_90 = 1.645
_SMALLEST = 1e-6
# In the order of the given tags, the weight of the logit of the head that has seen them; chosen on the texts of
# benchmarks/tags.py, seed 0.
_SEEN_SHARE = 0.25
_BLOCK = 1 << 21  # pairs that are worked on at once


@dataclass(frozen=True, eq=False)
class TagModel:
    """The fitted parameters; `bias`, `missing` and `extra` are those of the T tags."""

    scale: float
    bias: Floats
    missing: Floats
    extra: Floats
    soft_share: float

    def true_probs(self, logits: npt.NDArray[np.floating]) -> Floats:
        """Return the probability of each true tag (N, T)."""
        scaled = self.scale * logits
        soft = self.soft_share * _sigmoid(SOFT_SLOPE * scaled + self.bias)
        return (1 - self.soft_share) * _sigmoid(scaled + self.bias) + soft

    def given_true(self, probs: Floats, given: Mask) -> Floats:
        """Return the probability (N, T) of each true tag, where it is also known whether it is given."""
        likely = self.extra + (1 - self.missing - self.extra) * probs
        return probs * np.where(given, (1 - self.missing) / likely, self.missing / (1 - likely))


class JudgedTags(NamedTuple):
    """Quality of the given tags (N, T), the noise rates, and the probability of each true tag (N, T) without them."""

    quality: Floats
    noise: TagNoise
    probs: Floats
    model: TagModel


def judge_probs(
    seen: npt.NDArray[np.floating],
    unseen: npt.NDArray[np.floating],
    given: Mask,
    *,
    seed: int = 0,
    progress: Callable[[float], None] = lambda _: None,
) -> JudgedTags:
    """Return the calibrated quality of every pair of N samples and T tags, and the rates of missing and extra tags.

    `unseen` decides how far a tag is believed, `seen` the order of the absent tags, and mostly `unseen` that of the
    given ones: a head that was trained on an extra tag has come to believe it in part.

    Args:
        seen: (N, T) probabilities by a head that was trained on these tags.
        unseen: (N, T) probabilities by heads that have not seen the sample.
        given: (N, T) whether a sample has a tag.
        seed: of the resampling.
        progress: called with the share done, 0..1; what it raises stops the work.
    """
    rng = np.random.default_rng(seed)
    rows, most = np.arange(len(given)), max(_MOST_PAIRS // given.shape[1], 1)
    rows = rows if len(rows) <= most else np.sort(rng.choice(len(rows), most, replace=False))
    model = fit(_logits(unseen[rows]), given[rows])
    progress(0.5)
    probs, calibrated, order = (np.empty(given.shape) for _ in range(3))
    for start in range(0, len(given), step := max(_BLOCK // given.shape[1], 1)):
        part = slice(start, start + step)
        y = given[part]
        probs[part] = model.true_probs(_logits(unseen[part]))
        calibrated[part] = _of_given(model.given_true(probs[part], y), y)
        z = _logits(seen[part])
        z = np.where(y, _SEEN_SHARE * z + (1 - _SEEN_SHARE) * _logits(unseen[part]), z)
        order[part] = _of_given(model.given_true(model.true_probs(z), y), y)
    quality = np.empty_like(order)
    for side in (given, ~given):
        quality[side] = monotone(order[side], calibrated[side])
    rates, spread = _rates(calibrated, given), []
    for number, (soft_share, extra_share) in enumerate(_VARIANTS):
        chosen = rng.choice(len(given), max(min(len(given), _RESAMPLED_PAIRS // given.shape[1]), 1))
        y, z = given[chosen], _logits(unseen[chosen])
        other = fit(z, y, soft_share=soft_share, extra_share=extra_share, start=model)
        spread.append(_rates(_of_given(other.given_true(other.true_probs(z), y), y), y))
        progress(0.5 + 0.5 * (number + 1) / len(_VARIANTS))
    return JudgedTags(quality, _noise(rates, np.array(spread)), probs, model)


def fit(
    logits: npt.NDArray[np.floating],
    given: Mask,
    *,
    soft_share: float = _SOFT_SHARE,
    extra_share: float = _EXTRA_SHARE,
    start: TagModel | None = None,
) -> TagModel:
    """Return the likeliest model of given tags (N, T), with rates of their own for tags that need them.

    Args:
        logits: (N, T) of a network that has not seen these tags.
        given: (N, T) whether a sample has a tag.
        soft_share: w.
        extra_share: mean of the prior on the share of extra tags among the given ones.
        start: which tags have rates of their own is taken from this model; None: the likelihood decides.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> true = rng.random((4000, 2)) < 0.5
        >>> given = true & (rng.random(true.shape) < 0.8)
        >>> model = fit(np.where(true, 4.0, -4.0) + rng.normal(size=true.shape), given)
        >>> bool(abs(model.missing - 0.2).max() < 0.03), bool(model.extra.max() < 0.02)
        (True, True)
    """
    tags = given.shape[1]
    problem = _Problem(logits, given, soft_share, extra_share)
    if start is not None:
        common = np.median(start.missing), np.median(start.extra)
        deviates = (start.missing != common[0]) | (start.extra != common[1])
        return problem.solve(np.where(deviates, _OF_A_TAG, _SHARED))[0]
    shared, likelihood = problem.solve(np.full(tags, _SHARED))
    if tags == 1:
        return shared
    of_free = problem.solve(np.full(tags, _OF_A_TAG))[1]
    deviates = of_free - likelihood > _COST * np.log(max(len(given), 2))
    return problem.solve(np.where(deviates, _OF_A_TAG, _SHARED))[0] if deviates.any() else shared


class _Point(NamedTuple):
    """All parameters: scale, common logits of m and e, and (T, 3) bias, logit of m and logit of e of each tag."""

    scale: float
    common: Floats  # (2,)
    of_tags: Floats  # (T, 3)

    def moved(self, step: float, of_common: Floats, of_tags: Floats) -> _Point:
        scale = float(np.clip(self.scale + step * of_common[0], 0.05, 20.0))
        return _Point(scale, self.common + step * of_common[1:], self.of_tags + step * of_tags)


class _Problem:
    """The likelihood of given tags, with the priors, and Newton's method with Fisher's information for its maximum."""

    def __init__(self, logits: npt.NDArray[np.floating], given: Mask, soft_share: float, extra_share: float) -> None:
        self.logits, self.given, self.soft_share = np.asarray(logits, np.float64), given, soft_share
        count, absent = max(int(given.sum()), 1), max(given.size - int(given.sum()), 1)
        extra = np.clip(extra_share * count / absent, 1e-5, 0.3)
        self.prior = np.array([_log_odds(_MISSING_RATE), _log_odds(extra)])
        self.precision = np.array([_MISSING_PRECISION, _EXTRA_PRECISION])

    def solve(self, variance: Floats) -> tuple[TagModel, Floats]:
        """Return the best model and the log-likelihood of each tag (T,); `variance` is that of the tags' rates."""
        tags = self.given.shape[1]
        point = _Point(0.8, self.prior.copy(), np.column_stack([np.zeros(tags), np.tile(self.prior, (tags, 1))]))
        reached = self._value(point, variance)
        for _ in range(_ROUNDS):
            of_common, of_tags = self._direction(point, variance)
            farthest = max(np.abs(of_common).max(), np.abs(of_tags).max(), 1e-12)
            step, better = min(1.0, _FARTHEST / farthest), reached
            while step > 1e-3:
                other = point.moved(step, of_common, of_tags)
                if (better := self._value(other, variance)) >= reached:
                    break
                step /= 2
            if step <= 1e-3:
                break
            point, gain, reached = other, better - reached, better
            if gain < _TOLERANCE:
                break
        return self._model(point), self._likelihoods(point)

    def _model(self, point: _Point) -> TagModel:
        bias, missing, extra = point.of_tags.T
        return TagModel(point.scale, bias, _sigmoid(missing), _sigmoid(extra), self.soft_share)

    def _likelihoods(self, point: _Point) -> Floats:
        model = self._model(point)
        likely = model.extra + (1 - model.missing - model.extra) * model.true_probs(self.logits)
        logs: Floats = np.log(np.clip(np.where(self.given, likely, 1 - likely), 1e-12, 1)).sum(0)
        return logs

    def _value(self, point: _Point, variance: Floats) -> float:
        around = ((point.of_tags[:, 1:] - point.common) ** 2).sum(1) / variance
        prior = _BIAS_PRECISION * (point.of_tags[:, 0] ** 2).sum() + around.sum()
        prior += (self.precision * (point.common - self.prior) ** 2).sum()
        return float(self._likelihoods(point).sum() - prior / 2)

    def _direction(self, point: _Point, variance: Floats) -> tuple[Floats, Floats]:
        """Return the step of scale and common logits (3,) and of the tags' parameters (T, 3).

        The tags share only the three common parameters, so that these are eliminated by a Schur complement.
        """
        model, z = self._model(point), self.logits
        first = _sigmoid(model.scale * z + model.bias)
        second = _sigmoid(SOFT_SLOPE * model.scale * z + model.bias)
        w, left = model.soft_share, 1 - model.missing - model.extra
        p = (1 - w) * first + w * second
        likely = np.clip(model.extra + left * p, 1e-9, 1 - 1e-9)
        sharp, soft = (1 - w) * first * (1 - first), w * second * (1 - second)
        slope = np.where(self.given, 1 / likely, -1 / (1 - likely))
        curve = 1 / (likely * (1 - likely))
        by_scale = left * z * (sharp + SOFT_SLOPE * soft)
        by_tag = (
            left * (sharp + soft),
            -model.missing * (1 - model.missing) * p,
            model.extra * (1 - model.extra) * (1 - p),
        )
        tags = self.given.shape[1]
        tight = np.zeros((tags, 3, 3))
        tight[:, 1, 1] = tight[:, 2, 2] = 1 / variance
        around = (point.of_tags[:, 1:] - point.common) / variance[:, None]
        gradient = np.stack([(slope * part).sum(0) for part in by_tag], axis=1)
        gradient -= np.column_stack([_BIAS_PRECISION * point.of_tags[:, 0], around])
        inner = np.stack([[(curve * a * b).sum(0) for b in by_tag] for a in by_tag]).transpose(2, 0, 1) + tight
        inner[:, 0, 0] += _BIAS_PRECISION
        border = -tight
        border[:, :, 0] = np.stack([(curve * by_scale * part).sum(0) for part in by_tag], axis=1)
        outer = np.diag([(curve * by_scale**2).sum() + 1e-9, *(self.precision + (1 / variance).sum())])
        of_outer = np.append((slope * by_scale).sum(), around.sum(0) - self.precision * (point.common - self.prior))
        solved, right = np.linalg.solve(inner, border), np.linalg.solve(inner, gradient[:, :, None])[:, :, 0]
        reduced = outer - np.einsum("tij,tik->jk", border, solved)
        of_common: Floats = np.linalg.solve(reduced, of_outer - np.einsum("tij,ti->j", border, right))
        return of_common, right - solved @ of_common


def best_thresholds(probs: Floats) -> Floats:
    """Return the probability (T,) from which a tag is predicted, so that its F1 is expected to be the highest.

    With calibrated probabilities (N, T) the expected number of true tags among the predicted ones is their sum.

    >>> best_thresholds(np.array([[0.9], [0.8], [0.3], [0.0]])).tolist()
    [0.8]
    """
    ranked = -np.sort(-probs, axis=0)
    right = ranked.cumsum(0)
    f1 = 2 * right / (ranked.sum(0) + np.arange(1, len(ranked) + 1)[:, None])
    thresholds: Floats = np.take_along_axis(ranked, f1.argmax(0)[None, :], 0)[0]
    return thresholds


def _rates(quality: Floats, given: Mask) -> Floats:
    """Return the shares of true tags that are missing and of given tags that are extra: (2, 1 + T), of all first."""
    wrong = 1 - quality
    missing, extra = np.where(given, 0.0, wrong).sum(0), np.where(given, wrong, 0.0).sum(0)
    count = given.sum(0)
    true = count - extra + missing
    pairs = ((missing, true), (extra, count))
    rates: Floats = np.array([[a.sum() / max(b.sum(), 1e-9), *(a / np.maximum(b, 1e-9))] for a, b in pairs])
    return rates


def _noise(rates: Floats, others: Floats) -> TagNoise:
    """Return rates with 90 % intervals: `others` (V, 2, 1 + T) are those of the other fits."""
    margin = _NORMAL_90 * np.sqrt(np.mean((others - rates) ** 2, axis=0))
    low, high = np.clip(rates - margin, 0, 1), np.clip(rates + margin, 0, 1)
    whole = np.stack([np.clip(rates, 0, 1), low, high], axis=2)  # (2, 1 + T, 3)
    missing, extra = (Interval(*kind[0].tolist()) for kind in whole)
    return TagNoise(missing, extra, whole[0, 1:], whole[1, 1:])


def _of_given(true: Floats, given: Mask) -> Floats:
    """Return the probability that a pair is as given, from that of the true tag."""
    quality: Floats = np.where(given, true, 1 - true)
    return quality


def _sigmoid(values: Floats) -> Floats:
    result: Floats = 1 / (1 + np.exp(-np.clip(values, -40, 40)))
    return result


def _log_odds(share: float) -> float:
    return float(np.log(share / (1 - share)))


def _logits(probs: npt.NDArray[np.floating]) -> Floats:
    clipped = np.clip(probs, _SMALLEST, 1 - _SMALLEST, dtype=np.float64)
    logits: Floats = np.log(clipped / (1 - clipped))
    return logits
