"""Eq. 7: L_PL+(f, y-hat) = -prod_{n=0..N} (1 + p_yhat^(2^n)) log p_yhat."""

import math

import pytest
import torch
from tests.helpers.arithmetic import softmax, sure_batch

from jnpl import functional as JF

CLASSES = [2, 3, 10, 100, 1000]
DTYPES = [(torch.float64, 1e-12), (torch.float32, 3e-6)]


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("n", [-1, 0, 1, 3, 5])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_value(num_classes, n, dtype, tolerance):
    logits, targets = sure_batch(num_classes, dtype)
    expected = []
    for row, target in zip(logits.tolist(), targets.tolist(), strict=True):
        p = softmax(row)[target]
        product = 1.0
        for i in range(n + 1):
            product *= 1 + p ** (2**i)
        expected.append(-product * math.log(p))
    loss = JF.pl_plus(logits, targets, n)
    assert loss.dtype == dtype
    assert loss.tolist() == pytest.approx(expected, rel=tolerance, abs=tolerance / 3)


def test_the_paper_has_n_3():
    logits, targets = sure_batch(10, torch.float64)
    assert torch.equal(JF.pl_plus(logits, targets), JF.pl_plus(logits, targets, n=3))
    assert not torch.equal(JF.pl_plus(logits, targets), JF.pl_plus(logits, targets, n=2))


def test_the_empty_product_is_cross_entropy():
    logits, targets = sure_batch(10, torch.float64)
    assert torch.equal(JF.pl_plus(logits, targets, n=-1), JF.pl(logits, targets))


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("p", [0.01, 0.5, 0.9, 0.999])
def test_the_product_telescopes(p, n):
    # W (1 - p) = 1 - p^(2^(n+1)), read off the loss as W = loss / -log p.
    logits = torch.tensor([[math.log(p / (1 - p)), 0.0]], dtype=torch.float64)
    weight = JF.pl_plus(logits, torch.tensor([0]), n).item() / -math.log(p)
    assert weight * (1 - p) == pytest.approx(1 - p ** (2 ** (n + 1)), rel=1e-11)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_extreme_logits(dtype):
    logits = torch.tensor([[8192.0, 0.0, 0.0], [8192.0, 0.0, 0.0], [10.0, 0.0, 0.0]], dtype=dtype)
    sure, wrong, nearly = JF.pl_plus(logits, torch.tensor([0, 1, 0])).tolist()
    assert sure == 0  # W = 16, log p = 0: the quotient (1 - p^16) / (1 - p) would be 0 / 0
    assert wrong == 8192  # W = 1
    p = 1 / (1 + 2 * math.exp(-10))
    assert nearly == pytest.approx((1 - p**16) / (1 - p) * -math.log(p), rel=1e-10 if dtype == torch.float64 else 1e-2)
