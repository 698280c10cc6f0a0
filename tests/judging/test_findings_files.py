"""What a saved folder of findings holds and gives back, and what is refused."""

import csv
import json
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers.six_samples import LABELS, PROBS

from jnpl.internal.errors import InputError
from jnpl.internal.tables import load_parquet
from jnpl.judging import Findings

NASTY = [
    "=cmd|' /C calc'!A0",
    'ein "Zitat", mit\nZeile',
    "naïve 猫 \U0001f408",
    "\r\t;",
    "-1",
    "@x",
    "+1",
    "\ttab",
    "",
    "'",
]


def nasty(**options):
    rng = np.random.default_rng(0)
    size, classes = 40, len(NASTY)
    labels = np.arange(size) % classes
    probs = rng.dirichlet(np.full(classes, 0.3), size)
    return Findings.from_probs(probs, labels, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"class_names": NASTY},
        {"class_names": list(range(5, 5 + len(NASTY)))},
        {"class_names": NASTY, "paths": [f"{NASTY[i % len(NASTY)]}/{i}" for i in range(40)], "threshold": "auto"},
        {"ids": np.arange(40) * 7, "threshold": "1/c", "unreadable": np.arange(40) % 9 == 0},
        {"ids": [f"№{i}" for i in range(40)], "threshold": 0.3},
        {"threshold": 0.1 + 0.2},
    ],
    ids=["plain", "names", "numbers", "paths", "unreadable", "ids", "threshold"],
)
def test_saved_and_loaded_the_findings_are_equal(tmp_path, options):
    findings = nasty(**options)
    findings.save(tmp_path / "deep" / "run")
    again = Findings.load(tmp_path / "deep" / "run")
    assert again == findings
    assert again.class_names == findings.class_names
    pd.testing.assert_frame_equal(again.table, findings.table)
    np.testing.assert_array_equal(again.transition_matrix, findings.transition_matrix)
    assert sorted(p.name for p in (tmp_path / "deep" / "run").iterdir()) == [
        "findings.csv",
        "findings.json",
        "findings.parquet",
    ]


@given(st.lists(st.text(), min_size=2, max_size=6, unique=True))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_class_names_come_back(tmp_path, names):
    findings = Findings.from_probs(np.eye(len(names)), range(len(names)), class_names=names, paths=names)
    findings.save(tmp_path)
    assert Findings.load(tmp_path) == findings


def test_the_same_findings_give_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        nasty(class_names=NASTY).save(tmp_path / name)
        nasty(class_names=NASTY).save(tmp_path / name)  # over itself
    for file in ("findings.csv", "findings.json", "findings.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_the_csv_runs_no_formula_and_leaves_numbers_alone(tmp_path):
    findings = nasty(class_names=NASTY)
    findings.save(tmp_path)
    with (tmp_path / "findings.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40
    for row, (_, truth) in zip(rows, findings.table.iterrows(), strict=True):
        for column in ("given_label", "suggested_label"):
            dangerous = truth[column][:1] in ("=", "+", "-", "@", "\t", "\r") and truth[column] != ""
            assert row[column] == ("'" if dangerous else "") + truth[column]
        assert float(row["label_quality"]) == pytest.approx(truth["label_quality"], rel=1e-8)
        assert row["is_label_issue"] == str(truth["is_label_issue"])
        assert row["id"] == str(truth["id"])


def test_the_parquet_file_is_what_a_stranger_expects(tmp_path):
    findings = Findings.from_probs(PROBS, LABELS, class_names=["cat", "dog", "emu"], paths=list("abcdef"))
    findings.save(tmp_path)
    table = load_parquet(tmp_path / "findings.parquet")
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("id", "string"),
        ("path", "string"),
        ("given_label", "string"),
        ("suggested_label", "string"),
        ("label_quality", "double"),
        ("is_label_issue", "bool"),
        ("suggested_confidence", "double"),
        ("is_unclear", "bool"),
    ]
    frame = load_parquet(tmp_path / "findings.parquet").to_pandas()
    assert frame["given_label"].tolist() == ["cat", "cat", "dog", "cat", "dog", "emu"]


def test_the_json_file_says_how_it_came_about(tmp_path, findings):
    findings.save(tmp_path)
    meta = json.loads((tmp_path / "findings.json").read_text(encoding="utf-8"))
    assert meta["threshold"] == {"rule": "fixed", "value": 0.5, "reason": "given"}
    assert meta["noise_rate"] == findings.noise_rate
    assert meta["transition_matrix"] == findings.transition_matrix.tolist()
    assert (meta["version"], meta["samples"], meta["classes"], meta["class_names"]) == (1, 6, 3, None)


def test_a_file_name_that_is_no_unicode_can_be_saved(tmp_path):
    findings = Findings.from_probs(PROBS[:1], [0], paths=[os.fsdecode(b"caf\xe9.png")])
    findings.save(tmp_path)
    assert Findings.load(tmp_path) == findings
    assert findings.table["path"].tolist() == ["caf\\udce9.png"]


def test_a_failed_save_leaves_the_old_files(tmp_path, findings, monkeypatch):
    findings.save(tmp_path)
    other = Findings.from_probs(PROBS[:2], LABELS[:2])

    def full_disk(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        other.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    assert Findings.load(tmp_path) == findings


def test_a_folder_without_findings_is_named(tmp_path, findings):
    def refused(match):
        with pytest.raises(InputError, match=match) as error:
            Findings.load(tmp_path)
        assert str(tmp_path) in str(error.value)

    refused("holds no findings that can be read")
    with pytest.raises(InputError, match="holds no findings"):
        Findings.load(tmp_path / "nowhere")
    findings.save(tmp_path)
    good = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    meta = json.loads(good["findings.json"])
    for content in (b"", b"{}", b"[]", b"null", b"\xff", json.dumps({**meta, "version": 2}).encode()):
        (tmp_path / "findings.json").write_bytes(content)
        refused("holds no findings that can be read")
    (tmp_path / "findings.json").write_bytes(good["findings.json"])
    for content in (b"", b"PAR1", good["findings.parquet"][:-20], good["findings.csv"]):
        (tmp_path / "findings.parquet").write_bytes(content)
        refused("holds no findings that can be read")
    (tmp_path / "findings.parquet").write_bytes(good["findings.parquet"])
    (tmp_path / "findings.json").write_text(json.dumps({**meta, "samples": 7}))
    refused("6 rows, where findings.json has 7")
    (tmp_path / "findings.json").write_text(json.dumps({**meta, "class_names": ["a", "b", "c"]}))
    refused("holds no findings that can be read")


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path, findings):
    (tmp_path / "run").touch()
    with pytest.raises(InputError, match="run is a file, not a folder to save findings in"):
        findings.save(tmp_path / "run")
