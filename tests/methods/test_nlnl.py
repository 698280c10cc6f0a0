"""NLNL against plain loops: what is selected, what it is divided by, and what the released code gets wrong."""

import math

import pytest
import torch
from tests.helpers.steps import (
    CLASSES,
    FakeTrainingSet,
    linear,
    make,
    noise_batch,
    probabilities,
)

from jnpl import complement
from jnpl.data.loading.batches import generator_for
from jnpl.internal.errors import InputError
from jnpl.methods.base import Task
from jnpl.methods.nlnl import NLNL, nl_clamped

LABELS = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, 3, 0, 1, 2])
WEIGHTS = [1.0, 5 / 3, 5 / 3, 5.0]  # 5, 3, 3, 1 samples


def a_method(**settings):
    return make(NLNL, LABELS, **settings)


def a_batch(size=12):
    return noise_batch(LABELS[:size])


def begin(method, stage, quality):
    method.stage, method.epoch, method.epochs = stage, 3, 10
    method.begin_epoch(FakeTrainingSet(quality=quality))


def by_hand(method, batch, keep, stage, count=1):
    draws = complement.sample(batch.labels, CLASSES, count, generator_for(0, "step"), batch.rows).tolist()
    probs = probabilities(method.model, batch)
    total, samples, weights = 0.0, 0, 0.0
    for p, y, complements, kept in zip(probs, batch.labels.tolist(), draws, keep, strict=True):
        if kept:
            losses = [-math.log(p[y])] if stage == 2 else [-math.log(1 - p[k]) for k in complements]
            total += WEIGHTS[y] * sum(losses)
            samples, weights = samples + 1, weights + WEIGHTS[y]
    return total / (weights if stage == 2 else samples)


@pytest.mark.parametrize("count", [1, 7])
def test_nl_sums_over_complements_and_divides_by_samples(count):
    method, batch = a_method(num_complements=count), a_batch()
    output = method(batch)
    assert output.loss.item() == pytest.approx(by_hand(method, batch, [True] * 12, 0, count), rel=1e-5)
    assert output.scalars["selected"] == 1
    assert output.quality is None


@pytest.mark.parametrize("stage", [1, 2])
def test_selected_samples_alone_are_learnt(stage):
    method, batch = a_method(), a_batch()
    quality = torch.linspace(0, 1, 12)
    begin(method, stage, quality)
    keep = [q >= (0.25 if stage == 1 else 0.5) for q in quality.tolist()]
    assert 0 < sum(keep) < 12
    output = method(batch)
    assert output.loss.item() == pytest.approx(by_hand(method, batch, keep, stage), rel=1e-5)
    assert output.scalars["selected"].item() == pytest.approx(sum(keep) / 12)
    (gradient,) = torch.autograd.grad(method(batch).loss, method.model.bias)
    assert gradient.abs().sum() > 0


def test_a_sample_at_the_threshold_is_kept_and_an_unreadable_one_is_not():
    method = a_method(cut=0.75)
    quality = torch.full((12,), float("nan"))
    quality[:4] = torch.tensor([0.25, 0.2499, 0.75, 0.7499])
    begin(method, 1, quality)
    assert method.keep[:4].tolist() == [True, False, True, True]
    assert not method.keep[4:].any()
    begin(method, 2, quality)
    assert method.keep[:4].tolist() == [False, False, True, False]
    begin(method, 0, None)  # all, without a look at the history, which is empty then
    assert method.keep.all()


@pytest.mark.parametrize("stage", [1, 2])
def test_a_batch_with_nothing_selected_is_zero_where_the_released_code_is_nan(stage):
    method, batch = a_method(), a_batch(2)
    begin(method, stage, torch.zeros(12))
    output = method(batch)
    assert output.loss.item() == 0
    output.loss.backward()
    assert method.model.weight.grad.equal(torch.zeros_like(method.model.weight))


def test_the_released_codes_clamp_kills_the_gradient_of_sure_mistakes_and_ours_does_not():
    logits = torch.tensor([[30.0, 0, 0, 0]])
    clamped, exact = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    loss = nl_clamped(clamped, torch.tensor([[0, 1]]))
    assert loss.item() == pytest.approx(-math.log(1e-5), rel=1e-4)
    loss.sum().backward()
    assert clamped.grad[0, 0].abs() < 1e-6
    from jnpl import functional as JF

    JF.nl(exact, torch.tensor([0])).sum().backward()
    assert exact.grad[0, 0] == pytest.approx(1)


def test_settings():
    assert a_method().num_complements == 1
    assert a_method().class_weight.tolist() == pytest.approx(WEIGHTS)
    assert a_method(class_weight="none").class_weight.tolist() == [1] * CLASSES
    hundred = Task(build=linear, labels=torch.arange(100), num_classes=100)
    assert NLNL(hundred, NLNL.Settings()).num_complements == 110
    many = Task(build=linear, labels=torch.arange(2000), num_classes=2000)
    with pytest.raises(InputError, match=r"method\.complements=exhaustive"):
        NLNL(many, NLNL.Settings())
    NLNL(many, NLNL.Settings(complements="exhaustive"))
