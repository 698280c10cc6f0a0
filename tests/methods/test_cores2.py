"""CORES2: one step in plain arithmetic, the sieve, the prior of what is left."""

import math

import pytest
import torch
from tests.helpers.steps import batch_of, make, softmax
from torch import nn

from jnpl.methods.cores2 import CORES2

LOGITS = [[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [2.0, 2.5, 0.0], [1.0, 0.0, 0.0]]
LABELS = torch.tensor([1, 0, 0, 1])


def batch(logits=LOGITS):
    return batch_of(torch.tensor(logits), LABELS)


def method(epoch, **settings):
    return make(CORES2, LABELS, lambda _: nn.Identity(), classes=3, at=(0, epoch, 100), **settings)


def difference(row, label):
    p = softmax(row)
    return -math.log(p[label]) + sum(math.log(value + 1e-8) for value in p) / 3


@pytest.mark.parametrize(("epoch", "beta"), [(9, 0.0), (25, 2 * 15 / 29), (60, 2.0)])
def test_a_step_in_plain_arithmetic(epoch, beta):
    cores2 = method(epoch)
    output = cores2.step(batch())
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
    cores2 = method(60)
    cores2.step(batch())  # drops the second and the last: one label of each class
    assert cores2.dropped.tolist() == [1.0, 1.0, 0.0]
    cores2.dropped[0] = 2.0
    cores2.begin_epoch(None)
    assert cores2.prior.tolist() == [0.0, 1.0, 0.0]
    assert cores2.dropped.tolist() == [0.0, 0.0, 0.0]


def test_a_batch_without_kept_samples_has_no_gradient():
    cores2 = method(60)
    inputs = torch.tensor([[0.0, -5.0, 5.0], [-5.0, 5.0, 0.0], [-5.0, 0.0, 5.0], [5.0, -5.0, 0.0]], requires_grad=True)
    loss = cores2.step(batch()._replace(inputs=inputs)).loss
    loss.backward()
    assert loss.item() == 0
    assert inputs.grad.eq(0).all()
