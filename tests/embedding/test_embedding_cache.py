"""The cache of embeddings: killed, full, damaged or shared, it ends with the bytes of an undisturbed run."""

import errno
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from tests.helpers.backbones import BLOCK, TinyNet, noise_images, tiny_backbone
from tests.helpers.marks import posix

from jnpl.embedding import compute as embedding
from jnpl.embedding import embedding_cache
from jnpl.embedding.compute import EmbeddingOptions, embed_source
from jnpl.embedding.embedding_cache import EmbeddingCache
from jnpl.internal.errors import InputError, Interrupted, UnwritableError

COUNT = 400  # seven blocks, the last one of 16
BLOCKS = -(-COUNT // BLOCK)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    monkeypatch.setattr(embedding_cache, "BLOCK", BLOCK)
    monkeypatch.setattr(TinyNet, "calls", 0)
    monkeypatch.setattr(TinyNet, "dies_at", None)


def embed(cache, **options):
    return embed_source(noise_images(COUNT), tiny_backbone(), EmbeddingOptions(views=1, cache=cache, **options))


def content(cache):
    (values,) = cache.glob("*/values.f16")
    return values.read_bytes()


def finished(cache):
    (blocks,) = cache.glob("*/blocks")
    content = blocks.read_bytes()
    return [int(any(content[at : at + 32])) for at in range(0, len(content), 32)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The bytes of a run in which nothing happened."""
    cache = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedding_cache, "BLOCK", BLOCK)
        embed(cache)
    return content(cache)


def start(cache, *arguments, **environment):
    command = [sys.executable, "-m", "tests.helpers.backbones", str(cache), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **environment}, text=True)


@pytest.mark.parametrize("calls", range(BLOCKS))
def test_a_failure_at_any_block_loses_that_block_only(tmp_path, undisturbed, monkeypatch, calls):
    monkeypatch.setattr(TinyNet, "dies_at", calls)
    with pytest.raises(RuntimeError, match="the network fails"):
        embed(tmp_path)
    assert finished(tmp_path) == [1] * calls + [0] * (BLOCKS - calls)
    monkeypatch.setattr(TinyNet, "dies_at", None)
    notes = []
    embed(tmp_path, note=notes.append)
    assert TinyNet.calls == BLOCKS
    assert notes == ([f"noise: embedding goes on at sample {calls * BLOCK} of 400"] if calls else [])
    assert content(tmp_path) == undisturbed


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("stop", ["Ctrl-C", "failure"])
def test_what_is_embedded_of_a_block_is_kept(tmp_path, undisturbed, monkeypatch, threads, stop):
    monkeypatch.setattr(embedding_cache, "BLOCK", 512)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(embedding, "_KEEP_SECONDS", 1e9 if stop == "Ctrl-C" else 0)
    forward, error = TinyNet.forward, {"Ctrl-C": KeyboardInterrupt, "failure": RuntimeError}[stop]

    def interrupted(self, images):
        if TinyNet.calls >= 3:
            raise error
        return forward(self, images)

    monkeypatch.setattr(TinyNet, "forward", interrupted)
    with pytest.raises(Interrupted if stop == "Ctrl-C" else RuntimeError) as why:
        embed(tmp_path)
    if stop == "Ctrl-C":
        kept = "interrupted; 192 of 400 samples of noise are embedded and kept: run the same command again"
        assert (str(why.value), why.value.code) == (kept, 130)
    monkeypatch.setattr(TinyNet, "forward", forward)
    notes, steps = [], []
    embed(tmp_path, note=notes.append, progress=lambda *done: steps.append(done))
    assert notes == ["noise: embedding goes on at sample 192 of 400"]
    assert steps == [(192, 400), (256, 400), (320, 400), (384, 400), (400, 400)]
    assert TinyNet.calls == BLOCKS  # nothing twice
    assert content(tmp_path) == undisturbed
    assert not list(tmp_path.glob("*/part-*"))


def test_a_damaged_part_of_a_block_is_computed_again(tmp_path, undisturbed, monkeypatch):
    monkeypatch.setattr(embedding_cache, "BLOCK", 512)
    monkeypatch.setattr(embedding, "_KEEP_SECONDS", 0)
    monkeypatch.setattr(TinyNet, "dies_at", 3)
    with pytest.raises(RuntimeError, match="the network fails"):
        embed(tmp_path)
    (part,) = tmp_path.glob("*/part-0")
    part.write_bytes(part.read_bytes()[:-1])
    monkeypatch.setattr(TinyNet, "dies_at", None)
    notes = []
    embed(tmp_path, note=notes.append)
    assert notes == []
    assert content(tmp_path) == undisturbed


@posix
def test_a_killed_process_goes_on_at_its_last_block(tmp_path, undisturbed):
    process = start(tmp_path, 3)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert finished(tmp_path) == [1, 1, 1, 0, 0, 0, 0]
    embed(tmp_path)
    assert TinyNet.calls == BLOCKS - 3
    assert content(tmp_path) == undisturbed


def test_two_processes_share_the_blocks(tmp_path, undisturbed):
    processes = [start(tmp_path, RANK=str(rank), WORLD_SIZE="2") for rank in range(2)]
    calls = [int(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert BLOCKS <= sum(calls) <= 2 * BLOCKS
    assert finished(tmp_path) == [1] * BLOCKS
    assert content(tmp_path) == undisturbed


def test_two_processes_that_know_nothing_of_each_other_may_use_one_cache(tmp_path, undisturbed):
    processes = [start(tmp_path) for _ in range(2)]
    for process in processes:
        process.communicate()
    assert [process.returncode for process in processes] == [0, 0]
    assert content(tmp_path) == undisturbed


def test_a_process_that_is_left_alone_computes_the_blocks_of_the_others(tmp_path, undisturbed):
    embed(tmp_path, rank=1, world=3)
    assert TinyNet.calls == BLOCKS
    assert content(tmp_path) == undisturbed


def test_processes_take_their_blocks_of_process_first_then_those_that_others_compute_last(monkeypatch):
    monkeypatch.setattr(embedding, "_BLOCKS_AT_A_TIME", 2)
    assert embedding._blocks_of_process([3, 4, 5], 0, 1) == [3, 4, 5]
    assert embedding._blocks_of_process(list(range(9)), 1, 2) == [1, 3]
    assert embedding._blocks_of_process([1, 3, 5, 7], 0, 2) == [7]
    assert embedding._blocks_of_process([1, 4, 7], 2, 3) == [1]
    assert embedding._blocks_of_process([1], 2, 3) == [1]


def test_without_a_folder_every_process_has_all_of_it(undisturbed):
    values = embed(None, rank=1, world=2).inputs.values
    assert values.tobytes() == undisturbed


def test_a_full_disk_is_one_line_and_what_is_finished_stays(tmp_path, undisturbed, monkeypatch):
    write = embedding_cache._write

    def full(path, values, start):
        if path.name == "values.f16" and start >= 3 * BLOCK * 16:
            write(path, values[: len(values) // 2], start)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, values, start)

    monkeypatch.setattr(embedding_cache, "_write", full)
    with pytest.raises(UnwritableError, match=r"cannot write embeddings to '.*' \(--cache\): No space left") as caught:
        embed(tmp_path)
    assert "\n" not in str(caught.value)
    assert finished(tmp_path) == [1, 1, 1, 0, 0, 0, 0]
    monkeypatch.setattr(embedding_cache, "_write", write)
    calls = TinyNet.calls
    embed(tmp_path)
    assert TinyNet.calls == calls + BLOCKS - 3
    assert content(tmp_path) == undisturbed


@pytest.mark.parametrize("damage", ["cache.json", "short values", "no values", "long blocks", "no blocks", "format"])
def test_a_damaged_cache_is_computed_again(tmp_path, undisturbed, damage):
    embed(tmp_path)
    (folder,) = tmp_path.iterdir()
    if damage == "cache.json":
        (folder / "cache.json").write_text("{")
    elif damage == "short values":
        os.truncate(folder / "values.f16", 1000)
    elif damage == "long blocks":
        (folder / "blocks").write_bytes(b"\1" * 32 * 20)
    elif damage == "format":
        described = json.loads((folder / "cache.json").read_text())
        (folder / "cache.json").write_text(json.dumps({**described, "format": 0}))
    else:
        (folder / {"no values": "values.f16", "no blocks": "blocks"}[damage]).unlink()
    calls = TinyNet.calls
    embed(tmp_path)
    assert TinyNet.calls == calls + BLOCKS
    assert content(tmp_path) == undisturbed


@pytest.mark.parametrize(
    ("name", "damage", "blocks"),
    [
        ("values.f16", lambda old: old[:-16] + bytes([old[-16] ^ 1]) + old[-15:], [6]),
        ("values.f16", lambda old: bytes(len(old)), range(BLOCKS)),
        ("values.f16", lambda old: (-np.frombuffer(old, np.float16)).tobytes(), range(BLOCKS)),
        (
            "values.f16",
            lambda old: old[BLOCK * 16 : 2 * BLOCK * 16] + old[: BLOCK * 16] + old[2 * BLOCK * 16 :],
            [0, 1],
        ),
        ("values.f16", lambda old: b"\0~" + old[2:], [0]),  # nan
        ("blocks", lambda old: old[32:64] + old[32:], [0]),
        ("unreadable.jsonl", lambda _old: b'[70, "not an image"]\n', [1]),
    ],
    ids=["a bit", "zeros", "signs", "blocks swapped", "nan", "a hash", "a reason"],
)
def test_damaged_blocks_are_computed_again_and_no_others(tmp_path, undisturbed, name, damage, blocks):
    embed(tmp_path)
    (folder,) = tmp_path.iterdir()
    file, calls, notes = folder / name, TinyNet.calls, []
    file.write_bytes(damage(file.read_bytes() if file.exists() else b""))
    source = embed(tmp_path, note=notes.append)
    assert TinyNet.calls == calls + len(blocks)
    assert content(tmp_path) == undisturbed
    assert source.unreadable is None
    assert np.ascontiguousarray(source.inputs.values).tobytes() == undisturbed
    samples = 16 + BLOCK * (len(blocks) - 1) if 6 in blocks else BLOCK * len(blocks)
    assert notes[0] == f"noise: cached embeddings of {samples} samples are damaged, and computed again"


def test_a_reason_that_is_lost_is_no_sample_of_zeros(tmp_path):
    for _ in range(2):
        cache = EmbeddingCache(tmp_path, "k" * 64, (BLOCK, 1, 2))
        assert cache.missing() == [0]
        cache.write(0, np.zeros((BLOCK, 1, 2), np.float16), {3: "empty file"})
        (tmp_path / ("k" * 32) / "unreadable.jsonl").unlink()


def test_files_of_others_in_the_folder_stay(tmp_path, undisturbed):
    embed(tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / "cache.json").write_text("[]")
    (folder / "thesis.txt").write_text("mine")
    (tmp_path / "photo.txt").write_text("mine")
    embed(tmp_path)
    assert (folder / "thesis.txt").read_text() == (tmp_path / "photo.txt").read_text() == "mine"
    assert content(tmp_path) == undisturbed


def test_a_cache_that_is_a_file_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableError, match=r"cannot make the folder .*file") as caught:
        embed(tmp_path / "file")
    assert "\n" not in str(caught.value)


def test_values_that_vanish_are_one_line(tmp_path):
    cache = EmbeddingCache(tmp_path, "k" * 64, (10, 1, 2))
    cache.write(0, np.ones((10, 1, 2), np.float16), {})
    (tmp_path / ("k" * 32) / "values.f16").unlink()
    with pytest.raises(InputError, match=r"the cached embeddings in '.*' cannot be read"):
        cache.values()


def test_reasons_survive_a_line_that_a_kill_has_torn(tmp_path):
    shape = (2 * BLOCK, 1, 2)
    cache = EmbeddingCache(tmp_path, "k" * 64, shape)
    zeros = np.zeros((BLOCK, 1, 2), np.float16)
    cache.write(0, zeros, {3: "empty file"})
    with (tmp_path / ("k" * 32) / "unreadable.jsonl").open("a") as file:
        file.write('[1e400, "too far"]\n[0.5, "between"]\n[true, "no"]\n[70, "not an im')
    again = EmbeddingCache(tmp_path, "k" * 64, shape)
    assert (again.missing(), again.unreadable()) == ([1], {3: "empty file"})
    again.write(1, zeros, {70: "not an image", 71: "a line\nbreak"})
    expected = {3: "empty file", 70: "not an image", 71: "a line\nbreak"}
    assert EmbeddingCache(tmp_path, "k" * 64, shape).unreadable() == expected


def test_another_reader_does_not_see_changes_in_memory(tmp_path):
    values = embed(tmp_path).inputs.values
    before = content(tmp_path)
    values[:] = 0
    assert content(tmp_path) == before


def test_a_complete_cache_may_be_read_only(tmp_path, undisturbed, monkeypatch):
    embed(tmp_path)

    def refuse(*_args: object, **_options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(embedding_cache, "make_folder", refuse)
    monkeypatch.setattr(embedding_cache.locks, "alone", refuse)
    assert np.ascontiguousarray(embed(tmp_path).inputs.values).tobytes() == undisturbed
    (blocks,) = tmp_path.glob("*/blocks")
    blocks.write_bytes(bytes(32) + blocks.read_bytes()[32:])
    with pytest.raises(OSError, match="Read-only"):
        embed(tmp_path)
