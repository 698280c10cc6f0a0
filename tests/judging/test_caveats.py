"""When the noise rate cannot be told: labels by rules, few samples; and the sentence that says so."""

from itertools import permutations

import numpy as np
import pytest

from jnpl.judging import caveats
from jnpl.judging.caveats import above_chance, is_withheld, noise_sentence, of_few_samples, of_rules
from jnpl.judging.noise_model import NoiseEstimate
from jnpl.judging.out_of_fold import out_of_fold

ESTIMATE = NoiseEstimate(0.03, 0.02, 0.05, 0.2)
WORDS = {0: ["goal", "team", "cup"], 1: ["bank", "share", "rate"], 2: ["film", "song", "star"]}


def texts(labels, told, random):
    """Texts of other words, of which a share has a word that belongs to the class."""
    fill = [" ".join(f"w{at}" for at in random.integers(0, 300, 12)) for _ in labels]
    has = random.random(len(labels)) < told
    return [f"{text} {random.choice(WORDS[y])}" if h else text for text, y, h in zip(fill, labels, has, strict=True)]


def near(labels, random, agree, sure=0.9):
    """Predictions (N, 3) that agree with a share of the labels, with one confidence."""
    best = np.where(random.random(len(labels)) < agree, labels, (labels + 1) % 3)
    probs = np.full((len(labels), 3), (1 - sure) / 2)
    probs[np.arange(len(labels)), best] = sure
    return probs


@pytest.mark.parametrize(
    ("told", "wrong", "rule"), [(1.0, 0.0, True), (0.95, 0.0, True), (1.0, 0.25, False), (0.5, 0.0, False)]
)
def test_labels_that_a_few_words_predict_as_well_as_all_features_follow_a_rule(told, wrong, rule):
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 1500)
    content = texts(labels, told, random)
    labels = np.where(random.random(1500) < wrong, (labels + 1) % 3, labels)
    unseen = near(labels, random, 0.93 * (1 - wrong))
    after = of_rules(ESTIMATE, unseen, labels, content, heads=True)
    assert is_withheld(after) == rule
    assert after == (ESTIMATE._replace(high=1.0, caveat=after.caveat) if rule else ESTIMATE)
    if rule:
        assert noise_sentence(after, "runs/a") == (
            f"share of wrong labels at least 2.0%; {after.caveat}: check 50 at random (jnpl audit runs/a)"
        )


@pytest.mark.parametrize(("blurred", "rule"), [(0.0, True), (1.0, False)])
def test_labels_that_one_column_predicts_follow_a_rule(blurred, rule):
    random = np.random.default_rng(0)
    values = random.normal(size=(900, 6))
    labels = np.digitize(values[:, 2] + blurred * random.normal(size=900), [-0.5, 0.5]).astype(np.int64)
    unseen = near(labels, random, 0.97)
    after = of_rules(ESTIMATE, unseen, labels, values, heads=False)
    assert is_withheld(after) == rule


@pytest.mark.parametrize(("agree", "heads", "rule"), [(0.97, True, True), (0.97, False, False), (0.88, True, False)])
def test_heads_that_agree_more_often_than_they_are_sure_repeat_a_rule(agree, heads, rule):
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 2000)
    unseen = near(labels, random, agree)
    unseen[:5] = np.nan
    assert is_withheld(of_rules(ESTIMATE, unseen, labels, None, heads=heads)) == rule


def test_one_class_and_texts_without_words_tell_nothing():
    unseen = np.full((20, 3), 1 / 3)
    assert of_rules(ESTIMATE, unseen, np.zeros(20, np.int64), ["a"] * 20, heads=True) == ESTIMATE
    assert of_rules(ESTIMATE, unseen, np.arange(20) % 3, ["!"] * 20, heads=True) == ESTIMATE


@pytest.mark.parametrize(("samples", "overlap", "wide"), [(90, 0.6, True), (900, 0.6, False), (90, 0.1, False)])
def test_with_few_samples_of_blurred_classes_the_interval_reaches_to_all_that_is_not_predicted(samples, overlap, wide):
    random = np.random.default_rng(0)
    labels = np.arange(samples) % 3
    unseen = near(labels, random, 0.4)
    before = ESTIMATE._replace(overlap=overlap)
    after = of_few_samples(before, unseen, labels)
    if not wide:
        assert after == before
        return
    assert after.high == (unseen.argmax(1) != labels).mean()
    assert noise_sentence(after).startswith(f"share of wrong labels 2.0% to {after.high:.1%}; there are 30 samples per")


def test_the_variance_is_that_over_all_orders(monkeypatch):
    random, given = np.random.default_rng(0), np.array([0, 0, 1, 1, 1, 2])
    probs = random.dirichlet(np.ones(3), 6)
    probs[np.arange(6), given] += 0.5
    sums = [probs[np.arange(6), given[list(order)]].sum() for order in permutations(range(6))]
    z = (probs[np.arange(6), given].sum() - np.mean(sums)) / np.std(sums)
    assert z > 0
    for factor, wanted in ((0.999, True), (1.001, False)):
        monkeypatch.setattr(caveats, "_DEVIATIONS", factor * z)
        assert above_chance(probs, given) == wanted


@pytest.mark.parametrize("rare", [1 / 3, 0.1])
def test_random_labels_are_not_predicted_and_a_weak_signal_is(rare):
    random = np.random.default_rng(1)
    x = random.normal(size=(200, 30)).astype(np.float32)
    given = (random.random(200) < rare).astype(np.int64)
    assert not above_chance(out_of_fold(x, given, 2), given)
    x[:, 0] += 3 * given
    assert above_chance(out_of_fold(x, given, 2), given)


def test_classes_of_one_sample_are_not_predicted():
    x = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    assert not above_chance(out_of_fold(x, np.arange(50), 50), np.arange(50))


def test_samples_without_a_prediction_do_not_count():
    probs = np.eye(2)[[0, 1] * 20]
    probs[:20] = np.nan
    given = np.array([1, 0] * 10 + [0, 1] * 10)
    assert above_chance(probs, given)
    assert not above_chance(np.full((5, 2), np.nan), given[:5])
