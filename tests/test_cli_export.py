"""`jnpl export`: every form by its name, options only where they mean something."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest
from runs import findings, image_model, photos, vector_model

from jnpl import cli

PATHS = ["cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png", "dog/1.png", "eel/0.png"]


@pytest.fixture
def run(capfd, tmp_path, monkeypatch):
    """Run `jnpl` beside runs of images and of vectors: arguments -> exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    photos(tmp_path / "photos", each=3)
    findings(paths=PATHS).save(image_model(tmp_path / "images"))
    (tmp_path / "images" / "data.json").write_text(json.dumps({"root": str(tmp_path / "photos")}))
    findings().save(vector_model(tmp_path / "vectors"))

    def call(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main([str(arg) for arg in args])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return int(stop.value.code or 0), out, err

    return call


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
        "run": "images", "to": form, "out": f"out.{form}", "rows": 6,
    }  # fmt: skip
    assert told("images", "--to", form, "-o", f"out.{form}", "--issues")["rows"] == 3
    assert (tmp_path / f"out.{form}").is_file()


def test_label_studio(told, tmp_path):
    found = told("images", "--to", "label-studio", "-o", "tasks.json", "--image-prefix", "s3://b/", "--issues")
    assert (found["tasks"], found["config"]) == (3, "tasks.config.xml")
    tasks = json.loads((tmp_path / "tasks.json").read_text("utf-8"))
    assert tasks[0]["data"]["image"] == "s3://b/cat/1.png"
    pd.DataFrame({"a": range(6), "b": range(6)}).to_csv(tmp_path / "rows.csv", index=False)
    told("vectors", "--to", "label-studio", "-o", "tasks.json", "--data", "rows.csv")
    assert json.loads((tmp_path / "tasks.json").read_text("utf-8"))[5]["data"]["text"] == "a: 5\nb: 5"


def test_cleanlab_and_hf(told, tmp_path):
    assert told("images", "--to", "cleanlab", "-o", "issues.csv")["rows"] == 6
    datasets = pytest.importorskip("datasets", reason="needs the extra hf")
    assert told("images", "--to", "hf", "-o", "out")["rows"] == 6
    assert datasets.load_from_disk(tmp_path / "out")[0]["image"].size == (24, 20)


def test_models(told, tmp_path):
    found = told("images", "--to", "torchscript", "-o", "model.pt")
    assert found["input"] == "uint8 (batch, 16, 16, 3)"
    assert found["checked_on"] == "the images of the run"
    assert found["largest_difference"] < 1e-5
    assert told("vectors", "--to", "torchscript", "-o", "model.pt")["checked_on"] == "drawn vectors"
    np.savez(tmp_path / "some.npz", x=np.ones((3, 4)))
    assert told("vectors", "--to", "torchscript", "-o", "model.pt", "--data", "some.npz")["checked_on"] == "some"


def test_a_model_whose_images_are_gone(run, told, tmp_path):
    (tmp_path / "photos").rename(tmp_path / "elsewhere")
    assert told("images", "--to", "torchscript", "-o", "model.pt")["checked_on"] == "drawn images"
    found = told("images", "--to", "torchscript", "-o", "model.pt", "--root", "elsewhere")
    assert found["checked_on"] == "the images of the run"
    code, _, err = run("export", "images", "--to", "torchscript", "-o", "model.pt", "--root", "nowhere")
    assert (code, "'nowhere' is not there" in err) == (2, True)


def test_words_for_people(run):
    code, out, err = run("export", "images", "--to", "csv", "-o", "out.csv")
    assert (code, out, err) == (0, "rows: 6\nwritten: out.csv\n", "")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (("--to", "xlsx", "-o", "out.xlsx"), "--to is one of csv, parquet, json, label-studio, cleanlab, hf, torch"),
        (("--to", "csv", "-o", "out.json"), "must end in .csv, got 'out.json'"),
        (("--to", "cleanlab", "-o", "out.json"), "must end in .csv, got 'out.json'"),
        (("--to", "cleanlab", "-o", "out.csv", "--issues"), "--issues is for csv, parquet, json, label-studio, not"),
        (("--to", "csv", "-o", "out.csv", "--image-prefix", "x"), "--image-prefix is for label-studio, not for csv"),
        (("--to", "csv", "-o", "out.csv", "--root", "photos"), "--root is for hf, torchscript, onnx, not for csv"),
        (("--to", "label-studio", "-o", "out.csv"), "Label Studio imports .json files"),
        (("--to", "csv", "-o", "no/where.csv"), "cannot write 'no/where.csv'"),
        (("--to", "csv"), "--out"),
    ],
)
def test_mistakes(run, tmp_path, args, line):
    before = sorted(path.name for path in tmp_path.iterdir())
    code, out, err = run("export", "images", *args)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert line in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_no_run(run):
    for form, line in (("csv", "holds no findings"), ("torchscript", "holds no model")):
        code, _, err = run("export", "nowhere", "--to", form, "-o", "out.csv")
        assert (code, line in err) == (2, True)


def test_an_extra_that_is_missing_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, _, err = run("export", "vectors", "--to", "onnx", "-o", "model.onnx")
    assert code == 2
    assert 'this needs onnx, which is not installed: pip install "jnpl[onnx]"' in err
