"""Findings as one table, and with cleanlab's columns: cleanlab itself reads them, where it is installed."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from tests.helpers.runs import findings
from tests.helpers.tag_runs import tag_run

from jnpl.internal.errors import InputError
from jnpl.internal.tables import load_parquet, load_table
from jnpl.judging import Findings
from jnpl.outputs.export.findings_table import cleanlab_table, export, findings_rows
from jnpl.outputs.export.targets import ExportRequest
from jnpl.outputs.export.targets import export as export_to
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


def for_cleanlab(found, tmp_path):
    found.save(tmp_path)
    assert export(ExportRequest(RunFolder(tmp_path), "cleanlab", tmp_path / "issues.csv")) == {"rows": len(found.ids)}
    return pd.read_csv(tmp_path / "issues.csv")


def test_the_columns_of_cleanlab(tmp_path):
    table = for_cleanlab(findings(), tmp_path)
    assert list(table.columns)[1:] == [
        "is_label_issue",
        "label_quality",
        "label_score",
        "given_label",
        "predicted_label",
    ]
    assert table["is_label_issue"].dtype == bool
    assert table["is_label_issue"].tolist() == [False, True, True, True, False, False]
    assert (table["label_quality"] == table["label_score"]).all()
    assert table["predicted_label"].tolist() == ["cat", "dog", "eel", "dog", "dog", "eel"]
    assert cleanlab_table(findings())["given_label"].tolist() == ["cat", "cat", "cat", "dog", "dog", "eel"]


@pytest.fixture
def noisy():
    """Two clouds, labels 0 and 1, four of forty wrong, and findings that say so."""
    random, true = np.random.default_rng(0), np.arange(40) % 2
    x, given = random.normal(size=(40, 2)) + 6 * true[:, None], true.copy()
    given[:4] = 1 - given[:4]
    return x, given, Findings.from_probs(np.where(true[:, None] == [0, 1], 0.9, 0.1), given)


def test_clean_learning_takes_it(noisy, tmp_path):
    classification = pytest.importorskip("cleanlab.classification", reason="needs the extra bench")
    x, given, found = noisy
    table = for_cleanlab(found, tmp_path)
    for issues in (table, table["is_label_issue"].to_numpy()):
        learner = classification.CleanLearning(LogisticRegression())
        learner.fit(x, given, label_issues=issues)
        assert learner.get_label_issues()["is_label_issue"].tolist() == [True] * 4 + [False] * 36
        assert (learner.predict(x) == np.arange(40) % 2).all()


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # cleanlab 2.9 with pandas 3.1
def test_the_columns_are_datalabs_own(noisy, tmp_path):
    pytest.importorskip("datasets", reason="needs the extra hf")
    cleanlab = pytest.importorskip("cleanlab", reason="needs the extra bench")
    x, given, found = noisy
    lab = cleanlab.Datalab({"x": x, "y": given}, label_name="y", verbosity=0)
    probs = np.where((np.arange(40) % 2)[:, None] == [0, 1], 0.9, 0.1)
    lab.find_issues(pred_probs=probs, issue_types={"label": {}})
    theirs = lab.get_issues("label")
    table = for_cleanlab(found, tmp_path)
    assert set(theirs.columns) <= set(table.columns)
    assert (table["predicted_label"].to_numpy() == theirs["predicted_label"].to_numpy()).all()
    assert (table["given_label"].to_numpy() == theirs["given_label"].to_numpy()).all()
    assert (table["is_label_issue"].to_numpy() == theirs["is_label_issue"].to_numpy()).all()


def test_tables_of_tags(tmp_path):
    run = RunFolder(tag_run(tmp_path / "run"))
    for target, read in (("csv", pd.read_csv), ("parquet", load_table), ("json", pd.read_json)):
        out = tmp_path / f"out.{target}"
        assert export(ExportRequest(run, target, out)) == {"rows": 24}
        table = read(out)
        cells = table["suggested_tags"][:2]
        tags = [cell.split(";") if isinstance(cell, str) else list(cell) for cell in cells]
        assert tags == [["cat"], ["cat", "dog", "eel"]]
        issues = tmp_path / f"issues.{target}"
        assert export(ExportRequest(run, target, issues, issues=True)) == {"rows": 3}
        assert read(issues)[["id", "tag", "kind"]].values.tolist() == [
            [1, "dog", "missing"],
            [0, "dog", "extra"],
            [1, "cat", "missing"],
        ]
    for target in ("label-studio", "fiftyone", "cleanlab", "hf", "onnx"):
        with pytest.raises(InputError, match=f"--to {target} is for one label per sample; samples with several tags"):
            export_to(ExportRequest(run, target, tmp_path / "no.json"))
