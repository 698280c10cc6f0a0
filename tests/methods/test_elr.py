"""ELR: two steps in plain arithmetic, targets that move."""

import math

import numpy as np
import pytest
import torch
from tests.helpers.steps import batch_of, make, softmax
from torch import nn

from jnpl.methods.elr import ELR, early_learning

LOGITS = [[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [2.0, 2.0, 0.0]]
LABELS = torch.tensor([1, 0, 2])


def batch(inputs, index=(0, 1, 2)):
    at = torch.tensor(index)
    return batch_of(inputs, LABELS[at], at)


def elr(beta=0.7, weight=3.0):
    return make(ELR, LABELS, lambda _: nn.Identity(), classes=3, beta=beta, weight=weight)


def test_two_steps_are_cross_entropy_plus_lambda_log_of_one_minus_the_agreement():
    method = elr()
    targets = [[0.0] * 3 for _ in LOGITS]
    for _ in range(2):
        output = method.step(batch(torch.tensor(LOGITS)))
        losses = []
        for at, row in enumerate(LOGITS):
            p = [min(max(value, 1e-4), 1 - 1e-4) for value in softmax(row)]
            targets[at] = [0.7 * t + 0.3 * value / sum(p) for t, value in zip(targets[at], p, strict=True)]
            agreement = sum(t * value for t, value in zip(targets[at], p, strict=True))
            losses.append(-math.log(softmax(row)[LABELS[at]]) + 3.0 * math.log(1 - agreement))
        assert output.loss.item() == pytest.approx(sum(losses) / 3, rel=1e-5)
        wanted = [targets[at][LABELS[at]] / sum(targets[at]) for at in range(3)]
        assert output.quality.tolist() == pytest.approx(wanted, rel=1e-5)
    np.testing.assert_allclose(method.targets.numpy(), targets, rtol=1e-5)


def test_the_gradient_of_the_regularisation_lowers_the_loss_of_the_target_class():
    """d/dz_k of log(1 - <t, p>) = -p_k (t_k - <t, p>) / (1 - <t, p>)."""
    logits = torch.tensor([[0.3, -0.2, 1.0]], requires_grad=True)
    targets = torch.tensor([[0.1, 0.6, 0.2]])
    p = logits.softmax(1)
    early_learning(targets, p).sum().backward()
    inner = (targets * p).sum()
    wanted = -p * (targets - inner) / (1 - inner)
    torch.testing.assert_close(logits.grad, wanted.detach())


def test_only_the_targets_of_the_batch_move():
    method = elr()
    method.step(batch(torch.tensor(LOGITS[:1]), index=[2]))
    assert method.targets[:2].eq(0).all()
    assert method.targets[2].sum() == pytest.approx(0.3)
