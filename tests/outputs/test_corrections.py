"""Corrected labels: suggestions, decisions, and what is left out."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.helpers.runs import findings

from jnpl.data.label_files import match, read_label_rows
from jnpl.internal.errors import InputError
from jnpl.judging import Findings
from jnpl.judging.noise_model import NoiseEstimate
from jnpl.outputs.corrections import correct, with_held_out
from jnpl.run_folder import LabelledSample

PATHS = [f"{name}.png" for name in "abcdef"]


def labels(corrected):
    return corrected.table()["label"].tolist()


def test_issues_take_their_suggestions():
    corrected = correct(findings())
    assert labels(corrected) == ["cat", "dog", "eel", "dog", "dog", "eel"]
    table = corrected.table()
    assert list(table.columns) == ["id", "label", "given_label", "changed"]
    assert table["id"].tolist() == list(range(6))
    assert table["given_label"].tolist() == ["cat", "cat", "cat", "dog", "dog", "eel"]
    assert table["changed"].tolist() == [False, True, True, False, False, False]
    assert corrected.dropped == 0


@pytest.mark.parametrize(("least", "changed"), [(0.0, [1, 2]), (0.6, [1, 2]), (0.61, [1]), (0.8, [1]), (0.81, [])])
def test_suggestions_need_confidence(least, changed):
    assert [at for at, new in enumerate(correct(findings(), min_confidence=least).changed.tolist()) if new] == changed


def test_what_gets_no_better_label_can_be_left_out():
    """Sample 3 is an issue with nothing better to offer; 2 is one too if its suggestion is not taken."""
    assert correct(findings(), drop=True).table()["id"].tolist() == [0, 1, 2, 4, 5]
    strict = correct(findings(), drop=True, min_confidence=0.7)
    assert strict.table()["id"].tolist() == [0, 1, 4, 5]
    assert strict.dropped == 2


def test_decisions_count_and_all_else_stays():
    corrected = correct(findings(paths=PATHS), decisions={"b.png": "eel", "d.png": "dog"})
    assert labels(corrected) == ["cat", "eel", "cat", "dog", "dog", "eel"]
    assert corrected.table()["id"].tolist() == PATHS


def test_decisions_and_suggestions():
    corrected = correct(findings(), decisions={"1": "cat"}, min_confidence=0.5)
    assert labels(corrected) == ["cat", "cat", "eel", "dog", "dog", "eel"]
    kept = correct(findings(), decisions={"1": "cat", "3": "dog"}, min_confidence=0.5, drop=True)
    assert kept.table()["id"].tolist() == list(range(6))  # what somebody decided is not left out
    assert correct(findings(), decisions={"1": "cat"}, drop=True).table()["id"].tolist() == [0, 1, 4, 5]


def test_unreadable_samples_keep_their_labels():
    corrected = correct(findings(unreadable=[False, True, False, False, False, False]), drop=True)
    assert corrected.table().set_index("id")["label"][1] == "cat"


def test_an_id_that_comes_twice_is_decided_for_both():
    twice = findings(paths=["a", "a", "c", "d", "e", "f"])
    assert labels(correct(twice, decisions={"a": "eel"}))[:2] == ["eel", "eel"]
    assert labels(correct(twice, decisions=[("a", "eel"), ("a", "dog"), ("c", "cat")]))[:3] == ["eel", "dog", "cat"]
    assert labels(correct(twice, decisions=[("a", "eel"), ("a", " eel "), ("a", "eel")]))[:2] == ["eel", "eel"]
    with pytest.raises(InputError, match="name id 'a' in 3 rows, as 'cat' and 'dog', but the run has 2 of that id"):
        correct(twice, decisions=[("a", "cat"), ("a", "dog"), ("a", "cat")])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_what_is_written_of_an_id_that_comes_twice_is_read_back(tmp_path, suffix):
    twice = findings(paths=["=a", "=a", "=a", "d", "e", "f"])
    corrected = correct(twice)
    with corrected.writing(tmp_path / f"out{suffix}"):
        pass
    assert labels(corrected)[:3] == ["cat", "dog", "eel"]
    assert labels(correct(twice, decisions=read_label_rows(tmp_path / f"out{suffix}"))) == labels(corrected)


def test_classes_without_names():
    bare = Findings.from_probs([[0.9, 0.1], [0.9, 0.1]], [0, 1])
    assert correct(bare).table()["label"].tolist() == [0, 0]
    assert correct(bare, decisions={"0": "1"}).table()["label"].tolist() == [1, 1]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_what_is_written_is_read_back(tmp_path, suffix):
    names = ["=a.png", "'=a.png", "x,y.png", "d.png", "e.png", "ü.png"]
    found = findings(paths=names, class_names=["=cat", "dog", "eel"])
    corrected = correct(found)
    with corrected.writing(tmp_path / f"out{suffix}"):
        pass
    again = correct(found, decisions=read_label_rows(tmp_path / f"out{suffix}"))
    assert labels(again) == labels(corrected)


def test_apostrophes_of_formulas(tmp_path):
    assert match("=a", {"=a": 1, "'=a": 2}) == "=a"
    assert match("=a", {"'=a": 1}) == "'=a"
    assert match("b", {"=a": 1}) is None
    (tmp_path / "own.csv").write_text("id,label\n'-1.png,'=cat\n")
    assert read_label_rows(tmp_path / "own.csv") == [("-1.png", "=cat")]


def test_decisions_of_ones_own(tmp_path):
    (tmp_path / "own.csv").write_text("﻿label,who,id\neel,me,1\n dog ,me,2\n", "utf-8")
    assert labels(correct(findings(), decisions=read_label_rows(tmp_path / "own.csv")))[:3] == ["cat", "eel", "dog"]
    pd.DataFrame({"id": [2], "label": ["dog"]}).to_parquet(tmp_path / "own.parquet")
    assert labels(correct(findings(), decisions=read_label_rows(tmp_path / "own.parquet")))[2] == "dog"
    (tmp_path / "own.json").write_text(json.dumps([{"id": 2, "label": "dog"}]))
    assert labels(correct(findings(), decisions=read_label_rows(tmp_path / "own.json")))[2] == "dog"
    pd.DataFrame({"id": ["a", "b"], "label": pd.array(["cat", None], "string")}).to_parquet(tmp_path / "gap.parquet")
    with pytest.raises(InputError, match="has no label in row 1"):
        read_label_rows(tmp_path / "gap.parquet")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,given\n1,cat\n", "has no column 'label'; its columns are id, given"),
        ("label\ncat\n", "has no column 'id'"),
        ("id,label\n1,\n", r"has no label in row 0 \(counted from 0\), id '1'"),
        ('id,label\n1,"cat\n', "not a valid .csv table"),
    ],
)
def test_tables_of_decisions_that_are_wrong(tmp_path, text, message):
    (tmp_path / "own.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_label_rows(tmp_path / "own.csv")


def test_wrong_decisions(tmp_path):
    with pytest.raises(InputError, match="name id '9', which is not in the run: an id is one like '0'"):
        correct(findings(), decisions={"9": "cat"})
    with pytest.raises(InputError, match="the label 'cow', which is no class of the run: cat, dog, eel"):
        correct(findings(), decisions={"0": "cow"})
    with pytest.raises(InputError, match="name id '1' in 2 rows, as 'cat' and 'dog', but the run has 1 of that id"):
        correct(findings(), decisions=[("1", "cat"), ("1", "dog")])
    with pytest.raises(InputError, match=r"min_confidence must lie in 0\.\.1, got 2"):
        correct(findings(), min_confidence=2)
    with pytest.raises(InputError, match="no sample is left"):
        correct(Findings.from_probs([[0.4, 0.6]], [1], threshold=0.9), drop=True)
    for name, message in (("none.csv", "no such file"), ("own.txt", "must end in"), ("own.json", "not a valid .json")):
        (tmp_path / "own.json").write_text("{")
        with pytest.raises(InputError, match=message):
            read_label_rows(tmp_path / name)


def test_rows_that_were_held_out_stand_in_their_place():
    seen = findings(ids=[0, 1, 3, 4, 6, 7], unreadable=[True] + [False] * 5)
    every = with_held_out(seen, [LabelledSample(id=5, label="eel"), LabelledSample(id=2, label="dog")])[0]
    table = correct(every, drop=True, min_confidence=0.0).table()
    assert table["id"].tolist() == [0, 1, 2, 3, 5, 6, 7]  # 4 is an issue with nothing better
    assert table["label"].tolist() == ["cat", "dog", "dog", "eel", "eel", "dog", "eel"]
    assert table["changed"].tolist() == [False, True, False, True, False, False, False]
    decided = correct(every, decisions={"2": "cat"}).table().set_index("id")
    assert (decided["label"][2], decided["given_label"][2], decided["changed"].sum()) == ("cat", "dog", 1)
    assert with_held_out(seen, [])[0] is seen


def test_files_that_were_held_out_come_last():
    every = with_held_out(findings(paths=PATHS), [LabelledSample(id="aa.png", label="eel")])[0]
    assert every.paths.tolist() == every.ids.tolist() == [*PATHS, "aa.png"]
    assert labels(correct(every)) == ["cat", "dog", "eel", "dog", "dog", "eel", "eel"]


def test_held_out_rows_have_no_group_and_no_votes():
    seen = replace(findings(ids=[0, 1, 3, 4, 6, 7]), groups={"by": np.array(list("aabbcc"), object)})
    every, _ = with_held_out(replace(seen, votes={"ann": seen.given_labels}), [LabelledSample(id=2, label="dog")])
    assert every.groups["by"].tolist() == ["a", "a", None, "b", "b", "c", "c"]
    assert every.votes["ann"].tolist() == [0, 0, -1, 0, 1, 1, 2]
    assert every.by_group("by")["samples"].sum() == 6


@pytest.mark.parametrize("held", [{"id": 9, "label": "cow"}, {"id": "x", "label": "cat"}])
def test_held_out_samples_that_do_not_fit(held):
    with pytest.raises(InputError, match=r"the held-out samples in data\.json do not fit the findings"):
        with_held_out(findings(), [LabelledSample(**held)])


def test_a_correction_that_is_not_expected_to_help_is_not_made():
    probs = [[0.45, 0.53, 0.02], [0.1, 0.49, 0.41], [0.1, 0.8, 0.1], [0.9, 0.05, 0.05]]
    corrected = correct(Findings.from_probs(probs, [0, 0, 0, 0], threshold=0.5))
    assert corrected.labels.tolist() == [0, 0, 1, 0]  # a lead of 0.08, a confidence below 1/2, both fine, no issue
    assert corrected.uncertain == 2
    assert corrected.expected_wrong() is None
    dropped = correct(Findings.from_probs(probs, [0, 0, 0, 0], threshold=0.5), drop=True)
    assert dropped.rows.tolist() == [2, 3]


@pytest.mark.parametrize(("low", "changed"), [(0.2, True), (0.12, True), (0.05, False), (0.0, False)])
def test_a_correction_must_help_at_the_lower_end_of_the_noise_rate(low, changed):
    # Odds of 0.75 / 0.25 that the label is wrong, at a rate of 0.2 (odds 1/4). At 0.12 they are 3 * 0.545 = 1.64, at
    # 0.05 they are 3 * 0.21, and below it 3 / 4.
    found = Findings.from_probs([[0.25, 0.75], [1.0, 0.0]], [0, 0], threshold=0.5)
    found = replace(found, noise=NoiseEstimate(0.2, low, 0.3, overlap=0.1))
    assert correct(found).changed.tolist() == [changed, False]
    assert correct(found, min_confidence=0.7).changed.tolist() == [True, False]


def test_the_expected_wrong_labels_by_hand():
    found = Findings.from_probs([[0.2, 0.8], [0.9, 0.1], [0.4, 0.6]], [0, 0, 0], threshold=0.3)
    found = replace(found, noise=NoiseEstimate(0.5, 0.4, 0.75, overlap=0.1))
    expected = correct(found).expected_wrong()
    assert expected.before == pytest.approx(0.8 + 0.1 + 0.6)
    assert expected.after == pytest.approx(0.2 + 0.1 + 0.6)
    assert expected.before_interval == pytest.approx((1.2, 2.25))
    assert correct(found, decisions={"2": 1}, min_confidence=0.7).expected_wrong().after == pytest.approx(0.3)
