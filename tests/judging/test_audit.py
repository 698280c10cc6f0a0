"""Samples for an audit, the exact interval of their noise rate, and recalibrated findings."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from tests.helpers.runs import many_findings

from jnpl.internal.errors import InputError
from jnpl.judging import audit
from jnpl.judging.audit import OPEN, RIGHT, UNSURE, WRONG, AuditSample


def counted(sizes, checked, wrong, unsure=None):
    """The result of an audit with these counts in each part."""
    unsure = unsure or [0] * len(sizes)
    each = [
        np.repeat([WRONG, UNSURE, RIGHT], [w, u, n - w - u]) for n, w, u in zip(checked, wrong, unsure, strict=True)
    ]
    part = np.repeat(np.arange(len(sizes)), checked)
    return audit.estimate(AuditSample(np.arange(len(part)), part, np.array(sizes)), np.concatenate(each))


@pytest.mark.parametrize(("share", "checks"), [(0.02, (1, 29)), (0.2, (6, 24)), (0.5, (15, 15))])
def test_the_interval_covers_the_truth_in_nine_of_ten_audits_whatever_the_parts_hold(share, checks):
    sizes = [round(share * 1e6), round((1 - share) * 1e6)]
    low, high = np.zeros((2, checks[0] + 1, checks[1] + 1))
    for first in range(checks[0] + 1):
        for second in range(checks[1] + 1):
            _, low[first, second], high[first, second], *_ = counted(sizes, checks, (first, second))
    covered = []
    for p in np.linspace(0, 1, 11):
        for q in np.linspace(0, 1, 21):
            chances = np.outer(*(binom.pmf(np.arange(n + 1), n, x) for n, x in zip(checks, (p, q), strict=True)))
            truth = share * p + (1 - share) * q
            covered.append(chances[(low <= truth + 1e-12) & (truth - 1e-12 <= high)].sum())
    assert min(covered) >= 0.9
    assert np.median(covered) <= 0.97  # and it is not needlessly wide


def test_the_rate_is_unbiased_and_the_sample_proportional():
    random = np.random.default_rng(0)
    quality = random.random(2000) ** 0.3
    wrong = random.random(2000) > quality
    rates = []
    for seed in range(400):
        sample = audit.draw(quality, 40, seed)
        rates.append(audit.estimate(sample, np.where(wrong[sample.positions], WRONG, RIGHT)).rate)
        assert abs(np.bincount(sample.part, minlength=2) - 40 * sample.sizes / 2000).max() <= 1
    assert np.mean(rates) == pytest.approx(wrong.mean(), abs=3 * np.std(rates) / 20)


def test_labels_without_a_quality_are_not_drawn_and_a_constant_quality_is_one_part():
    sample = audit.draw(np.array([np.nan, 0.5, 0.5, np.nan]), 10)
    assert (sorted(sample.positions.tolist()), sample.sizes.tolist()) == ([1, 2], [2])
    assert audit.draw(np.full(3, np.nan), 5).sizes.tolist() == [3]  # nothing is known of any: all are drawn from
    with pytest.raises(InputError, match="at least one label"):
        audit.draw(np.ones(3), 0)


def test_labels_that_nothing_is_known_of_can_be_audited():
    model = many_findings(200, 3, 0.3)
    wrong = model.label_quality < 0.5
    blank = np.full(200, np.nan)
    model = replace(model, label_quality=blank, suggested_confidence=blank, suggested_labels=model.given_labels)
    checked = {int(at): int((model.given_labels[at] + wrong[at]) % 3) for at in model.audit_sample(60)}
    after = model.audited(checked)
    assert after.noise_interval[0] <= wrong.mean() <= after.noise_interval[1]
    assert (~np.isnan(after.label_quality)).sum() == 60


def test_unsure_answers_widen_the_interval_to_both_sides():
    sure, unsure = counted([100, 900], (10, 40), (5, 2)), counted([100, 900], (10, 40), (5, 2), (2, 3))
    assert (unsure.low, unsure.high) > (0, sure.high)
    assert unsure.low == pytest.approx(sure.low)  # as if all unsure ones were right
    assert (unsure.checked, unsure.wrong, unsure.unsure) == (45, 7, 5)


def test_labels_that_are_all_checked_leave_nothing_to_chance():
    result = counted([10, 20], (10, 20), (3, 1))
    assert (result.rate, result.low, result.high) == pytest.approx((4 / 30, 4 / 30, 4 / 30))


def test_a_part_without_answers_is_joined_with_the_other():
    sample = AuditSample(np.arange(3), np.array([0, 1, 1]), np.array([10, 90]))
    assert audit.estimate(sample, np.array([OPEN, WRONG, RIGHT])).rate == 0.5
    with pytest.raises(InputError, match="no label was checked"):
        audit.estimate(sample, np.array([OPEN, UNSURE, OPEN]))


def test_as_many_more_checks_as_are_named_halve_the_interval():
    sample = AuditSample(np.arange(50), np.zeros(50, int), np.array([10_000]))
    answers = np.repeat([WRONG, RIGHT], [10, 40])
    now, more = audit.estimate(sample, answers), audit.more_to_halve(sample, answers)
    then = counted([10_000], [50 + more], [round(0.2 * (50 + more))])
    assert (then.high - then.low) / (now.high - now.low) == pytest.approx(0.5, abs=0.01)
    assert audit.more_to_halve(AuditSample(np.arange(50), np.zeros(50, int), np.array([50])), answers) == 0


@pytest.mark.parametrize("claimed", [0.05, 0.5])
def test_an_audit_overrides_rate_qualities_and_threshold(claimed):
    findings = many_findings(1000, 4, 0.2, threshold="auto")
    shifted = 1 - (1 - findings.label_quality) * claimed  # qualities that say too few labels are wrong
    probs = np.full((1000, 4), np.nan)
    probs[:] = ((1 - shifted) / 3)[:, None]
    probs[np.arange(1000), findings.given_labels] = shifted
    wrong = findings.label_quality < 0.5
    model = type(findings).from_probs(probs, findings.given_labels, unseen_probs=probs, threshold="auto")
    true = np.where(wrong, (findings.given_labels + 1) % 4, findings.given_labels)
    after = model.audited({int(at): int(true[at]) for at in model.audit_sample(100)})
    low, high = after.noise_interval
    assert low <= wrong.mean() <= high
    assert after.noise_rate == pytest.approx(1 - after.label_quality.mean(), abs=1e-6)
    assert (after.noise.checked, after.noise.caveat) == (100, None)
    rest = np.setdiff1d(np.arange(1000), model.audit_sample(100))
    order = np.argsort(model.label_quality[rest], kind="stable")
    assert (np.diff(after.label_quality[rest][order]) >= 0).all()
    checked = model.audit_sample(100)
    assert (after.label_quality[checked] == (true == findings.given_labels)[checked]).all()
    assert (after.suggested_labels[checked] == true[checked]).all()
    with pytest.raises(InputError, match="audited already"):
        after.audited({})
