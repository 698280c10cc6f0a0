import json
from shutil import copytree

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score
from tests.helpers.checked import CLASSES, bad_batch, frame

from jnpl import check
from jnpl.analysis.leaks import column_lines
from jnpl.api.check import check_data
from jnpl.internal.errors import InputError
from jnpl.pipeline import Origin
from jnpl.run_folder import RunFolder
from jnpl.training.reporting import Reporter


def checked(checked_run, rows, **options):
    return check_data(checked_run, rows, None, options, report=Reporter(verbose=False))


def test_labels_are_judged_as_well_as_those_that_were_trained_on(checked_run):
    rows = frame(400, 0.15, 7)
    batch = checked(checked_run, rows.drop(columns="true"))
    wrong = rows["label"] != rows["true"]
    assert average_precision_score(wrong, 1 - batch.findings.label_quality) > 0.85
    low, high = batch.findings.noise_interval
    assert low <= wrong.mean() <= high
    assert not batch.facts["unknown_classes"]
    assert set(batch.signals) == {"new-issues"}


def test_a_clean_batch_says_nothing(checked_run):
    assert checked(checked_run, frame(300, 0.08, 11).drop(columns="true")).facts["sentences"] == []


def test_a_bad_batch_says_what_is_wrong(checked_run):
    batch = checked(checked_run, bad_batch())
    assert [each["class"] for each in batch.facts["unknown_classes"]] == ["dog"]
    assert batch.facts["unknown_classes"][0]["count"] == 10
    assert np.isnan(batch.findings.label_quality[:10]).all()
    assert not batch.findings.is_label_issue[:10].any()
    assert [copy["id"] for copy in batch.facts["copies"]] == [100, 101, 102, 103, 104]  # other labels first
    assert batch.facts["conflicting_copies"] == 2
    assert batch.facts["copies"][2] == {**batch.facts["copies"][2], "run_id": 2}
    assert batch.facts["shift"]["features"] < 1e-6
    assert set(batch.signals) == {"new-issues", "leaks", "unknown-classes", "shift"}


def test_a_column_that_gives_the_label_away_is_a_leak(checked_run, tmp_path):
    rows = (
        frame(200, 0.0, 4)
        .drop(columns="true")
        .assign(a=lambda table: table["label"].map({"ant": 1.0, "bee": 2.0, "cow": 3.0}))
    )
    batch = checked(checked_run, rows)
    assert batch.signals["leaks"] == "column 'a' predicts the label in 100 % of the rows, and did not in the run"
    batch.write(RunFolder(tmp_path / "check"), Origin())
    choices = RunFolder(tmp_path / "check").data_facts.choices  # the report has the line where samples are compared
    assert not any("predicts the label" in line for line in choices)
    assert "leaks" not in checked(checked_run, rows[:90]).signals  # few rows may agree by chance
    run = copytree(checked_run, tmp_path / "run")
    facts = json.loads((run / "data.json").read_text())
    facts["choices"] += column_lines(batch.data.source)  # the run was told so, and kept the column
    (run / "data.json").write_text(json.dumps(facts))
    assert "leaks" not in checked(run, rows).signals


def test_a_handful_is_judged_by_the_noise_of_the_run(checked_run):
    rows = frame(20, 0.0, 3)
    rows.loc[3, "label"] = next(name for name in CLASSES if name != rows.loc[3, "true"])
    findings = checked(checked_run, rows.drop(columns="true")).findings
    assert findings.worst(1).index.tolist() == [3]
    assert findings.noise is None
    one_class = rows[rows["label"] == "ant"].drop(columns="true")
    assert len(checked(checked_run, one_class).findings.table) == len(one_class)


def test_decision_trees_of_the_run_judge_new_rows_too(checked_run, monkeypatch):
    folder = RunFolder(checked_run)
    recipe = {**folder.run_facts.recipe, "verdict": {**folder.run_facts.recipe["verdict"], "trees": True}}
    monkeypatch.setattr(
        "jnpl.run_folder.RunFolder.run_facts", folder.run_facts.model_copy(update={"recipe": recipe}), raising=False
    )
    rows = frame(200, 0.15, 7)
    findings = checked(checked_run, rows.drop(columns="true")).findings
    assert average_precision_score(rows["label"] != rows["true"], 1 - findings.label_quality) > 0.85


def test_the_folder_of_a_check_is_a_run_folder(checked_run, tmp_path):
    bad_batch().to_csv(tmp_path / "new.csv", index=False)
    findings = check(checked_run, tmp_path / "new.csv", out=tmp_path / "out")
    folder = RunFolder(tmp_path / "out")
    assert folder.findings == findings
    assert sum(copy.label != copy.run_label for copy in folder.comparison.copies) == 2
    assert folder.data_facts.options["data"] == str(tmp_path / "new.csv")
    assert folder.run_facts.results.noise_rate == findings.noise_rate
    check(checked_run, tmp_path / "new.csv", out=tmp_path / "out")  # again
    frame(50).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(InputError, match="holds a run with"):
        check(checked_run, tmp_path / "other.csv", out=tmp_path / "out")


def test_data_that_do_not_fit(checked_run):
    with pytest.raises(InputError, match="no label of the run's classes"):
        checked(checked_run, frame(20).drop(columns="true").assign(label="elk"))
    with pytest.raises(InputError, match="column"):
        checked(checked_run, pd.DataFrame({"other": [1.0, 2.0], "label": ["ant", "bee"]}))
