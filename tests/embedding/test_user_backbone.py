"""package.module:factory: the user's own network for images, or function for texts."""

import numpy as np
import pytest
import torch

from jnpl.embedding.backbones import load_backbone
from jnpl.internal.errors import InputError

CODE = """
import numpy as np
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, width, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    def forward(self, images):
        return self.body(images)

def plain():
    return Net()

def settled():
    net = Net(4)
    net.size, net.mean, net.std = 20, [0.1, 0.2, 0.3], (1, 2, 3)
    return net

network = Net()
number = 5

def odd_size():
    net = Net(); net.size = "large"; return net
def no_size():
    net = Net(); net.size = 0; return net
def odd_mean():
    net = Net(); net.mean = 0.5; return net
def odd_std():
    net = Net(); net.std = (1, 0, 1); return net
def needs(width):
    return Net(width)
def flat():
    return nn.Identity()
def infinite():
    net = Net(); net.body[0].weight.data.fill_(float("nan")); return net
def normalising():
    class Batch(nn.Module):
        def forward(self, x):
            x = x.flatten(1)[:, :9]
            return x - x.mean(0)
    return Batch()

def lengths(texts):
    return [[len(text), text.count("a")] for text in texts]
def tensors(texts):
    return torch.tensor(lengths(texts))
class Encoder:
    def __call__(self, texts):
        return np.array(lengths(texts))
def make():
    return lengths
def short(texts):
    return lengths(texts)[1:]
def fails(texts):
    raise RuntimeError("line one\\nline two")
"""


@pytest.fixture(autouse=True)
def _module(tmp_path, monkeypatch):
    import sys

    (tmp_path / "user_backbones.py").write_text(CODE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("user_backbones", None)


def test_images_with_the_defaults():
    backbone = load_backbone("user_backbones:plain", "image", size=32)
    assert (backbone.size, backbone.width) == (32, 6)
    assert backbone.mean == (0.485, 0.456, 0.406)
    assert backbone.std == (0.229, 0.224, 0.225)
    assert load_backbone("user_backbones:plain", "image").size == 224
    assert backbone.network(torch.rand(2, 3, 32, 32)).shape == (2, 6)


@pytest.mark.parametrize("name", ["Net", "network", "plain"])
def test_a_class_a_network_or_a_function(name):
    assert load_backbone(f"user_backbones:{name}", "image", size=32).width == 6


def test_the_code_of_a_network_is_known():
    assert load_backbone("user_backbones:plain", "image", size=32).code == CODE
    assert "class Flatten" in load_backbone("torch.nn:Flatten", "image", size=4).code


def test_images_with_settings_of_their_own():
    backbone = load_backbone("user_backbones:settled", "image")
    assert (backbone.size, backbone.width, backbone.mean, backbone.std) == (20, 4, (0.1, 0.2, 0.3), (1, 2, 3))
    assert load_backbone("user_backbones:settled", "image", size=28).size == 28


@pytest.mark.parametrize("name", ["lengths", "tensors", "Encoder", "make"])
def test_texts(name):
    backbone = load_backbone(f"user_backbones:{name}", "text")
    found = backbone.encode(["banana", "xx"])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[6, 3], [2, 0]])
    assert (backbone.width, backbone.takes, len(backbone.digest)) == (2, "text", 64)
    assert backbone.encode([]).shape == (0, 2)
    assert backbone.digest == load_backbone(f"user_backbones:{name}", "text").digest


@pytest.mark.parametrize(
    ("name", "takes", "message"),
    [
        ("user_backbones:nothing", "image", "has no 'nothing', of the backbone"),
        ("no_such_module:make", "image", "cannot import 'no_such_module' of the backbone"),
        ("user_backbones:", "image", "named as package.module:factory"),
        ("user_backbones:number", "image", "must be a factory .* got int"),
        ("user_backbones:make", "image", "must return an nn.Module for images, got function"),
        ("user_backbones:needs", "image", "failed when called without arguments: TypeError"),
        ("user_backbones:odd_size", "image", "the size of the backbone .* must be a whole number, got 'large'"),
        ("user_backbones:no_size", "image", "must be at least 1, got 0"),
        ("user_backbones:odd_mean", "image", "the mean of the backbone .* must be three numbers, got 0.5"),
        ("user_backbones:odd_std", "image", "std above 0"),
        ("user_backbones:flat", "image", r"must give floats \(2, F\) for two images, got \(2, 3, 224, 224\)"),
        ("user_backbones:infinite", "image", "not finite"),
        ("user_backbones:normalising", "image", "another embedding each time, or beside other images"),
        ("user_backbones:short", "text", r"must return \(3, F\) for 3 texts"),
        ("user_backbones:fails", "text", "RuntimeError: line one line two"),
        ("user_backbones:number", "text", "must be a factory .* got int"),
        ("unknown", "image", "unknown backbone 'unknown': choose from efficientnet-lite0"),
        ("tfidf", "image", "takes texts, but the data are images"),
        ("efficientnet-lite0", "text", "takes images, but the data are texts"),
    ],
)
def test_mistakes_are_one_line(name, takes, message):
    with pytest.raises(InputError, match=message) as caught:
        load_backbone(name, takes)
    assert "\n" not in str(caught.value)
