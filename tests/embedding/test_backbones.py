"""Backbones by name."""

import os
import shutil

import pytest

from jnpl.embedding import backbones, efficientnet
from jnpl.embedding.backbones import load_backbone, shared_backbone
from jnpl.internal.errors import InputError

NAME = "efficientnet-lite0"


def test_a_shared_backbone_is_loaded_once_and_again_from_another_file(monkeypatch, tmp_path):
    weights = shutil.copy(efficientnet.weights_path(), tmp_path / "weights.pth")
    monkeypatch.setattr(efficientnet, "weights_path", lambda: weights)
    loaded = []
    load = efficientnet.pretrained_network
    monkeypatch.setattr(efficientnet, "pretrained_network", lambda: loaded.append(1) or load())
    first = shared_backbone(NAME, "image", size=32)
    assert shared_backbone(NAME, "image", size=32) is first
    assert shared_backbone(NAME, "image", size=48).size == 48
    assert len(loaded) == 2
    assert first.digest == load_backbone(NAME, "image", size=32).digest
    os.utime(weights, ns=(1, 1))
    assert shared_backbone(NAME, "image", size=32) is not first


def test_code_of_the_user_is_called_each_time():
    name = "torch.nn:Flatten"
    assert shared_backbone(name, "image", size=4) is not shared_backbone(name, "image", size=4)


@pytest.mark.parametrize("load", [load_backbone, shared_backbone])
def test_a_backbone_that_does_not_exist_is_refused(load):
    with pytest.raises(InputError, match=r"^unknown backbone 'resnet': choose from efficient"):
        load("resnet", "image")
    assert "resnet" not in backbones.BACKBONES
