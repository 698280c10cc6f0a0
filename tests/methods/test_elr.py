"""ELR and ELR+: one step in plain arithmetic, targets that move, averaged weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from jnpl.data.loading.batches import Batch, Rows, generator_for
from jnpl.methods.base import Task
from jnpl.methods.elr import ELR, early_learning
from jnpl.methods.elr_plus import ELRPlus, rise

LOGITS = [[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [2.0, 2.0, 0.0]]
LABELS = torch.tensor([1, 0, 2])


def softmax(row):
    total = sum(map(math.exp, row))
    return [math.exp(value) / total for value in row]


def batch(inputs, index=(0, 1, 2)):
    at = torch.tensor(index)
    return Batch(inputs, LABELS[at], at, generator_for(0, "step"), Rows(0, len(at), len(at)))


def elr(beta=0.7, weight=3.0):
    return ELR(Task(lambda _: nn.Identity(), LABELS, 3), ELR.Settings(beta=beta, weight=weight))


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


def test_extreme_logits_are_finite():
    method = elr()
    output = method.step(batch(torch.tensor([[1e4, 0.0, 0.0], [-1e4, 1e4, 0.0], [0.0, 0.0, 0.0]])))
    assert output.loss.isfinite()
    assert ((output.quality >= 0) & (output.quality <= 1)).all()


def test_only_the_targets_of_the_batch_move():
    method = elr()
    method.step(batch(torch.tensor(LOGITS[:1]), index=[2]))
    assert method.targets[:2].eq(0).all()
    assert method.targets[2].sum() == pytest.approx(0.3)


class Scale(nn.Module):
    """One weight: logits are the inputs times it."""

    def __init__(self, value):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(value))

    def forward(self, inputs):
        return self.weight * inputs


def plus(**settings):
    return ELRPlus(Task(lambda number: Scale(1.0 + number), LABELS, 3), ELRPlus.Settings(**settings))


@pytest.mark.parametrize("by_targets", [False, True])
def test_a_step_of_elr_plus_mixes_samples_labels_and_targets_of_the_other_average(by_targets, monkeypatch):
    draws = iter([(0.3, torch.tensor([2, 0, 1])), (0.9, torch.tensor([1, 0, 2]))])
    monkeypatch.setattr("jnpl.methods.elr_plus.draw_mixup", lambda *_: next(draws))
    method = plus(beta=0.6, weight=2.0, weight_steps=10, labels_by_targets=by_targets)
    output = method.step(batch(torch.tensor(LOGITS)))
    weight = 2.0 * math.exp(-5 * (1 - 1 / 10) ** 2)
    total = 0.0
    # Network 1 has the factor 1 and the targets of the average of network 2, whose factor is 2; and the reverse.
    for factor, other, share, partner in ((1.0, 2.0, 0.7, [2, 0, 1]), (2.0, 1.0, 0.9, [1, 0, 2])):
        targets = [[0.4 * value for value in softmax([other * z for z in row])] for row in LOGITS]
        for at, row in enumerate(LOGITS):
            mixed = [factor * (share * a + (1 - share) * b) for a, b in zip(row, LOGITS[partner[at]], strict=True)]
            p = softmax(mixed)
            q = [share * a + (1 - share) * b for a, b in zip(targets[at], targets[partner[at]], strict=True)]
            own, others = int(LABELS[at]), int(LABELS[partner[at]])
            y = [share * (k == own) + (1 - share) * (k == others) for k in range(3)]
            if by_targets:
                y = [a * b for a, b in zip(y, q, strict=True)]
                y = [value / sum(y) for value in y]
            total -= sum(a * math.log(b) for a, b in zip(y, p, strict=True)) / 3
            total += weight * math.log(1 - sum(a * min(max(b, 1e-4), 1 - 1e-4) for a, b in zip(q, p, strict=True))) / 3
    assert output.loss.item() == pytest.approx(total, rel=1e-5)


def test_averages_follow_the_weights_with_a_rising_decay():
    method = plus(average_decay=0.9, average_steps=3)
    average = 1.0
    for step in range(4):
        with torch.no_grad():
            method.model.weight.add_(1.0)  # as an optimiser would
        method.step(batch(torch.tensor(LOGITS)))
        if step:  # before the first step there is nothing to average
            decay = 0.9 * (1.0 if step + 1 >= 3 else math.exp(-5 * (1 - (step + 1) / 3) ** 2))
            average = decay * average + (1 - decay) * method.model.weight.item()
        assert method.average_1.weight.item() == pytest.approx(average, rel=1e-5)
    assert not any(weight.requires_grad for weight in method.average_1.parameters())


def test_the_rise_ends_at_one():
    assert rise(50, 100) == pytest.approx(math.exp(-1.25))


def test_the_ensemble_is_the_mean_of_the_logits():
    each = plus().network_logits(torch.tensor(LOGITS))
    torch.testing.assert_close(each["ensemble"], 1.5 * torch.tensor(LOGITS))
