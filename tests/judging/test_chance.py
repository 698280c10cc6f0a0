"""Better than chance: the moments over all orders of the labels, and what random predictions and random labels give."""

from itertools import permutations

import numpy as np
import pytest

from jnpl.judging import chance
from jnpl.judging.chance import above_chance
from jnpl.judging.out_of_fold import out_of_fold


def test_the_variance_is_that_over_all_orders(monkeypatch):
    random, given = np.random.default_rng(0), np.array([0, 0, 1, 1, 1, 2])
    probs = random.dirichlet(np.ones(3), 6)
    probs[np.arange(6), given] += 0.5
    sums = [probs[np.arange(6), given[list(order)]].sum() for order in permutations(range(6))]
    z = (probs[np.arange(6), given].sum() - np.mean(sums)) / np.std(sums)
    assert z > 0
    for factor, wanted in ((0.999, True), (1.001, False)):
        monkeypatch.setattr(chance, "_DEVIATIONS", factor * z)
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
