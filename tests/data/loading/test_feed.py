"""Batches for the loop: each sample once an epoch, the same after a resume and however many processes share them."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from jnpl.data.loading.augment import CropFlip, Standardize
from jnpl.data.loading.batches import order
from jnpl.data.loading.feed import Feed
from jnpl.data.loading.prepare import Prepared, prepare
from jnpl.data.source import InMemory, Inputs, Source, UnreadableError
from jnpl.internal.errors import InputError

COUNT, SIDE = 43, 8
CPU = torch.device("cpu")
PIXELS = np.random.default_rng(0).integers(1, 256, (COUNT, SIDE, SIDE, 3), np.uint8)
LABELS = np.arange(COUNT) % 5
CROP = CropFlip((0.5, 0.4, 0.3), (1.0,) * 3, SIDE, 2)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # on one core


@dataclass(frozen=True)
class Stored(Inputs):
    """Images that have to be read; some cannot."""

    broken: frozenset = frozenset()
    seen: list = field(default_factory=list)

    @property
    def kind(self):
        return "image"

    def __len__(self):
        return COUNT

    def read(self, position, size=None):
        self.seen.append(position)
        if position in self.broken:
            raise UnreadableError("broken")
        return PIXELS[position]

    def sizes(self):
        return np.ones(COUNT, np.int64)


def in_memory(**settings):
    return feed_of(Prepared(InMemory(PIXELS), None, PIXELS, {}), **settings)


def streamed(broken=(), workers=0, unreadable=None, **settings):
    return feed_of(Prepared(Stored(frozenset(broken)), SIDE, None, dict(unreadable or {}), workers), **settings)


def feed_of(prepared, batch_size=8, seed=3, transform=CROP, **settings):
    return Feed(prepared, LABELS, transform, batch_size, seed, CPU, **settings)


def frozen(batch):
    """All that a batch holds, with the next draws of its generator."""
    following = torch.rand(5, generator=batch.generator)
    return [batch.inputs, batch.labels, batch.index, following, torch.tensor(batch.rows)]


def frozen_epoch(feed, epoch, start=0):
    return [frozen(batch) for batch in feed.epoch(epoch, start)]


def assert_same(first, second):
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def steps_of(positions, feed, epoch=0):
    """Steps of an epoch at which these samples are due."""
    batches = order(np.arange(COUNT), feed.batch_size, feed.seed, epoch, feed.world)
    return [step for step, batch in enumerate(batches) if set(batch.tolist()) & set(positions)]


def batch_at(step, batch_size=8, seed=3, epoch=0):
    return order(np.arange(COUNT), batch_size, seed, epoch)[step].tolist()


@pytest.mark.parametrize("make", [in_memory, streamed])
def test_every_sample_once_an_epoch_with_its_own_label(make):
    feed = make()
    for epoch in range(2):
        batches = list(feed.epoch(epoch))
        assert len(batches) == feed.steps() == 6
        assert [len(batch.labels) for batch in batches] == [8, 8, 8, 8, 8, 3]
        index = torch.cat([batch.index for batch in batches])
        assert sorted(index.tolist()) == list(range(COUNT))
        assert torch.equal(torch.cat([batch.labels for batch in batches]), torch.from_numpy(LABELS)[index])


def test_inputs_are_the_crops_of_the_drawn_uniforms():
    for step, batch in enumerate(in_memory().epoch(2)):
        from jnpl.data.loading.batches import generator_for

        uniforms = torch.rand(len(batch.index), 3, generator=generator_for(3, "step", 2, step))
        assert torch.equal(batch.inputs, CROP.train(torch.from_numpy(PIXELS)[batch.index], uniforms))
        assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
        assert batch.inputs.dtype == torch.float32


def test_batches_depend_on_seed_and_epoch_alone():
    torch.manual_seed(0)
    first = frozen_epoch(in_memory(), 1)
    torch.manual_seed(1)
    assert_same(first, frozen_epoch(in_memory(), 1))
    for other in (frozen_epoch(in_memory(), 2), frozen_epoch(in_memory(seed=4), 1)):
        assert not torch.equal(first[0][2], other[0][2])
        assert not torch.equal(first[0][3], other[0][3])
    state = torch.random.get_rng_state()
    frozen_epoch(in_memory(), 0)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("make", [in_memory, streamed])
@pytest.mark.parametrize("start", range(7))
def test_a_resume_gives_exactly_the_remaining_batches(make, start):
    assert_same(frozen_epoch(make(), 1)[start:], frozen_epoch(make(), 1, start))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_gives_what_memory_gives(workers):
    assert_same(frozen_epoch(in_memory(), 1), frozen_epoch(streamed(workers=workers), 1))


@pytest.mark.parametrize("make", [in_memory, streamed])
@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_the_batches_of_one(make, world):
    alone = list(make(batch_size=9).epoch(1))
    shares = [list(make(batch_size=9, rank=rank, world=world).epoch(1)) for rank in range(world)]
    assert all(len(share) == len(alone) for share in shares)
    for batch, *parts in zip(alone, *shares, strict=True):
        for name in ("inputs", "labels", "index"):
            assert torch.equal(getattr(batch, name), torch.cat([getattr(part, name) for part in parts]))
        assert parts[0].rows.start == 0
        assert [part.rows.stop for part in parts[:-1]] == [part.rows.start for part in parts[1:]]
        assert {part.rows.total for part in parts} == {len(batch.index)}
        following = [torch.rand(4, generator=part.generator).tolist() for part in (batch, *parts)]
        assert all(drawn == following[0] for drawn in following)


def test_a_process_always_has_a_sample():
    for world in (2, 3):  # 43 samples in batches of 6 leave one
        for rank in range(world):
            assert all(len(batch.index) for batch in in_memory(batch_size=6, rank=rank, world=world).epoch(0))
    few = Prepared(InMemory(PIXELS[:1]), None, PIXELS[:1], {})
    (batch,) = Feed(few, LABELS[:1], CROP, 8, 0, CPU, rank=1, world=2).epoch(0)
    assert batch.index.tolist() == [0]
    assert len(batch.inputs) == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_sample_is_missing_and_nothing_else_changes(workers):
    feed = streamed(broken=(5, 17), workers=workers)
    for epoch in range(3):
        expected = list(in_memory().epoch(epoch))
        for batch, whole in zip(feed.epoch(epoch), expected, strict=True):
            keep = ~torch.isin(whole.index, torch.tensor([5, 17]))
            assert torch.equal(batch.index, whole.index[keep])
            assert torch.equal(batch.inputs, whole.inputs[keep])
            assert torch.equal(batch.labels, whole.labels[keep])
            assert batch.rows == whole.rows
            assert torch.equal(torch.rand(3, generator=batch.generator), torch.rand(3, generator=whole.generator))
        assert feed.steps() == 6
    assert feed.prepared.unreadable == {5: "broken", 17: "broken"}


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("start", range(7))
def test_exact_resume_after_broken_samples_were_found(epoch, start):
    broken = (5, 17, 40)
    feed = streamed(broken)
    for earlier in range(epoch):
        list(feed.epoch(earlier))
    running, remaining, known = feed.epoch(epoch), [], None
    for step in range(7):
        if step == start:
            known = dict(feed.prepared.unreadable)  # what a checkpoint holds
        batch = next(running, None)
        if batch is not None and step >= start:
            remaining.append(frozen(batch))
    resumed = streamed(broken)
    resumed.prepared.unreadable.update(known)
    assert resumed.steps() == feed.steps() == 6
    assert_same(remaining, frozen_epoch(resumed, epoch, start))
    assert_same(frozen_epoch(feed, epoch + 1), frozen_epoch(resumed, epoch + 1))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_of_which_nothing_can_be_read_is_skipped_and_the_others_keep_their_numbers(workers):
    broken = batch_at(2)
    feed = streamed(broken, workers)
    whole = frozen_epoch(in_memory(), 0)
    assert_same(whole[:2] + whole[3:], frozen_epoch(feed, 0))
    assert_same(whole[:2] + whole[3:], frozen_epoch(feed, 0))  # now that it is known
    assert feed.steps() == 6
    # A loop that has counted four batches goes on behind the fifth step.
    resumed = streamed(broken, workers)
    resumed.prepared.unreadable.update(feed.prepared.unreadable)
    assert_same(whole[5:], frozen_epoch(resumed, 0, 4))


def test_what_is_known_before_the_start_leaves_the_same_batches():
    """As when it is found on the way: a run in memory and a streamed one agree."""
    feed = streamed(unreadable={5: "no path"})
    assert feed.steps() == 6
    index = torch.cat([batch.index for batch in feed.epoch(0)]).tolist()
    assert sorted(index) == [at for at in range(COUNT) if at != 5]
    assert [len(batch.index) for batch in feed.epoch(0)] == [8, 8, 8, 7, 8, 3]
    assert 5 not in feed.prepared.inputs.seen


def test_a_process_whose_share_is_broken_borrows_a_sample_of_the_batch():
    whole = list(in_memory().epoch(0))
    first, second = whole[1].index[:4].tolist(), whole[1].index[4:].tolist()
    feeds = [streamed(first, rank=rank, world=2) for rank in range(2)]
    zero, one = (list(feed.epoch(0)) for feed in feeds)
    assert len(zero) == len(one) == 5  # the last three samples joined the batch before
    assert zero[1].index.tolist() == second[:1]
    assert torch.equal(zero[1].inputs, one[1].inputs[:1])
    assert torch.equal(zero[1].labels, one[1].labels[:1])
    assert one[1].index.tolist() == second
    # A batch that is broken as a whole is skipped by all.
    feeds = [streamed(first + second, rank=rank, world=2) for rank in range(2)]
    zero, one = (list(feed.epoch(0)) for feed in feeds)
    assert len(zero) == len(one) == 4
    assert all(set(first + second) <= set(feed.prepared.unreadable) for feed in feeds)


def test_nothing_to_read_at_all():
    with pytest.raises(InputError, match="none of the 43 samples can be read: broken"):
        list(streamed(range(COUNT)).epoch(0))


@pytest.mark.parametrize("make", [in_memory, streamed])
def test_evaluation_goes_through_everything_in_order(make):
    batches = list(make().evaluation())
    assert torch.cat([index for _, _, index in batches]).tolist() == list(range(COUNT))
    assert max(len(index) for _, _, index in batches) == 16
    for inputs, labels, index in batches:
        assert torch.equal(inputs, CROP.evaluate(torch.from_numpy(PIXELS)[index]))
        assert torch.equal(labels, torch.from_numpy(LABELS)[index])
    halves = [torch.cat([index for _, _, index in make(rank=rank, world=2).evaluation()]) for rank in range(2)]
    assert torch.cat(halves).tolist() == list(range(COUNT))


@pytest.mark.parametrize("limit", [0, 2**30])
def test_evaluation_leaves_out_what_cannot_be_read(limit):
    broken = frozenset(range(16, 32)) | {3}  # a whole batch of evaluation among them
    source = Source("toy", Stored(broken), LABELS, tuple(range(5)), np.arange(COUNT))
    feed = feed_of(prepare(source, SIDE, memory_limit=limit))
    index = torch.cat([index for _, _, index in feed.evaluation()]).tolist()
    assert index == [at for at in range(COUNT) if at not in broken]


def test_vectors():
    values = np.random.default_rng(0).random((COUNT, 4), np.float32)
    feed = feed_of(Prepared(InMemory(values), None, values, {}), transform=Standardize((0.5,) * 4, (2.0,) * 4))
    for batch in feed.epoch(0):
        assert torch.equal(batch.inputs, (torch.from_numpy(values)[batch.index] - 0.5) / 2)


def test_grey_images():
    grey = PIXELS[..., :1].copy()
    feed = feed_of(Prepared(InMemory(grey), None, grey, {}), transform=CropFlip((0.5,), (1.0,), SIDE, 2))
    assert {batch.inputs.shape[1:] for batch in feed.epoch(0)} == {(1, SIDE, SIDE)}
