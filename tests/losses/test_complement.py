"""Complementary labels: never the given one, uniform over the others, independent, as many as the paper has."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from jnpl import complement


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("num_classes", [2, 3, 10, 100])
def test_uniform_over_the_others_and_never_the_label(num_classes):
    for label in {0, 1, num_classes - 1}:
        draws = complement.sample(torch.full((2000,), label), num_classes, k=50, generator=seeded(label))
        counts = torch.bincount(draws.flatten(), minlength=num_classes).tolist()
        assert counts.pop(label) == 0
        assert min(counts) > 0
        if num_classes > 2:
            assert stats.chisquare(counts).pvalue > 1e-3


def test_draws_of_one_sample_are_independent():
    first, second = complement.sample(torch.full((40_000,), 2), 5, k=2, generator=seeded()).t()
    pairs = torch.bincount(5 * first + second, minlength=25).reshape(5, 5)
    keep = torch.tensor([0, 1, 3, 4])
    table = pairs[keep][:, keep]
    assert table.sum() == 40_000
    assert stats.chisquare(table.flatten().tolist()).pvalue > 1e-3  # the diagonal too: with replacement
    assert stats.chi2_contingency(table.numpy()).pvalue > 1e-3


def test_110_draws_from_99_classes_must_repeat_themselves():
    draws = complement.sample(torch.arange(100), 100, k=110, generator=seeded())
    assert draws.shape == (100, 110)
    distinct = [len(set(row)) for row in draws.tolist()]
    assert max(distinct) < 99
    expected = 99 * (1 - (1 - 1 / 99) ** 110)  # independent draws: 66.6 distinct classes
    assert sum(distinct) / 100 == pytest.approx(expected, abs=1.5)


def test_the_generator_decides_and_the_global_state_is_left_alone():
    labels = torch.arange(10)
    state = torch.random.get_rng_state()
    drawn = complement.sample(labels, 10, 3, seeded(4))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(complement.sample(labels, 10, 3, seeded(4)), drawn)
    assert not torch.equal(complement.sample(labels, 10, 3, seeded(5)), drawn)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), num_classes=st.integers(2, 300), k=st.integers(1, 8), seed=st.integers(0, 2**31))
def test_any_labels(data, num_classes, k, seed):
    labels = torch.tensor(data.draw(st.lists(st.integers(0, num_classes - 1), min_size=1, max_size=20)))
    draws = complement.sample(labels, num_classes, k, seeded(seed))
    assert draws.shape == (len(labels), k)
    assert draws.dtype == torch.int64
    assert draws.min() >= 0
    assert draws.max() < num_classes
    assert not (draws == labels[:, None]).any()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8])
def test_small_integer_labels_do_not_wrap(dtype):
    labels = torch.tensor([0, 64, 126], dtype=dtype)
    draws = complement.sample(labels, 127, 200, seeded())
    assert torch.equal(draws, complement.sample(labels.long(), 127, 200, seeded()))
    assert draws.max() > 120


def test_the_papers_numbers():
    assert complement.default_count(10) == 1  # CIFAR-10
    assert complement.default_count(14) == 1  # Clothing1M
    assert complement.default_count(100) == 110  # CIFAR-100
    # METHODS 3.3 item 2: K C^-1 (C - 1)^-1, the speed at uniform p, is that of ten classes.
    for num_classes in (15, 50, 100, 200, 1000):
        speed = complement.default_count(num_classes) / (num_classes * (num_classes - 1))
        assert speed == pytest.approx(1 / 90, rel=0.15)
    assert complement.sample(torch.arange(5), 5).shape == (5, 1)


@pytest.mark.parametrize(
    ("labels", "num_classes", "told"),
    [
        (torch.tensor([0, 1]), 1, "num_classes must be at least 2, got 1"),
        (torch.tensor([0, 3]), 3, r"labels must lie in 0\.\.2 .*got 3"),
        (torch.tensor([0, -1]), 3, r"labels must lie in 0\.\.2 .*got -1"),
        (torch.tensor([0.0, 1.0]), 3, r"integer class indices .*got torch.float32"),
        (torch.tensor([True, False]), 3, r"integer class indices .*got torch.bool"),
        (torch.tensor([[0, 1]]), 3, r"shape \(B,\) .*got \(1, 2\)"),
        (torch.tensor([], dtype=torch.long), 3, r"B >= 1, got \(0,\)"),
    ],
)
def test_wrong_labels(labels, num_classes, told):
    with pytest.raises(ValueError, match=told):
        complement.sample(labels, num_classes)


@pytest.mark.parametrize("bad", [0, -1, 1.5])
def test_wrong_k(bad):
    with pytest.raises(ValueError, match=f"k, the number of complementary labels, must be .*got {bad}"):
        complement.sample(torch.tensor([0, 1]), 3, bad)
