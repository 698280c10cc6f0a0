"""Samples within reach: in memory, in a cache that many may build and read, streamed; and what is broken among them."""

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from PIL import Image

from jnpl.data.loading import prepare as module
from jnpl.data.loading.prepare import Prepared, decode, default_workers, prepare
from jnpl.data.source import InMemory, Inputs, Source, UnreadableError
from jnpl.data.sources.images import ImageFiles
from jnpl.internal.errors import InputError

COUNT, SIZE = 12, 8
ENOUGH = 2**30
BROKEN = (2, 7)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # on one core


@dataclass(frozen=True)
class Counted(Inputs):
    """Inputs that note every reading, in this process."""

    inputs: ImageFiles
    seen: list = field(default_factory=list)

    @property
    def kind(self):
        return "image"

    def __len__(self):
        return len(self.inputs)

    def read(self, position, size=None):
        self.seen.append(position)
        return self.inputs.read(position, size)

    def sizes(self):
        return self.inputs.sizes()


@dataclass(frozen=True)
class Unsized(Inputs):
    """Inputs of somebody else's, of which nothing is known before they are read."""

    samples: list
    item_kind: str

    @property
    def kind(self):
        return self.item_kind

    def __len__(self):
        return len(self.samples)

    def read(self, position, size=None):
        if self.samples[position] is None:
            raise UnreadableError("none of your business")
        return self.samples[position]

    def sizes(self):
        return np.zeros(len(self), np.int64)


def pictures(folder, count=COUNT, size=SIZE):
    generator = np.random.default_rng(0)
    values = generator.integers(0, 256, (count, size, size, 3), np.uint8)
    for at, value in enumerate(values):
        Image.fromarray(value).save(folder / f"{at:02}.png")
    return values


def source_of(inputs, count=None, unreadable=None, ids=None):
    count = count or len(inputs)
    ids = np.arange(count) if ids is None else ids
    return Source("toy", inputs, np.arange(count) % 2, ("a", "b"), ids, unreadable=unreadable)


def files(folder, **changes):
    paths = sorted(folder.glob("*.png"))
    inputs = Counted(ImageFiles(paths))
    return source_of(inputs, ids=np.array([path.name for path in paths], object), **changes)


@pytest.fixture
def whole(tmp_path):
    folder = tmp_path / "whole"
    folder.mkdir()
    return pictures(folder), files(folder)


@pytest.fixture
def damaged(tmp_path):
    folder = tmp_path / "damaged"
    folder.mkdir()
    values = pictures(folder)
    for position in BROKEN:
        path = folder / f"{position:02}.png"
        path.write_bytes(path.read_bytes()[:60])
        values[position] = 0
    return values, files(folder)


def everything(prepared, batch=5):
    batches = torch.split(torch.arange(len(prepared.inputs)), batch)
    found = list(prepared.fetch(batches))
    return torch.cat([index for index, _ in found]).tolist(), torch.cat([samples for _, samples in found]).numpy()


def modes(tmp_path):
    return {
        "memory": {"memory_limit": ENOUGH},
        "cache": {"memory_limit": 0, "cache": tmp_path / "cache"},
        "stream": {"memory_limit": 0},
    }


MODES = ["memory", "cache", "stream"]


@pytest.mark.parametrize("values", [np.zeros((3, 8, 8, 1), np.uint8), np.zeros((3, 8, 8, 3), np.uint8)])
@pytest.mark.parametrize("size", [None, 8])
def test_an_array_of_the_right_size_stays_what_it_is(values, size, tmp_path):
    prepared = prepare(source_of(InMemory(values)), size, memory_limit=0, cache=tmp_path)
    assert prepared.values is values
    assert prepared.shape == values.shape[1:]
    assert list(tmp_path.iterdir()) == []
    for index, samples in prepared.fetch([torch.tensor([2, 0])]):
        assert index.tolist() == [2, 0]
        assert samples.dtype == torch.uint8


def test_vectors_stay_what_they_are():
    values = np.eye(3, dtype=np.float32)
    prepared = prepare(source_of(InMemory(values)), 8, memory_limit=0)
    assert prepared.values is values
    assert prepared.shape == (3,)


def test_images_of_any_size_need_one(whole):
    with pytest.raises(InputError, match="name one to train at"):
        prepare(whole[1], None, memory_limit=ENOUGH)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("workers", [0, 2])
def test_all_ways_lead_to_the_same_pixels(whole, tmp_path, mode, workers):
    values, source = whole
    prepared = prepare(source, SIZE, workers=workers, **modes(tmp_path)[mode])
    index, samples = everything(prepared)
    assert index == list(range(COUNT))
    assert samples.dtype == np.uint8
    np.testing.assert_array_equal(samples, values)
    assert prepared.unreadable == {}
    assert prepared.shape == (SIZE, SIZE, 3)
    assert (prepared.values is None) == (mode == "stream")
    assert isinstance(prepared.values, np.memmap) == (mode == "cache")


def test_what_fits_stays_in_memory_and_what_does_not_streams(whole):
    nbytes = COUNT * SIZE * SIZE * 3
    fits = prepare(whole[1], SIZE, memory_limit=nbytes)
    assert fits.values.dtype == np.uint8
    assert fits.values.nbytes == nbytes
    assert prepare(whole[1], SIZE, memory_limit=nbytes - 1).values is None


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_reads_what_is_asked_for_in_that_order(whole, workers):
    values, source = whole
    prepared = prepare(source, SIZE, memory_limit=0, workers=workers)
    assert source.inputs.seen == []
    batches = [
        torch.tensor(part, dtype=torch.int64) for part in ([5, 1], [], [11], [0, 2, 3], [4, 6], [7], [8, 9], [10])
    ]
    found = list(prepared.fetch(batches))
    assert [index.tolist() for index, _ in found] == [batch.tolist() for batch in batches]
    for batch, (_, samples) in zip(batches, found, strict=True):  # kept by the caller: not overwritten by what follows
        np.testing.assert_array_equal(samples.numpy(), values[batch.numpy()])
    assert list(prepared.fetch([])) == []


def test_workers_leave_the_global_generator_alone(whole):
    state = torch.random.get_rng_state()
    for workers in (0, 2):
        everything(prepare(whole[1], SIZE, memory_limit=0, workers=workers))
    assert torch.equal(state, torch.random.get_rng_state())


def test_progress_adds_up(damaged, tmp_path):
    for mode in ("memory", "cache"):
        seen = []
        prepare(damaged[1], SIZE, on_progress=seen.append, **modes(tmp_path)[mode])
        assert sum(seen) == COUNT


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mode", MODES)
def test_a_broken_image_is_left_out_and_told(damaged, tmp_path, mode, workers):
    values, source = damaged
    prepared = prepare(source, SIZE, workers=workers, **modes(tmp_path)[mode])
    index, samples = everything(prepared)
    assert index == prepared.readable().tolist() == [at for at in range(COUNT) if at not in BROKEN]
    np.testing.assert_array_equal(samples, values[index])
    assert sorted(prepared.unreadable) == list(BROKEN)
    assert all("truncated" in reason or "damaged" in reason for reason in prepared.unreadable.values())
    assert prepared.offered.tolist() == list(range(COUNT))  # the same order in every mode


@pytest.mark.parametrize("mode", MODES)
def test_strict_names_the_broken_image(damaged, tmp_path, mode):
    where = modes(tmp_path)[mode]
    with pytest.raises(InputError, match=r"sample 02\.png cannot be read: "):
        everything(prepare(damaged[1], SIZE, strict=True, **where))
    if mode == "cache":
        assert list((tmp_path / "cache").iterdir()) == []
        prepare(damaged[1], SIZE, **where)  # now there is a cache
        with pytest.raises(InputError, match=r"sample 02\.png cannot be read: "):
            prepare(damaged[1], SIZE, strict=True, **where)


@pytest.mark.parametrize("mode", MODES)
def test_all_broken_is_an_error(tmp_path, mode):
    folder = tmp_path / "bad"
    folder.mkdir()
    for at in range(3):
        (folder / f"{at}.png").write_bytes(b"nothing")
    with pytest.raises(InputError, match="none of the 3 samples can be read: not an image"):
        everything(prepare(files(folder), SIZE, **modes(tmp_path)[mode]))


@pytest.mark.parametrize("mode", MODES)
def test_what_the_source_calls_unreadable_is_not_read(whole, tmp_path, mode):
    source = whole[1]
    marked = source_of(source.inputs, unreadable={4: "no path"}, ids=source.ids)
    prepared = prepare(marked, SIZE, **modes(tmp_path)[mode])
    index, _ = everything(prepared)
    assert 4 not in index
    assert 4 not in source.inputs.seen
    assert prepared.unreadable == {4: "no path"}
    assert marked.unreadable == {4: "no path"}
    with pytest.raises(InputError, match=r"sample 04\.png cannot be read: no path"):
        prepare(marked, SIZE, strict=True, **modes(tmp_path)[mode])


def test_an_array_with_unreadable_rows():
    source = source_of(InMemory(np.zeros((3, 8, 8, 3), np.uint8)), unreadable={1: "no path"})
    prepared = prepare(source, 8, memory_limit=0)
    assert everything(prepared)[0] == [0, 2]
    with pytest.raises(InputError, match="sample 1 cannot be read: no path"):
        prepare(source, 8, memory_limit=0, strict=True)


def test_a_stream_does_not_try_twice(damaged):
    source = damaged[1]
    prepared = prepare(source, SIZE, memory_limit=0)
    everything(prepared)
    source.inputs.seen.clear()
    everything(prepared)
    assert not set(BROKEN) & set(source.inputs.seen)


def test_first_finds_something_to_read(damaged):
    values, source = damaged
    prepared = prepare(source, SIZE, memory_limit=0, workers=2)
    index, samples = prepared.first(torch.tensor([7, 2, 9, 0]))
    assert index.tolist() == [9]
    np.testing.assert_array_equal(samples[0].numpy(), values[9])
    assert source.inputs.seen == [7, 2, 9]
    assert len(prepared.first(torch.tensor([7, 2]))[0]) == 0


@pytest.mark.parametrize("limit", [0, ENOUGH])
def test_grey_pixels_become_colour_when_they_are_resized(limit):
    values = np.random.default_rng(0).integers(0, 256, (4, 6, 6, 1), np.uint8)
    source = source_of(InMemory(values))
    prepared = prepare(source, 12, memory_limit=limit)
    assert prepared.shape == (12, 12, 3)
    _, samples = everything(prepared)
    assert samples.shape == (4, 12, 12, 3)
    np.testing.assert_array_equal(samples[2], np.repeat(source.inputs.read(2, 12), 3, 2))


@pytest.mark.parametrize("limit", [0, ENOUGH])
def test_vectors_of_another_length_are_left_out(limit, tmp_path):
    samples = [None, np.ones(3, np.float32), np.ones(4, np.float32), np.zeros(3, np.float32)]
    prepared = prepare(source_of(Unsized(samples, "vector")), None, memory_limit=limit, cache=tmp_path)
    index, found = everything(prepared)
    assert index == [1, 3]
    assert found.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert found.dtype == np.float32
    assert "(4,)" in prepared.unreadable[2]
    assert prepared.shape == (3,)


def test_images_of_another_shape_are_left_out():
    samples = [np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5, 3), np.uint8)]
    prepared = prepare(source_of(Unsized(samples, "image")), 4, memory_limit=ENOUGH)
    assert prepared.unreadable == {1: "has shape (4, 5, 3), not (4, 4, 3)"}


def test_inputs_that_cannot_be_told_from_others_are_not_cached(tmp_path):
    samples = [np.zeros((4, 4, 3), np.uint8)] * 2
    prepared = prepare(source_of(Unsized(samples, "image")), 4, memory_limit=ENOUGH, cache=tmp_path)
    assert not isinstance(prepared.values, np.memmap)
    assert list(tmp_path.iterdir()) == []


def test_the_second_run_reads_the_cache_and_no_image(damaged, tmp_path):
    values, source = damaged
    first = prepare(source, SIZE, memory_limit=0, cache=tmp_path / "cache")
    assert sorted(source.inputs.seen) == list(range(COUNT))
    source.inputs.seen.clear()
    second = prepare(source, SIZE, memory_limit=0, cache=tmp_path / "cache")
    assert source.inputs.seen == []
    assert second.unreadable == first.unreadable
    np.testing.assert_array_equal(second.values, values)
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_the_cache_is_of_one_size_and_one_set_of_inputs_but_of_any_labels(whole, tmp_path):
    source, cache = whole[1], tmp_path / "cache"

    def names(count):
        found = {path.name for path in cache.iterdir()}
        assert len(found) == count
        return found

    prepare(source, SIZE, memory_limit=0, cache=cache)
    names(1)
    prepare(source, 4, memory_limit=0, cache=cache)
    names(2)
    source.inputs.seen.clear()
    relabelled = Source("toy", source.inputs, np.zeros(COUNT, np.int64), ("a", "b"), source.ids)
    prepare(relabelled, SIZE, memory_limit=0, cache=cache)
    assert source.inputs.seen == []
    paths = [source.inputs.inputs.path(at) for at in range(COUNT)]
    Image.new("RGB", (SIZE, SIZE)).save(paths[3])  # of another size
    again = replace(source, inputs=Counted(ImageFiles(paths)))
    changed = prepare(again, SIZE, memory_limit=0, cache=cache)
    names(3)
    assert not changed.values[3].any()


def test_arrays_of_one_shape_have_caches_of_their_own(tmp_path):
    for level in (1, 2):
        source = source_of(InMemory(np.full((3, 6, 6, 3), level, np.uint8)))
        assert (prepare(source, 4, memory_limit=0, cache=tmp_path).values == level).all()


def test_what_one_reader_writes_no_other_sees(whole, tmp_path):
    first, second = (prepare(whole[1], SIZE, memory_limit=0, cache=tmp_path / "cache") for _ in range(2))
    first.values[:] = 0
    np.testing.assert_array_equal(second.values, whole[0])
    np.testing.assert_array_equal(prepare(whole[1], SIZE, memory_limit=0, cache=tmp_path / "cache").values, whole[0])


@pytest.mark.parametrize("damage", ["half", "no notes", "garbage", "empty", "other shape", "a bit", "a reason"])
def test_a_cache_file_that_is_not_whole_is_made_anew(whole, tmp_path, damage):
    values, source = whole
    cache = tmp_path / "cache"
    prepare(source, SIZE, memory_limit=0, cache=cache)
    (path,) = cache.iterdir()
    content = path.read_bytes()
    notes = len(content) - content.rindex(b'{"unreadable": {}')
    if damage == "other shape":
        np.save(path, values[:3])
        with path.open("ab") as file:
            file.write(content[-notes:])
    else:
        left = {"half": content[: len(content) // 2], "no notes": content[:-notes], "garbage": b"x" * 999, "empty": b""}
        left["a bit"] = content[: -notes - 1] + bytes([content[-notes - 1] ^ 1]) + content[-notes:]
        left["a reason"] = content.replace(b'"unreadable": {}', b'"unreadable": {"0": "torn"}')
        path.write_bytes(left[damage])
    np.testing.assert_array_equal(prepare(source, SIZE, memory_limit=0, cache=cache).values, values)
    assert path.read_bytes() == content


def test_a_half_written_draft_is_never_used(whole, tmp_path):
    values, source = whole
    cache = tmp_path / "cache"

    class CutError(Exception):
        pass

    def stop(_):
        raise CutError

    with pytest.raises(CutError):
        prepare(source, SIZE, memory_limit=0, cache=cache, on_progress=stop)
    assert list(cache.iterdir()) == []
    prepare(source, SIZE, memory_limit=0, cache=cache)
    (path,) = cache.iterdir()
    content = path.read_bytes()
    path.unlink()
    draft = cache / f".{path.name}.123.tmp"  # of a builder that was killed
    draft.write_bytes(content[: len(content) // 2])
    source.inputs.seen.clear()
    np.testing.assert_array_equal(prepare(source, SIZE, memory_limit=0, cache=cache).values, values)
    assert len(source.inputs.seen) == COUNT
    assert path.read_bytes() == content


BUILDER = """
import hashlib, sys, time
from pathlib import Path
import numpy as np
from jnpl.data.sources.images import ImageFiles
from jnpl.data.loading.prepare import prepare
from jnpl.data.source import Source
folder, cache, start = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
paths = sorted(folder.glob("*.png"))
ids = np.array([path.name for path in paths], object)
source = Source("toy", ImageFiles(paths), np.arange(len(paths)) % 2, ("a", "b"), ids)
print("ready", flush=True)
sys.stdin.readline()
prepared = prepare(source, 8, memory_limit=0, cache=cache, on_progress=lambda _: time.sleep(start))
print(hashlib.sha256(prepared.values.tobytes()).hexdigest(), sorted(prepared.unreadable), flush=True)
"""


def test_two_builders_at_once(damaged, tmp_path):
    import hashlib

    values, source = damaged
    cache = tmp_path / "cache"
    folder = source.inputs.inputs.path(0).parent
    command = [sys.executable, "-c", BUILDER, str(folder), str(cache)]
    builders = [
        subprocess.Popen([*command, pause], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for pause in ("0.2", "0.3")
    ]
    for builder in builders:
        assert builder.stdout.readline() == "ready\n"
    for builder in builders:
        builder.stdin.write("\n")
        builder.stdin.flush()
    told = [builder.communicate(timeout=1800)[0] for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0]
    assert told == [f"{hashlib.sha256(values.tobytes()).hexdigest()} {list(BROKEN)}\n"] * 2
    assert len(list(cache.iterdir())) == 1
    source.inputs.seen.clear()
    np.testing.assert_array_equal(prepare(source, SIZE, memory_limit=0, cache=cache).values, values)
    assert source.inputs.seen == []


def test_a_cache_in_a_place_that_cannot_be_written(whole, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot"):
        prepare(whole[1], SIZE, memory_limit=0, cache=tmp_path / "file" / "cache")


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_decode_hands_over_batch_after_batch(damaged, workers):
    values, source = damaged
    batches = torch.split(torch.arange(COUNT), 1)  # more batches than slots
    broken = {}
    for batch, (index, samples, failed) in zip(batches, decode(source.inputs, batches, SIZE, workers), strict=True):
        time.sleep(0.02)  # the workers run ahead, and must not run over what is in our hands
        broken |= failed
        assert index.tolist() == [at for at in batch.tolist() if at not in BROKEN]
        np.testing.assert_array_equal(samples.numpy(), values[index.numpy()])
    assert sorted(broken) == list(BROKEN)


def test_a_reader_that_is_left_early_ends_its_workers(whole):
    reading = decode(whole[1].inputs, torch.split(torch.arange(COUNT), 1), SIZE, 2)
    next(reading)
    reading.close()
    import multiprocessing

    for child in multiprocessing.active_children():
        child.join(600)
        assert not child.is_alive()


def test_values_on_another_device_are_moved_once():
    values = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    prepared = Prepared(InMemory(values), None, values, {})
    meta = torch.device("meta")
    assert prepared._resident(meta) is prepared._resident(meta)
    assert prepared._resident(torch.device("cpu")).data_ptr() == values.ctypes.data


def test_default_workers(monkeypatch):
    assert default_workers() == (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0)
    monkeypatch.delattr(module.os, "sched_getaffinity", raising=False)
    assert default_workers() == 0
