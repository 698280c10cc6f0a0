"""timm:NAME, with a small stand-in for timm: the real one needs torchvision, which is not everywhere."""

import sys
import types

import pytest
import torch
from torch import nn

from jnpl.embedding.backbones import BACKBONES, load_backbone
from jnpl.internal.errors import InputError, MissingExtraError


class Patches(nn.Module):
    """A network for one size, as timm's vision transformers are."""

    def __init__(self, img_size=16):
        super().__init__()
        self.side = img_size
        self.weight = nn.Parameter(torch.ones(3, 5))

    def forward(self, images):
        assert images.shape[2] == self.side, f"Input height {images.shape[2]} doesn't match model ({self.side})."
        return images.mean((2, 3)) @ self.weight


@pytest.fixture
def calls(monkeypatch):
    """A module `timm` with what we use of it; the calls of `create_model`."""
    made = []

    def create_model(name, pretrained=False, num_classes=None, **options):
        made.append((name, pretrained, num_classes, options))
        if name == "patches":
            return Patches(**options)
        if name == "convolutions" and options:
            raise TypeError(f"ResNet.__init__() got an unexpected keyword argument {next(iter(options))!r}")
        if name == "convolutions":
            return nn.Sequential(nn.Conv2d(3, 7, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).half()
        raise RuntimeError(f"Unknown model\n({name})")

    def resolve_model_data_config(model):
        return {"input_size": (3, 16, 16), "mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.3), "crop_pct": 0.9}

    timm, data = types.ModuleType("timm"), types.ModuleType("timm.data")
    timm.create_model, timm.data, data.resolve_model_data_config = create_model, data, resolve_model_data_config
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setitem(sys.modules, "timm.data", data)
    return made


def test_a_pretrained_network_without_classifier(calls):
    backbone = load_backbone("timm:convolutions", "image")
    assert calls == [("convolutions", True, 0, {})]
    assert (backbone.name, backbone.size, backbone.width, backbone.takes) == ("timm:convolutions", 16, 7, "image")
    assert (backbone.mean, backbone.std) == ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))
    assert backbone.network(torch.rand(2, 3, 16, 16)).dtype == torch.float32
    assert not backbone.network.training
    assert len(backbone.digest) == 64


def test_another_size(calls):
    assert load_backbone("timm:patches", "image").width == 5
    assert load_backbone("timm:patches", "image", size=24).size == 24
    assert calls[-1] == ("patches", True, 0, {"img_size": 24})
    backbone = load_backbone("timm:convolutions", "image", size=24)
    assert (backbone.size, backbone.network(torch.rand(1, 3, 24, 24)).shape) == (24, (1, 7))


@pytest.mark.parametrize(
    ("name", "takes", "message"),
    [
        ("timm:", "image", "named as timm:NAME, got 'timm:'"),
        ("timm:nothing", "image", r"cannot load timm:nothing: RuntimeError: Unknown model \(nothing\)"),
        ("timm:patches", "text", "timm:patches takes images, but the data are texts"),
    ],
)
def test_mistakes_are_one_line(calls, name, takes, message):
    with pytest.raises(InputError, match=message) as caught:
        load_backbone(name, takes)
    assert "\n" not in str(caught.value)


def test_without_timm(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)  # its import is a ModuleNotFoundError
    with pytest.raises(MissingExtraError, match=r'timm, which is not installed: pip install "jnpl\[timm\]"'):
        load_backbone("timm:resnet50", "image")
    assert BACKBONES["timm:NAME"].why_not_here() == 'not installed: pip install "jnpl[timm]"'


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_torchvision", "ModuleNotFoundError: No module named 'no_such_torchvision'"),
        (
            "raise RuntimeError('operator torchvision::nms\\ndoes not exist')",
            "operator torchvision::nms does not exist",
        ),
    ],
)
def test_a_timm_that_cannot_be_imported(monkeypatch, tmp_path, code, message):
    (tmp_path / "timm").mkdir()
    (tmp_path / "timm" / "__init__.py").write_text(code, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(InputError, match=f"timm:resnet50 needs timm, which cannot be imported here: .*{message}"):
        load_backbone("timm:resnet50", "image")
    why = BACKBONES["timm:NAME"].why_not_here()
    assert why.startswith("timm cannot be imported: ")
    assert message in why
