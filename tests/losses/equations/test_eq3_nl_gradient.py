"""Eq. 3: dL_NL / df_i = p_ybar if i = y-bar, else -p_ybar p_i / (1 - p_ybar)."""

import math

import pytest
import torch
from tests.helpers.arithmetic import batch, gradient, softmax

from jnpl import functional as JF

CLASSES = [2, 3, 10, 100, 1000]
DTYPES = [(torch.float64, 1e-13), (torch.float32, 1e-6)]


def eq3(row, complement):
    p = softmax(row)
    pull = p[complement] / math.fsum(q for k, q in enumerate(p) if k != complement)
    return [p[i] if i == complement else -pull * p[i] for i in range(len(row))]


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_closed_form(num_classes, dtype, tolerance):
    logits, complements = batch(num_classes, dtype)
    grads = gradient(JF.nl(logits, complements), logits)
    assert grads.dtype == dtype
    for row, grad, (k,) in zip(logits.tolist(), grads.tolist(), complements.tolist(), strict=True):
        assert grad == pytest.approx(eq3(row, k), rel=50 * tolerance, abs=tolerance)


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_log_one_minus_softmax_carries_it_too(num_classes, dtype, tolerance):
    logits, complements = batch(num_classes, dtype)
    grads = gradient(-JF.log_one_minus_softmax(logits).gather(1, complements), logits)
    for row, grad, (k,) in zip(logits.tolist(), grads.tolist(), complements.tolist(), strict=True):
        assert grad == pytest.approx(eq3(row, k), rel=50 * tolerance, abs=3 * tolerance)


@pytest.mark.parametrize(("num_classes", "k"), [(2, 3), (10, 4), (100, 110)])
def test_many_complements_add_their_gradients(num_classes, k):
    logits, complements = batch(num_classes, torch.float64, k)
    grads = gradient(JF.nl(logits, complements), logits)
    for row, grad, ones in zip(logits.tolist(), grads.tolist(), complements.tolist(), strict=True):
        parts = [eq3(row, one) for one in ones]
        assert grad == pytest.approx([math.fsum(column) for column in zip(*parts, strict=True)], abs=1e-12)


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_exhaustive_adds_all_others(num_classes, dtype, tolerance):
    logits, labels = batch(num_classes, dtype, size=2)
    labels = labels[:, 0]
    grads = gradient(JF.nl_exhaustive(logits, labels), logits)
    for row, grad, label in zip(logits.tolist(), grads.tolist(), labels.tolist(), strict=True):
        p = softmax(row)
        pulls = [0.0 if k == label else p[k] / math.fsum(p[:k] + p[k + 1 :]) for k in range(num_classes)]
        expected = [pulls[i] - p[i] * math.fsum(pulls) for i in range(num_classes)]  # Eq. 3 added up by hand
        assert grad == pytest.approx(expected, rel=50 * tolerance, abs=4 * tolerance)


@pytest.mark.parametrize("gap", [20, 30, 100, 10_000])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_the_gradient_lives_where_the_clamp_kills_it(gap, dtype, tolerance):
    logits = torch.tensor([[gap, 1.0, 0.0, -1.0]], dtype=dtype, requires_grad=True)
    others = softmax([1.0, 0.0, -1.0])  # as p_ybar -> 1, the others share -1 by their own softmax
    for loss in (
        JF.nl(logits, torch.tensor([0])),
        JF.nl(logits, torch.tensor([[0]]), reduction="mean"),
        -JF.log_one_minus_softmax(logits)[:, 0],
    ):
        grad = gradient(loss, logits)[0].tolist()
        assert grad[0] == pytest.approx(1.0, abs=1e-7 + 2 * tolerance)
        # The few digits that a logit of this size has lost itself are granted.
        room = 1e-7 + (4 + gap) * torch.finfo(dtype).eps
        assert grad[1:] == pytest.approx([-p for p in others], abs=room)


@pytest.mark.parametrize("gap", [100, 10_000])
def test_a_large_gap_does_not_coarsen_the_others(gap):
    # The gaps are whole numbers, exact in float32: the shares among the others depend on their small logits alone.
    logits = torch.tensor([[gap, 1.0, 0.0, -1.0]], dtype=torch.float32, requires_grad=True)
    grad = gradient(JF.nl(logits, torch.tensor([0])), logits)[0].tolist()
    assert grad[1:] == pytest.approx([-p for p in softmax([1.0, 0.0, -1.0])], abs=1e-6)


def test_gradcheck_and_gradgradcheck():
    logits, complements = batch(5, torch.float64, k=3, scale=2.0)
    labels = complements[:, 0]
    for function in (
        lambda f: JF.nl(f, complements),
        lambda f: JF.nl(f, complements, reduction="mean"),
        lambda f: JF.nl_exhaustive(f, labels),
        lambda f: JF.nl_exhaustive(f, labels, reduction="mean"),
        JF.log_one_minus_softmax,
    ):
        assert torch.autograd.gradcheck(function, logits)
        assert torch.autograd.gradgradcheck(function, logits)
