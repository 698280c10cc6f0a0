"""Order, shares and draws depend on seed, epoch and step alone."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from jnpl.data.loading.batches import Groups, evaluation, generator_for, local_rows, order

SAMPLES = np.array([3, 5, 8, 13, 21, 34, 55, 89, 144, 233])


@given(st.integers(1, 60), st.integers(1, 20), st.integers(0, 5), st.integers(0, 5))
def test_every_sample_comes_once_an_epoch_and_the_last_batch_is_what_is_left(samples, batch_size, seed, epoch):
    batches = order(np.arange(samples) * 2, batch_size, seed, epoch)
    assert sorted(torch.cat(batches).tolist()) == [2 * at for at in range(samples)]
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (len(batches) - 1)
    left = samples % batch_size or batch_size
    alone = left == 1 and 1 < batch_size < samples  # batch norm cannot take a single sample: it joins the batch before
    assert len(batches[-1]) == (batch_size + 1 if alone else left)


def test_order_depends_on_seed_and_epoch_alone():
    torch.manual_seed(1)
    first = torch.cat(order(SAMPLES, 4, 0, 0))
    torch.manual_seed(2)
    assert torch.equal(first, torch.cat(order(SAMPLES, 3, 0, 0)))  # nor on the batch size
    assert not torch.equal(first, torch.cat(order(SAMPLES, 4, 0, 1)))
    assert not torch.equal(first, torch.cat(order(SAMPLES, 4, 1, 0)))
    untouched = torch.random.get_rng_state()
    order(SAMPLES, 4, 0, 0)
    assert torch.equal(untouched, torch.random.get_rng_state())


def test_order_is_the_same_in_another_process():
    print_it = "print(torch.cat(order(np.arange(9), 4, 7, 3)).tolist())"
    code = f"import numpy as np, torch; from jnpl.data.loading.batches import order; {print_it}"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == str(torch.cat(order(np.arange(9), 4, 7, 3)).tolist())


def test_positions_at_each_place_are_uniform():
    counts = np.zeros((6, 6))
    for epoch in range(1200):
        counts[np.arange(6), torch.cat(order(np.arange(6), 4, 0, epoch)).numpy()] += 1
    statistic = ((counts - 200) ** 2 / 200).sum()
    assert statistic < 52.6  # chi-square of 25 degrees of freedom, p = 0.001


def test_a_last_batch_too_small_for_all_processes_joins_the_one_before():
    assert [len(batch) for batch in order(SAMPLES[:9], 4, 0, 0, world=2)] == [4, 5]
    assert [len(batch) for batch in order(SAMPLES, 4, 0, 0, world=2)] == [4, 6]
    assert [len(batch) for batch in order(SAMPLES[:1], 4, 0, 0, world=2)] == [1]
    whole = torch.cat(order(SAMPLES[:9], 4, 0, 0))
    assert torch.equal(whole, torch.cat(order(SAMPLES[:9], 4, 0, 0, world=2)))


@given(st.integers(0, 40), st.integers(1, 7))
def test_shares_follow_each_other_and_are_even(total, world):
    shares = [local_rows(total, rank, world) for rank in range(world)]
    assert [row for share in shares for row in range(share.start, share.stop)] == list(range(total))
    lengths = [share.stop - share.start for share in shares]
    assert max(lengths) - min(lengths) <= 1
    assert {share.total for share in shares} == {total}


@pytest.mark.parametrize("place", [("order", 0), ("order", 1), ("step", 0, 0), ("step", 0, 1), ("step", 1, 0)])
def test_places_have_generators_of_their_own(place):
    def draw(seed, *where):
        return torch.rand(4, generator=generator_for(seed, *where)).tolist()

    assert draw(0, *place) == draw(0, *place)
    assert draw(0, *place) != draw(1, *place)
    assert draw(0, *place) != draw(0, *place, 0)
    assert draw(0, *place) != draw(0, "other", *place[1:])


def test_evaluation_goes_through_everything_in_order():
    assert [batch.tolist() for batch in evaluation(5, 2)] == [[0, 1], [2, 3], [4]]
    both = [torch.cat(list(evaluation(5, 2, rank, 2))) for rank in range(2)]
    assert torch.cat(both).tolist() == [0, 1, 2, 3, 4]


def test_groups_share_a_label_and_every_sample_comes_once():
    labels = np.random.default_rng(0).integers(0, 3, 100)
    batches = order(np.arange(100), 24, 0, 0, groups=Groups(labels, 4))
    flat = torch.cat(batches).tolist()
    assert sorted(flat) == list(range(100))
    changes = sum(labels[a] != labels[b] for a, b in pairwise(flat))
    assert changes <= 27  # 25 groups and at most 3 rests; a shuffle changes label 66 times
    assert torch.cat(order(np.arange(100), 24, 0, 1, groups=Groups(labels, 4))).tolist() != flat
    assert [len(batch) for batch in batches] == [24, 24, 24, 24, 4]
