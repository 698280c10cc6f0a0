"""P-values of labels: exact leave-one-out predictions, and few false alarms."""

from __future__ import annotations

import numpy as np
import pytest

from jnpl.judging import label_tests
from jnpl.judging.groups import step_up
from jnpl.judging.label_tests import label_p_values, margins, regression_support


def drawn(samples, seed, noise=0.0, classes=4):
    random = np.random.default_rng(seed)
    true = random.integers(0, classes, samples)
    x = random.normal(size=(samples, 12)) + 4 * np.eye(classes, 12)[true]
    return x, np.where(random.random(samples) < noise, (true + 1) % classes, true), true


def test_predictions_without_a_sample_are_those_of_a_fit_without_it(monkeypatch):
    """The fit is repeated in plain arithmetic, with the penalty of the whole."""
    x, labels, _ = drawn(40, 0)
    weights = np.random.default_rng(1).random(40)
    inputs = np.hstack([x, np.ones((40, 1))])
    product = (inputs * weights[:, None]).T @ inputs
    penalty = np.diag([*[label_tests._PENALTY * np.trace(product) / 13] * 12, 1e-9])
    expected = []
    for left_out in range(40):
        rest = np.arange(40) != left_out
        a = (inputs[rest] * weights[rest, None]).T @ inputs[rest] + penalty
        b = (inputs[rest] * weights[rest, None]).T @ np.eye(4)[labels[rest]]
        expected.append(inputs[left_out] @ np.linalg.solve(a, b))
    monkeypatch.setattr(label_tests, "_BLOCK", 28)  # in several parts
    old, new = regression_support(x, labels, weights, x[:5], labels[:5], 4)
    np.testing.assert_allclose(old, margins(np.array(expected), labels), rtol=1e-7)
    whole = inputs[:5] @ np.linalg.solve(product + penalty, (inputs * weights[:, None]).T @ np.eye(4)[labels])
    np.testing.assert_allclose(new, margins(whole, labels[:5]), rtol=1e-7)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_few_clean_batches_have_an_unlikely_label_and_most_noisy_ones(noise):
    x, given, true = drawn(2000, 0, noise)
    weights = np.where(given == true, 0.998, 0.002)
    alarms, found = 0, 0
    for seed in range(1, 61):
        batch, labels, _ = drawn(200, seed)
        for wrong in (0, 10):
            changed = np.where(np.arange(200) < wrong, (labels + 1) % 4, labels)
            support = regression_support(x, given, weights, batch, changed, 4)
            is_unlikely = step_up(label_p_values(support[0], weights, support[1]), 0.05)
            alarms, found = alarms + (not wrong and is_unlikely.any()), found + is_unlikely[:wrong].sum()
    assert alarms <= 7  # of 60; more than that with a chance of 2 % if one in 20 alarms
    assert found >= 300  # of 600


def test_weights_of_zero_leave_labels_out():
    x, labels, _ = drawn(60, 3)
    weights = np.r_[np.ones(40), np.zeros(20)]
    some = regression_support(x[:40], labels[:40], np.ones(40), x[40:], labels[40:], 4)[1]
    np.testing.assert_allclose(regression_support(x, labels, weights, x[40:], labels[40:], 4)[1], some)
    assert label_p_values(np.array([1.0, -5.0]), np.array([1.0, 0.0]), np.array([0.0])).tolist() == [0.5]
