"""Eq. 8: dL_PL+ / df_yhat = -(1 - p_yhat^(2^(N+1))): the product is a constant."""

import math

import pytest
import torch
from tests.helpers.arithmetic import gradient, softmax, sure_batch

from jnpl import functional as JF

CLASSES = [2, 3, 10, 100, 1000]
DTYPES = [(torch.float64, 1e-13), (torch.float32, 3e-6)]


def product(p, n):
    return math.prod(1 + p ** (2**i) for i in range(n + 1))


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("n", [-1, 0, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_closed_form(num_classes, n, dtype, tolerance):
    logits, targets = sure_batch(num_classes, dtype)
    grads = gradient(JF.pl_plus(logits, targets, n), logits)
    for row, grad, target in zip(logits.tolist(), grads.tolist(), targets.tolist(), strict=True):
        p = softmax(row)
        expected = [product(p[target], n) * p[i] for i in range(num_classes)]
        expected[target] = -(1 - p[target] ** (2 ** (n + 1)))
        assert grad == pytest.approx(expected, abs=tolerance)


def test_the_product_is_a_constant():
    # METHODS 4.3 row 1: at p = 0.7 the slope is -0.997; through the product it would be -0.186; CE has -0.30.
    logits = torch.tensor([[math.log(0.7 / 0.3), 0.0]], dtype=torch.float64, requires_grad=True)
    p = logits.softmax(1)[:, 0]
    flowing = -(1 + p) * (1 + p**2) * (1 + p**4) * (1 + p**8) * p.log()
    assert gradient(flowing, logits)[0, 0].item() == pytest.approx(-0.186, abs=5e-4)
    assert gradient(JF.pl_plus(logits, torch.tensor([0])), logits)[0, 0].item() == pytest.approx(1 * (0.7**16 - 1))
    assert gradient(JF.pl(logits, torch.tensor([0])), logits)[0, 0].item() == pytest.approx(-0.3)


def test_flat_where_cross_entropy_fades():
    grads = []
    for p in (0.3, 0.5, 0.7, 0.8):
        logits = torch.tensor([[math.log(p / (1 - p)), 0.0]], dtype=torch.float64, requires_grad=True)
        grads.append(gradient(JF.pl_plus(logits, torch.tensor([0])), logits)[0, 0].item())
    assert all(-1 <= grad < -0.97 for grad in grads)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_extreme_logits(dtype):
    values = torch.tensor([-1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4], dtype=dtype)
    logits = torch.cartesian_prod(values, values, values).requires_grad_()
    for target in range(3):
        grads = gradient(JF.pl_plus(logits, torch.full((343,), target)), logits)
        assert grads.isfinite().all()
        assert grads.abs().max() <= 1
        hopeless = (logits[:, target] < logits.amax(1) - 50).detach()
        assert (grads[hopeless, target] == -1).all()  # p_t = 0: the full slope
        assert hopeless.any()
