"""The noise model: noise rate, interval and calibration on data whose truth is known."""

import numpy as np
import pytest

from jnpl import Findings
from jnpl.judging import noise_model
from jnpl.judging.noise_model import calibrate, candidate_classes, fit, label_probabilities, monotone


def drawn(samples=2500, classes=5, spread=1.0, seed=0):
    """Return calibrated probabilities of true labels (N, C), and true labels drawn from them; overlap by `spread`."""
    rng = np.random.default_rng(seed)
    logits = 4 / spread * np.eye(classes)[rng.integers(classes, size=samples)] + rng.normal(size=(samples, classes))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    true = (probs.cumsum(1) > rng.random((samples, 1))).argmax(1)
    return probs, true


def corrupted(true, rate, classes=5, seed=1, pair=False):
    rng = np.random.default_rng(seed)
    shift = 1 if pair else rng.integers(1, classes, len(true))
    return np.where(rng.random(len(true)) < rate, (true + shift) % classes, true)


def sharpened(probs, power):
    """Return probabilities of a network that is too sure or not sure enough."""
    raised = probs**power
    return raised / raised.sum(1, keepdims=True)


def softened(probs, given, share, exponent, seed=2):
    """Return labels of which a share is drawn from softened probabilities: noise where classes overlap."""
    rng = np.random.default_rng(seed)
    soft = sharpened(probs, exponent)
    careless = (soft.cumsum(1) > rng.random((len(given), 1))).argmax(1)
    return np.where(rng.random(len(given)) < share, careless, given)


def rate_of(probs, given, expected_scale=None):
    """Return the estimated noise rate, without the fits of its interval."""
    candidates = candidate_classes(probs, given, np.arange(len(given)))
    return 1 - label_probabilities(fit(candidates, expected_scale), candidates, given).quality.mean()


@pytest.mark.parametrize("pair", [False, True], ids=["symmetric", "pair"])
@pytest.mark.parametrize("spread", [1.0, 1.6], ids=["apart", "overlapping"])
@pytest.mark.parametrize("power", [0.5, 2.0], ids=["unsure", "too sure"])
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.4])
def test_the_rate_is_found_whatever_the_confidence_of_the_network(rate, power, spread, pair):
    probs, true = drawn(samples=3000, spread=spread)
    given = corrupted(true, rate, pair=pair)
    found = rate_of(sharpened(probs, power), given)
    assert found == pytest.approx((given != true).mean(), abs=0.02 if spread == 1 else 0.03)


@pytest.mark.parametrize("classes", [2, 3, 20])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_the_rate_is_found_with_few_and_many_classes(rate, classes):
    probs, true = drawn(samples=4000, classes=classes, spread=0.8)
    given = corrupted(true, rate, classes=classes)
    assert rate_of(probs, given, expected_scale=1.0) == pytest.approx((given != true).mean(), abs=0.02)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_noise_where_classes_overlap_needs_the_expected_scale(share):
    probs, true = drawn(samples=6000, spread=np.linspace(0.3, 3, 6000)[:, None])  # from easy to difficult samples
    given = softened(probs, true, share, exponent=0.5)
    wrong = (given != true).mean()
    assert rate_of(probs, given, expected_scale=1.0) == pytest.approx(wrong, abs=0.04)
    assert rate_of(probs, given) < wrong - 0.05  # without it, more overlap explains the labels as well


def test_two_classes_have_label_issues():
    probs, true = drawn(samples=400, classes=2, spread=0.7)
    given = corrupted(true, 0.1, classes=2)
    findings = Findings.from_probs(probs, given, unseen_probs=probs, unseen_scale=1.0, threshold="auto")
    wrong, issues = given != true, findings.is_label_issue
    assert 2 * (wrong & issues).sum() / (wrong.sum() + issues.sum()) > 0.6
    assert (findings.suggested_labels == 1 - given)[issues].all()


def test_an_issue_is_suggested_the_class_that_the_network_prefers():
    probs, true = drawn(samples=2000, spread=2.0)
    given = corrupted(true, 0.2)
    findings = Findings.from_probs(probs, given, unseen_probs=probs, unseen_scale=1.0, threshold="auto")
    prefers = probs.argmax(1) != given
    assert (findings.suggested_labels[prefers] == probs.argmax(1)[prefers]).all()
    assert (findings.suggested_confidence <= 1 - findings.label_quality + 1e-9)[prefers].all()


def test_the_interval_holds_the_estimate_and_mostly_the_truth():
    inside = []
    for seed in range(6):
        probs, true = drawn(samples=1500, seed=seed)
        given = corrupted(true, 0.15, seed=seed)
        estimate = calibrate(sharpened(probs, 1.1), given, expected_scale=1.0, seed=seed).estimate
        assert estimate.low <= estimate.rate <= estimate.high
        assert estimate.high - estimate.low < 0.15
        inside.append(estimate.low <= (given != true).mean() <= estimate.high)
    assert sum(inside) >= 5


def test_overlap_is_no_noise():
    probs, true = drawn(spread=2.5)  # a third of the best classes are wrong
    estimate = calibrate(probs, true).estimate
    assert (probs.argmax(1) != true).mean() > 0.3
    assert estimate.overlap > 0.3
    assert estimate.rate < 0.03


def test_quality_is_the_probability_that_the_label_is_right():
    probs, true = drawn(samples=8000, spread=1.5)
    given = corrupted(true, 0.25)
    quality = calibrate(sharpened(probs, 3), given).labels.quality
    for low in np.arange(0, 1, 0.1):
        part = (quality >= low) & (quality < low + 0.1)
        if part.sum() > 200:
            assert quality[part].mean() == pytest.approx((given == true)[part].mean(), abs=0.08)


def test_findings_keep_the_order_of_the_probabilities_and_their_mean_is_the_noise_rate():
    probs, true = drawn()
    given = corrupted(true, 0.2)
    ranking = sharpened(probs, 2)
    findings = Findings.from_probs(ranking, given, unseen_probs=probs, threshold="auto")
    own = ranking[np.arange(len(given)), given]
    order = np.argsort(own)
    distinct = np.diff(own[order]) > 0
    assert (np.diff(findings.label_quality[order])[distinct] > 0).all()
    assert 1 - findings.label_quality.mean() == pytest.approx(findings.noise_rate, abs=1e-9)
    assert (1 - findings.label_quality)[findings.is_label_issue].mean() > 0.5
    assert findings.is_label_issue.mean() == pytest.approx(findings.noise_rate, abs=0.05)
    assert (findings.suggested_confidence + findings.label_quality)[findings.is_label_issue].max() <= 1 + 1e-9


def test_findings_with_an_estimate_are_saved_and_loaded(tmp_path):
    probs, true = drawn(samples=500)
    findings = Findings.from_probs(probs, corrupted(true, 0.2), unseen_probs=probs, threshold="precision=0.9")
    findings.save(tmp_path)
    again = Findings.load(tmp_path)
    assert again == findings
    assert again.noise_interval == findings.noise_interval
    assert again.with_threshold("budget=7").is_label_issue.sum() == 7


def test_classes_beyond_the_candidates_change_little(monkeypatch):
    probs, true = drawn(classes=30, samples=3000)
    given = corrupted(true, 0.3, classes=30)
    whole = calibrate(probs, given).estimate.rate
    monkeypatch.setattr(noise_model, "_MAX_CANDIDATES", 20)
    assert candidate_classes(probs, given, np.arange(3000)).classes.shape == (3000, 20)
    assert calibrate(probs, given).estimate.rate == pytest.approx(whole, abs=0.02)


def test_progress_can_stop_the_work():
    class StopError(Exception):
        pass

    def stop(share):
        if share > 0.1:
            raise StopError

    probs, true = drawn(samples=500)
    with pytest.raises(StopError):
        calibrate(probs, true, progress=stop)


def test_few_or_equal_samples_do_no_harm():
    for probs, labels in (
        ([[0.9, 0.1]], [0]),
        (np.full((10, 3), 1 / 3), [0] * 10),
        (np.eye(2)[[0, 1, 0]], [1, 0, 1]),
        (np.full((4, 2), np.nan), [0, 1, 0, 1]),
    ):
        estimate = calibrate(probs, labels).estimate
        assert 0 <= estimate.low <= estimate.rate <= estimate.high <= 1


@pytest.mark.parametrize("samples", [1, 2, 1000])
def test_monotone_is_isotonic_regression(samples):
    from sklearn.isotonic import isotonic_regression

    rng = np.random.default_rng(samples)
    target = np.clip(np.linspace(0, 1, samples) + rng.normal(size=samples), 0, 1)
    assert monotone(np.arange(samples), target) == pytest.approx(isotonic_regression(target), abs=1e-4)


def test_monotone_keeps_the_mean_and_equal_scores_equal():
    rng = np.random.default_rng(0)
    score, target = np.round(rng.random(500), 2), rng.random(500)
    rising = monotone(score, target)
    assert rising.mean() == pytest.approx(target.mean(), abs=1e-3)
    for value in np.unique(score)[:5]:
        assert len(np.unique(rising[score == value])) == 1
