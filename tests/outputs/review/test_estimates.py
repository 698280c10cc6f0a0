"""Precision and the number of wrong labels that are left."""

import math

import numpy as np
import pytest

from jnpl.judging.audit import intercept, logits
from jnpl.outputs.review.estimates import Corrected, Prior, precision, prior


def wrong_left(qualities, wrong, undecided, start=Prior()):  # noqa: B008 - a tuple
    return Corrected.by_decisions(qualities, wrong, start).left(undecided)


def test_precision_is_a_share_with_wilsons_interval():
    assert precision(0, 0) is None
    found = precision(30, 40)
    z, p, n = 1.6449, 0.75, 40
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert found == pytest.approx((0.75, (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)))
    assert precision(10, 10).high == 1.0
    assert precision(10, 10).low > 0.7


def reviewed(seed, decided, shift=0.0, samples=3000):
    """Qualities of samples whose labels are wrong with sigmoid(shift + logit), the worst `decided` of them known."""
    random = np.random.default_rng(seed)
    quality = np.where(random.random(samples) < 0.2, random.beta(1, 4, samples), random.beta(8, 1, samples))
    chance = 1 / (1 + np.exp(-(shift + np.log((1 - quality) / quality))))
    wrong = random.random(samples) < chance
    order = np.argsort(quality)
    known, rest = order[:decided], order[decided:]
    return quality, wrong, known, rest


@pytest.mark.parametrize("shift", [-1.0, 0.0, 1.0])
def test_the_interval_holds_the_truth(shift):
    inside, random = 0, np.random.default_rng(1)
    for seed in range(40):
        quality, wrong, known, rest = reviewed(seed, 400, shift)
        start = prior(quality, wrong.sum() * random.uniform(0.7, 1.4))  # the run's estimate is not exact
        found = wrong_left(quality[known], wrong[known], quality[rest], start)
        assert found.low <= found.value <= found.high
        inside += found.low <= wrong[rest].sum() <= found.high
    assert inside >= 32  # 36 expected


def test_without_decisions_the_estimate_is_that_of_the_run():
    quality, *_ = reviewed(0, 0)
    start = prior(quality, total=500, most=650)
    none = np.empty(0)
    found = wrong_left(none, none.astype(bool), quality, start)
    assert found.value == pytest.approx(500, rel=1e-6)
    doubt = logits(quality, 7.0)
    assert start.deviation == pytest.approx((intercept(doubt, 650) - intercept(doubt, 500)) / 1.6449)
    assert 600 < found.high < 720
    assert found.low < 430


def test_decisions_narrow_the_interval():
    widths = []
    for decided in (0, 200, 800):
        quality, wrong, known, rest = reviewed(0, decided)
        found = wrong_left(quality[known], wrong[known], quality[rest])
        widths.append(found.high - found.low)
    assert widths[0] > widths[1] > widths[2]


def test_nothing_is_left_of_nothing():
    assert wrong_left(np.array([0.1]), np.array([True]), np.array([np.nan])) == (0.0, 0.0, 0.0)
