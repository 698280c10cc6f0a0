"""`jnpl export`: every form by its name, options only where they mean something."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from tests.helpers.runs import findings, image_model, photos, vector_model

from jnpl.outputs.export import onnx
from jnpl.outputs.export.targets import OPTIONS, TARGETS, targets_with

SUFFIXES = {"cleanlab": "csv", "label-studio": "json"}  # of targets not named by theirs
PATHS = ["cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png", "dog/1.png", "eel/0.png"]


@pytest.fixture
def run(jnpl, tmp_path, monkeypatch):
    """Run `jnpl` beside runs of images and of vectors: arguments -> exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    photos(tmp_path / "photos", each=3)
    findings(paths=PATHS).save(image_model(tmp_path / "images"))
    (tmp_path / "images" / "data.json").write_text(json.dumps({"root": str(tmp_path / "photos")}))
    findings().save(vector_model(tmp_path / "vectors"))
    (tmp_path / "vectors" / "data.json").write_text("{}")

    return jnpl


@pytest.fixture
def told(run):
    """Run `jnpl export ... --json`: -> the object."""

    def call(*args: object) -> dict:
        code, out, err = run("export", *args, "--json")
        assert (code, err, out.count("\n")) == (0, "", 1)
        return json.loads(out)

    return call


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_findings(told, tmp_path, form):
    assert told("images", "--to", form, "-o", f"out.{form}") == {
        "run": "images",
        "to": form,
        "out": f"out.{form}",
        "rows": 6,
    }
    assert told("images", "--to", form, "-o", f"out.{form}", "--issues", "--overwrite")["rows"] == 3
    assert (tmp_path / f"out.{form}").is_file()


def test_label_studio(told, tmp_path):
    found = told("images", "--to", "label-studio", "-o", "tasks.json", "--image-prefix", "s3://b/", "--issues")
    assert (found["tasks"], found["config"]) == (3, "tasks.config.xml")
    tasks = json.loads((tmp_path / "tasks.json").read_text("utf-8"))
    assert tasks[0]["data"]["image"] == "s3://b/cat/1.png"
    pd.DataFrame({"a": range(6), "b": range(6)}).to_csv(tmp_path / "rows.csv", index=False)
    told("vectors", "--to", "label-studio", "-o", "more.json", "--data", "rows.csv")
    assert json.loads((tmp_path / "more.json").read_text("utf-8"))[5]["data"]["text"] == "a: 5\nb: 5"


def test_cleanlab_and_hf(told, tmp_path):
    assert told("images", "--to", "cleanlab", "-o", "issues.csv")["rows"] == 6
    datasets = pytest.importorskip("datasets", reason="needs the extra hf")
    assert told("images", "--to", "hf", "-o", "out")["rows"] == 6
    assert datasets.load_from_disk(tmp_path / "out")[0]["image"].size == (24, 20)


def test_hf_tells_of_images_that_are_gone(run, told, tmp_path):
    pytest.importorskip("datasets", reason="needs the extra hf")
    (tmp_path / "photos" / "cat" / "1.png").unlink()
    assert told("images", "--to", "hf", "-o", "out")["missing_images"] == 1
    (tmp_path / "elsewhere").mkdir()
    code, out, err = run("export", "images", "--to", "hf", "-o", "none", "--root", "elsewhere")
    assert (code, out, err) == (
        2,
        "",
        "jnpl: none of the 6 images is in 'elsewhere'; name the data folder with --root\n",
    )
    assert not (tmp_path / "none").exists()


@pytest.fixture
def written(monkeypatch):
    """The sample shapes that models were exported with, without the exporter, which takes seconds."""
    shapes = []
    monkeypatch.setattr(onnx, "write", lambda model, out, samples: shapes.append(tuple(samples.shape)) or 0.0)
    return shapes


def test_models(told, written, tmp_path):
    found = told("images", "--to", "onnx", "-o", "model.onnx")
    assert found["input"] == "uint8 (batch, 16, 16, 3)"
    assert found["checked_on"] == "the images of the run"
    assert told("vectors", "--to", "onnx", "-o", "vectors.onnx")["checked_on"] == "drawn vectors"
    np.savez(tmp_path / "some.npz", x=np.ones((3, 4)))
    assert told("vectors", "--to", "onnx", "-o", "more.onnx", "--data", "some.npz")["checked_on"] == "some"
    assert written == [(6, 16, 16, 3), (16, 4), (3, 4)]


@pytest.mark.slow
def test_a_model_checked_on_one_image(told):
    for module in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(module, reason="needs the extra onnx")
    found = told("images", "--to", "onnx", "-o", "model.onnx", "--data", "photos/cat/0.png")  # nothing on stderr
    assert (found["checked_on"], found["largest_difference"] < 1e-5) == ("0.png", True)


def test_a_model_whose_images_are_gone(run, told, written, tmp_path):
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    assert told("images", "--to", "onnx", "-o", "model.onnx")["checked_on"] == "drawn images"
    found = told("images", "--to", "onnx", "-o", "more.onnx", "--root", "elsewhere")
    assert found["checked_on"] == "the images of the run"
    code, _, err = run("export", "images", "--to", "onnx", "-o", "none.onnx", "--root", "nowhere")
    assert (code, "'nowhere' is not there" in err) == (2, True)
    (tmp_path / "photos").mkdir()  # the folder is there, and empty
    assert told("images", "--to", "onnx", "-o", "drawn.onnx")["checked_on"] == "drawn images"
    code, _, err = run("export", "images", "--to", "onnx", "-o", "none.onnx", "--root", "photos")
    assert (code, "none of the 6 samples can be read" in err) == (2, True)


def test_help_names_the_targets_and_the_options_of_each(run):
    code, out, _ = run("export", "--help")
    words = " ".join(out.replace("-\n", "-").split()).replace("- ", "-")
    assert code == 0
    assert all(name in words and target.description in words for name, target in TARGETS.items())
    assert all(f"({targets_with(option)})" in words for option in OPTIONS)


def test_an_extra_that_is_missing_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, _, err = run("export", "vectors", "--to", "onnx", "-o", "model.onnx")
    assert code == 2
    assert 'this needs onnx, which is not installed: pip install "jnpl[onnx]"' in err


@pytest.mark.parametrize("form", [form for form, target in TARGETS.items() if not target.folder])
def test_what_is_there_stays(run, tmp_path, form):
    name = f"out.{SUFFIXES.get(form, form)}"
    (tmp_path / name).write_text("mine")
    code, out, err = run("export", "vectors", "--to", form, "-o", name)
    assert (code, out) == (2, "")
    assert err == f"jnpl: {name!r} is there already; name another file, or give --overwrite\n"
    assert (tmp_path / name).read_text() == "mine"


def test_overwrite(told, run, tmp_path):
    (tmp_path / "out.csv").write_text("mine")
    told("vectors", "--to", "csv", "-o", "out.csv", "--overwrite")
    assert len(pd.read_csv(tmp_path / "out.csv")) == 6
    (tmp_path / "tasks.config.xml").write_text("mine")  # written beside the tasks
    code, _, err = run("export", "vectors", "--to", "label-studio", "-o", "tasks.json")
    assert (code, "'tasks.config.xml' is there already" in err) == (2, True)
    assert not (tmp_path / "tasks.json").exists()
    told("vectors", "--to", "label-studio", "-o", "tasks.json", "--overwrite")
    assert (tmp_path / "tasks.config.xml").read_text().startswith("<View>")


def test_a_data_set_may_take_the_place_of_an_earlier_one(told, run, tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs the extra hf")
    told("vectors", "--to", "hf", "-o", "out")
    code, _, err = run("export", "images", "--to", "hf", "-o", "out")
    assert (code, "'out' is there already; name a new folder, or give --overwrite" in err) == (2, True)
    assert "image" not in datasets.load_from_disk(tmp_path / "out").features
    told("images", "--to", "hf", "-o", "out", "--overwrite")
    assert "image" in datasets.load_from_disk(tmp_path / "out").features
    for folder in ("photos", "vectors"):  # no data sets
        code, _, err = run("export", "images", "--to", "hf", "-o", folder, "--overwrite")
        assert (code, f"{folder!r} is there and not empty; name a new folder" in err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "out", "photos", "vectors"]


def test_a_run_without_code_of_ones_own_imports_nothing_from_here(run, told, written, tmp_path):
    told("vectors", "--to", "onnx", "-o", "model.onnx")
    assert str(tmp_path) not in sys.path
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\ndef make(num_classes, input_shape):\n    return nn.Linear(input_shape[0], num_classes)\n"
    )
    facts = json.loads((tmp_path / "vectors" / "model.json").read_text())
    (tmp_path / "vectors" / "model.json").write_text(json.dumps({**facts, "model": "my_nets:make"}))
    code, _, err = run("export", "vectors", "--to", "onnx", "-o", "more.onnx")
    assert (code, "--trust-code" in err, str(tmp_path) in sys.path) == (2, True, False)
    run("export", "vectors", "--to", "onnx", "-o", "more.onnx", "--trust-code")  # other weights: it may not fit
    assert (sys.path[-1], sys.path.count(str(tmp_path))) == (str(tmp_path), 1)
