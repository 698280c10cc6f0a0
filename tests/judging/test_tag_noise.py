"""The model of given tags: noise told from overlap, on data whose truth is known."""

import numpy as np
import pytest

from jnpl.judging.tag_noise import TagModel, _log_odds, _Point, _Problem, best_thresholds, fit, judge_probs


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def made(missing, extra, *, spread=3.0, samples=6000, tags=6, seed=0):
    """Logits, true tags that they are calibrated for, and given ones; `extra` is a share of the true tags."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-0.5, spread, (samples, tags))
    true = rng.random(z.shape) < sigmoid(z)
    given = true & (rng.random(z.shape) >= missing)
    given |= ~true & (rng.random(z.shape) < extra * true.sum() / (~true).sum())
    return z, true, given


@pytest.mark.parametrize(("missing", "extra"), [(0.0, 0.0), (0.1, 0.02), (0.3, 0.05), (0.3, 0.0)])
def test_rates_are_told_from_overlap(missing, extra):
    z, true, given = made(missing, extra)
    judged = judge_probs(sigmoid(z), sigmoid(z), given)
    noise = judged.noise
    assert abs(noise.missing.value - (true & ~given).sum() / true.sum()) < 0.03
    assert abs(noise.extra.value - (given & ~true).sum() / given.sum()) < 0.03
    assert noise.missing.low <= noise.missing.value <= noise.missing.high
    assert noise.missing_by_tag.shape == noise.extra_by_tag.shape == (6, 3)
    wrong = given != true
    assert abs((1 - judged.quality).sum() - wrong.sum()) < 0.05 * wrong.size  # qualities are probabilities


def test_a_tag_that_is_missing_more_often_has_a_rate_of_its_own():
    rng = np.random.default_rng(1)
    z, true, given = made(0.1, 0.02)
    given[:, 2] &= rng.random(len(z)) >= 0.5
    model = fit(z, given)
    rates = np.array([(true & ~given)[:, tag].sum() / true[:, tag].sum() for tag in range(6)])
    assert abs(model.missing[2] - rates[2]) < 0.06
    assert abs(np.delete(model.missing - rates, 2)).max() < 0.06
    by_tag = judge_probs(sigmoid(z), sigmoid(z), given).noise.missing_by_tag
    assert by_tag[:, 0].argmax() == 2
    assert np.all((by_tag[:, 1] <= by_tag[:, 0]) & (by_tag[:, 0] <= by_tag[:, 2]))


def test_the_posterior_is_that_of_plain_arithmetic():
    model = TagModel(2.0, np.array([0.5]), np.array([0.3]), np.array([0.01]), 0.2)
    p = model.true_probs(np.array([[0.4]])).item()
    assert p == pytest.approx(0.8 * sigmoid(0.8 + 0.5) + 0.2 * sigmoid(0.32 + 0.5))
    given, absent = (model.given_true(np.array([[p]]), np.array([[state]])).item() for state in (True, False))
    assert given == pytest.approx(p * 0.7 / (p * 0.7 + (1 - p) * 0.01))
    assert absent == pytest.approx(p * 0.3 / (p * 0.3 + (1 - p) * 0.99))


def test_newtons_method_ends_at_the_maximum():
    z, _, given = made(0.2, 0.03, samples=500, tags=3)
    problem, variance = _Problem(z, given, 0.2, 0.04), np.full(3, 0.5)
    model, _ = problem.solve(variance)
    rates = [[_log_odds(rate) for rate in of] for of in (model.missing, model.extra)]
    tags = np.column_stack([model.bias, *rates])
    weight = 1 / (3 / variance[0] + problem.precision)  # the best common logits, given those of the tags
    common = weight * (tags[:, 1:].sum(0) / variance[0] + problem.precision * problem.prior)
    best = problem._value(_Point(model.scale, common, tags), variance)
    rng = np.random.default_rng(0)
    for _ in range(50):
        moved = tags + rng.normal(0, 0.2, tags.shape)
        assert problem._value(_Point(model.scale * np.exp(rng.normal(0, 0.05)), common, moved), variance) < best


def test_order_is_that_of_the_seen_probabilities_and_mostly_of_the_unseen_where_the_tag_is_given():
    z, _, given = made(0.2, 0.03, tags=1)
    z_seen = z + np.random.default_rng(2).normal(size=z.shape)
    quality = judge_probs(sigmoid(z_seen), sigmoid(z), given).quality[:, 0]
    for side, ranks in ((True, 3 * z + z_seen), (False, -z_seen)):
        rows = np.flatnonzero(given[:, 0] == side)
        assert (np.diff(quality[rows[np.argsort(ranks[rows, 0])]]) >= 0).all()


@pytest.mark.parametrize("given", [np.ones((20, 2), bool), np.eye(20, 2, dtype=bool)])
def test_extreme_data_give_finite_numbers(given):
    probs = np.where(given, 1.0, 0.0)
    judged = judge_probs(probs, 1 - probs, given)
    assert np.isfinite(judged.quality).all()
    assert np.isfinite([*judged.noise.missing, *judged.noise.extra]).all()


def test_thresholds_expect_the_best_f1():
    probs = np.random.default_rng(0).beta(0.4, 1.0, (400, 3))
    thresholds = best_thresholds(probs)
    for tag in range(3):
        p = probs[:, tag]

        def expected_f1(cut, p=p):
            return 2 * p[p >= cut].sum() / (p.sum() + (p >= cut).sum())

        assert expected_f1(thresholds[tag]) == max(expected_f1(cut) for cut in p)
