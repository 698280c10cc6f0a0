"""Counts of an epoch, from batch to batch and over processes."""

import torch
from torch import nn

from jnpl.losses.epoch_counts import EpochCounts

PREDICTED = [0, 0, 1, 2, 2, 2, 1]
GIVEN = [0, 1, 1, 2, 0, 2, 2]


def a_batch(rows):
    logits = 3.0 * nn.functional.one_hot(torch.tensor(PREDICTED)[rows], 4).float()
    return logits, torch.tensor(GIVEN)[rows]


def test_counts_of_batches_are_those_of_all_samples():
    counts = EpochCounts(4, confusion=True)
    counts.add(*a_batch(slice(0, 3)))
    counts.add(*a_batch(slice(3, 7)))
    found = counts.take()
    pairs = list(zip(PREDICTED, GIVEN, strict=True))
    assert found.predicted.tolist() == [PREDICTED.count(k) for k in range(4)]
    assert found.given.tolist() == [GIVEN.count(k) for k in range(4)]
    assert found.right.tolist() == [pairs.count((k, k)) for k in range(4)]
    assert found.confusion.tolist() == [[pairs.count((k, j)) for j in range(4)] for k in range(4)]
    assert all(not each.any() for each in counts.take())  # it has started anew


def test_samples_count_by_their_weights():
    counts, weights = EpochCounts(4, confusion=True), torch.linspace(0.25, 1.75, 7)
    counts.add(*a_batch(slice(0, 7)), weights)
    found = counts.take()
    assert found.predicted.sum() == found.given.sum() == found.confusion.sum() == weights.sum()
    right = [weight for weight, p, y in zip(weights.tolist(), PREDICTED, GIVEN, strict=True) if p == y]
    assert found.right.sum().item() == sum(right)


def test_counts_of_processes_are_added_and_pairs_are_optional():
    counts = EpochCounts(4)
    counts.add(*a_batch(slice(0, 7)))
    found = counts.take(lambda count: count + 1)
    assert found.predicted.tolist() == [3, 3, 4, 1]
    assert found.confusion is None
