"""An audit: labels drawn at random and checked by a person -> the noise rate with an exact interval. No torch.

The sample is stratified: the labels are cut in two by their quality, and each part gives its share of the sample, in
random order, so that the first k are a sample too. The rate is the weighted mean of the parts' shares of wrong labels,
unbiased whatever the qualities are worth. The 90 % interval adds up the parts' confidence distributions, those of
Clopper and Pearson (1934), as melded intervals do (Fay, Proschan and Brittain 2015): its ends are quantiles of

    sum_h W_h Beta(w_h, n_h - w_h + 1)      and      sum_h W_h Beta(w_h + 1, n_h - w_h).

With one part it is the interval of Clopper and Pearson. `tests/judging/test_audit.py` computes its coverage exactly,
over all outcomes: at least 0.91 for every pair of shares tried. Labels that the person could not judge count as right
for the lower end and as wrong for the upper one.

The answers also recalibrate the qualities, whose order stays: P(wrong) = sigmoid(a + b log((1 - q) / q)), where b
follows the answers and a the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError
from jnpl.judging.noise_model import NoiseEstimate

if TYPE_CHECKING:
    from jnpl.judging.findings import Findings

Floats: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = npt.NDArray[np.int64]

RIGHT, WRONG, UNSURE, OPEN = 0, 1, 2, -1  # answers
WRONG_LABEL, UNSURE_LABEL = -1, -2  # in place of the right label: wrong, without a better one; unsure
_QUANTILES = 200  # of a part's confidence distribution
_TAIL = 0.05
_MAX_LOGIT = 25.0  # of a quality
_PRIOR_SLOPE, _PRIOR_DEVIATION = 1.0, np.array([3.0, 0.5])  # of a and b


class AuditSample(NamedTuple):
    """Labels to check, in order.

    positions: (n,) of the samples; part: (n,) number of the part that each was drawn from; sizes: (H,) of the parts.
    """

    positions: Labels
    part: Labels
    sizes: Labels


class AuditedRate(NamedTuple):
    """A noise rate from answers: the estimate, its 90 % interval, and how many labels were checked, wrong, unsure."""

    rate: float
    low: float
    high: float
    checked: int
    wrong: int
    unsure: int


def draw(quality: Floats, count: int, seed: int = 0) -> AuditSample:
    """Return a stratified random sample of the `population` of labels; a smaller one is its beginning.

    >>> quality = np.repeat([0.1, 0.9], [20, 80])
    >>> sample = draw(quality, 10)
    >>> sample.sizes.tolist(), np.bincount(sample.part).tolist(), (quality[sample.positions] > 0.5).sum().item()
    ([20, 80], [2, 8], 8)
    >>> draw(quality, 5).positions.tolist() == sample.positions[:5].tolist()
    True
    """
    if count < 1:
        raise InputError(f"an audit needs at least one label to check, got {count}")
    scored = population(quality)
    rng = np.random.default_rng([seed, 0xA0D17])
    low = quality[scored] < _cut(quality[scored])
    parts = [part for part in (scored[low], scored[~low]) if len(part)]
    keys = [(np.arange(len(part)) + rng.random()) / len(part) for part in parts]  # shares keep pace with each other
    shuffled, part_of = (
        np.concatenate([rng.permutation(part) for part in parts]),
        np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
    )
    order = np.argsort(np.concatenate(keys), kind="stable")[:count]
    return AuditSample(shuffled[order], part_of[order], np.array([len(part) for part in parts]))


def population(quality: Floats) -> Labels:
    """Return the positions of the labels that the noise rate counts: those with a quality (N,), or all if none has."""
    scored = np.flatnonzero(~np.isnan(quality))
    return scored if len(scored) else np.arange(len(quality))


def estimate(sample: AuditSample, answers: npt.NDArray[np.integer]) -> AuditedRate:
    """Return the noise rate by the answers (n,) to a sample: RIGHT, WRONG, UNSURE or OPEN.

    >>> sample = AuditSample(np.arange(50), np.zeros(50, int), np.array([5000]))
    >>> result = estimate(sample, np.repeat([WRONG, RIGHT], [10, 40]))
    >>> result.rate, round(result.low, 3), round(result.high, 3)  # as Clopper-Pearson
    (0.2, 0.113, 0.316)
    """
    wrong, unsure, right = (
        np.bincount(sample.part[answers == what], minlength=len(sample.sizes)) for what in (1, 2, 0)
    )
    judged = right + wrong
    if (judged == 0).any():  # a part without an answer: the sample is too small to be judged apart
        wrong, unsure, judged, sizes = (counts.sum(keepdims=True) for counts in (wrong, unsure, judged, sample.sizes))
    else:
        sizes = sample.sizes
    if not judged.sum():
        raise InputError("no label was checked yet")
    low, high = _interval(sizes, judged + unsure, wrong, unsure)
    rate = float((sizes / sizes.sum()) @ (wrong / judged))
    counts = (int(count.sum()) for count in (judged, wrong, unsure))
    return AuditedRate(rate, min(low, rate), max(high, rate), *counts)


def of_all(rate: AuditedRate, sample: AuditSample, findings: Findings) -> AuditedRate:
    """Return the rate over all labels with a quality: those decided before are known, and are not drawn."""
    scored = max(int(np.count_nonzero(~np.isnan(findings.label_quality))), int(sample.sizes.sum()))
    decided_wrong = np.count_nonzero(findings.is_certain & (findings.label_quality == 0)) / scored
    share = float(sample.sizes.sum()) / scored
    whole, low, high = (float(decided_wrong + share * bound) for bound in rate[:3])
    return rate._replace(rate=whole, low=low, high=high)


def more_to_halve(sample: AuditSample, answers: npt.NDArray[np.integer]) -> int | None:
    """Return how many more checks would make the interval about half as wide; None if all labels are not enough."""
    now = estimate(sample, answers)
    sizes = sample.sizes.sum(keepdims=True)
    total = now.checked + now.unsure

    def width(checks: float) -> float:
        low, high = _interval(sizes, *(np.array([count * checks / total]) for count in (total, now.wrong, now.unsure)))
        return high - low

    most, target = int(sizes[0]), width(total) / 2
    if width(most) > target:
        return None
    low, high = total, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if width(middle) > target else (low, middle)
    return high - total


def _interval(
    sizes: Labels, checked: npt.NDArray[np.number], wrong: npt.NDArray[np.number], unsure: npt.NDArray[np.number]
) -> tuple[float, float]:
    """Return the ends of the interval from the counts (H,) of the parts."""
    from scipy.stats import beta  # noqa: PLC0415 - slow to import

    levels, low, high = (np.arange(_QUANTILES) + 0.5) / _QUANTILES, np.zeros(1), np.zeros(1)
    for weight, size, n, least, doubtful in zip(sizes / sizes.sum(), sizes, checked, wrong, unsure, strict=True):
        most = least + doubtful
        below: Floats = beta.ppf(levels, least, n - least + 1) if least else np.zeros(1)
        above: Floats = beta.ppf(levels, most + 1, n - most) if most < n else np.ones(1)
        if n >= size:  # nothing is left to chance
            below, above = np.array([least / n]), np.array([most / n])
        low = (low[:, None] + weight * below).ravel()
        high = (high[:, None] + weight * above).ravel()
    return float(np.quantile(low, _TAIL, method="hazen")), float(np.quantile(high, 1 - _TAIL, method="hazen"))


def _cut(quality: Floats) -> float:
    """Return the quality that parts the labels (N,) so that quality differs least within the parts (Otsu)."""
    ranked = np.sort(quality)
    count = np.arange(1, len(ranked))
    sums = np.cumsum(ranked)
    below, above = sums[:-1] / count, (sums[-1] - sums[:-1]) / (len(ranked) - count)
    between = np.where(np.diff(ranked) > 0, count * (len(ranked) - count) * (above - below) ** 2, -1.0)
    return float(ranked[1:][between.argmax()]) if len(between) and between.max() > 0 else -np.inf


def audited(findings: Findings, sample: AuditSample, labels: Mapping[int, int]) -> Findings:
    """Return findings with the noise rate, and qualities recalibrated, by the checks of a person: position -> right
    label, WRONG_LABEL or UNSURE_LABEL.

    A label that the person has named is decided; one that is only known to be wrong stays an issue.
    """
    answers = answers_of(findings, sample, labels)
    result = of_all(estimate(sample, answers), sample, findings)
    checked = answers != OPEN
    at, answer_at = sample.positions[checked], answers[checked]
    doubt = np.nan_to_num(logits(findings.label_quality, _MAX_LOGIT))
    sure_doubt = doubt[at[answer_at != UNSURE]]
    _, slope = fit_logistic(
        np.stack([np.ones_like(sure_doubt), sure_doubt], axis=1),
        (answer_at[answer_at != UNSURE] == WRONG).astype(np.float64),
        np.array([0.0, _PRIOR_SLOPE]),
        _PRIOR_DEVIATION,
    )[0]
    quality = findings.label_quality.copy()
    quality[at[answer_at == RIGHT]], quality[at[answer_at == WRONG]] = 1.0, 0.0
    rest = ~np.isnan(quality) & ~findings.is_certain
    rest[at[answer_at != UNSURE]] = False
    left = result.rate * np.count_nonzero(~np.isnan(quality)) - np.nansum(1 - quality[~rest])
    doubt = max(float(slope), 0.0) * doubt
    quality[rest] = 1 - sigmoid(intercept(doubt[rest], left) + doubt[rest])
    stays, suggested = findings.suggested_labels == findings.given_labels, findings.suggested_labels.copy()
    share = findings.suggested_confidence / np.maximum(1 - findings.label_quality, 1e-9)  # other classes keep theirs
    confidence = np.where(stays, quality, (1 - quality) * np.clip(share, 0, 1))
    named = np.array([position for position in at.tolist() if labels[position] >= 0], np.int64)
    suggested[named], confidence[named] = [labels[position] for position in named.tolist()], 1.0
    decided = findings.is_decided.copy()
    decided[at[answer_at == WRONG]] = False
    decided[named] = True
    before = findings.noise or NoiseEstimate(0.0, 0.0, 1.0, 0.0)
    noise = before._replace(rate=result.rate, low=result.low, high=result.high, caveat=None, checked=result.checked)
    changed = replace(
        findings,
        label_quality=quality,
        suggested_labels=suggested,
        suggested_confidence=confidence,
        noise=noise,
        decided=decided,
    )
    info = findings.threshold_info
    rule = info["rule"] if info["rule"] in ("auto", "per-class", "1/c") else info.get("asked", info["value"])
    return changed.with_threshold(rule)


def answers_of(findings: Findings, sample: AuditSample, labels: Mapping[int, int]) -> npt.NDArray[np.int8]:
    """Return the answers (n,) that right labels by position mean for a sample."""
    given = findings.given_labels
    answers = np.full(len(sample.positions), OPEN, np.int8)
    for row, position in enumerate(sample.positions.tolist()):
        if (label := labels.get(position)) is not None:
            answers[row] = UNSURE if label == UNSURE_LABEL else RIGHT if label == given[position] else WRONG
    return answers


# The logistic model of wrong labels, which the estimates of a review use as well.


def fit_logistic(design: Floats, wrong: Floats, middle: Floats, deviation: Floats) -> tuple[Floats, Floats]:
    """Return mean (K,) and covariance (K, K) of the posterior of w in P(wrong) = sigmoid(design (M, K) w), by Newton's
    method. The prior is normal."""
    prior, at = np.diag(1 / deviation**2), middle.copy()
    for _ in range(50):
        p = sigmoid(design @ at)
        gradient = design.T @ (wrong - p) - prior @ (at - middle)
        hessian = design.T @ (design * (p * (1 - p))[:, None]) + prior
        step = np.linalg.solve(hessian, gradient)
        at = at + np.clip(step, -1, 1)
        if np.abs(step).max() < 1e-8:
            break
    return at, np.linalg.inv(hessian).astype(np.float64)


def intercept(doubt: Floats, total: float) -> float:
    """Return the a at which `total` of the labels are expected to be wrong, by doubts b log((1 - q) / q) (N,).

    >>> round(intercept(np.zeros(4), total=2), 6)
    0.0
    """
    low, high = -100.0, 100.0  # a total of 0 is met to within rounding
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if sigmoid(middle + doubt).sum() > total else (middle, high)
    return (low + high) / 2


def logits(qualities: npt.NDArray[np.floating], most: float) -> Floats:
    """log((1 - q) / q), at most `most` and at least its negative: (M,) -> (M,)."""
    q = np.clip(qualities.astype(np.float64), 1e-12, 1 - 1e-12)
    clipped: Floats = np.clip(np.log1p(-q) - np.log(q), -most, most)
    return clipped


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(-x)), element by element."""
    return 1 / (1 + np.exp(-x))
