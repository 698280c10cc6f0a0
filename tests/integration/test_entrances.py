"""The same data through every entrance: the same findings and the same folder, byte for byte."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tests.helpers.command import jnpl as jnpl_command

import jnpl
from jnpl import noise, pipeline
from jnpl.data.opening import open_source
from jnpl.experiments import run_data
from jnpl.experiments.runner import train_run
from jnpl.experiments.spec import RunSpec
from jnpl.outputs.review.decisions import CurrentDecisions
from jnpl.outputs.review.ranking import Ranking
from jnpl.outputs.review.retraining import retrain
from jnpl.outputs.run_source import open_run_data
from jnpl.recipes.load import parse_changes
from jnpl.run_folder import RunFolder
from jnpl.training.reporting import Reporter

SETTINGS = ["train.epochs=2", "train.batch_size=16"]
OPTIONS = ("--set", SETTINGS[0], "--set", SETTINGS[1], "--threads", "1")
NOTHING_DECIDED = CurrentDecisions(*(np.array([], kind) for kind in (int, np.int8, int, float, bool)))
QUIET = Reporter()
QUIET.quiet(True)


def vectors(folder):
    random, labels = np.random.default_rng(0), np.arange(120) % 3
    x = (random.normal(size=(120, 5)) + labels[:, None]).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=noise.symmetric(labels, 0.2, 3, seed=0))
    return "data.npz", x, noise.symmetric(labels, 0.2, 3, seed=0)


def texts(folder):
    labels = np.arange(120) % 2
    words = np.array([["good fine great", "bad poor awful"][label] for label in labels])
    rows = [f"{text} film number {number % 7}" for number, text in enumerate(words)]
    names = np.array(["praise", "rant"])[noise.symmetric(labels, 0.2, 2, seed=0)]
    pd.DataFrame({"text": rows, "label": names}).to_csv(folder / "data.csv", index=False)
    return "data.csv", rows, names


def embeddings(folder):
    random, labels = np.random.default_rng(1), np.arange(150) % 3
    x = (random.normal(size=(150, 128)) + 0.5 * labels[:, None]).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=noise.symmetric(labels, 0.3, 3, seed=0))
    return "data.npz", x, noise.symmetric(labels, 0.3, 3, seed=0)


def findings_bytes(findings, folder):
    findings.save(folder)
    return (folder / "findings.csv").read_bytes()


def files_of(run):
    """Every file of a run folder without what differs by design: times, the command, how the data were named."""
    files = {path.relative_to(run).as_posix(): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}
    kept = {name: content for name, content in files.items() if not name.startswith(("checkpoint", ".", "report"))}
    facts = json.loads(kept.pop("run.json"))
    facts["results"] = {key: value for key, value in facts["results"].items() if key not in ("run", "seconds")}
    facts |= {"data": None, "fingerprint": None}
    model = json.loads(kept.pop("model.json")) | {"results": None}
    data = json.loads(kept.pop("data.json")) | {"command": None, "options": None}
    return kept | {"run.json": facts, "model.json": model, "data.json": data}


@pytest.mark.parametrize("make", [vectors, texts, embeddings])
def test_every_entrance_gives_the_same(make, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JNPL_CACHE", str(tmp_path / "cache"))
    name, inputs, labels = make(tmp_path)
    columns = {"text_column": "text"} if make is texts else {}
    chosen = [part for column, value in columns.items() for part in (f"--{column.replace('_', '-')}", value)]
    code, _, error = jnpl_command(capsys, "find", name, "-o", "run", *OPTIONS, *chosen, "--no-report")
    assert code == 0, error
    expected = (tmp_path / "run" / "findings.csv").read_bytes()
    code, _, error = jnpl_command(capsys, "train", name, "-o", "trained", *OPTIONS, *chosen)
    assert code == 0, error
    assert (tmp_path / "trained" / "findings.csv").read_bytes() == expected

    by_path = jnpl.find_label_issues(name, settings=SETTINGS, out=tmp_path / "by-path", **columns)
    in_memory = jnpl.find_label_issues(inputs, labels, settings=SETTINGS)
    fitted = jnpl.JNPLClassifier(settings=SETTINGS, pseudo_label=False, random_state=0).fit(inputs, labels)
    stored = RunFolder(tmp_path / "by-path").data_facts.options
    source = open_run_data(stored)
    opened = pipeline.OpenedData(open_source(name, **columns))
    options = pipeline.RunOptions(changes=parse_changes(SETTINGS))
    run = pipeline.run(opened, options, report=QUIET)
    learnt = retrain(
        source,
        Ranking(by_path),
        NOTHING_DECIDED,
        RunFolder(tmp_path / "by-path").run_facts.recipe,
        0,
        lambda _: None,
    )

    for number, findings in enumerate([by_path, in_memory, fitted.findings_, run.findings, learnt.findings]):
        assert findings_bytes(findings, tmp_path / str(number)) == expected
    here, there = files_of(tmp_path / "run"), files_of(tmp_path / "by-path")
    assert set(here) == set(there)
    for file, content in here.items():
        assert there[file] == content, file


def test_images_through_every_entrance(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JNPL_CACHE", str(tmp_path / "cache"))
    net = "from torch import nn\ndef make():\n    return nn.Sequential(nn.AvgPool2d(28), nn.Flatten())\n"
    (tmp_path / "pooled_photos.py").write_text(net)
    random, labels = np.random.default_rng(0), np.arange(60) % 2
    pixels = np.clip(random.normal(100 + 40 * labels[:, None, None, None], 30, (60, 16, 16, 3)), 0, 255).astype(
        np.uint8
    )
    names = np.array(["dark", "light"])[noise.symmetric(labels, 0.2, 2, seed=0)]
    order = np.argsort(names, kind="stable")  # as a folder is read
    for name, image, number in zip(names[order], pixels[order], range(60), strict=True):
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "photos" / name / f"{number:02}.png")
    quick = ("--backbone", "pooled_photos:make", "--workers", "0")
    for command in ("find", "train"):
        code, _, error = jnpl_command(capsys, command, "photos", "-o", command, *OPTIONS, *quick)
        assert code == 0, error
    expected = (tmp_path / "find" / "findings.csv").read_bytes()
    assert (tmp_path / "train" / "findings.csv").read_bytes() == expected
    options = {"backbone": "pooled_photos:make", "settings": SETTINGS}
    by_path = jnpl.find_label_issues("photos", **options)
    assert findings_bytes(by_path, tmp_path / "by-path") == expected
    in_memory = jnpl.find_label_issues(pixels[order], names[order], **options)
    np.testing.assert_array_equal(in_memory.label_quality, by_path.label_quality)


def test_an_experiment_judges_as_the_pipeline_does(tmp_path):
    spec = RunSpec(variant="fast", data="iris", noise="symm", rate=0.2, epochs=2, batch_size=32, seed=1)
    train_run(spec, tmp_path / "experiment", None)
    source = replace(run_data.load(spec, None), test=None)
    expected = pipeline.run_recipe(source, spec.recipe(), seed=spec.seed, strict=True, report=QUIET).findings
    assert RunFolder(tmp_path / "experiment" / "train").findings == expected
