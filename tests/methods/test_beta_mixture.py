"""Two Beta curves on losses: known mixtures come back, and useless losses do no harm."""

import math

import numpy as np
import pytest
import torch

from jnpl.methods import beta_mixture
from jnpl.methods.beta_mixture import densities, fit, look_up, scale


def a_mixture(share, low, high, size=20_000, seed=0):
    """Losses from two Beta curves, and which are of the high one."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(size) < share
    return np.where(wrong, rng.beta(*high, size), rng.beta(*low, size)), wrong


def beta_density(x, a, b):
    return x ** (a - 1) * (1 - x) ** (b - 1) * math.gamma(a + b) / (math.gamma(a) * math.gamma(b))


def test_ten_steps_of_em_in_plain_loops():
    losses, _ = a_mixture(0.4, (2, 10), (6, 3), size=60)
    ordered = sorted(losses)

    def percentile(q):
        place = q / 100 * 59
        below = int(place)
        return ordered[below] + (place - below) * (ordered[min(below + 1, 59)] - ordered[below])

    low, high = percentile(5), percentile(95)
    kept = [v for v in losses if low <= v <= high]
    low += 1e-5
    x = [min(max((v - low) / (high - low + 1e-6), 1e-3), 1 - 1e-3) for v in kept]
    curves = [(1.0, 2.0, 0.5), (2.0, 1.0, 0.5)]
    for _ in range(10):
        members = []
        for v in x:
            both = [max(w * beta_density(v, a, b), 1e-12) for a, b, w in curves]
            members.append([p / sum(both) for p in both])
        curves = []
        for k in range(2):
            total = sum(m[k] for m in members)
            mean = sum(m[k] * v for m, v in zip(members, x, strict=True)) / total
            variance = sum(m[k] * (v - mean) ** 2 for m, v in zip(members, x, strict=True)) / total
            a = mean * (mean * (1 - mean) / variance - 1)
            curves.append((a, a * (1 - mean) / mean, total / len(x)))
    got = fit(losses)
    assert (got.low, got.high) == pytest.approx((low, high))
    for k, (a, b, w) in enumerate(curves):
        assert (got.alpha[k], got.beta[k], got.weight[k]) == pytest.approx((a, b, w), rel=1e-6)
    point = 1e-12 + 40 / 99 * (1 - 2e-12)  # one entry of the table, between the two centres
    both = [w * beta_density(point, a, b) for a, b, w in curves]
    assert got.table[40] == pytest.approx(both[1] / (sum(both) + 1e-12), rel=1e-6)
    middle = low + 0.405 * (high - low + 1e-6)
    assert got.posterior([middle])[0] == pytest.approx(got.table[40])


@pytest.mark.parametrize(("share", "low_mean_within"), [(0.2, 0.02), (0.5, 0.06), (0.8, 0.32)])
@pytest.mark.parametrize(("low", "high"), [((2, 18), (12, 4)), ((1, 15), (8, 3))])
def test_a_known_mixture_comes_back(share, low_mean_within, low, high):
    """Of what lies between the percentiles; not exactly, since ten iterations do not reach the end.

    Weights within 0.13, the high mean within 0.14 (0.03 unless it is rare), and, what matters, the cut at 0.5 errs on
    less than 2.5 % of the samples.
    """
    losses, wrong = a_mixture(share, low, high)
    losses = 5 * losses + 2  # the scale of the losses does not matter
    got = fit(losses)
    assert got.fitted
    kept = (losses >= np.percentile(losses, 5)) & (losses <= np.percentile(losses, 95))
    inside = scale(losses, got.low, got.high)
    assert got.weight[1] == pytest.approx(wrong[kept].mean(), abs=0.13)
    assert got.means[0] == pytest.approx(inside[kept & ~wrong].mean(), abs=low_mean_within)
    assert got.means[1] == pytest.approx(inside[kept & wrong].mean(), abs=0.14 if share < 0.5 else 0.03)
    assert ((got.posterior(losses) > 0.5) != wrong).mean() < 0.025


def test_right_of_its_maximum_the_posterior_does_not_fall():
    """A narrow high curve inside a wide low one: the untouched posterior falls again towards the right end."""
    alpha, beta, weight = np.array([1.0, 60.0]), np.array([1.0, 40.0]), np.array([0.5, 0.5])
    grid = np.linspace(1e-12, 1 - 1e-12, 100)
    both = densities(grid, alpha, beta, weight)
    untouched = both[1] / both.sum(axis=0)
    assert untouched[-1] < 0.01
    assert untouched.max() > 0.5
    table = beta_mixture._table(alpha, beta, weight)
    top = untouched.argmax()
    assert (table[top:] == table.max()).all()
    assert table[50:top] == pytest.approx(untouched[50:top], rel=1e-9)


def test_fault_of_the_original_a_wide_high_curve_does_not_make_the_smallest_losses_the_worst():
    alpha, beta, weight = np.array([30.0, 1.2]), np.array([70.0, 1.0]), np.array([0.5, 0.5])
    both = densities(np.linspace(1e-12, 1 - 1e-12, 100), alpha, beta, weight)
    untouched = both[1] / (both.sum(axis=0) + 1e-12)
    assert untouched[0] > 0.99  # to the right of this maximum all would be suspicious
    table = beta_mixture._table(alpha, beta, weight)
    assert table[:30].max() < 0.2
    assert table[-1] > 0.99


def test_fault_of_the_original_curves_that_change_places_are_put_in_order():
    for seed in range(5):
        got = fit(np.random.default_rng(seed).normal(2.3, 0.1, 2000))  # one group only: the split is arbitrary
        assert got.means[0] <= got.means[1]


def test_fault_of_the_original_scaling_keeps_the_order():
    assert (np.diff(scale(np.array([-1.0, 0.0, 5e-4, 1e-3, 2e-3, 0.5, 1.0, 2.0]), 0.0, 1.0)) >= 0).all()


@pytest.mark.parametrize(
    "losses",
    [[], [1.0], [0.1, 0.2, 5.0], [0.7] * 1000, [0.0] * 50, [math.nan] * 100, np.linspace(1, 1 + 1e-5, 100)],
)
def test_useless_losses_leave_everyone_at_one_half(losses):
    got = fit(losses)
    assert not got.fitted
    assert got.posterior([0.0, 1.0, 1e9, math.inf]).tolist() == [0.5] * 4


@pytest.mark.parametrize(
    "losses",
    [
        [0.0] * 500 + [1.0] * 500,  # no variance in either group
        [0.0] * 900 + [1.0] * 100,
        [0.0] * 30 + [1e30] * 30,
        [0.5] * 980 + [9.0] * 20,  # the second group is cut off as outliers
        np.linspace(0, 1, 11),
        np.exp(np.random.default_rng(0).normal(0, 5, 5000)),  # a long tail
        np.random.default_rng(0).random(10),
    ],
)
def test_degenerate_losses_give_finite_answers(losses):
    with np.errstate(all="raise", under="ignore"):
        got = fit(losses)
        posterior = got.posterior(losses)
    assert np.isfinite([*got.alpha, *got.beta, *got.weight, *got.table]).all()
    assert (got.alpha > 0).all()
    assert (got.beta > 0).all()
    assert got.weight.sum() == pytest.approx(1)
    assert ((posterior >= 1e-4) & (posterior <= 1 - 1e-4)).all()


def test_what_is_not_finite_is_left_out_and_gets_one_half():
    losses, _ = a_mixture(0.3, (2, 18), (12, 4), size=2000)
    holes = losses.copy()
    holes[::7] = math.nan
    holes[3] = math.inf
    kept = np.isfinite(holes)
    got, wanted = fit(holes), fit(losses[kept])
    assert got.table.tolist() == wanted.table.tolist()
    posterior = got.posterior(holes)
    assert (posterior[::7] == 0.5).all()
    assert posterior[3] == pytest.approx(1 - 1e-4)  # an infinite loss is a high one


def test_look_up_takes_the_entry_below():
    table = np.linspace(0.1, 0.9, 100)
    got = look_up(torch.tensor([-5.0, 0.0, 2.0, 9.0]), 0.0, 4.0, torch.from_numpy(table))
    assert got.dtype == torch.float64
    got = got.tolist()
    assert got == pytest.approx([table[0], table[0], table[49], table[99]])  # 2 / (4 + 1e-6) is just below 0.5
