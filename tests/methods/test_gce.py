"""Truncated GCE against plain loops: what is pruned and when. The loss itself is tested in test_plain."""

import math

import pytest
import torch
from tests.helpers.steps import CLASSES, FakeTrainingSet, batch_of, make, noise_batch, probabilities

from jnpl.methods.gce import GCE

LABELS = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 0, 1])


def a_batch(index=range(6)):
    index = torch.tensor(list(index))
    return batch_of(noise_batch(LABELS).inputs[index], LABELS[index], index)


def gce(p, y, q=0.7):
    return (1 - p[y] ** q) / q


def logits_with(p_given):
    """Rows in which the given label has these probabilities."""
    rows = torch.zeros(len(p_given), CLASSES, dtype=torch.float64)
    for row, p, y in zip(rows, p_given, LABELS.tolist(), strict=True):
        row[y] = math.log(p / ((1 - p) / (CLASSES - 1)))
    return rows.float()


P_GIVEN = [0.9, 0.49, 0.51, 0.1, 0.7, 0.3, 0.99, 0.01, 0.6, 0.2]


def truncated(**settings):
    return make(GCE, LABELS, truncated=True, prune_from=4, prune_every=3, **settings)


def test_pruning_happens_in_its_epochs_alone_and_looks_at_the_current_network():
    method, training_set = truncated(), FakeTrainingSet(logits_with(P_GIVEN))
    asked = []
    for method.epoch in range(12):
        before = len(training_set.asked)
        method.begin_epoch(training_set)
        asked += [method.epoch] * (len(training_set.asked) - before)
    assert asked == [4, 7, 10]
    assert all(network is method.model for network in training_set.asked)


def test_pruning_in_every_epoch_waits_for_the_first():
    method = make(GCE, LABELS, truncated=True, prune_from=2, prune_every=1)
    training_set = FakeTrainingSet(logits_with(P_GIVEN))
    for method.epoch in range(5):
        method.begin_epoch(training_set)
        assert method.keep.all() == (method.epoch < 2)
    assert len(training_set.asked) == 3


def test_all_are_kept_before_the_first_pruning_and_then_those_above_k():
    method, training_set = truncated(), FakeTrainingSet(logits_with(P_GIVEN))
    method.epoch = 3
    method.begin_epoch(training_set)
    assert method.keep.all()
    method.epoch = 4
    method.begin_epoch(training_set)
    assert method.keep.tolist() == [p > 0.5 for p in P_GIVEN]
    method.epoch = 7
    method.begin_epoch(FakeTrainingSet(logits_with(P_GIVEN[::-1])))  # a left-out sample can come back
    assert method.keep.tolist() == [p > 0.5 for p in P_GIVEN[::-1]]


def test_an_unreadable_sample_is_not_kept():
    method, logits = truncated(), logits_with(P_GIVEN)
    logits[0] = math.nan
    method.epoch = 4
    method.begin_epoch(FakeTrainingSet(logits))
    assert method.keep.tolist() == [False] + [p > 0.5 for p in P_GIVEN[1:]]


@pytest.mark.parametrize("k", [0.5, 0.3])
def test_the_truncated_step_is_a_mean_over_the_batch_not_over_the_kept(k):
    method, batch = truncated(k=k), a_batch([8, 1, 2, 0, 5])
    kept = [True, False, True, True, False, False, True, False, False, True]
    method.keep.copy_(torch.tensor(kept))
    output = method(batch)
    total = 0.0
    for p, y, at in zip(probabilities(method.model, batch), batch.labels.tolist(), batch.index.tolist(), strict=True):
        total += kept[at] * (gce(p, y) - (1 - k**0.7) / 0.7)
    assert output.loss.item() == pytest.approx(total / 5, rel=1e-4)
    assert output.scalars["kept"].item() == pytest.approx(2 / 5)


def test_a_batch_without_kept_samples_is_an_exact_zero_with_a_graph():
    method = truncated()
    method.keep.zero_()
    output = method(a_batch([3, 7]))
    output.loss.backward()
    assert output.loss.item() == 0
    assert not method.model.weight.grad.any()


def test_what_is_kept_survives_a_checkpoint():
    method, other = truncated(), truncated()
    method.epoch = 4
    method.begin_epoch(FakeTrainingSet(logits_with(P_GIVEN)))
    assert set(method.state_dict()) == {"model.weight", "model.bias", "keep"}
    other.load_state_dict(method.state_dict())
    assert other.keep.equal(method.keep)
    assert other(a_batch()).loss.equal(method(a_batch()).loss)


def test_plain_gce_neither_looks_nor_keeps():
    method, training_set = make(GCE, LABELS, prune_from=0), FakeTrainingSet()
    method.begin_epoch(training_set)
    assert not training_set.asked
    assert set(method.state_dict()) == {"model.weight", "model.bias"}
