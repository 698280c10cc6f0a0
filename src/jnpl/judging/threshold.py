"""The threshold on label quality: a fixed number, chance level, by noise rate, precision or budget, or fitted.

Where label quality is calibrated, the expected number of wrong labels among the k worst is the sum of 1 - quality. With
"auto" the number of issues is the median of three: the labels that are more likely wrong than right; the number with
the largest expected F1; and the labels to which the network itself gives a probability below 1/2 (NLNL's rule). The
first two are as good as the calibration is, the third does not need it: one of them may fail.

Where it is not, "auto" lies between two groups of qualities. The fit is EM for two normal distributions on the logits
of the qualities: most qualities lie near 0 and 1, and the logit spreads them out, so that wrong and right labels become
two groups. NLNL's 0.5 is used whenever the data do not clearly show two groups, as with few wrong labels and an unsure
network. `tests/judging/test_threshold.py` requires an F1 within 0.05 of the best possible one on draws from known
groups.
"""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError

Floats: TypeAlias = npt.NDArray[np.float64]

RULE = re.compile(r"(?P<rule>precision|budget)=(?P<value>\d*\.?\d+)")
DEFAULT_THRESHOLD = 0.5  # NLNL's, and the maximum: above it the given label is the prediction itself
_EDGE = 1e-3  # qualities are clipped to this distance from 0 and 1: their logits would be rounding errors
_BINS = 512  # EM runs on a histogram of the logits: its cost does not depend on the number of samples
_MIN_SAMPLES = 50
_MIN_MEMBERS = 10  # samples of a group; a smaller one is ignored
_MIN_SPREAD = 0.2  # standard deviation of a group in logits, so that equal values are no spike
_MIN_DISTANCE = 2.0  # Ashman's D: the density of two closer groups has one maximum
_MIN_GAP = 0.85  # between the means in logits: an even spread over a narrow range is not two groups
_ITERATIONS = 300


@dataclass(frozen=True)
class FittedThreshold:
    """A threshold on label quality, the reason for it, and the weight of the lower group if there are two."""

    value: float
    fitted: bool
    reason: str
    low_weight: float | None = None


def fit_threshold(quality: npt.ArrayLike) -> FittedThreshold:
    """Return the quality at which a label is equally likely in both groups, at most 0.5; 0.5 without two groups.

    Args:
        quality: (N,) qualities in 0..1; nan is left out.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> quality = np.concatenate([rng.beta(1, 30, 300), rng.beta(5, 3, 700)])  # 30 % wrong, an unsure network
        >>> cut = fit_threshold(quality)
        >>> cut.fitted, 0.1 < cut.value < 0.3, round(cut.low_weight, 1)
        (True, True, 0.3)
        >>> fit_threshold(rng.beta(30, 1, 1000)).reason
        'one group of qualities, not two: 0.5 stands'
    """
    values = np.asarray(quality, np.float64).ravel()
    values = values[~np.isnan(values)]
    if len(values) < _MIN_SAMPLES:
        return _default(f"{len(values)} samples are too few for a fit (at least {_MIN_SAMPLES})")
    clipped = np.clip(values, _EDGE, 1 - _EDGE)
    logits = np.log(clipped / (1 - clipped))
    if np.ptp(logits) < _MIN_SPREAD:
        return _default("all qualities are equal, or nearly")
    top = np.log((1 - _EDGE) / _EDGE)
    counts, edges = np.histogram(logits, bins=_BINS, range=(-top, top))
    return _between(*_em((edges[1:] + edges[:-1]) / 2, counts / counts.sum()), len(values))


def _between(weight: Floats, mean: Floats, spread: Floats, samples: int) -> FittedThreshold:
    """Return the threshold between two normal distributions; the default if they are not two clear groups."""
    distance = np.sqrt(2.0) * (mean[1] - mean[0]) / np.hypot(*spread)
    if distance < _MIN_DISTANCE or mean[1] - mean[0] < _MIN_GAP:
        return _default("one group of qualities, not two")
    if (members := weight.min() * samples) < _MIN_MEMBERS:
        return _default(f"a second group of {members:.0f} samples is too small")
    between = np.linspace(mean[0], mean[1], 2001)
    low, high = _densities(between, weight, mean, spread).T
    if not (low[0] > high[0] and low[-1] < high[-1]):
        return _default("one group of qualities lies inside the other")
    cut = float(1 / (1 + np.exp(-between[np.argmax(low <= high)])))
    if cut > DEFAULT_THRESHOLD:
        return _default(f"the two groups part at {cut:.3f}, where the given label is still the prediction")
    return FittedThreshold(cut, True, f"two groups of qualities part at {cut:.3f}", float(weight[0]))


def as_threshold(text: str) -> float | str:
    """Return a threshold as `resolve_threshold` takes it: a number, or the name of a rule.

    >>> as_threshold("0.3"), as_threshold("budget=20")
    (0.3, 'budget=20')
    """
    try:
        return float(text)
    except ValueError:
        return text


def resolve_threshold(
    threshold: float | str,
    quality: npt.ArrayLike,
    labels: npt.NDArray[np.int64],
    num_classes: int,
    *,
    calibrated: bool = False,
    unlikely: float | None = None,
) -> dict[str, Any]:
    """Return the threshold as a dict of rule, value and reason.

    Args:
        threshold: a number in (0, 1), "1/c" (chance level), "auto", "per-class" (fitted per class), "precision=P" or
            "budget=K".
        calibrated: whether the qualities are probabilities that the labels are right.
        unlikely: share of labels to which the network gives a probability below 1/2, if that is known.

    Returns:
        rule, value, reason; for "auto" without calibration also low_weight; for "per-class" also by_class, C numbers,
        of which `value` is the mean over the samples.

    Example:
        >>> resolve_threshold("1/c", [0.1, 0.9], np.array([0, 1]), num_classes=4)
        {'rule': '1/c', 'value': 0.25, 'reason': 'chance level of 4 classes'}
    """
    if threshold == "per-class":
        scores = np.asarray(quality, np.float64)
        cuts = [fit_threshold(scores[labels == label]) for label in range(num_classes)]
        values, counts = np.array([cut.value for cut in cuts]), np.bincount(labels, minlength=num_classes)
        fitted = sum(cut.fitted for cut in cuts)
        reason = f"one for each given class, {fitted} of {num_classes} fitted, {DEFAULT_THRESHOLD} for the others"
        mean = float(values @ counts / max(counts.sum(), 1)) if counts.any() else DEFAULT_THRESHOLD
        return {"rule": "per-class", "value": mean, "reason": reason, "by_class": values.tolist()}
    if isinstance(threshold, str) and (rule_match := RULE.fullmatch(threshold)):
        return _by_rule(rule_match["rule"], rule_match["value"], np.asarray(quality, np.float64), calibrated=calibrated)
    if threshold == "auto" and calibrated:
        return _by_probability(np.asarray(quality, np.float64), unlikely)
    if threshold == "auto":
        cut = fit_threshold(quality)
        return {"rule": "auto", "value": cut.value, "reason": cut.reason, "low_weight": cut.low_weight}
    if threshold == "1/c":
        return {"rule": "1/c", "value": 1 / num_classes, "reason": f"chance level of {num_classes} classes"}
    if isinstance(threshold, int | float | np.number) and 0 < threshold < 1:
        return {"rule": "fixed", "value": float(threshold), "reason": "given"}
    raise InputError(
        "threshold must be a number in (0, 1), 'auto', 'per-class', '1/c', 'precision=P' or 'budget=K', "
        f"not {threshold!r}"
    )


def _by_rule(rule: str, text: str, quality: Floats, *, calibrated: bool) -> dict[str, Any]:
    """Return the threshold of "precision=P" or "budget=K"."""
    number = float(text)
    ranked = np.sort(quality[~np.isnan(quality)])
    if rule == "budget":
        if number < 1 or number != int(number):
            raise InputError(f"a budget is a whole number of labels, at least 1, got {text}")
        count = min(int(number), len(ranked))
        return {"rule": "budget", "value": _above(ranked, count), "reason": f"the {count:,} labels of lowest quality"}
    if not 0 < number <= 1:
        raise InputError(f"a precision lies above 0 and at most at 1, got {text}")
    expected = np.cumsum(1 - ranked) / np.arange(1, len(ranked) + 1)  # falls
    count = int(np.count_nonzero(expected >= number - 1e-12))
    share = "the expected share of wrong ones" if calibrated else "the mean of 1 - quality"
    reason = f"as many labels as keep {share} at {number:g} or above"
    reason += "" if calibrated else "; quality is not calibrated here"
    return {"rule": "precision", "value": _above(ranked, count), "reason": reason}


def _by_probability(quality: Floats, unlikely: float | None) -> dict[str, Any]:
    """Return the threshold of "auto" for calibrated qualities: the median of three numbers of issues."""
    ranked = np.sort(quality[~np.isnan(quality)])
    if not len(ranked):
        return {"rule": "auto", "value": 0.0, "reason": "no label has a quality"}
    wrong = np.cumsum(1 - ranked)  # expected among the k worst
    best = int(np.argmax(2 * wrong / (np.arange(1, len(ranked) + 1) + wrong[-1]))) + 1
    counts = {
        "labels that are more likely wrong than right": int(np.count_nonzero(ranked < DEFAULT_THRESHOLD)),
        "as many labels as have the largest expected F1": best,
    }
    if unlikely is not None:
        counts["labels to which the network gives a probability below 1/2"] = round(unlikely * len(ranked))
    reason, count = sorted(counts.items(), key=lambda item: item[1])[(len(counts) - 1) // 2]
    return {"rule": "auto", "value": _above(ranked, count), "reason": reason}


def _above(ranked: Floats, count: int) -> float:
    """Return a value with `count` of the rising qualities strictly below it; more if others are equal to the last."""
    if count <= 0 or not len(ranked):
        return 0.0
    if count >= len(ranked):
        return float(min(np.nextafter(ranked[-1], 2), 1.0))
    return float(ranked[count]) if ranked[count] > ranked[count - 1] else float(np.nextafter(ranked[count - 1], 2))


def _default(reason: str) -> FittedThreshold:
    return FittedThreshold(DEFAULT_THRESHOLD, False, f"{reason}: {DEFAULT_THRESHOLD} stands")


def _densities(x: Floats, weight: Floats, mean: Floats, spread: Floats) -> Floats:
    """Return the (M, 2) weighted densities of two normal distributions at (M,) points, up to a common factor."""
    scaled = (x[:, None] - mean) / spread
    density: Floats = weight / spread * np.exp(-(scaled**2) / 2)
    return density


def _em(x: Floats, share: Floats) -> tuple[Floats, Floats, Floats]:
    """Return weights, means and spreads (2,) of two groups, the lower first, from (M,) bin centres and shares."""
    resp = (np.arange(len(x))[:, None] >= _split(x, share)) == np.array([False, True])  # (M, 2)
    weight = mean = spread = np.zeros(2)
    for _ in range(_ITERATIONS):
        members = resp * share[:, None]
        old, weight = mean, np.maximum(members.sum(axis=0), 1e-12)
        mean = (members * x[:, None]).sum(axis=0) / weight
        variance = (members * (x[:, None] - mean) ** 2).sum(axis=0) / weight
        spread = np.sqrt(np.maximum(variance, _MIN_SPREAD**2))
        if np.abs(mean - old).max() < 1e-6:
            break
        density = _densities(x, weight, mean, spread) + 1e-300  # far from both groups: no 0 / 0
        resp = density / density.sum(axis=1, keepdims=True)
    order = np.argsort(mean)
    return weight[order], mean[order], spread[order]


def _split(x: Floats, share: Floats) -> int:
    """Return the bin at which a cut leaves the least variance inside the two parts (Otsu), the start of EM."""
    left, below = np.cumsum(share)[:-1], np.cumsum(share * x)[:-1]
    both = (left > 0) & (left < 1 - 1e-12)
    between = np.zeros_like(left)
    between[both] = ((share @ x) * left - below)[both] ** 2 / (left * (1 - left))[both]
    return int(between.argmax()) + 1
