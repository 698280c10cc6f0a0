"""Eq. 5: L_NL+(f, y-bar) = -(1 - p_ybar) sum_k y-bar_k log(1 - p_k), one weight per complement."""

import math

import pytest
import torch
from tests.helpers.arithmetic import batch, softmax

from jnpl import functional as JF

CLASSES = [2, 3, 10, 100, 1000]
DTYPES = [(torch.float64, 1e-11), (torch.float32, 3e-6)]


def literal_nl_plus(row, complement, gamma=1.0):
    p = softmax(row)
    one_hot = [float(k == complement) for k in range(len(row))]
    inner = math.fsum(y_bar * math.log(1 - q) for y_bar, q in zip(one_hot, p, strict=True))
    return -((1 - p[complement]) ** gamma) * inner


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.0, 2.5])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_value(num_classes, gamma, dtype, tolerance):
    logits, complements = batch(num_classes, dtype)
    rows = zip(logits.tolist(), complements.tolist(), strict=True)
    expected = [literal_nl_plus(row, k, gamma) for row, (k,) in rows]
    loss = JF.nl_plus(logits, complements, gamma)
    assert loss.dtype == dtype
    assert loss.tolist() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("gamma", [1.0, 0.5])
@pytest.mark.parametrize(("num_classes", "k"), [(2, 3), (3, 7), (10, 4), (100, 110)])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_each_of_k_complements_has_its_own_weight(num_classes, k, gamma, dtype, tolerance):
    logits, complements = batch(num_classes, dtype, k)
    rows = zip(logits.tolist(), complements.tolist(), strict=True)
    expected = [math.fsum(literal_nl_plus(row, one, gamma) for one in ones) for row, ones in rows]
    assert JF.nl_plus(logits, complements, gamma).tolist() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("gamma", [1.0, 0.5, 2.5])
@pytest.mark.parametrize("num_classes", CLASSES)
def test_exhaustive_is_the_sum_over_all_other_classes(num_classes, gamma):
    logits, labels = batch(num_classes, torch.float64)
    expected = []
    for row, (label,) in zip(logits.tolist(), labels.tolist(), strict=True):
        terms = [(1 - p) ** gamma * math.log(1 - p) for k, p in enumerate(softmax(row)) if k != label]
        expected.append(-math.fsum(terms))
    assert JF.nl_plus_exhaustive(logits, labels[:, 0], gamma).tolist() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("num_classes", [2, 3, 10, 50])
def test_one_sampled_complement_is_exhaustive_over_c_minus_one_in_expectation(num_classes):
    logits, labels = batch(num_classes, torch.float64)
    labels = labels[:, 0]
    # All C - 1 outcomes of the draw, each once: the expectation without sampling.
    outcomes = [JF.nl_plus(logits, (labels + shift) % num_classes) for shift in range(1, num_classes)]
    expectation = torch.stack(outcomes).mean(0)
    exhaustive = JF.nl_plus_exhaustive(logits, labels) / (num_classes - 1)
    torch.testing.assert_close(expectation, exhaustive, rtol=1e-12, atol=0)


def test_the_worked_value():
    # p = (1/2, 1/4, 1/4): -(3/4) log(3/4) for the second class, -(1/2) log(1/2) for the first.
    logits = torch.tensor([[math.log(2), 0.0, 0.0]], dtype=torch.float64)
    assert JF.nl_plus(logits, torch.tensor([1])).item() == pytest.approx(-0.75 * math.log(0.75), rel=1e-14)
    assert JF.nl_plus(logits, torch.tensor([0])).item() == pytest.approx(-0.5 * math.log(0.5), rel=1e-14)


@pytest.mark.parametrize("gap", [5, 20, 30, 80, 100, 10_000])
@pytest.mark.parametrize("gamma", [1.0, 0.5, 2.0])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_a_sure_network_is_forgiven_but_not_forgotten(gap, gamma, dtype, tolerance):
    keep = 2 * math.exp(-gap) / (1 + 2 * math.exp(-gap))
    log_keep = math.log(2) - gap - math.log1p(2 * math.exp(-gap))
    expected = -(keep**gamma) * log_keep
    loss = JF.nl_plus(torch.tensor([[gap, 0.0, 0.0]], dtype=dtype), torch.tensor([0]), gamma).item()
    # exp of a float32 -100 is a subnormal number with few digits; exp(-1e4) is 0 in every dtype.
    assert loss == pytest.approx(expected, rel=2 * tolerance, abs=gap * torch.finfo(dtype).tiny)
