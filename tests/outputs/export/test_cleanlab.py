"""cleanlab's columns, and cleanlab itself where it is installed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from tests.helpers.runs import findings

from jnpl.judging import Findings
from jnpl.outputs.export.findings_table import cleanlab_table, export
from jnpl.outputs.export.targets import ExportRequest
from jnpl.run_folder import RunFolder


def read(found, tmp_path):
    found.save(tmp_path)
    assert export(ExportRequest(RunFolder(tmp_path), "cleanlab", tmp_path / "issues.csv")) == {"rows": len(found.ids)}
    return pd.read_csv(tmp_path / "issues.csv")


def test_columns(tmp_path):
    table = read(findings(), tmp_path)
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
    table = read(found, tmp_path)
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
    table = read(found, tmp_path)
    assert set(theirs.columns) <= set(table.columns)
    assert (table["predicted_label"].to_numpy() == theirs["predicted_label"].to_numpy()).all()
    assert (table["given_label"].to_numpy() == theirs["given_label"].to_numpy()).all()
    assert (table["is_label_issue"].to_numpy() == theirs["is_label_issue"].to_numpy()).all()
