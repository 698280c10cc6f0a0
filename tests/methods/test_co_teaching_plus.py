"""Co-teaching+: the selection among disagreements, against plain arithmetic; quirks of the released code are absent."""

import math

import pytest
import torch
from tests.helpers.steps import batch_of
from torch import nn

from jnpl.methods.base import Task
from jnpl.methods.co_teaching import CoTeaching
from jnpl.methods.co_teaching_plus import CoTeachingPlus

# Samples 0, 2, 3 and 5 are predicted differently by the two networks.
FIRST = [[2.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]
SECOND = [[0.0, 1.0], [2.0, 0.0], [0.0, 0.2], [0.3, 0.0], [0.0, 1.0], [0.4, 0.0]]
LABELS = torch.tensor([0, 0, 1, 1, 0, 1])


class Rowwise(nn.Module):
    """Prescribed logits, whatever the input."""

    def __init__(self, rows):
        super().__init__()
        self.rows = nn.Parameter(torch.tensor(rows))

    def forward(self, inputs):
        return self.rows[inputs.long().squeeze(1)]


def method(kind=CoTeachingPlus, first=FIRST, second=SECOND, **settings):
    task = Task(lambda number: Rowwise((first, second)[number]), LABELS, 2)
    made = kind(task, kind.Settings(noise_rate=0.5, ramp_epochs=1, **settings))
    made.epochs, made.epoch = 10, 5
    return made


def batch():
    return batch_of(torch.arange(6.0).unsqueeze(1), LABELS)


def ce(row, label):
    return -row[label] + math.log(sum(map(math.exp, row)))


def test_each_network_learns_the_small_losses_of_the_other_among_disagreements():
    learner = method(warm_up=2)
    learner.noise_rate, learner.ramp_epochs = 0.5, 2
    output = learner.step(batch())
    differ = [0, 2, 3, 5]  # sample 0 is among them: the released code loses it
    losses = [[ce(row, label) for row, label in zip(rows, LABELS.tolist(), strict=True)] for rows in (FIRST, SECOND)]
    small = [sorted(differ, key=row.__getitem__)[:2] for row in losses]
    wanted = sum(losses[0][at] for at in small[1]) / 2 + sum(losses[1][at] for at in small[0]) / 2
    assert output.loss.item() == pytest.approx(wanted, rel=1e-6)
    assert output.scalars["disagreement"].item() == pytest.approx(4 / 6)
    assert output.quality.tolist() == pytest.approx([math.exp(-(a + b) / 2) for a, b in zip(*losses, strict=True)])


def test_without_a_disagreement_all_samples_are_learnt():
    output = method(second=FIRST, warm_up=2).step(batch())
    losses = [ce(row, label) for row, label in zip(FIRST, LABELS.tolist(), strict=True)]
    assert output.loss.item() == pytest.approx(2 * sum(losses) / 6, rel=1e-6)


def test_the_warm_up_is_co_teaching():
    early = method(warm_up=6)
    assert early.step(batch()).loss.item() == method(CoTeaching).step(batch()).loss.item()
    assert method(warm_up=None).step(batch()).loss.item() == method(warm_up=1).step(batch()).loss.item()
