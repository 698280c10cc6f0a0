"""DivideMix: the division by a mixture, one semi-supervised step in plain arithmetic."""

import math

import numpy as np
import pytest
import torch
from tests.helpers.steps import FakeTrainingSet, Scale, batch_of, make, softmax

from jnpl.methods.dividemix import DivideMix, clean_probability, scaled, sharpen

VIEW_1 = [[1.0, 2.0, 0.5], [0.0, -1.0, 1.5], [2.0, 1.0, 0.0]]
VIEW_2 = [[0.5, 1.5, 0.0], [0.5, -0.5, 1.0], [1.0, 1.5, 0.5]]
LABELS = torch.tensor([1, 0, 2])
CLEAN = [[0.9, 0.2, 0.7], [0.8, 0.4, 0.1]]  # by network 1, by network 2


def mean(*rows):
    return [sum(values) / len(rows) for values in zip(*rows, strict=True)]


def sharp(row, temperature=0.5):
    raised = [value ** (1 / temperature) for value in row]
    return [value / sum(raised) for value in raised]


def batch():
    return batch_of(torch.tensor(VIEW_1), LABELS, views=(torch.tensor(VIEW_2),))


def scales(number):
    return Scale(1.0 + number)


def method(**settings):
    return make(DivideMix, LABELS, scales, classes=3, at=(0, 0, 20), **settings)


def test_a_step_in_plain_arithmetic(monkeypatch):
    draws = [(0.3, [3, 0, 5, 1, 2, 4]), (0.8, [1, 2, 0, 4, 5, 3])]
    left = iter([(weight, torch.tensor(partner)) for weight, partner in draws])
    monkeypatch.setattr("jnpl.methods.dividemix.draw_mixup", lambda *_: next(left))
    learner = method(warm_up=2, guess_weight=25.0, ramp_epochs=16)
    learner.epoch = 6  # a quarter of the ramp
    learner.clean.copy_(torch.tensor(CLEAN))
    output = learner.step(batch())

    factors = (1.0, 2.0)
    guesses = [
        [
            mean(softmax([factor * z for z in a]), softmax([factor * z for z in b]))
            for a, b in zip(VIEW_1, VIEW_2, strict=True)
        ]
        for factor in factors
    ]
    total = 0.0
    for network, factor in enumerate(factors):
        clean = CLEAN[1 - network]  # of the other network
        targets = []
        for at in range(3):
            y = [float(k == LABELS[at]) for k in range(3)]
            w = clean[at]
            refined = sharp([w * given + (1 - w) * p for given, p in zip(y, guesses[network][at], strict=True)])
            targets.append(refined if w > 0.5 else sharp(mean(guesses[0][at], guesses[1][at])))
        inputs, targets = VIEW_1 + VIEW_2, targets * 2
        drawn, partner = draws[network]
        share = max(drawn, 1 - drawn)
        labelled = [w > 0.5 for w in clean] * 2
        supervised, squared, predictions = [], [], []
        for at in range(6):
            x = [share * a + (1 - share) * b for a, b in zip(inputs[at], inputs[partner[at]], strict=True)]
            t = [share * a + (1 - share) * b for a, b in zip(targets[at], targets[partner[at]], strict=True)]
            p = softmax([factor * z for z in x])
            predictions.append(p)
            if labelled[at]:
                supervised.append(-sum(a * math.log(b) for a, b in zip(t, p, strict=True)))
            else:
                squared.append(sum((b - a) ** 2 for a, b in zip(t, p, strict=True)) / 3)
        penalty = sum(math.log((1 / 3) / value) / 3 for value in mean(*predictions))
        total += sum(supervised) / len(supervised) + 25.0 * 0.25 * sum(squared) / len(squared) + penalty
    assert output.loss.item() == pytest.approx(total, rel=1e-5)
    assert output.quality.tolist() == pytest.approx(mean(*CLEAN))
    logs = [math.log(value) for value in mean(guesses[0][0], guesses[1][0])]
    assert output.logits[0].tolist() == pytest.approx(logs, rel=1e-5)


@pytest.mark.parametrize("penalty", [False, True])
def test_the_warm_up_is_cross_entropy_of_both_networks(penalty):
    output = method(warm_up=2, confidence_penalty=penalty).step(batch())
    total = 0.0
    for factor in (1.0, 2.0):
        for row, label in zip(VIEW_1, LABELS, strict=True):
            p = softmax([factor * z for z in row])
            total += (-math.log(p[label]) + penalty * sum(value * math.log(value) for value in p)) / 3
    assert output.loss.item() == pytest.approx(total, rel=1e-5)
    assert output.quality is None


@pytest.mark.parametrize("clean", [0.0, 1.0])
def test_a_batch_may_be_all_labelled_or_all_guessed(clean):
    learner = method(warm_up=1)
    learner.epoch = 10
    learner.clean.fill_(clean)
    output = learner.step(batch())
    output.loss.backward()
    assert output.loss.isfinite()
    assert learner.model.weight.grad.isfinite()


def test_the_mixture_separates_low_from_high_losses():
    rng = np.random.default_rng(0)
    low, high = rng.normal(0.1, 0.03, 700), rng.normal(0.7, 0.1, 300)
    clean = clean_probability(np.concatenate([low, high, [np.nan]]))
    assert (clean[:700] > 0.5).mean() > 0.99
    assert (clean[700:1000] < 0.5).mean() > 0.99
    assert clean[-1] == 0.5
    assert clean_probability(np.full(20, 0.3)).tolist() == [1.0] * 20


def test_losses_are_scaled_by_the_readable_ones():
    losses, readable = torch.tensor([2.0, 9.0, 4.0, 3.0]), torch.tensor([True, False, True, True])
    assert scaled(losses, readable).tolist() == [0.0, -1.0, 1.0, 0.5]


def test_sharpening_with_half_the_temperature_squares():
    torch.testing.assert_close(sharpen(torch.tensor([[0.2, 0.8]]), 0.5), torch.tensor([[0.04, 0.64]]) / 0.68)


def test_an_epoch_begins_with_a_division_by_each_network():
    labels = torch.zeros(40, dtype=torch.long)
    learner = make(DivideMix, labels, scales, classes=3, at=(0, 0, 4), warm_up=1, loss_epochs=2)
    right, wrong = torch.tensor([8.0, 0.0, 0.0]), torch.tensor([0.0, 8.0, 0.0])
    first = torch.stack([right] * 30 + [wrong] * 10)
    second = torch.stack([wrong] * 10 + [right] * 30)
    second[0] = math.nan  # cannot be read
    learner.begin_epoch(FakeTrainingSet())  # the warm-up divides nothing
    assert learner.clean.eq(1).all()
    learner.epoch = 1
    learner.begin_epoch(FakeTrainingSet(first, second))
    assert learner.clean[0, :30].min() > 0.99
    assert learner.clean[0, 30:].max() < 0.01
    assert learner.clean[1, 0] == 0.5
    assert learner.clean[1, 1:10].max() < 0.01
    learner.epoch = 2
    learner.begin_epoch(FakeTrainingSet(second.nan_to_num(0.0), second))  # the mean of two epochs
    assert learner.losses[0, :, 5].tolist() == pytest.approx([0.0, 1.0], abs=1e-3)
