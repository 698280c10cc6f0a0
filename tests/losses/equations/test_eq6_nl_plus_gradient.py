"""Eq. 6: dL_NL+ / df_i = -p_ybar p_i for i != y-bar, and p_ybar (1 - p_ybar) on y-bar: the weight is a constant."""

import math

import pytest
import torch
from tests.helpers.arithmetic import batch, gradient, softmax

from jnpl import functional as JF

CLASSES = [2, 3, 10, 100, 1000]
DTYPES = [(torch.float64, 1e-14), (torch.float32, 2.5e-7)]


def eq6(row, complement):
    p = softmax(row)
    keep = math.fsum(q for k, q in enumerate(p) if k != complement)
    return [p[complement] * keep if i == complement else -p[complement] * p[i] for i in range(len(row))]


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_closed_form(num_classes, dtype, tolerance):
    logits, complements = batch(num_classes, dtype)
    grads = gradient(JF.nl_plus(logits, complements), logits)
    assert grads.dtype == dtype
    for row, grad, (k,) in zip(logits.tolist(), grads.tolist(), complements.tolist(), strict=True):
        assert grad == pytest.approx(eq6(row, k), rel=20 * tolerance, abs=tolerance)


@pytest.mark.parametrize(("num_classes", "k"), [(2, 3), (10, 4), (100, 110)])
def test_many_complements_add_their_gradients(num_classes, k):
    logits, complements = batch(num_classes, torch.float64, k)
    grads = gradient(JF.nl_plus(logits, complements), logits)
    for row, grad, ones in zip(logits.tolist(), grads.tolist(), complements.tolist(), strict=True):
        parts = [eq6(row, one) for one in ones]
        assert grad == pytest.approx([math.fsum(column) for column in zip(*parts, strict=True)], abs=1e-12)


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_exhaustive_is_the_mean_absolute_error(num_classes, dtype, tolerance):
    # All complements together: p_y (p_i - [i = y]), the gradient of 1 - p_y.
    logits, labels = batch(num_classes, dtype)
    labels = labels[:, 0]
    grads = gradient(JF.nl_plus_exhaustive(logits, labels), logits)
    for row, grad, label in zip(logits.tolist(), grads.tolist(), labels.tolist(), strict=True):
        p = softmax(row)
        rest = math.fsum(q for k, q in enumerate(p) if k != label)
        expected = [-p[label] * rest if i == label else p[label] * p[i] for i in range(num_classes)]
        assert grad == pytest.approx(expected, rel=20 * tolerance, abs=tolerance)
    torch.testing.assert_close(grads, gradient(JF.mae(logits, labels) / 2, logits), rtol=0, atol=4 * tolerance)


@pytest.mark.parametrize("gamma", [1.0, 0.5, 2.0])
def test_gamma_scales_eq3_by_the_weight_in_every_branch(gamma):
    logits, complements = batch(10, torch.float64, size=16)
    labels = complements[:, 0]
    grads = gradient(JF.nl_plus(logits, complements, gamma), logits)
    exhaustive = gradient(JF.nl_plus_exhaustive(logits, labels, gamma), logits)
    for b, (row, label) in enumerate(zip(logits.tolist(), labels.tolist(), strict=True)):
        p = softmax(row)
        keep = [math.fsum(p[:k] + p[k + 1 :]) for k in range(10)]
        parts = [[keep[k] ** gamma * p[k] / keep[k] * ((i == k) - p[i]) for i in range(10)] for k in range(10)]
        assert grads[b].tolist() == pytest.approx(parts[label], abs=1e-14)
        expected = [math.fsum(parts[k][i] for k in range(10) if k != label) for i in range(10)]
        assert exhaustive[b].tolist() == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("p", [0.3, 0.6, 1 - 1 / math.e - 0.01, 1 - 1 / math.e + 0.01, 0.7, 0.9, 0.999])
def test_the_weight_is_a_constant(p):
    # Without the stop-gradient the slope is p (1 - p) (1 + log(1 - p)): beyond 1 - 1/e it would reward a wrong class.
    logits = torch.tensor([[math.log(p / (1 - p)), 0.0]], dtype=torch.float64, requires_grad=True)
    flowing = -(1 - logits.softmax(1)[:, 0]) * (1 - logits.softmax(1)[:, 0]).log()
    wrong = gradient(flowing, logits)[0, 0].item()
    assert wrong == pytest.approx(p * (1 - p) * (1 + math.log(1 - p)), rel=1e-10)
    assert (wrong < 0) == (p > 1 - 1 / math.e)
    for loss in (
        JF.nl_plus(logits, torch.tensor([0])),
        JF.nl_plus(logits, torch.tensor([0]), reduction="mean"),
        JF.nl_plus_exhaustive(logits, torch.tensor([1])),
        torch.func.vmap(lambda f: JF.nl_plus(f[None], torch.tensor([0]))[0])(logits),  # the plain-ops branch
    ):
        right = gradient(loss, logits)[0].tolist()
        assert right == pytest.approx([p * (1 - p), -p * (1 - p)], rel=1e-10)


def test_second_derivatives_keep_the_weight_constant_too():
    # By the definition the Hessian is the weight times that of NL.
    logits, complements = batch(4, torch.float64, size=3, scale=1.5)
    weight = (1 - logits.detach().softmax(1)).gather(1, complements).squeeze(1)
    direction = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def curvature(losses):
        (first,) = torch.autograd.grad(losses.sum(), logits, create_graph=True)
        return torch.autograd.grad((first * direction).sum(), logits)[0]

    expected = weight[:, None] * curvature(JF.nl(logits, complements))
    torch.testing.assert_close(curvature(JF.nl_plus(logits, complements)), expected, rtol=1e-11, atol=1e-14)
    others = torch.stack([(complements[:, 0] + shift) % 4 for shift in (1, 2, 3)], dim=1)
    summed = curvature(JF.nl_plus(logits, others))
    exhaustive = curvature(JF.nl_plus_exhaustive(logits, complements[:, 0]))
    torch.testing.assert_close(exhaustive, summed, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("gap", [20, 30, 60])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_sure_network_still_feels_the_other_classes(gap, dtype):
    logits = torch.tensor([[gap, 0.0, 0.0]], dtype=dtype, requires_grad=True)
    p = 1 / (1 + 2 * math.exp(-gap))
    small = math.exp(-gap) * p
    grad = gradient(JF.nl_plus(logits, torch.tensor([0])), logits)[0].tolist()
    assert grad[1:] == pytest.approx([-p * small, -p * small], rel=1e-5, abs=0)
    exhaustive = gradient(JF.nl_plus_exhaustive(logits, torch.tensor([1])), logits)[0].tolist()
    assert exhaustive[1] == pytest.approx(-small, rel=1e-5, abs=0)


@pytest.mark.parametrize("gap", [10, 15, 20, 30])
def test_nothing_cancels_on_the_sure_complement_itself(gap):
    # p_ybar (1 - p_ybar) is a normal float32 here; p - p * p loses it.
    logits = torch.tensor([[gap, 0.0, 0.0]], dtype=torch.float32, requires_grad=True)
    p = 1 / (1 + 2 * math.exp(-gap))
    small = math.exp(-gap) * p
    grad = gradient(JF.nl_plus(logits, torch.tensor([0])), logits)[0, 0].item()
    assert grad == pytest.approx(2 * p * small, rel=1e-5, abs=0)
    exhaustive = gradient(JF.nl_plus_exhaustive(logits, torch.tensor([1])), logits)[0, 0].item()
    assert exhaustive == pytest.approx(p * small, rel=1e-5, abs=0)


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("cross_entropy", [0.0, 0.4])
def test_the_closed_form_over_all_complements_is_the_gradient_of_the_loss(num_classes, cross_entropy):
    """The sum of Eq. 6 over all complements is p_y (p_i - [i = y])."""
    logits, _ = batch(num_classes, torch.float64)
    labels = torch.arange(len(logits)) % num_classes
    found = JF.nl_plus_exhaustive_gradient(logits.detach(), labels, cross_entropy)
    leaf = logits.detach().clone().requires_grad_()
    loss = JF.nl_plus_exhaustive(leaf, labels) + cross_entropy * JF.pl(leaf, labels)
    loss.sum().backward()
    torch.testing.assert_close(found, leaf.grad)
    for row, y, slope in zip(logits.tolist(), labels.tolist(), found.tolist(), strict=True):
        p, of_each = softmax(row), [eq6(row, k) for k in range(num_classes) if k != y]
        plain = [math.fsum(each[i] for each in of_each) for i in range(min(num_classes, 10))]
        plain = [each + cross_entropy * (p[i] - (i == y)) for i, each in enumerate(plain)]
        assert slope[: len(plain)] == pytest.approx(plain, abs=1e-12)


def test_the_closed_form_is_finite_for_extreme_logits():
    logits = torch.tensor([[1e4, -1e4, 0.0], [0.0, 1e4, -1e4]])
    assert JF.nl_plus_exhaustive_gradient(logits, torch.tensor([1, 1])).abs().max() == 0  # p_y is 0, or p is right
    assert JF.nl_plus_exhaustive_gradient(logits, torch.tensor([1, 1]), 1.0)[0].tolist() == [1.0, -1.0, 0.0]
