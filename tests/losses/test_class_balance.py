"""Weights of classes, damped where the classes themselves are uneven."""

from __future__ import annotations

import math

import pytest
import torch

from jnpl.losses.class_balance import class_weights, even_weights


@pytest.mark.parametrize("counts", [(50, 50, 50), (60, 30, 10), (400, 90, 10), (0, 30, 10)])
def test_even_weights_are_one_on_average_over_samples(counts):
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor(counts))
    weights = even_weights(labels, 3)
    assert weights[labels].mean().item() == pytest.approx(1, abs=1e-6)
    ratios = [max(counts) / count if count else 0.0 for count in counts]
    damped = [ratio if ratio <= 2.5 else max(math.sqrt(ratio), 2.5) for ratio in ratios]
    scale = sum(ratio * count for ratio, count in zip(damped, counts, strict=True)) / sum(counts)
    assert weights.tolist() == pytest.approx([ratio / scale for ratio in damped], rel=1e-5)


def test_no_weight_is_above_ten():
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor([100_000, 100_000, 1]))
    assert class_weights(labels, 3)[2] == 100_000
    assert even_weights(labels, 3).max() == 10


def test_two_classes_are_damped_more():
    weights = even_weights(torch.tensor([0] * 90 + [1] * 10), 2)
    assert (weights[1] / weights[0]).item() == pytest.approx(1.25)


def test_sample_weights_count_as_copies():
    labels, copies = torch.tensor([0, 1, 1, 2]), torch.tensor([3, 1, 2, 1])
    weighted = even_weights(labels, 3, copies / copies.float().mean())
    torch.testing.assert_close(weighted, even_weights(labels.repeat_interleave(copies), 3))
