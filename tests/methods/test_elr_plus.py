"""ELR+: one step in plain arithmetic, averaged weights."""

import math

import pytest
import torch
from tests.helpers.steps import Scale, batch_of, make, softmax

from jnpl.methods.elr_plus import ELRPlus, rise

LOGITS = [[1.0, 2.0, 0.5], [0.0, -1.0, 3.0], [2.0, 2.0, 0.0]]
LABELS = torch.tensor([1, 0, 2])


def plus(**settings):
    return make(ELRPlus, LABELS, lambda number: Scale(1.0 + number), classes=3, **settings)


@pytest.mark.parametrize("by_targets", [False, True])
def test_a_step_of_elr_plus_mixes_samples_labels_and_targets_of_the_other_average(by_targets, monkeypatch):
    draws = iter([(0.3, torch.tensor([2, 0, 1])), (0.9, torch.tensor([1, 0, 2]))])
    monkeypatch.setattr("jnpl.methods.elr_plus.draw_mixup", lambda *_: next(draws))
    method = plus(beta=0.6, weight=2.0, weight_steps=10, labels_by_targets=by_targets)
    output = method.step(batch_of(torch.tensor(LOGITS), LABELS))
    weight = 2.0 * math.exp(-5 * (1 - 1 / 10) ** 2)
    total = 0.0
    # Network 1 has the factor 1 and the targets of the average of network 2, whose factor is 2; and the reverse.
    for factor, other, share, partner in ((1.0, 2.0, 0.7, [2, 0, 1]), (2.0, 1.0, 0.9, [1, 0, 2])):
        targets = [[0.4 * value for value in softmax([other * z for z in row])] for row in LOGITS]
        for at, row in enumerate(LOGITS):
            mixed = [factor * (share * a + (1 - share) * b) for a, b in zip(row, LOGITS[partner[at]], strict=True)]
            p = softmax(mixed)
            q = [share * a + (1 - share) * b for a, b in zip(targets[at], targets[partner[at]], strict=True)]
            label, other_label = int(LABELS[at]), int(LABELS[partner[at]])
            y = [share * (k == label) + (1 - share) * (k == other_label) for k in range(3)]
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
        method.step(batch_of(torch.tensor(LOGITS), LABELS))
        if step:  # before the first step there is nothing to average
            decay = 0.9 * (1.0 if step + 1 >= 3 else math.exp(-5 * (1 - (step + 1) / 3) ** 2))
            average = decay * average + (1 - decay) * method.model.weight.item()
        assert method.average_1.weight.item() == pytest.approx(average, rel=1e-5)
    assert not any(weight.requires_grad for weight in method.average_1.parameters())


def test_the_rise_ends_at_one():
    assert rise(50, 100) == pytest.approx(math.exp(-1.25))


def test_the_ensemble_is_the_mean_of_the_logits():
    logits = plus().network_logits(torch.tensor(LOGITS))
    torch.testing.assert_close(logits["ensemble"], 1.5 * torch.tensor(LOGITS))
