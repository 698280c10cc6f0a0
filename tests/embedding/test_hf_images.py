"""Vision models of transformers: the embedding of each family, its inputs, training and export."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from jnpl.embedding.backbones import load_backbone
from jnpl.internal.errors import InputError

transformers = pytest.importorskip("transformers", reason="needs the extra hf")

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
