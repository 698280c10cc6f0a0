"""Eq. 1: L_PL(f, y) = -sum_k y_k log p_k."""

import math

import pytest
import torch
from tests.helpers.arithmetic import softmax

from jnpl import functional as JF

CLASSES = [2, 3, 10, 100, 1000]
DTYPES = [(torch.float64, 1e-12), (torch.float32, 2e-6)]


def batch(num_classes, dtype, size=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = (3 * torch.randn(size, num_classes, generator=g, dtype=torch.float64)).to(dtype)
    return logits.requires_grad_(), torch.randint(num_classes, (size,), generator=g)


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_value(num_classes, dtype, tolerance):
    logits, labels = batch(num_classes, dtype)
    expected = []
    for row, label in zip(logits.tolist(), labels.tolist(), strict=True):
        one_hot = [float(k == label) for k in range(num_classes)]
        expected.append(-math.fsum(y * math.log(p) for y, p in zip(one_hot, softmax(row), strict=True)))
    loss = JF.pl(logits, labels)
    assert loss.dtype == dtype
    assert loss.tolist() == pytest.approx(expected, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_gradient_is_p_minus_one_hot(num_classes, dtype, tolerance):
    logits, labels = batch(num_classes, dtype)
    JF.pl(logits, labels).sum().backward()
    for row, grad, label in zip(logits.tolist(), logits.grad.tolist(), labels.tolist(), strict=True):
        expected = [p - (k == label) for k, p in enumerate(softmax(row))]
        assert grad == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_extreme_logits_lose_nothing(dtype):
    logits = torch.tensor([[8192.0, -8192.0, 0.0], [-8192.0, 0.0, -8192.0]], dtype=dtype, requires_grad=True)
    loss = JF.pl(logits, torch.tensor([1, 1]))
    assert loss.tolist() == [16384.0, 0.0]  # half precision would round neither, but could not add up many of them
    loss.sum().backward()
    assert logits.grad.tolist() == [[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]]
