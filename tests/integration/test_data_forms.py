"""Whole commands on forms of data: images inside tables, saved data sets, embeddings with pictures, own functions."""

import json
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.helpers.runs import photos

from jnpl.cli import app as cli
from jnpl.internal.tables import load_parquet, save_parquet
from jnpl.judging import Findings
from jnpl.run_folder import RunFolder

FAST = ("--set", "train.epochs=1", "--accelerator", "cpu", "--threads", "1", "--workers", "0", "--json")
SCRATCH = (*FAST, "--backbone", "none", "--size", "16")
EMBED = ("--size", "32", "--workers", "0", "--threads", "1", "--backbone", "efficientnet-lite0")
OWN = """
import numpy as np

def means(images):
    return np.stack([np.asarray(image.resize((2, 2)), np.float32).ravel() for image in images])
"""


@pytest.fixture
def jnpl(capfd, tmp_path, monkeypatch):
    """Run `jnpl` in a folder of its own: arguments -> the JSON object on stdout, or the text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("JNPL_CACHE", str(tmp_path / "cache"))

    def call(*args, code=0):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(arg) for arg in args])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        assert int(stop.value.code or 0) == code, err
        return json.loads(out) if out.startswith("{") else out + err

    return call


def test_images_inside_a_parquet_file_with_a_split(jnpl, tmp_path):
    root = photos(tmp_path / "photos", each=5)
    files = sorted(path.relative_to(root) for path in root.rglob("*.png"))
    cells = [{"bytes": (root / path).read_bytes(), "path": path.as_posix()} for path in files]
    cells[0]["bytes"] = b"broken"
    truth = [path.parent.name for path in files]
    is_test = [path.name == "4.png" for path in files]
    frame = {
        "image": pa.array(cells),
        "human": pa.array([None if test else label for label, test in zip(truth, is_test, strict=True)]),
        "truth": pa.array(truth),
        "split": pa.array(["test" if test else "train" for test in is_test]),
    }
    save_parquet("t.parquet", pa.table(frame))
    columns = ("--label-column", "human", "--true-label-column", "truth")
    result = jnpl("find", "t.parquet", "-o", "run", *columns, *SCRATCH)
    assert (result["samples"], result["classes"]) == (12, 3)
    assert "test_accuracy" in result
    findings = Findings.load("run")
    assert findings.ids.tolist() == [path.as_posix() for path in files if path.name != "4.png"]
    assert findings.unreadable.tolist() == [True] + [False] * 11
    assert len(RunFolder("run").thumbnails()) > 0
    predicted = jnpl("predict", "run", "t.parquet", "--part", "test", "--label-column", "truth", "--json")
    assert (predicted["samples"], predicted["labelled"]) == (3, 3)
    assert predicted["accuracy"] == result["test_accuracy"]


def test_a_run_is_exported_and_read_again(jnpl, tmp_path):
    pytest.importorskip("datasets", reason="needs the extra hf")
    photos(tmp_path / "photos", each=4)
    jnpl("find", "photos", "-o", "run", *SCRATCH)
    jnpl("export", "run", "--to", "hf", "-o", "exported")
    result = jnpl("find", "exported", "-o", "again", *SCRATCH)
    assert (result["samples"], result["classes"]) == (12, 3)
    first, again = Findings.load("run"), Findings.load("again")
    assert again.class_names == first.class_names
    assert len(RunFolder("again").thumbnails()) > 0
    assert jnpl("predict", "run", "exported", "--json")["labelled"] == 12
    pd.DataFrame({"x": np.arange(20.0) % 7, "label": ["a", "b"] * 10}).to_csv("rows.csv.gz", index=False)
    jnpl("find", "rows.csv.gz", "-o", "rows", *FAST)
    jnpl("export", "rows", "--to", "hf", "-o", "labels")
    told = jnpl("find", "labels", "-o", "none", *FAST, code=2)
    assert "holds labels without samples" in told


def test_embeddings_in_a_table_keep_their_pictures(jnpl, tmp_path):
    root = photos(tmp_path / "photos", each=4)
    (tmp_path / "data").mkdir()
    embedded = jnpl("embed", "photos", "-o", "data/e.parquet", *EMBED, "--json")
    assert embedded["samples"] == 12
    assert jnpl("find", "data/e.parquet", "-o", "run", *FAST)["samples"] == 12
    assert Findings.load("run").ids[0] == str(root / "cat" / "0.png")
    assert json.loads((tmp_path / "run" / "data.json").read_text())["kind"] == "image"
    assert len(RunFolder("run").thumbnails()) > 0
    jnpl("apply", "run", "--copy", "corrected")
    assert len(list((tmp_path / "corrected").rglob("*.png"))) == 12


def test_embeddings_of_test_data_are_in_the_table_too(jnpl, tmp_path):
    for part in ("train", "test"):
        photos(tmp_path / "photos" / part, each=2)
    jnpl("embed", "photos", "-o", "e.parquet", *EMBED)
    assert load_parquet("e.parquet")["split"].to_pylist() == ["train"] * 6 + ["test"] * 6
    result = jnpl("find", "e.parquet", "-o", "run", *FAST)
    assert (result["samples"], "test_accuracy" in result) == (6, True)


def test_a_function_of_ones_own_embeds_images(jnpl, tmp_path):
    root = photos(tmp_path / "photos", each=4)
    (root / "dog" / "0.png").write_bytes(b"broken")
    (tmp_path / "own_means.py").write_text(OWN)
    result = jnpl("find", "photos", "-o", "run", "--embed", "own_means:means", *FAST)
    assert result["samples"] == 12
    findings = Findings.load("run")
    assert (findings.unreadable.sum(), findings.ids[0]) == (1, "cat/0.png")
    assert len(RunFolder("run").thumbnails()) > 0
    assert not (tmp_path / "cache").exists()
    predicted = jnpl("predict", "run", "photos", "--embed", "own_means:means", "--json")
    assert (predicted["predicted"], predicted["unreadable"]) == (11, 1)
    assert "holds images, but the model was trained on vectors" in jnpl("predict", "run", "photos", code=2)
