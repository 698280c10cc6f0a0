"""Eq. 2: L_NL(f, y-bar) = -sum_k y-bar_k log(1 - p_k), summed over K complements (METHODS 3.3, 4.3 row 2a)."""

import math

import pytest
import torch
from tests.helpers.arithmetic import softmax

from jnpl import functional as JF

CLASSES = [2, 3, 10, 100, 1000]
DTYPES = [(torch.float64, 1e-11), (torch.float32, 3e-6)]


def literal_nl(row, complement):
    one_hot = [float(k == complement) for k in range(len(row))]
    return -math.fsum(y_bar * math.log(1 - p) for y_bar, p in zip(one_hot, softmax(row), strict=True))


def batch(num_classes, dtype, k=1, size=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = (2 * torch.randn(size, num_classes, generator=g, dtype=torch.float64)).to(dtype)
    return logits, torch.randint(num_classes, (size, k), generator=g)


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_value(num_classes, dtype, tolerance):
    logits, complements = batch(num_classes, dtype)
    expected = [literal_nl(row, k) for row, (k,) in zip(logits.tolist(), complements.tolist(), strict=True)]
    loss = JF.nl(logits, complements[:, 0])
    assert loss.dtype == dtype
    assert loss.tolist() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize(("num_classes", "k"), [(2, 1), (3, 7), (10, 4), (100, 110)])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_k_complements_are_summed_and_repeats_count(num_classes, k, dtype, tolerance):
    logits, complements = batch(num_classes, dtype, k)
    expected = [
        math.fsum(literal_nl(row, one) for one in ones)
        for row, ones in zip(logits.tolist(), complements.tolist(), strict=True)
    ]
    assert JF.nl(logits, complements).tolist() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_exhaustive_is_the_sum_over_all_other_classes(num_classes, dtype, tolerance):
    logits, labels = batch(num_classes, dtype)
    rows = zip(logits.tolist(), labels[:, 0].tolist(), strict=True)
    expected = [-math.fsum(math.log(1 - p) for k, p in enumerate(softmax(row)) if k != y) for row, y in rows]
    assert JF.nl_exhaustive(logits, labels[:, 0]).tolist() == pytest.approx(expected, rel=tolerance)


@pytest.mark.parametrize("gap", [20, 30, 100, 10_000])
def test_a_sure_network_pays_its_full_price(gap):
    # -log(1 - p) = log(1 + 2 e^gap) - log 2 ~ gap - log 2; NLNL's clamp at 1e-5 would stop at 11.51 (METHODS 3.5).
    for dtype, tolerance in DTYPES:
        loss = JF.nl(torch.tensor([[gap, 0.0, 0.0]], dtype=dtype), torch.tensor([0])).item()
        assert loss == pytest.approx(gap - math.log(2) + math.log1p(2 * math.exp(-gap)), rel=tolerance)
        assert loss > -math.log(1e-5)


@pytest.mark.parametrize("function", [JF.nl, JF.nl_plus, JF.nl_exhaustive, JF.nl_plus_exhaustive])
def test_mean_is_the_mean_over_samples_with_its_gradient(function):
    logits, complements = batch(10, torch.float64, size=5)
    logits.requires_grad_()
    losses, mean = function(logits, complements[:, 0]), function(logits, complements[:, 0], reduction="mean")
    assert mean.shape == ()
    assert mean.item() == pytest.approx(math.fsum(losses.tolist()) / 5, rel=1e-14)
    (of_sum,) = torch.autograd.grad(losses.sum(), logits)
    (of_mean,) = torch.autograd.grad(3 * mean, logits)
    torch.testing.assert_close(of_mean, 3 * of_sum / 5, rtol=1e-13, atol=0)
