"""Several tags per sample, through every entrance: the same findings, a model that predicts tags, one JSON object."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tests.helpers.command import jnpl as command

import jnpl
from jnpl import TagFindings
from jnpl.internal.errors import InputError
from jnpl.judging import tag_heads
from jnpl.outputs.saved_model import load
from jnpl.run_folder import RunFolder

NAMES = ["dog", "cat", "eel"]


@pytest.fixture(scope="module")
def data():
    """400 rows of 8 columns, true tags (400, 3), and given ones of which a fifth is missing."""
    rng = np.random.default_rng(0)
    true = rng.random((400, 3)) < [0.5, 0.4, 0.2]
    x = true @ rng.normal(size=(3, 8)) * 2 + rng.normal(size=(400, 8))
    return x.round(3), true, true & (rng.random(true.shape) > 0.2)


@pytest.fixture
def tables(data, tmp_path, monkeypatch):
    """The same data as tables of lists and of columns; the working directory is theirs."""
    x, _, given = data
    frame = pd.DataFrame(x, columns=[f"x{at}" for at in range(8)])
    lists = [[NAMES[at] for at in np.flatnonzero(row)] for row in given]
    frame.assign(label=[";".join(row) for row in lists]).to_csv(tmp_path / "lists.csv", index=False)
    frame.assign(label=lists).to_parquet(tmp_path / "lists.parquet")
    frame.assign(**dict(zip(NAMES, given.T.astype(int), strict=True))).to_csv(tmp_path / "columns.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_missing_tags_are_found_and_predicted(data):
    x, true, given = data
    findings = jnpl.find_label_issues(x, given, multi_label=True, class_names=NAMES)
    assert isinstance(findings, TagFindings)
    assert findings.tag_names == tuple(NAMES)
    assert findings.given.sum() == given.sum()
    wrong = true & ~given
    assert wrong[findings.is_issue].mean() > 0.7
    assert abs(findings.noise.missing.value - wrong.sum() / true.sum()) < 0.06
    assert findings.noise.extra.value < 0.06


def test_every_form_of_labels_gives_the_same_findings(data, tables):
    x, _, given = data
    lists = [[NAMES[at] for at in np.flatnonzero(row)] for row in given]
    forms = [given.astype(int), given.tolist(), sparse.csr_matrix(given), lists, [";".join(row) for row in lists]]
    first, *others = (jnpl.find_label_issues(x, form, multi_label=True, class_names=NAMES) for form in forms)
    assert all(other == first for other in others)
    framed = pd.DataFrame(given.astype(int), columns=NAMES)
    assert jnpl.find_label_issues(x, framed, multi_label=True) == first
    of_tables = [
        jnpl.find_label_issues("lists.csv", multi_label=True),
        jnpl.find_label_issues("lists.parquet"),
        jnpl.find_label_issues("columns.csv", multi_label=True, tag_columns=sorted(NAMES)),
        jnpl.find_label_issues(pd.read_csv("lists.csv"), "label", multi_label=True),
    ]
    assert all(other == of_tables[0] for other in of_tables)


def test_a_data_frame_keeps_its_index(data):
    x, _, given = data
    frame = pd.DataFrame(x).add_prefix("x").set_axis(np.arange(400) + 1000)
    findings = jnpl.find_label_issues(frame, given, multi_label=True)
    assert findings.table.index.tolist() == frame.index.tolist()


def test_the_command_writes_a_run_that_predicts(tables, capsys, data):
    _, true, _ = data
    code, out, err = command(capsys, "find", "lists.csv", "-o", "run", "--multi-label", "--top", "3")
    assert code == 0, err
    assert "tags that look wrong" in out
    assert "of the true tags are missing" in out
    code, out, err = command(capsys, "find", "lists.csv", "-o", "run", "--multi-label", "--json", "--top", "3")
    told = json.loads(out)
    assert "is finished; nothing to do" in err
    assert {"run", "samples", "tags", "issues", "missing", "extra", "missing_rate", "extra_interval"} <= set(told)
    assert (told["samples"], told["tags"], len(told["suspects"]), len(told["by_tag"])) == (400, 3, 3, 3)
    folder = RunFolder("run")
    assert folder.has_tags
    assert folder.tag_findings == TagFindings.load("run")
    assert folder.tag_findings.summary()["issues"] == told["issues"]
    code, out, _ = command(capsys, "predict", "run", "columns.csv", "--json")
    told = json.loads(out)
    assert told["f1"] > 0.8
    order = [sorted(NAMES).index(name) for name in NAMES]
    predicted = np.array([[name in row["predicted_tags"] for name in NAMES] for row in told["predictions"]])
    assert (predicted == true).mean() > 0.9
    model = load("run")
    probs = model.predict_proba(pd.read_csv("lists.csv"))[:, order]
    np.testing.assert_allclose(probs[0], [told["predictions"][0]["probabilities"][name] for name in NAMES], rtol=1e-4)
    assert (model.predict(pd.read_csv("lists.csv"))[:, order] == predicted).all()
    code, out, _ = command(capsys, "predict", "run", "lists.parquet", "-o", "new.csv")
    assert "F1 0." in out
    assert set(pd.read_csv("new.csv").columns) == {"id", "predicted_tags", *(f"p_{name}" for name in NAMES)}


def test_a_run_that_was_killed_goes_on_and_other_tags_are_refused(tables, capsys, monkeypatch):
    options = ("find", "lists.csv", "-o", "run", "--multi-label", "--json")
    with monkeypatch.context() as patch:
        patch.setattr(tag_heads, "tag_folds", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            command(capsys, *options)
    assert json.loads((tables / "run" / "run.json").read_text())["status"] == "running"
    code, out, err = command(capsys, *options)
    assert (code, json.loads(out)["samples"]) == (0, 400), err
    assert RunFolder("run").tag_findings == jnpl.find_label_issues("lists.csv", multi_label=True)
    code, out, err = command(capsys, "find", "lists.csv", "-o", "run", "--multi-label", "--seed", "1")
    assert (code, out) == (2, "")
    assert "holds a run with seed = 0, not 1" in err


def test_budget_and_precision_choose_pairs(tables, capsys):
    code, out, _ = command(capsys, "find", "lists.csv", "-o", "run", "--multi-label", "--budget", "7", "--json")
    assert code == 0
    told = json.loads(out)
    assert told["missing"] + told["extra"] == 7
    few = RunFolder("run").tag_findings.with_threshold("precision=0.95").is_issue.sum()
    many = RunFolder("run").tag_findings.with_threshold("precision=0.5").is_issue.sum()
    assert few < many


def test_a_held_out_share_is_left_out(tables, capsys):
    code, out, _ = command(capsys, "find", "lists.csv", "-o", "run", "--multi-label", "--holdout", "0.25", "--json")
    assert (code, json.loads(out)["samples"]) == (0, 300)
    facts = RunFolder("run").data_facts
    assert len(facts.held_out) == 100
    assert {"[]", '["dog"]', '["cat", "dog"]'} <= {sample.label for sample in facts.held_out}
    code, out, _ = command(capsys, "apply", "run", "--same-form", "corrected.csv", "--json")
    assert (code, json.loads(out)["samples"], json.loads(out)["held_out"]) == (0, 400, 100)
    corrected = pd.read_csv("run/corrected.csv")
    held_out = corrected["id"].isin([sample.id for sample in facts.held_out])
    assert corrected["changed"].any()
    assert not corrected["changed"][held_out].any()
    assert len(pd.read_csv("corrected.csv")) == 400


def test_a_column_of_a_sample_that_cannot_be_read_has_no_quality():
    rng = np.random.default_rng(0)
    words = [["red", "rose"], ["blue", "sea"], ["red", "car"], []]
    texts = [" ".join(["thing", *words[at % 4], *rng.choice(list("abcdefgh"), 3)]) for at in range(80)]
    tags = [words[at % 4] for at in range(80)]
    texts[5] = " "
    findings = jnpl.find_label_issues(texts, tags, multi_label=True, backbone="tfidf")
    assert findings.unreadable.nonzero()[0].tolist() == [5]
    assert np.isnan(findings.quality[5]).all()
    assert not np.isnan(np.delete(findings.quality, 5, axis=0)).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "nlnl"}, "--method has no meaning"),
        ({"recipe": "small"}, "--recipe has no meaning"),
        ({"labels": [[1, 0]] * 3}, "x holds 400 samples, but y 3 labels"),
        ({"labels": [0.5] * 400}, "must hold lists of tags"),
        ({"settings": ["model=mlp"]}, "a network of your own has no meaning"),
    ],
)
def test_mistakes_are_one_line(data, options, message):
    x, _, given = data
    with pytest.raises(InputError, match=message) as error:
        jnpl.find_label_issues(x, **{"labels": given, **options}, multi_label=True)
    assert "\n" not in str(error.value)
