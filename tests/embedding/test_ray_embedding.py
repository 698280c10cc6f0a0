"""Embedding on a real Ray cluster of two nodes, both on this machine: the bytes of one process."""

import builtins
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.helpers.backbones import BLOCK, MarkedInputs, noise_images, tiny_backbone
from tests.helpers.clusters import two_nodes
from typer.testing import CliRunner

import jnpl
from jnpl.cli.app import app
from jnpl.data.opening import open_source
from jnpl.data.source import Texts
from jnpl.embedding import embedding_cache, ray_embedding
from jnpl.embedding.backbones import TextBackbone
from jnpl.embedding.compute import EmbeddingOptions, EmbeddingWork, embed_source
from jnpl.embedding.ray_embedding import RayBlocks, ray_blocks
from jnpl.embedding.tfidf import fit_tfidf
from jnpl.internal.errors import InputError
from jnpl.internal.ray_cluster import ray_cluster

ray = pytest.importorskip("ray", reason="Ray is not installed: it comes with the extra `ray`")
pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """Ray's `init` takes SIGTERM for itself, and `print`."""
    monkeypatch.setattr(embedding_cache, "BLOCK", BLOCK)
    before, say = signal.getsignal(signal.SIGTERM), builtins.print
    yield
    signal.signal(signal.SIGTERM, before)
    builtins.print = say


@pytest.fixture(scope="module")
def address():
    """Two nodes of one core each."""
    with two_nodes() as place:
        yield place


def content(cache):
    (values,) = cache.glob("*/values.f16")
    return values.read_bytes()


def test_a_killed_worker_changes_nothing(tmp_path, address):
    """Two workers share the blocks; one is killed in the middle, and its block is computed again."""
    marks = tmp_path / "marks"
    marks.mkdir()
    source = noise_images(1000)
    watched, backbone = replace(source, inputs=MarkedInputs(source.inputs, marks)), tiny_backbone()
    one, several = tmp_path / "one", tmp_path / "several"
    embed_source(source, backbone, EmbeddingOptions(cache=one))
    killed = []

    def kill():
        while len(list(marks.iterdir())) < 4:
            time.sleep(0.05)
        killed.append(int(max(marks.iterdir(), key=lambda mark: mark.stat().st_mtime).name.split("-")[1]))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with ray_blocks(address) as compute:
        embedded = embed_source(watched, backbone, EmbeddingOptions(cache=several, compute=compute))
    killer.join()
    assert not ray.is_initialized()
    assert content(several) == content(one)
    assert embedded.unreadable is None
    read = [tuple(map(int, mark.name.split("-"))) for mark in marks.iterdir()]
    workers = {process for _, process in read} - {os.getpid()}
    assert {position for position, process in read if process != os.getpid()} == set(range(0, 1000, BLOCK))
    assert len(workers) >= 2
    assert killed[0] in workers


def test_files_texts_and_what_cannot_be_read(tmp_path, address):
    random, folder = np.random.default_rng(0), tmp_path / "photos"
    for at in range(150):
        path = folder / "ab"[at % 2] / f"{at:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (14, 14, 3), np.uint8)).save(path)
    path.write_bytes(b"not an image")
    photos = open_source(folder)
    texts = [f"{word} {other}" for word in ("red", "blue", "green") for other in map(str, range(40))]
    written = jnpl.embed(texts, ["a", "b"] * 60, cache=tmp_path / "local")
    words = replace(written.source, inputs=Texts(written.source.texts), backbone=None)
    with ray_blocks(address) as compute:
        for source, backbone in ((photos, tiny_backbone()), (words, fit_tfidf(texts))):
            local = embed_source(source, backbone, EmbeddingOptions())
            there = embed_source(source, backbone, EmbeddingOptions(cache=tmp_path / "ray", compute=compute))
            np.testing.assert_array_equal(there.inputs.values, local.inputs.values)
            assert there.unreadable == local.unreadable
            assert source is words or list(there.unreadable.values()) == ["not an image that Pillow can open"]


def test_errors_are_one_line(tmp_path, address):
    broken = tiny_backbone()
    broken.network.features[0].bias.data[0] = np.nan
    failing = replace(tiny_backbone(), width=5)
    with ray_blocks(address) as compute:
        options = EmbeddingOptions(cache=tmp_path, compute=compute)
        with pytest.raises(InputError, match=r"^the backbone tiny gave embeddings that are not finite$"):
            embed_source(noise_images(100), broken, options)
        with pytest.raises(InputError, match=r"^embedding on Ray failed: .*broadcast"):
            embed_source(noise_images(100), failing, options)
        unsent = replace(tiny_backbone(), mean=threading.Lock())
        with pytest.raises(InputError, match=r"the backbone tiny cannot be sent to workers of Ray: .*pickle.*lock"):
            list(compute(EmbeddingWork(noise_images(9).inputs, {}, unsent, 1, 0, None), {0: range(9)}))
        with pytest.raises(InputError, match="a worker needs 4 GPU, the Ray cluster has 0"):
            embed_source(noise_images(100), tiny_backbone(), replace(options, compute=RayBlocks(ray, 4)))


def test_the_command_and_a_cluster_of_our_own(tmp_path):
    texts = "".join(f"{at % 2},{'red' if at % 2 else 'blue'} {at}\n" for at in range(150))
    (tmp_path / "texts.csv").write_text("label,text\n" + texts)
    before = signal.getsignal(signal.SIGTERM)
    for engine in ("local", "ray"):
        command = ["embed", str(tmp_path / "texts.csv"), "--text-column", "text", "--cache", str(tmp_path / engine)]
        done = CliRunner().invoke(app, [*command, "--engine", engine, "--json"], catch_exceptions=False)
        assert done.exit_code == 0
    assert content(tmp_path / "ray") == content(tmp_path / "local")
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "spark"}, "--engine must be local or ray, got 'spark'"),
        ({"address": "here:1"}, "--address goes with --engine ray, got --address here:1 with --engine local"),
        ({"gpus": 1.0}, r"--gpus goes with --engine ray, got --gpus 1\.0 with --engine local"),
        ({"engine": "ray", "gpus": -1.0}, "--gpus is a share of a GPU.*, got -1"),
        ({"engine": "ray", "address": "here"}, "--address is HOST:PORT, ray://HOST:PORT or auto, got 'here'"),
        ({"engine": "ray", "address": "127.0.0.1:1"}, r"there is no Ray cluster at '127\.0\.0\.1:1': .*refused"),
    ],
)
def test_wrong_options_are_one_line(options, message):
    with pytest.raises(InputError, match=message):
        jnpl.embed(["a b", "b c"] * 5, ["x", "y"] * 5, **options)


def test_a_connection_of_the_user_stays(address):
    with ray_cluster(address) as outer, ray_cluster() as inner:
        assert inner is outer
    assert not ray.is_initialized()
    ray.init(address=address, log_to_driver=False)
    try:
        with ray_cluster(address):
            pass
        assert ray.is_initialized()
    finally:
        ray.shutdown()


def test_an_encoder_of_texts_is_loaded_again_on_the_gpu_of_a_worker(monkeypatch):
    loaded: list[tuple[str, str, str]] = []

    def load(name: str, takes: str, *, device: str) -> TextBackbone:
        loaded.append((name, takes, device))
        return TextBackbone(name, None, 4, "digest")

    monkeypatch.setattr(ray_embedding, "load_backbone", load)
    texts, cpu, gpu = Texts(np.array(["a"], object)), torch.device("cpu"), torch.device("cuda")
    encoder = TextBackbone("hf:encoder", None, 4, "digest")
    for backbone, device in ((encoder, cpu), (replace(encoder, state={}), gpu), (tiny_backbone(), gpu)):
        work = EmbeddingWork(texts, {}, backbone, 1, 0, device)
        assert ray_embedding.on_own_device(work) is work
    ray_embedding.on_own_device(EmbeddingWork(texts, {}, encoder, 1, 0, gpu))
    assert loaded == [("hf:encoder", "text", "cuda")]
