"""ONNX: raw samples in, the network's own probabilities out, or no file at all."""

import json
import logging

import numpy as np
import pytest
import torch
from tests.helpers.runs import CLASSES, findings, image_model, photos, vector_model
from torch import nn

from jnpl.data.sources.folder import load as load_folder
from jnpl.internal.errors import InputError
from jnpl.outputs.export import onnx
from jnpl.outputs.export.onnx import check, deployed, images_of, samples_of
from jnpl.outputs.saved_model import load

ONE = findings(paths=["eel/0.png"] + ["gone.png"] * 5)  # a run of which one image is left


@pytest.fixture
def pictures(tmp_path):
    """A model that cuts 12 of 16 pixels, and real images at 16."""
    model = load(image_model(tmp_path / "images", 16, crop=12))
    source = load_folder(photos(tmp_path / "photos"))
    return model, np.stack([source.inputs.read(at, 16) for at in range(len(source))])


@pytest.fixture
def vectors(tmp_path):
    model = load(vector_model(tmp_path / "vectors"))
    return model, np.random.default_rng(0).normal(2, 2, (7, 4)).astype(np.float32)


@pytest.fixture
def onnx_extra():
    for module in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(module, reason="needs the extra onnx")
    import onnxruntime

    return onnxruntime


class Branching(nn.Module):
    """A network of somebody's that does something else for one sample alone: an exporter cannot hold it."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(x) if len(x) > 1 else 5 * self.last(x)


@pytest.mark.parametrize("kind", ["pictures", "vectors"])
def test_the_module_does_what_the_model_does(request, kind):
    model, x = request.getfixturevalue(kind)
    with torch.no_grad():
        found = deployed(model)(torch.from_numpy(x)).numpy()
    assert found == pytest.approx(model.predict_proba(x), abs=1e-6)


@pytest.mark.parametrize("kind", [pytest.param("pictures", marks=pytest.mark.slow), "vectors"])
def test_onnx(onnx_extra, request, tmp_path, kind):
    model, x = request.getfixturevalue(kind)
    samples, _ = samples_of(model, None)
    assert onnx.write(model, tmp_path / "model.onnx", samples) < 1e-5
    assert [path.name for path in tmp_path.glob("model*")] == ["model.onnx"]  # the weights are inside
    session = onnx_extra.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    wanted = model.predict_proba(x)
    for count in (len(x), 1, 3):
        found = session.run(["probabilities"], {"samples": x[:count]})[0]
        assert found == pytest.approx(wanted[:count], abs=1e-5)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == list(CLASSES)


class Asking(Branching):
    """One that looks at what it is given, which no exporter can hold."""

    def forward(self, x):
        return self.last(x) if x.sum() > 0 else 5 * self.last(x)


def test_onnx_fails_in_one_line_and_says_nothing_else(onnx_extra, tmp_path, capfd, caplog):
    model = load(vector_model(tmp_path / "run"))
    object.__setattr__(model, "network", Asking().eval())
    with pytest.raises(InputError, match="ONNX cannot hold this network: "):
        onnx.write(model, tmp_path / "model.onnx", samples_of(model, None)[0])
    assert tuple(capfd.readouterr()) == ("", "")
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG] == []
    logging.getLogger("jnpl").error("heard again")
    assert "heard again" in caplog.text


def test_an_onnx_file_for_one_size_of_batch_is_not_kept(onnx_extra, tmp_path):
    model = load(vector_model(tmp_path / "run"))
    object.__setattr__(model, "network", Branching().eval())
    with pytest.raises(InputError, match="ONNX"):  # as the exporter has it: it refuses, or fixes the batch
        onnx.write(model, tmp_path / "model.onnx", samples_of(model, None)[0])
    assert not list(tmp_path.glob("*model.onnx*"))


def test_onnx_from_one_image(onnx_extra, pictures, tmp_path):
    """The exporter refuses this network with a batch of one."""
    model, x = pictures
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), *head).eval()
    object.__setattr__(model, "network", network)
    samples, _ = samples_of(model, images_of(model, ONE, tmp_path / "photos"))
    assert onnx.write(model, tmp_path / "model.onnx", samples) < 1e-5
    session = onnx_extra.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert session.run(None, {"samples": x[:3]})[0] == pytest.approx(model.predict_proba(x[:3]), abs=1e-5)


def test_an_export_leaves_the_model_as_it_is(vectors):
    model, _ = vectors
    module = deployed(model)
    assert not any(weight.requires_grad for weight in module.parameters())
    assert all(weight.requires_grad for weight in model.network.parameters())
    assert module.network is not model.network


def test_the_check(vectors):
    model, x = vectors
    batch, wanted = torch.from_numpy(x), model.predict_proba(x)
    assert check(model, batch, lambda part: wanted[: len(part)], "copy") < 1e-6
    with pytest.raises(InputError, match=r"the exported copy gives \(7, 2\) for \(7, 4\), not \(7, 3\)"):
        check(model, batch, lambda part: wanted[: len(part), :2], "copy")
    with pytest.raises(InputError, match="the exported copy differs from the network by nan"):
        check(model, batch, lambda part: np.full((len(part), 3), np.nan), "copy")
    with pytest.raises(InputError, match=r"differs from the network by 0\.01"):
        check(model, batch, lambda part: wanted[: len(part)] + (0.01 if len(part) == 1 else 0), "copy")


def test_what_it_is_checked_on(tmp_path, pictures, vectors):
    model, _ = pictures
    found = findings(paths=["gone.png", *(f"{name}/{at}.png" for name in CLASSES[:2] for at in (0, 1)), "eel/0.png"])
    samples, origin = samples_of(model, images_of(model, found, tmp_path / "photos"))
    assert (samples.shape, samples.dtype, origin) == ((5, 16, 16, 3), torch.uint8, "the images of the run")
    alone, _ = samples_of(model, images_of(model, ONE, tmp_path / "photos"))
    assert alone.shape == (2, 16, 16, 3)
    assert (alone[0] == alone[1]).all()
    drawn, origin = samples_of(model, None)
    assert (drawn.shape, drawn.dtype, origin) == ((16, 16, 16, 3), torch.uint8, "drawn images")
    assert drawn.float().mean() / 255 == pytest.approx(0.4, abs=0.05)
    drawn, origin = samples_of(vectors[0], None)
    assert (drawn.shape, drawn.dtype, origin) == ((16, 4), torch.float32, "drawn vectors")


def test_grey_images(tmp_path):
    model = load(image_model(tmp_path / "run", channels=1))
    samples, _ = samples_of(model, None)
    assert samples.shape == (16, 16, 16, 1)
    with torch.no_grad():
        assert check(model, samples, lambda batch: deployed(model)(batch).numpy(), "module") < 1e-5
