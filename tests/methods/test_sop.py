"""SOP and SOP+: one step in plain arithmetic, u and v with their own learning rates."""

import math

import pytest
import torch
from tests.helpers.steps import batch_of, make, softmax
from torch import nn

from jnpl.data.loading.batches import Rows
from jnpl.internal.errors import InputError
from jnpl.methods.sop import SOP
from jnpl.methods.sop_plus import SOPPlus
from jnpl.recipes.schema import Training
from jnpl.training.learner import make_optimizer

LOGITS = [[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]]
STRONG = [[0.5, 1.0, 0.5], [1.0, -1.0, 1.0]]
LABELS = torch.tensor([1, 0])
U, V = [0.4, 0.8], [[0.3, 0.9, 0.5], [0.9, 0.1, 1.4]]  # 1.4^2 is clamped to 1


def with_parts(kind, **settings):
    method = make(kind, LABELS, lambda _: nn.Linear(3, 3, bias=False), classes=3, **settings)
    with torch.no_grad():
        method.model.weight.copy_(torch.eye(3))
        method.u.copy_(torch.tensor(U).unsqueeze(1))
        method.v.copy_(torch.tensor(V))
    return method


def parts(at):
    y = [float(k == LABELS[at]) for k in range(3)]
    added = [min(U[at] ** 2 * label, 1.0) for label in y]
    removed = [min(V[at][k] ** 2 * (1 - y[k]), 1.0) for k in range(3)]
    return y, added, removed


def adjusted(at):
    _, added, removed = parts(at)
    raw = [max(p + a - r, 1e-4) for p, a, r in zip(softmax(LOGITS[at]), added, removed, strict=True)]
    return [max(value / sum(raw), 1e-4) for value in raw]


def expected():
    supervised = fit = 0.0
    for at, row in enumerate(LOGITS):
        y, added, removed = parts(at)
        supervised -= math.log(adjusted(at)[LABELS[at]]) / 2
        top = row.index(max(row))
        errors = [(k == top) + a - r - label for k, (a, r, label) in enumerate(zip(added, removed, y, strict=True))]
        fit += sum(error**2 for error in errors) / 2
    return supervised, fit


def test_a_step_is_cross_entropy_of_the_adjusted_prediction_and_the_fit_of_u_and_v():
    output = with_parts(SOP).step(batch_of(torch.tensor(LOGITS), LABELS))
    supervised, fit = expected()
    assert output.scalars["supervised"].item() == pytest.approx(supervised, rel=1e-5)
    assert output.loss.item() == pytest.approx(supervised + fit, rel=1e-5)
    assert output.quality is None


@pytest.mark.parametrize("rows", [Rows(0, 2, 2), Rows(0, 2, 4)])
def test_the_gradient_of_v_comes_from_the_fit_alone(rows):
    """d/dv of (... - v^2 ...)^2 / B = -4 v e / B where v^2 is not clamped; sparse or, with several processes, not."""
    method = with_parts(SOP)
    method.step(batch_of(torch.tensor(LOGITS), LABELS, rows=rows)).loss.backward()
    assert method.v.grad.is_sparse == (rows.total == 2)
    gradient = method.v.grad.to_dense()
    for at, row in enumerate(LOGITS):
        y, added, removed = parts(at)
        for k in range(3):
            error = (k == row.index(max(row))) + added[k] - removed[k] - y[k]
            wanted = 0.0 if k == LABELS[at] or V[at][k] ** 2 >= 1 else -2 * V[at][k] * error
            assert gradient[at, k].item() == pytest.approx(wanted, abs=1e-6)


def test_sop_plus_adds_consistency_and_balance():
    method = with_parts(SOPPlus, consistency=0.9, balance=0.1)
    output = method.step(batch_of(torch.tensor(LOGITS), LABELS, views=(torch.tensor(STRONG),)))
    supervised, fit = expected()
    divergence = 0.0
    for row, other in zip(LOGITS, STRONG, strict=True):
        divergence += sum(p * math.log(p / q) for p, q in zip(softmax(row), softmax(other), strict=True)) / 2
    means = [(adjusted(0)[k] + adjusted(1)[k]) / 2 for k in range(3)]
    balance = -sum(math.log(mean) for mean in means) / 3
    assert output.loss.item() == pytest.approx(supervised + fit + 0.9 * divergence + 0.1 * balance, rel=1e-5)
    assert output.logits.shape == (2, 3)


def test_u_and_v_have_their_own_learning_rates_without_momentum_or_decay():
    method = with_parts(SOP, lr_u=5.0, lr_v=7.0)
    plan = Training(epochs=3, lr=0.1, momentum=0.9, weight_decay=0.3)
    optimizer = make_optimizer(method, plan, method.parameter_groups())
    facts = [(group["lr"], group["momentum"], group["weight_decay"]) for group in optimizer.param_groups]
    assert facts == [(0.1, 0.9, 0.3), (5.0, 0.0, 0.0), (7.0, 0.0, 0.0)]
    before = method.v.detach().clone()
    method.step(batch_of(torch.tensor(LOGITS), LABELS)).loss.backward()
    gradient = method.v.grad.to_dense()
    optimizer.step()
    torch.testing.assert_close(method.v.detach(), before - 7.0 * gradient)


@pytest.mark.parametrize(
    ("changed", "message"), [({"optimizer": "adam"}, "train.optimizer.*got adam"), ({"clip_norm": 1.0}, "clip_norm")]
)
def test_plans_that_do_not_suit_u_and_v_are_refused(changed, message):
    method = with_parts(SOP)
    with pytest.raises(InputError, match=message):
        make_optimizer(method, Training(epochs=1, lr=0.1, **changed), method.parameter_groups())
