"""The automatic cut: near the best one where there are two groups, 0.5 where there are not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from jnpl.internal.errors import InputError
from jnpl.judging.threshold import FittedThreshold, fit_threshold, resolve_threshold


def two_groups(rate, wrong, right, size=2000, seed=0):
    rng = np.random.default_rng(seed)
    noisy = np.arange(size) < round(rate * size)
    return np.where(noisy, rng.beta(*wrong, size), rng.beta(*right, size)), noisy


def f1(issue, noisy):
    return 2 * (issue & noisy).sum() / (issue.sum() + noisy.sum())


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.4, 0.6, 0.8])
@pytest.mark.parametrize(
    ("wrong", "right"),
    [((1, 15), (12, 3)), ((1, 80), (3, 6)), ((2, 30), (4, 4))],
    ids=["sure", "hundred classes", "unsure"],
)
def test_two_groups_are_cut_nearly_as_well_as_anybody_could(rate, wrong, right):
    quality, noisy = two_groups(rate, wrong, right)
    cut = fit_threshold(quality)
    assert cut.fitted, cut.reason
    assert cut.reason == f"two groups of qualities part at {cut.value:.3f}"
    best = max(f1(quality < value, noisy) for value in np.linspace(0.01, 0.99, 99))
    assert f1(quality < cut.value, noisy) > best - 0.05
    assert cut.low_weight == pytest.approx(rate, abs=0.04)


@pytest.mark.parametrize("right", [(30, 1), (8, 1), (200, 1), (20, 4), (5, 2)])
def test_without_noise_few_labels_are_flagged(right):
    quality, _ = two_groups(0, (1, 15), right)
    assert (quality < fit_threshold(quality).value).mean() <= (quality < 0.5).mean()


@pytest.mark.parametrize(
    ("quality", "reason"),
    [
        ([], "0 samples are too few for a fit (at least 50): 0.5 stands"),
        ([0.1] * 20 + [0.9] * 29, "49 samples are too few for a fit (at least 50): 0.5 stands"),
        ([0.3] * 100, "all qualities are equal, or nearly: 0.5 stands"),
        ([1.0] * 100, "all qualities are equal, or nearly: 0.5 stands"),
        ([0.0] * 100, "all qualities are equal, or nearly: 0.5 stands"),
        ([np.nan] * 100, "0 samples are too few for a fit (at least 50): 0.5 stands"),
        (np.linspace(0.1, 0.3, 500), "one group of qualities, not two: 0.5 stands"),
        (np.linspace(0.01, 0.99, 500), "one group of qualities, not two: 0.5 stands"),
        ([0.01] * 5 + [0.9] * 500, "a second group of 5 samples is too small: 0.5 stands"),
        (
            [0.7] * 300 + [0.99] * 300,
            "the two groups part at 0.938, where the given label is still the prediction: 0.5 stands",
        ),
    ],
)
def test_half_stands_when_the_fit_means_nothing(quality, reason):
    assert fit_threshold(quality) == FittedThreshold(0.5, False, reason)


@given(arrays(np.float64, st.integers(0, 300), elements=st.floats(0, 1)))
@settings(max_examples=100, deadline=None)
def test_any_qualities_give_a_cut_of_at_most_one_half(quality):
    cut = fit_threshold(quality)
    assert 0 < cut.value <= 0.5
    assert cut.fitted or cut.value == 0.5
    assert (cut.low_weight is not None) == cut.fitted


def test_the_rules():
    quality, _ = two_groups(0.3, (1, 30), (5, 3))
    labels = np.zeros(len(quality), int)
    assert resolve_threshold(0.25, quality, labels, 10) == {"rule": "fixed", "value": 0.25, "reason": "given"}
    assert resolve_threshold(np.float32(0.25), quality, labels, 10)["value"] == 0.25
    assert resolve_threshold("1/c", quality, labels, 10)["value"] == 0.1
    auto, cut = resolve_threshold("auto", quality, labels, 10), fit_threshold(quality)
    assert auto == {"rule": "auto", "value": cut.value, "reason": cut.reason, "low_weight": cut.low_weight}


@pytest.mark.parametrize("threshold", [0, 1, -0.1, 1.5, float("nan"), True, "half", "0.5", None])
def test_other_thresholds_are_refused(threshold):
    with pytest.raises(InputError) as error:
        resolve_threshold(threshold, [0.5], np.array([0]), 10)
    rules = "'auto', 'per-class', '1/c', 'precision=P' or 'budget=K'"
    assert str(error.value) == f"threshold must be a number in (0, 1), {rules}, not {threshold!r}"


def test_each_class_has_a_cut_of_its_own():
    """One class that the network is sure of, one that it is not, one with too few samples."""
    sure, _ = two_groups(0.3, (1, 60), (60, 1))
    unsure, _ = two_groups(0.3, (1, 30), (5, 3))
    quality = np.concatenate([sure, unsure, [0.1, 0.4]])
    labels = np.repeat([0, 1, 2], [len(sure), len(unsure), 2])
    info = resolve_threshold("per-class", quality, labels, 4)
    assert info["by_class"] == [fit_threshold(sure).value, fit_threshold(unsure).value, 0.5, 0.5]
    assert info["by_class"][0] != info["by_class"][1]
    assert info["value"] == pytest.approx(np.array(info["by_class"])[labels].mean())
    assert info["reason"] == "one for each given class, 2 of 4 fitted, 0.5 for the others"


QUALITY = np.array([0.05, 0.9, 0.2, 0.95, 0.4, 0.99, 0.97, 0.6])


def issues(threshold, **options):
    found = resolve_threshold(threshold, QUALITY, np.zeros(len(QUALITY), int), 2, **options)
    return (found["value"] > QUALITY).sum(), found


def test_a_budget_is_met_exactly():
    for count in (1, 3, 8, 100):
        assert issues(f"budget={count}")[0] == min(count, 8)


def test_a_precision_is_the_expected_share_of_wrong_labels():
    # Worst first, the expected shares of wrong labels are 0.95, 0.875, 0.783, 0.6875, 0.57, ...
    assert issues("precision=0.9")[0] == 1
    assert issues("precision=0.78")[0] == 3
    assert issues("precision=1")[0] == 0
    assert "expected share" in issues("precision=0.9", calibrated=True)[1]["reason"]
    assert "not calibrated" in issues("precision=0.9")[1]["reason"]


@pytest.mark.parametrize(("unlikely", "count"), [(0.0, 3), (0.375, 3), (0.5, 4), (1.0, 4), (None, 3)])
def test_auto_is_the_median_of_three_counts(unlikely, count):
    # 3 labels are more likely wrong than right. Of the k worst, 0.95, 1.75, 2.35, 2.75, 2.85 are expected to be wrong,
    # and 2.94 of all: the expected F1 is 2 * 2.35 / 5.94 = 0.791 for 3, 2 * 2.75 / 6.94 = 0.793 for 4, 0.718 for 5.
    assert issues("auto", calibrated=True, unlikely=unlikely)[0] == count


@pytest.mark.parametrize("rule", ["budget=0", "budget=1.5", "precision=0", "precision=1.1"])
def test_a_rule_out_of_range_is_refused(rule):
    with pytest.raises(InputError, match=r"a (budget|precision)"):
        issues(rule)
