"""Predictions of a trained network become findings by the settings of a recipe."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from torch import nn

from jnpl.data.sources.arrays import from_arrays
from jnpl.judging import scoring
from jnpl.judging.findings import Findings
from jnpl.judging.ledger import Ledger
from jnpl.judging.noise_model import NoiseEstimate
from jnpl.judging.out_of_fold import expected_scale, out_of_fold
from jnpl.judging.posterior import posterior, share_factors
from jnpl.judging.trees import TreePredictions
from jnpl.noise import symmetric
from jnpl.recipes.schema import Judging

CLASSES = 3
LABELS = np.arange(120) % CLASSES
RANDOM = np.random.default_rng(0)
X = (3 * np.eye(CLASSES)[LABELS] + RANDOM.normal(size=(120, CLASSES))).astype(np.float32)
NETWORK = RANDOM.dirichlet(np.ones(CLASSES), 120).astype(np.float32)  # what it predicts at the end
RECORDED = RANDOM.dirichlet(np.ones(CLASSES), 120).astype(np.float32)  # and during training


def a_ledger(keep="full"):
    ledger = Ledger(120, CLASSES, 2, keep, LABELS if keep == "compact" else None)
    ledger.record(np.arange(120), RECORDED, 0)
    return ledger


@dataclass
class Predictions:
    """A training set as judging sees it."""

    ledger: Ledger = field(default_factory=a_ledger)
    decided: np.ndarray | None = None
    inputs: np.ndarray | None = None
    labels: np.ndarray = field(default_factory=lambda: LABELS)

    def probabilities(self, network):
        assert isinstance(network, nn.Module)
        return NETWORK

    def vectors(self, most):
        return None if self.inputs is None or self.inputs.size > most else (np.arange(120), self.inputs)


MEAN = ((RECORDED + NETWORK) / 2).astype(np.float64)
POSTERIOR, TRANSITION = posterior(MEAN, LABELS)


def adapted(probs, of, labels, transition):
    """Probabilities with the true shares of classes, which those of `of` tell; as they are where that is not known."""
    factors = share_factors(of, labels, transition)
    changed = probs if factors is None else probs * factors
    return changed / changed.sum(1, keepdims=True)


ADAPTED = adapted(MEAN, MEAN, LABELS, TRANSITION)
JOINT = ADAPTED * TRANSITION[:, LABELS].T


@pytest.mark.parametrize(
    ("score", "wanted"),
    [
        ("history", None),
        ("aum", None),
        ("margin", None),
        ("network", NETWORK),
        ("posterior", POSTERIOR),
        ("blend", (ADAPTED + JOINT / JOINT.sum(1, keepdims=True)) / 2),
    ],
)
def test_the_probabilities_that_decide(score, wanted):
    final = scoring.final_probs(Judging(score=score), nn.Identity(), Predictions())
    assert final.judged_by is None
    if wanted is None:
        assert final.probs is None
    else:
        np.testing.assert_allclose(final.probs, wanted, rtol=1e-6)


@pytest.mark.parametrize("scale", [1.0, None])
def test_heads_that_have_not_seen_the_labels_tell_the_true_shares_of_the_classes(scale):
    """Trees (no scale) do not: their probabilities are not those of the true class."""
    true = np.repeat(np.arange(CLASSES), [72, 36, 12])
    given = np.where(np.arange(120) % 3, true, (true + 1 + np.arange(120) // 3 % 2) % CLASSES)
    heads = (0.9 * np.eye(CLASSES)[true] + 0.1 / CLASSES).astype(np.float32)
    unseen = scoring.UnseenProbs(heads, scale)
    final = scoring.final_probs(Judging(score="blend"), nn.Identity(), Predictions(labels=given), None, unseen)
    of = heads if scale else MEAN
    transition = posterior(of, given).transition
    changed = adapted(MEAN, of, given, transition)
    joint = changed * transition[:, given].T
    np.testing.assert_allclose(final.probs, (changed + joint / joint.sum(1, keepdims=True)) / 2, rtol=1e-6)


def test_a_blend_of_mistakes_with_rates_of_their_own_keeps_the_shares_of_classes():
    given = np.where((LABELS == 0) & (np.arange(120) < 60), 1, LABELS)  # half of the first class is labelled 1
    predicted = Predictions(labels=given)
    predicted.probabilities = lambda _: (0.97 * np.eye(CLASSES)[LABELS] + 0.01).astype(np.float32)
    mean = scoring.mean_probs(nn.Identity(), predicted)
    final = scoring.final_probs(Judging(score="blend"), nn.Identity(), predicted)
    np.testing.assert_allclose(final.probs, (mean + posterior(mean, given).probs) / 2)


def test_a_decided_label_is_certain_in_the_posterior_of_a_blend():
    decided = np.where(np.arange(120) < 5, 2, -1)
    final = scoring.final_probs(Judging(score="blend"), nn.Identity(), Predictions(decided=decided))
    transition = posterior(MEAN, LABELS, decided=decided).transition
    certain = (adapted(MEAN, MEAN, LABELS, transition)[:5] + np.eye(CLASSES)[[2] * 5]) / 2
    np.testing.assert_allclose(final.probs[:5], certain)


def test_a_compact_ledger_leaves_the_network_alone():
    found = scoring.mean_probs(nn.Identity(), Predictions(a_ledger("compact")))
    np.testing.assert_array_equal(found, NETWORK.astype(np.float64))


def unseen(settings=None, trees=None, linear=True, **predicted):
    return scoring.unseen_probs(
        settings or Judging(calibrate=True),
        nn.Identity(),
        Predictions(**predicted),
        trees,
        linear=linear,
        weight_decay=0.03,
        seed=4,
        progress=lambda _: None,
    )


def test_what_calibrates_are_trees_or_heads_of_folds_or_the_network_itself():
    assert unseen(Judging(calibrate=False)) is None
    few = np.arange(scoring.MIN_CALIBRATED - 1) % CLASSES
    assert unseen(labels=few) is None
    trees = TreePredictions(RECORDED, 0.5, "some")
    assert unseen(trees=trees).probs is trees.probs
    heads = unseen(inputs=X)
    np.testing.assert_array_equal(heads.probs, out_of_fold(X, LABELS, CLASSES, weight_decay=0.03, seed=4))
    assert heads.expected_scale == expected_scale(CLASSES)
    for network in (unseen(), unseen(inputs=X, linear=False)):
        np.testing.assert_allclose(network.probs, MEAN, rtol=1e-6)
        assert network.expected_scale is None


def test_heads_of_folds_learn_decided_labels():
    decided = np.where(np.arange(120) < 40, (LABELS + 1) % CLASSES, -1)
    trusted = scoring.trusted_labels(LABELS, decided)
    assert trusted[:40].tolist() == ((LABELS + 1) % CLASSES)[:40].tolist()
    assert trusted[40:].tolist() == LABELS[40:].tolist()
    heads = unseen(inputs=X, decided=decided)
    np.testing.assert_array_equal(heads.probs, out_of_fold(X, trusted, CLASSES, weight_decay=0.03, seed=4))
    assert scoring.trusted_labels(LABELS, None) is LABELS


SOURCE = replace(from_arrays(X, LABELS, name="x"), true_labels=None)


def scored(source=SOURCE, quality=None, settings=None, unreadable=(), **options):
    return scoring.judge_labels(
        source, a_ledger(), quality, settings or Judging(), dict.fromkeys(unreadable, "broken"), **options
    )


def test_labels_are_scored_by_probabilities_or_recorded_quality_or_the_ledger():
    rows = np.arange(120)
    np.testing.assert_allclose(scored(probs=NETWORK).label_quality, NETWORK[rows, LABELS], rtol=1e-6)
    np.testing.assert_allclose(scored().label_quality, RECORDED[rows, LABELS], rtol=1e-6)
    quality = np.linspace(0, 1, 120, dtype=np.float32)
    np.testing.assert_array_equal(scored(quality=quality).label_quality, quality.astype(np.float64))


def test_unseen_probabilities_calibrate_the_recorded_ones_too():
    unseen_probs = scoring.UnseenProbs(out_of_fold(X, LABELS, CLASSES), 1.0)
    found = scored(unseen=unseen_probs)
    assert found.noise is not None
    assert scored().noise is None
    order = np.argsort(RECORDED[np.arange(120), LABELS], kind="stable")
    assert (np.diff(found.label_quality[order]) >= 0).all()


def test_samples_that_cannot_be_read_have_no_quality():
    found = scored(probs=NETWORK, unreadable=(3, 7))
    assert np.flatnonzero(np.isnan(found.label_quality)).tolist() == [3, 7]
    assert np.flatnonzero(found.unreadable).tolist() == [3, 7]


def test_decided_labels_are_certain():
    decided = np.where(np.arange(120) % 10 == 0, 1, -1)
    source = replace(SOURCE, decided=decided)
    found = scored(source, probs=NETWORK, unreadable=(0,))
    rows = np.flatnonzero(decided >= 0)[1:]
    assert found.label_quality[rows].tolist() == (LABELS[rows] == 1).tolist()
    assert found.suggested_labels[rows].tolist() == [1] * len(rows)
    assert found.suggested_confidence[rows].tolist() == [1.0] * len(rows)
    assert np.isnan(found.label_quality[0])  # decided, but it cannot be read
    unseen_probs = scoring.UnseenProbs(out_of_fold(X, LABELS, CLASSES), 1.0)
    calibrated = scored(source, probs=NETWORK, unseen=unseen_probs)
    assert calibrated.noise.rate == pytest.approx(1 - np.nanmean(calibrated.label_quality))


def test_the_rate_stays_true_when_the_worst_labels_are_decided():
    random, true = np.random.default_rng(1), np.arange(900) % CLASSES
    given = symmetric(true, 0.2, CLASSES, seed=0)
    x = (2 * np.eye(CLASSES)[true] + random.normal(size=(900, CLASSES))).astype(np.float32)
    source, wrong = from_arrays(x, given, name="x"), float((true != given).mean())

    def judged(decided):
        probs = out_of_fold(x, scoring.trusted_labels(given, decided), CLASSES)
        found = replace(source, decided=decided)
        ledger = Ledger(900, CLASSES, 1, "full", None)
        return scoring.judge_labels(found, ledger, None, Judging(), {}, probs, scoring.UnseenProbs(probs, 1.0))

    worst = np.argsort(judged(None).label_quality)[:100]
    after = judged(np.where(np.isin(np.arange(900), worst), true, -1))
    assert (true != given)[worst].mean() > 2 * wrong
    assert after.noise.low <= wrong <= after.noise.high
    assert after.noise.rate == pytest.approx(judged(None).noise.rate, abs=0.03)


GIVEN = np.array([0, 1] * 50)


def predicted(share):
    """Probabilities that agree with a share of `GIVEN`."""
    right = np.arange(100) < 100 * share
    best = np.where(right, GIVEN, 1 - GIVEN)
    return np.where(np.arange(2) == best[:, None], 0.7, 0.3)


@pytest.mark.parametrize(
    ("network", "tree", "weight", "told"),
    [
        (0.8, 0.85, 1.0, "judged by decision trees alone (some): they agree with 85.0%"),
        (0.9, 0.85, 0.5, "judged by the network and decision trees (some), which agree with 85.0%"),
        (0.99, 0.85, 0.0, "judged by the network alone: decision trees agree with 85.0%"),
    ],
)
def test_agreement_decides_between_network_and_trees(network, tree, weight, told):
    own, others = np.where(predicted(network) > 0.5, 0.9, 0.1), predicted(tree)
    probs, line = scoring.with_trees(own, TreePredictions(others.astype(np.float32), tree, "some"), GIVEN)
    assert line.startswith(told)
    surer = np.where(others > 0.5, 0.85, 0.15)  # three quarters of the way from 0.7 to 0.9
    np.testing.assert_allclose(probs, weight * surer + (1 - weight) * own, atol=1e-4)


@pytest.mark.parametrize(
    ("counts", "high", "score", "follows"),
    [
        ((60, 30), 1.0, "blend", True),
        ((60, 31), 1.0, "blend", False),
        ((60, 30), 0.4, "blend", False),
        ((60, 30), 1.0, "network", False),
    ],
)
def test_labels_by_a_rule_of_uneven_classes_are_ranked_by_the_posterior(counts, high, score, follows):
    given = np.repeat([0, 1], counts)
    findings = Findings.from_probs(np.full((len(given), 3), 1 / 3), given)
    noise = NoiseEstimate(0.02, 0.01, high, 0.1, caveat="the labels seem to follow a rule")
    assert scoring.follows_uneven_rule(replace(findings, noise=noise), Judging(score=score)) == follows
    assert not scoring.follows_uneven_rule(findings, Judging(score=score))


def test_without_a_noise_rate_quality_is_what_unseen_predictions_say():
    """Then a label that they contradict is an issue, the order stays, and nothing is said of the share."""
    random, labels = np.random.default_rng(0), np.arange(400) % 2
    seen = np.where(random.random(400) < 0.1, 0.3, 0.9)
    seen = seen + random.random(400) / 100
    right = np.clip(seen + random.normal(size=400) / 10, 0.02, 0.98)
    probs, unseen_probs = (np.stack([np.where(labels == c, p, 1 - p) for c in (0, 1)], 1) for p in (seen, right))
    low = np.where(seen < 0.5, 0.99, 1.0)
    found = Findings.from_probs(probs, labels, threshold="auto")
    noise = NoiseEstimate(0.01, 0.0, 1.0, 0.1, caveat="the labels seem to follow a rule")
    found = replace(found, label_quality=low, noise=noise)  # calibrated by a rate that is far too low
    after = scoring._as_predicted(found, probs, unseen_probs, "auto")
    assert after.is_label_issue.tolist() == (seen < 0.5).tolist()
    assert (np.argsort(after.label_quality, kind="stable") == np.argsort(seen, kind="stable")).all()
    assert after.label_quality.mean() == pytest.approx(right.mean(), abs=1e-3)
    assert (after.suggested_labels != labels).tolist() == (after.label_quality < 0.5).tolist()
    assert np.isnan(after.noise_rate)
    assert (after.expected_wrong, after.stated_left, after.look_wrong) == (None, None, False)
    assert after.noise_facts["noise_rate"] is None
