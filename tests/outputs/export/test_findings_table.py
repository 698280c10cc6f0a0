"""Findings as one table."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from tests.helpers.runs import findings

from jnpl.internal.errors import InputError
from jnpl.internal.tables import load_parquet
from jnpl.outputs.export.findings_table import export, findings_rows
from jnpl.outputs.export.targets import ExportRequest
from jnpl.run_folder import RunFolder

PATHS = ["=a.png", "b.png", "c.png", "d.png", "e.png", "f.png"]


def write(found, out, suffix, *, issues=False):
    found.save(out.parent / "run")
    return export(ExportRequest(RunFolder(out.parent / "run"), suffix.removeprefix("."), out, issues))["rows"]


def test_three_forms_hold_the_table(tmp_path):
    found = findings(paths=PATHS)
    for suffix in (".csv", ".parquet", ".json"):
        assert write(found, tmp_path / f"out{suffix}", suffix) == 6
    wanted = found.table
    parquet = load_parquet(tmp_path / "out.parquet").to_pandas()
    table = pd.read_csv(tmp_path / "out.csv")
    listed = pd.DataFrame(json.loads((tmp_path / "out.json").read_text("utf-8")))
    for form in (parquet, table, listed):
        assert list(form.columns) == list(wanted.columns)
        assert form["is_label_issue"].tolist() == wanted["is_label_issue"].tolist()
        assert form["label_quality"].tolist() == pytest.approx(wanted["label_quality"].tolist())
    assert parquet["id"].tolist() == listed["id"].tolist() == PATHS
    assert table["id"].tolist() == ["'=a.png", *PATHS[1:]]


def test_issues_alone_come_worst_first(tmp_path):
    assert findings_rows(findings(), issues=True).index.tolist() == [1, 2, 3]  # qualities 0.1, 0.3, 0.4
    assert write(findings(), tmp_path / "out.csv", ".csv", issues=True) == 3
    assert pd.read_csv(tmp_path / "out.csv")["id"].tolist() == [1, 2, 3]


def test_no_issue_is_an_empty_table(tmp_path):
    calm = findings(threshold=0.01)
    for suffix in (".csv", ".parquet", ".json"):
        assert write(calm, tmp_path / f"out{suffix}", suffix, issues=True) == 0
    assert list(pd.read_csv(tmp_path / "out.csv").columns) == list(calm.table.columns)
    assert len(load_parquet(tmp_path / "out.parquet").to_pandas()) == 0
    assert json.loads((tmp_path / "out.json").read_text("utf-8")) == []


def test_unreadable_samples_have_no_quality(tmp_path):
    write(findings(unreadable=[True] + [False] * 5), tmp_path / "out.json", ".json")
    first = json.loads((tmp_path / "out.json").read_text("utf-8"))[0]
    assert (first["label_quality"], first["unreadable"]) == (None, True)


def test_the_name_tells_the_form(tmp_path):
    with pytest.raises(InputError, match=r"must end in \.csv, got"):
        write(findings(), tmp_path / "out.parquet", ".csv")
