"""`jnpl audit` without its page: tables of labels to check, answers from tables, results."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.helpers.runs import many_findings

from jnpl.run_folder import RunFolder


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run folder without a training: 200 samples of 3 classes."""
    monkeypatch.chdir(tmp_path)
    many_findings(200, 3, 0.3, class_names=["cat", "=dog", "eel"], threshold="auto").save(tmp_path / "run")
    return RunFolder(tmp_path / "run")


def test_a_table_of_labels_is_filled_in_and_read_again(jnpl, run):
    code, out, err = jnpl("audit", "run", "-n", 20, "-o", "check.csv")
    assert (code, "20 labels to check: check.csv" in err) == (0, True)
    assert "there is no result" in out
    table = pd.read_csv("check.csv")
    assert table.columns.tolist() == ["id", "given_label", "label"]
    assert table["label"].isna().all()  # nothing of what the run thinks
    findings = run.findings
    quality = findings.label_quality[table["id"]]
    table["label"] = [
        "eel" if q < 0.5 and given != "eel" else given for q, given in zip(quality, table["given_label"], strict=True)
    ]
    wrong = int((table["label"] != table["given_label"]).sum())
    table.loc[0, "label"] = "unsure"
    table.loc[1:, :].to_csv("some.csv", index=False)
    table.to_csv("all.csv", index=False)
    assert jnpl("audit", "run", "--answers", "some.csv")[0] == 0
    code, out, _ = jnpl("audit", "run", "--answers", "all.csv", "--json")
    result = json.loads(out)
    assert (code, result["answered"], result["unsure"]) == (0, 20, 1)
    assert wrong - 1 <= result["wrong"] <= wrong
    code, out, _ = jnpl("audit", "run", "--answers", "all.csv")
    assert "checked labels are wrong: share of wrong labels" in out
    assert "more checks would halve the interval: jnpl audit run -n" in out
    code, out, _ = jnpl("apply", "run", "--preview", "--json")
    assert "from 19 labels checked at random" in json.loads(out)["noise_sentence"]


@pytest.mark.parametrize("kind", ["texts", "cells of suspects"])
def test_texts_are_in_the_table_and_cells_that_only_suspects_have_are_not(jnpl, run, kind):
    short = [f"text {at}" if kind == "texts" or wrong else None for at, wrong in enumerate(run.findings.is_label_issue)]
    replace(run.findings, excerpts=np.array(short, object)).save(run.path)
    jnpl("audit", "run", "-n", 9, "-o", "check.csv")
    table = pd.read_csv("check.csv")
    if kind == "texts":
        assert table["sample"].tolist() == [f"text {at}" for at in table["id"]]
    else:
        assert "sample" not in table.columns


def test_json_alone_opens_no_page_and_a_folder_without_findings_is_refused(jnpl, run, tmp_path):
    code, out, _ = jnpl("audit", "run", "--json")
    assert (code, json.loads(out)["drawn"]) == (0, 50)
    (tmp_path / "empty").mkdir()
    assert jnpl("audit", "empty", "--json")[0] == 2
    assert not (tmp_path / "empty" / "audit.json").exists()
