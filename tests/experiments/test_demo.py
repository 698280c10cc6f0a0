"""The first minute, kept short here; benchmarks and README run the whole of it."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tests.helpers.paths import ROOT

from jnpl import Findings, noise
from jnpl.cli.app import main
from jnpl.experiments import demo

FILES = (
    "findings.csv",
    "findings.parquet",
    "findings.json",
    "labels.npz",
    "histograms.png",
    "accuracy.png",
    "suspects.png",
)
OF_ALL_SEEDS = ("metrics.jsonl", "run.json", "thumbnails.parquet", "report.html")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> demo.DemoSettings:
    """Two epochs: every path, no learning."""
    settings = demo.DemoSettings(epochs=2)
    monkeypatch.setattr(demo, "DemoSettings", lambda: settings)
    return settings


def invoke(*args: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(["demo", *args])
    return int(stop.value.code or 0)


def test_json_is_one_object_of_the_pinned_shape_and_an_earlier_demo_is_replaced(
    short: demo.DemoSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "a run"
    assert invoke("--json", "--out", str(run), "--seed", "3", "--seeds", "2") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["seeds"] == [3, 4]
    assert printed["run"] == str(run)
    assert set(printed["methods"]) == {"ce", "jnpl"}
    for scores in printed["methods"].values():
        assert {"test_accuracy", "ap", "seconds"} <= set(scores)
    assert all((run / name).is_file() for name in FILES + OF_ALL_SEEDS)
    assert {path.name for path in (run / "seed-4").iterdir()} == set(FILES)
    report = (run / "report.html").read_text("utf-8")
    assert 'src="data:image/' in report
    assert "jnpl apply" not in report  # there is no data that it could correct
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [(line["seed"], line["method"], line["epoch"]) for line in lines[:4]] == [
        (3, "ce", 0),
        (3, "ce", 1),
        (3, "jnpl", 0),
        (3, "jnpl", 1),
    ]
    assert len(lines) == 8
    assert printed["methods"]["ce"]["test_accuracy"] == pytest.approx(
        np.mean([line["test_accuracy"] for line in lines if line["method"] == "ce" and line["epoch"] == 1])
    )
    # An earlier demo is replaced, and what people see has a table, suspects and where to look.
    (run / "run.json").write_text('{"format": "jnpl demo 1", "status": "running"}')  # as a killed one leaves it
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert invoke("--out", str(run)) == 0
    assert not (run / "seed-4").exists()
    text = capsys.readouterr().out
    for word in (
        "cross-entropy",
        "JNPL",
        "test accuracy",
        "ten worst label issues",
        "report.html",
        "jnpl find photos/",
    ):
        assert word in text
    assert ("bin/activate" in text) == (sys.prefix != sys.base_prefix)


def test_the_folder_agrees_with_itself_and_the_same_seed_gives_the_same_bytes(
    short: demo.DemoSettings, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        assert invoke("--out", str(tmp_path / name)) == 0
    assert invoke("--out", str(tmp_path / "other"), "--seed", "1") == 0
    for file in ("findings.parquet", "findings.csv", "labels.npz", "suspects.png"):
        first = (tmp_path / "one" / file).read_bytes()
        assert first == (tmp_path / "two" / file).read_bytes()
        assert first != (tmp_path / "other" / file).read_bytes()
    one = tmp_path / "one"
    table = pd.read_csv(one / "findings.csv")
    labels = noise.NoisyLabels.load(one / "labels.npz")
    assert len(table) == 1400
    assert (table["given_label"] == labels.labels).all()
    assert labels.rate_realised == pytest.approx(0.4, abs=0.005)
    assert Findings.load(one).table["label_quality"].to_numpy() == pytest.approx(table["label_quality"], abs=1e-6)
    for name in ("histograms.png", "accuracy.png", "suspects.png"):
        with Image.open(one / name) as picture:
            assert picture.width > 400
            assert len(picture.convert("L").getcolors(1 << 24) or []) > 20  # drawn, not blank


def test_a_foreign_folder_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert invoke("--out", str(tmp_path)) == 2
    assert "thesis" in {path.stem for path in tmp_path.iterdir()}
    (tmp_path / "thesis" / "mine").mkdir(parents=True)
    (tmp_path / "thesis" / "run.json").write_text('{"format": "jnpl run 1"}')
    assert invoke("--out", str(tmp_path / "thesis")) == 2
    assert invoke("--out", str(tmp_path / "thesis.txt")) == 2
    assert invoke("--out", str(tmp_path / "thesis.txt" / "below")) == 2
    assert capsys.readouterr().err.count("\n") == 4


@pytest.mark.slow
def test_the_page_tells_what_its_command_shows(tmp_path: Path) -> None:
    """`make demo ARGS="--seeds 3"`: the claim, and the table of the page (other processors round differently)."""
    command = [sys.executable, "-m", "jnpl", "demo", "--seeds", "3", "--json", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    methods = json.loads(done.stdout)["methods"]
    assert methods["jnpl"]["test_accuracy"] >= 0.94
    assert methods["jnpl"]["ap"] >= 0.97
    assert methods["ce"]["test_accuracy"] <= 0.75
    page = (ROOT / "docs/how-it-works.md").read_text("utf-8").partition("<!-- figures: make demo")[2]
    for name, title in demo.TITLES.items():
        specs = next(line for line in page.splitlines() if line.startswith(f"| {title} |")).split("|")[2:5]
        told = [float(spec) for spec in specs]
        assert told == pytest.approx(
            [methods[name][key] for key in ("test_accuracy", "best_test_accuracy", "ap")], abs=0.02
        )
