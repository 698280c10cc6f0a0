"""Pseudo-labels: who is taught what, and how much it counts; then the method that teaches it, in plain arithmetic."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from jnpl.data.loading.batches import Batch, Rows, generator_for
from jnpl.internal.errors import InputError
from jnpl.methods.base import Task
from jnpl.methods.pseudo_label import PseudoLabel, Targets
from jnpl.training import pseudo_labels as pseudo

LABELS = np.array([0, 1, 2, 1, 0])
ISSUE = np.array([False, True, False, True, False])
MEAN = np.array([[0.6, 0.3, 0.1], [0.7, 0.2, 0.1], [0.1, 0.1, 0.8], [0.0, 0.4, 0.6], [0.5, 0.4, 0.1]], np.float32)


def test_the_papers_one_step_keeps_labels_and_replaces_issues_by_confidence():
    taught = pseudo.targets(LABELS, ISSUE, MEAN, mode="paper")
    assert taught.probs.tolist() == [[1, 0, 0], MEAN[1].tolist(), [0, 0, 1], MEAN[3].tolist(), [1, 0, 0]]
    assert taught.weights.tolist() == [1] * 5
    assert not taught.weighted_mean
    hard = pseudo.targets(LABELS, ISSUE, MEAN, mode="paper", soft=False)
    assert hard.probs.argmax(1).tolist() == [0, 0, 2, 2, 0]
    assert (hard.probs.max(1) == 1).all()


def test_the_predecessors_two_steps():
    first = pseudo.targets(LABELS, ISSUE, MEAN, mode="nlnl", step=0, by_class=True)
    assert first.weights.tolist() == [1, 0, 2, 0, 1]  # kept: class 0 twice, class 2 once; issues weigh nothing
    assert first.probs[~ISSUE].argmax(1).tolist() == [0, 2, 0]
    assert first.weighted_mean
    second = pseudo.targets(LABELS, ISSUE, MEAN, mode="nlnl", step=1, by_class=True)
    assert (second.probs == MEAN).all()  # of every sample, kept ones too
    assert second.weights.tolist() == pytest.approx([1, 1, 1.5, 1.5, 1])  # argmax 0, 0, 2, 2, 0
    assert not second.weighted_mean


def test_a_class_without_a_kept_label_weighs_nothing():
    assert pseudo.targets(LABELS, LABELS == 1, MEAN, mode="nlnl", by_class=True).weights[1] == 0


def test_samples_never_predicted_are_out():
    mean = MEAN.copy()
    mean[[1, 2]] = np.nan
    for soft in (True, False):
        taught = pseudo.targets(LABELS, ISSUE, mean, mode="paper", soft=soft)
        assert taught.weights.tolist() == [1, 0, 0, 1, 1]  # sample 2 too, although no issue: it cannot be read
        first = pseudo.targets(LABELS, ISSUE, mean, mode="nlnl", soft=soft, by_class=True)
        assert first.weights.tolist() == [1, 0, 0, 0, 1]
        assert pseudo.targets(LABELS, ISSUE, mean, mode="nlnl", step=1, soft=soft).weights.tolist() == [1, 0, 0, 1, 1]
    with pytest.raises(InputError, match="nothing can be taught"):
        pseudo.targets(LABELS, np.ones(5, bool), MEAN, mode="nlnl")


def a_method(taught):
    torch.manual_seed(0)
    nets = {number: nn.Linear(2, 3) for number in (0, 7)}
    return PseudoLabel(Task(nets.__getitem__, torch.from_numpy(LABELS), 3), taught, 7), nets


def a_batch(index=(0, 1, 2, 3, 4)):
    index = torch.tensor(index)
    inputs = torch.randn(5, 2, generator=torch.Generator().manual_seed(1))[index]
    rows = Rows(0, len(index), len(index))
    return Batch(inputs, torch.from_numpy(LABELS)[index], index, generator_for(0, "step"), rows)


def by_hand(method, batch, taught):
    losses = []
    for row, at in zip(method.model(batch.inputs).tolist(), batch.index.tolist(), strict=True):
        total = sum(math.exp(value) for value in row)
        target = np.nan_to_num(taught.probs[at])
        losses.append(-sum(t * math.log(math.exp(f) / total) for t, f in zip(target, row, strict=True)))
    return losses


@pytest.mark.parametrize(("mode", "step"), [("paper", 0), ("nlnl", 0), ("nlnl", 1)])
def test_the_step_in_plain_arithmetic(mode, step):
    taught = pseudo.targets(LABELS, ISSUE, MEAN, mode=mode, step=step, by_class=True)
    method, nets = a_method(taught)
    assert method.model.weight.equal(nets[7].weight)  # fresh weights, not those the filter began with
    batch = a_batch((4, 2, 1, 0))
    weights = [float(taught.weights[at]) for at in batch.index.tolist()]
    total = sum(w * loss for w, loss in zip(weights, by_hand(method, batch, taught), strict=True))
    wanted = total / (sum(weights) if (mode, step) == ("nlnl", 0) else 4)
    assert method(batch).loss.item() == pytest.approx(wanted, rel=1e-5)


def test_a_batch_of_filtered_samples_is_zero_and_not_nan():
    method, _ = a_method(pseudo.targets(LABELS, ISSUE, MEAN, mode="nlnl", step=0, by_class=True))
    output = method(a_batch((1, 3)))
    output.loss.backward()
    assert output.loss.item() == 0
    assert method.model.weight.grad.abs().sum() == 0
    assert output.logits.isfinite().all()  # recorded all the same


def test_targets_survive_a_checkpoint():
    taught = pseudo.targets(LABELS, ISSUE, MEAN, mode="paper")
    method, _ = a_method(taught)
    blank, _ = a_method(Targets(np.zeros((5, 3), np.float32), np.zeros(5, np.float32), weighted_mean=False))
    blank.load_state_dict(method.state_dict())
    assert blank(a_batch()).loss.equal(method(a_batch()).loss)
