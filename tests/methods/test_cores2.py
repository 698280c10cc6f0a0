"""CORES2: one step in plain arithmetic, the sieve, the prior of what is left."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from jnpl.data.loading.batches import Batch, Rows, generator_for
from jnpl.methods.base import Task
from jnpl.methods.cores2 import CORES2

LOGITS = [[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [2.0, 2.5, 0.0], [1.0, 0.0, 0.0]]
LABELS = torch.tensor([1, 0, 0, 1])


def softmax(row):
    total = sum(map(math.exp, row))
    return [math.exp(value) / total for value in row]


def batch(logits=LOGITS):
    return Batch(torch.tensor(logits), LABELS, torch.arange(4), generator_for(0, "step"), Rows(0, 4, 4))


def method(epoch, **settings):
    made = CORES2(Task(lambda _: nn.Identity(), LABELS, 3), CORES2.Settings(**settings))
    made.epochs, made.epoch = 100, epoch
    return made


def difference(row, label):
    p = softmax(row)
    return -math.log(p[label]) + sum(math.log(value + 1e-8) for value in p) / 3


@pytest.mark.parametrize(("epoch", "beta"), [(9, 0.0), (25, 2 * 15 / 29), (60, 2.0)])
def test_a_step_in_plain_arithmetic(epoch, beta):
    own = method(epoch)
    output = own.step(batch())
    prior = [0.5, 0.5, 0.0]
    kept, losses = 0, 0.0
    for row, label in zip(LOGITS, LABELS.tolist(), strict=True):
        if epoch < 31 or difference(row, label) <= 0:
            p = softmax(row)
            kept += 1
            losses += -math.log(p[label]) - beta * sum(
                pi * -math.log(value + 1e-8) for pi, value in zip(prior, p, strict=True)
            )
    assert kept == (4 if epoch < 31 else 2)
    assert output.loss.item() == pytest.approx(losses / kept / (1 + beta), rel=1e-5)
    wanted = [1 / (1 + math.exp(difference(row, label))) for row, label in zip(LOGITS, LABELS.tolist(), strict=True)]
    assert output.quality.tolist() == pytest.approx(wanted, rel=1e-5)


def test_the_prior_leaves_out_what_the_sieve_dropped():
    own = method(60)
    own.step(batch())  # drops the second and the last: one label of each class
    assert own.dropped.tolist() == [1.0, 1.0, 0.0]
    own.dropped[0] = 2.0
    own.begin_epoch(None)
    assert own.prior.tolist() == [0.0, 1.0, 0.0]
    assert own.dropped.tolist() == [0.0, 0.0, 0.0]


def test_a_batch_without_kept_samples_has_no_gradient():
    own = method(60)
    inputs = torch.tensor([[0.0, -5.0, 5.0], [-5.0, 5.0, 0.0], [-5.0, 0.0, 5.0], [5.0, -5.0, 0.0]], requires_grad=True)
    loss = own.step(batch()._replace(inputs=inputs)).loss
    loss.backward()
    assert loss.item() == 0
    assert inputs.grad.eq(0).all()


def test_extreme_logits_are_finite():
    assert method(60).step(batch([[1e4, 0.0, 0.0], [0.0, 1e4, 0.0], [-1e4, 0.0, 0.0], [0.0, 0.0, 0.0]])).loss.isfinite()
