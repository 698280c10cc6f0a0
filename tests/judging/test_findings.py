"""Verdicts by hand, the table's contract, and what a saved folder gives back."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.six_samples import LABELS, PROBS

from jnpl.internal.errors import InputError
from jnpl.judging import Findings
from jnpl.judging.ledger import Ledger

COLUMNS = ["id", "given_label", "suggested_label", "label_quality", "is_label_issue", "suggested_confidence"]
UNCLEAR = [*COLUMNS, "is_unclear"]  # where there are issues without a better label


def test_verdicts_by_hand(findings):
    assert findings.label_quality.tolist() == [0.9, 0.1, 0.3, 0.45, 0.5, 0.05]
    assert findings.is_label_issue.tolist() == [False, True, True, True, False, True]
    assert findings.suggested_labels.tolist() == [0, 1, 2, 0, 1, 1]
    assert findings.suggested_confidence.tolist() == [0.9, 0.7, 0.4, 0.45, 0.5, 0.9]
    assert findings.noise_rate == pytest.approx(4 / 6)
    # true class by the findings: 0 1 2 0 1 1, given: 0 0 1 0 1 2
    np.testing.assert_allclose(findings.transition_matrix, [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1, 0]])
    assert findings.summary() == {
        "samples": 6,
        "scored": 6,
        "classes": 3,
        "issues": 4,
        "relabelled": 3,
        "noise_rate": 4 / 6,
        "threshold": 0.5,
    }


@pytest.mark.parametrize(
    ("threshold", "issues", "rule"),
    [(0.5, 4, "fixed"), (0.1, 1, "fixed"), (0.46, 4, "fixed"), ("1/c", 3, "1/c"), ("auto", 4, "auto")],
)
def test_thresholds(threshold, issues, rule):
    findings = Findings.from_probs(PROBS, LABELS, threshold=threshold)
    assert findings.is_label_issue.sum() == issues
    assert findings.threshold_info["rule"] == rule
    assert findings.threshold == findings.threshold_info["value"]
    assert findings.threshold_info["reason"]


@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_the_matrix_is_counted(seed, classes, size):
    rng = np.random.default_rng(seed)
    probs, labels = rng.dirichlet(np.full(classes, 0.5), size), rng.integers(0, classes, size)
    findings = Findings.from_probs(probs, labels)
    counts = [[0] * classes for _ in range(classes)]
    for p, y in zip(probs.tolist(), labels.tolist(), strict=True):
        true = p.index(max(p)) if p[y] < 0.5 else y
        counts[true][y] += 1
    for i, row in enumerate(counts):
        expected = [n / sum(row) for n in row] if sum(row) else [float(i == j) for j in range(classes)]
        assert findings.transition_matrix[i].tolist() == pytest.approx(expected)


def test_the_table_of_numbers(findings):
    table = findings.table
    assert list(table.columns) == UNCLEAR
    assert table["is_unclear"].tolist() == [False, False, False, True, False, False]
    assert table["suggested_label"].tolist() == [0, 1, 2, 2, 1, 1]  # of sample 3, which could be 0 or 2
    assert table["suggested_confidence"][3] == 0.3
    assert table["id"].tolist() == [0, 1, 2, 3, 4, 5]
    assert table["given_label"].tolist() == LABELS
    kinds = {name: str(dtype) for name, dtype in table.dtypes.items()}
    assert kinds == dict(zip(UNCLEAR, ["int64", "int64", "int64", "float64", "bool", "float64", "bool"], strict=True))


def test_the_table_of_names_and_paths():
    paths = [f"photos/{i}.png" for i in range(6)]
    findings = Findings.from_probs(PROBS, LABELS, class_names=["cat", "dog", "emu"], paths=paths)
    table = findings.table
    assert list(table.columns) == ["id", "path", *UNCLEAR[1:]]
    assert table["id"].tolist() == table["path"].tolist() == paths
    assert table["given_label"].tolist() == ["cat", "cat", "dog", "cat", "dog", "emu"]
    assert table["suggested_label"].tolist() == ["cat", "dog", "emu", "emu", "dog", "dog"]
    assert {str(table[name].dtype) for name in ("id", "path", "given_label", "suggested_label")} == {"object"}


def test_class_names_may_be_numbers_and_ids_anything():
    findings = Findings.from_probs(PROBS, LABELS, class_names=np.array([3, 5, 7]), ids=list("abcdef"))
    assert findings.table["given_label"].tolist() == [3, 3, 5, 3, 5, 7]
    assert str(findings.table["given_label"].dtype) == "int64"
    assert findings.table["id"].tolist() == list("abcdef")
    ids = Findings.from_probs(PROBS, LABELS, ids=[10, 20, 30, 40, 50, 60], paths=list("abcdef"))
    assert ids.table["id"].tolist() == [10, 20, 30, 40, 50, 60]
    assert ids.table["path"].tolist() == list("abcdef")


def test_unreadable_samples_have_no_verdict():
    probs = PROBS.copy()
    probs[1] = np.nan
    findings = Findings.from_probs(probs, LABELS, unreadable=[False, True, False, False, False, False])
    row = findings.table.iloc[1]
    assert list(findings.table.columns) == [*UNCLEAR, "unreadable"]
    assert str(findings.table["unreadable"].dtype) == "bool"
    assert findings.table["unreadable"].tolist() == [False, True, False, False, False, False]
    assert np.isnan(row["label_quality"])
    assert np.isnan(row["suggested_confidence"])
    assert not row["is_label_issue"]
    assert row["suggested_label"] == row["given_label"] == 0
    assert findings.noise_rate == pytest.approx(3 / 5)
    assert (findings.summary()["samples"], findings.summary()["scored"]) == (6, 5)
    assert findings.transition_matrix[1].tolist() == [0, 0.5, 0.5]  # the row that made it thirds is gone
    assert 1 not in findings.worst(6).index


def test_the_worst_come_first_and_ties_in_the_order_of_the_data():
    quality = np.array([0.3, 0.1, 0.3, 0.9, 0.1, 0.3])
    findings = Findings.from_probs(np.column_stack([quality, 1 - quality]), [0] * 6)
    assert findings.worst(4).index.tolist() == findings.worst(4)["id"].tolist() == [1, 4, 0, 2]
    pd.testing.assert_frame_equal(findings.worst(4)[COLUMNS], findings.table.loc[[1, 4, 0, 2], COLUMNS])
    assert len(findings.worst(100)) == 6
    texts = replace(
        findings, excerpts=np.array(["short", *["a text that is longer than a line has room for"] * 5], object)
    )
    with pd.option_context("display.width", 80, "display.max_columns", 0):
        heading, first, *_ = str(texts.worst(3)).splitlines()
    assert heading.split() == ["given_label", "suggested_label", "...", "label_quality", "excerpt"]
    assert first.endswith("a text that is longer…")
    assert len(first) <= 80
    with pytest.raises(InputError, match="k must be a whole number of at least 0, not -1"):
        findings.worst(-1)


def test_the_class_summary_by_hand(findings):
    summary = findings.class_summary()
    assert list(summary.columns) == ["class", "count", "issues", "issue_rate", "most_common_suggested"]
    assert summary["class"].tolist() == [0, 1, 2]
    assert summary["count"].tolist() == [3, 2, 1]
    assert summary["issues"].tolist() == [2, 1, 1]
    assert summary["issue_rate"].tolist() == pytest.approx([2 / 3, 1 / 2, 1])
    assert summary["most_common_suggested"].tolist() == [1, 2, 1]


def test_the_class_summary_names_the_most_common_and_none_where_there_is_none():
    probs = np.eye(4)[[1, 2, 2, 0, 3]]
    findings = Findings.from_probs(probs, [0, 0, 0, 0, 3], class_names=["a", "b", "c", "d"])
    summary = findings.class_summary().set_index("class")
    assert summary["most_common_suggested"].tolist() == ["c", None, None, None]
    assert summary.loc["b"].tolist()[:3] == [0, 0, 0]


@pytest.mark.parametrize("keep", ["full", "compact"])
def test_from_a_ledger(keep):
    ledger = Ledger(7, 3, keep=keep, labels=[*LABELS, 2])
    for epoch in range(3):
        ledger.record(range(6), PROBS, epoch)  # sample 6 is never seen
    findings = Findings.from_ledger(ledger, np.array([*LABELS, 2], np.uint8), class_names=["a", "b", "c"])
    assert findings.table["is_label_issue"].tolist() == [False, True, True, True, False, True, False]
    assert findings.suggested_labels.tolist() == [0, 1, 2, 0, 1, 1, 2]
    assert findings.label_quality[:6] == pytest.approx([0.9, 0.1, 0.3, 0.45, 0.5, 0.05], abs=1e-6)
    assert np.isnan(findings.label_quality[6])
    assert np.isnan(findings.suggested_confidence[6])
    assert findings.suggested_confidence[:6] == pytest.approx([0.9, 0.7, 0.4, 0.45, 0.5, 0.9], abs=1 / 255)
    assert findings.summary()["scored"] == 6
    with pytest.raises(InputError, match="labels must be 7 whole numbers, not int64 of shape"):
        Findings.from_ledger(ledger, LABELS)


def test_equality_sees_every_difference(findings):
    assert findings == Findings.from_probs(PROBS, LABELS)
    for other in (
        Findings.from_probs(PROBS, LABELS, threshold=0.4),
        Findings.from_probs(PROBS, LABELS, class_names=["a", "b", "c"]),
        Findings.from_probs(PROBS, LABELS, ids=[1, 2, 3, 4, 5, 6]),
        Findings.from_probs(PROBS, LABELS, unreadable=[False] * 6),
        Findings.from_probs(PROBS, [1, *LABELS[1:]]),
        "findings",
    ):
        assert findings != other


def test_very_many_classes(tmp_path):
    probs = np.zeros((2, 6000), np.float32)
    probs[:, 5999] = 1
    findings = Findings.from_probs(probs, [0, 5999])
    with pytest.raises(InputError, match="a matrix of 6000 x 6000 classes is too large"):
        _ = findings.transition_matrix
    assert findings.class_summary()["issues"].sum() == 1
    findings.save(tmp_path)
    assert Findings.load(tmp_path) == findings


CUT = "threshold must be a number in (0, 1), 'auto', 'per-class', '1/c', 'precision=P' or 'budget=K'"


@pytest.mark.parametrize(
    ("probs", "labels", "options", "message"),
    [
        (PROBS, [0, 0, 1, 0, 1, 3], {}, "labels must lie in 0..2, not 0..3"),
        (PROBS, [0, 0, 1, 0, 1, -1], {}, "labels must lie in 0..2, not -1..1"),
        (PROBS, LABELS[:5], {}, "labels must be 6 whole numbers, not int64 of shape (5,)"),
        (PROBS, [0.0] * 6, {}, "labels must be 6 whole numbers, not float64 of shape (6,)"),
        (PROBS, ["cat"] * 6, {}, "labels must be 6 whole numbers, not <U3 of shape (6,)"),
        (np.zeros((0, 3)), np.zeros(0, int), {}, "there are no samples"),
        (PROBS[0], LABELS, {}, "probabilities must be numbers of shape (N, C), not float64 of (3,)"),
        ([[0.5, 0.6]], [0], {}, "probabilities of sample 0 must lie in 0..1 and sum to 1, not 0.5..0.6 and 1.1"),
        (
            [[0.5, 0.5], [1.5, -0.5]],
            [0, 0],
            {},
            "probabilities of sample 1 must lie in 0..1 and sum to 1, not -0.5..1.5 and 1",
        ),
        ([[np.nan, 1.0]], [0], {}, "probabilities of sample 0 must lie in 0..1 and sum to 1, not nan..nan and nan"),
        (
            [[np.inf, -np.inf]],
            [0],
            {},
            "probabilities of sample 0 must lie in 0..1 and sum to 1, not -inf..inf and nan",
        ),
        (PROBS, LABELS, {"class_names": ["a", "b"]}, "class_names must name 3 classes, not 2"),
        (PROBS, LABELS, {"class_names": ["a", "b", "a"]}, "class_names must differ: 'a' comes twice"),
        (
            PROBS,
            LABELS,
            {"class_names": ["a", 1, 2]},
            "class_names must be all texts or all whole numbers, not ['a', 1, 2]",
        ),
        (PROBS, LABELS, {"paths": ["a"]}, "paths must be 6, one per sample, not 1"),
        (PROBS, LABELS, {"ids": ["a"]}, "ids must be 6, one per sample, not 1"),
        (PROBS, LABELS, {"ids": [1]}, "ids must be 6, one per sample, not 1"),
        (PROBS, LABELS, {"unreadable": [True]}, "unreadable must be 6 booleans, not bool of shape (1,)"),
        (PROBS, LABELS, {"unreadable": [0] * 6}, "unreadable must be 6 booleans, not int64 of shape (6,)"),
        (PROBS, LABELS, {"threshold": 1.0}, f"{CUT}, not 1.0"),
        (PROBS, LABELS, {"threshold": "best"}, f"{CUT}, not 'best'"),
    ],
)
def test_wrong_input_is_named(probs, labels, options, message):
    with pytest.raises(InputError) as error:
        Findings.from_probs(probs, labels, **options)
    assert str(error.value) == message


def test_importing_findings_brings_neither_torch_nor_pandas():
    code = "import sys, jnpl.judging, jnpl.metrics; print({'torch', 'pandas', 'pyarrow', 'sklearn'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_another_score_than_the_probability_of_the_given_label():
    ledger = Ledger(3, 2)
    ledger.record([0, 1, 2], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], 0)
    found = Findings.from_ledger(ledger, [0, 0, 1], quality=[0.1, 0.7, np.nan])
    assert found.is_label_issue.tolist() == [True, False, False]
    assert found.label_quality[:2].tolist() == pytest.approx([0.1, 0.7])
    assert found.suggested_labels.tolist() == [0, 1, 1]  # by probability, whatever the score
    for wrong in ([0.1, 0.2], [0.1, 0.2, 1.5]):
        with pytest.raises(InputError, match=r"quality must be 3 numbers in 0\.\.1"):
            Findings.from_ledger(ledger, [0, 0, 1], quality=wrong)


def test_a_threshold_for_each_class_is_kept_and_used(tmp_path):
    random = np.random.default_rng(0)
    quality = np.concatenate([random.beta(1, 30, 60), random.beta(5, 3, 140), np.full(5, 0.3)])
    labels = np.repeat([0, 1], [200, 5])
    probs = np.where(np.eye(2, dtype=bool)[labels], quality[:, None], 1 - quality[:, None])
    findings = Findings.from_probs(probs, labels, threshold="per-class")
    own = np.array(findings.threshold_info["by_class"])
    assert own[0] < 0.3 < own[1] == 0.5  # too few of the second class for a cut of its own
    np.testing.assert_array_equal(findings.is_label_issue, quality < own[labels])
    findings.save(tmp_path)
    assert Findings.load(tmp_path) == findings


@pytest.mark.parametrize("threshold", ["auto", 0.9, "budget=20", "per-class"])
def test_of_labels_that_are_not_predicted_nothing_is_said(tmp_path, threshold):
    random = np.random.default_rng(0)
    probs, given = random.dirichlet(np.ones(3), 200), random.integers(0, 3, 200)
    unseen = random.dirichlet(np.ones(3), 200)
    findings = Findings.from_probs(probs, given, unseen_probs=unseen, threshold=threshold)
    assert not findings.is_label_issue.any()
    assert (findings.suggested_labels == given).all()
    assert math.isnan(findings.noise_rate)
    assert findings.noise_facts["noise_rate"] is None
    assert findings.noise_interval == (0.0, 1.0)
    assert "unknown; the features predict the labels no better than chance" in findings.noise_sentence
    assert not findings.with_threshold("budget=50").is_label_issue.any()
    findings.save(tmp_path)
    assert json.loads((tmp_path / "findings.json").read_text())["noise_rate"] is None
    assert Findings.load(tmp_path) == findings
    checked = {at: int(given[at]) if at % 4 else -1 for at in findings.audit_sample(40).tolist()}
    assert 0 < findings.audited(checked).noise_rate < 0.5
