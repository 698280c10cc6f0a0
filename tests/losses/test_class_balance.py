"""Weights of classes, damped where the classes themselves are uneven."""

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


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_any_integers_are_labels(dtype):
    labels = torch.tensor([0] * 6 + [1] * 3 + [2])
    assert even_weights(labels.to(dtype), 3).equal(even_weights(labels, 3))


def test_sample_weights_count_as_copies():
    labels, copies = torch.tensor([0, 1, 1, 2]), torch.tensor([3, 1, 2, 1])
    weighted = even_weights(labels, 3, copies / copies.float().mean())
    torch.testing.assert_close(weighted, even_weights(labels.repeat_interleave(copies), 3))


def test_nlnl_weights_by_hand():
    labels = [0] * 6 + [1] * 3 + [3] * 2
    counts = [labels.count(k) for k in range(5)]
    expected = [max(counts) / count if count else 0.0 for count in counts]
    assert class_weights(torch.tensor(labels), 5).tolist() == expected == [1.0, 2.0, 0.0, 3.0, 0.0]


def test_nlnl_weights_of_asymmetric_cifar10():
    # METHODS 3.3 item 4: 45k images, 40 % of truck, bird, cat, dog and deer flipped.
    counts = torch.full((10,), 4500)
    for source, target in ((9, 1), (2, 0), (3, 5), (5, 3), (4, 7)):
        counts[source] -= 1800
        counts[target] += 1800
    weights = class_weights(torch.repeat_interleave(torch.arange(10), counts), 10).tolist()
    expected = [1.0, 1.0, 2.33, 1.4, 2.33, 1.4, 1.4, 1.0, 1.4, 2.33]
    assert weights == pytest.approx(expected, abs=5e-3)


COUNTS = torch.tensor([3, 1, 2, 1, 4])
LABELS = torch.tensor([0, 1, 2, 2, 0])


def test_class_weights_count_weights():
    copies = class_weights(LABELS.repeat_interleave(COUNTS), 4)
    torch.testing.assert_close(class_weights(LABELS, 4, COUNTS.float()), copies)
    torch.testing.assert_close(class_weights(LABELS, 4, COUNTS * 1e-6), copies)  # however small
    assert copies[3] == 0
