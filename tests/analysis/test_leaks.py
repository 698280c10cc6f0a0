"""Columns that give the label away are named before the training, and no others."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.helpers.runs import photos

import jnpl
from jnpl.analysis.leaks import label_columns, warn_of_leaks
from jnpl.data.opening import open_source, open_test
from jnpl.data.options import OpenOptions
from jnpl.data.source import Source, Texts

RANDOM = np.random.default_rng(0)
TRUE = RANDOM.integers(0, 3, 150)
GIVEN = np.where(RANDOM.random(150) < 0.1, (TRUE + 1) % 3, TRUE)
NAMES = np.array(["cat", "dog", "eel"], object)
FRAME = pd.DataFrame({"size": TRUE + RANDOM.normal(0, 0.3, 150), "label": NAMES[GIVEN]})
LEAKS = {
    "the label": NAMES[GIVEN],
    "a code": np.array([30, 10, 20])[GIVEN],
    "several codes": np.array(["a", "b", "c"], object)[GIVEN] + RANDOM.choice(["x", "y"], 150),
    "fractions": GIVEN + RANDOM.random(150) / 2,
    "nearly all": np.where(np.arange(150) == 7, "cat", NAMES[GIVEN]),
}
HONEST = {
    "the true label": NAMES[TRUE],
    "random": RANDOM.choice(NAMES, 150),
    "a feature": TRUE + RANDOM.normal(0, 0.1, 150),
    "all differ": [f"{name}{at}" for at, name in enumerate(NAMES[GIVEN])],
    "each twice": np.arange(150) // 2,
}


@pytest.mark.parametrize("name", LEAKS)
def test_columns_that_tell_the_label_are_named(name):
    assert list(label_columns(open_source(FRAME.assign(code=LEAKS[name])))) == ["code"]


@pytest.mark.parametrize("name", HONEST)
def test_other_columns_are_not(name):
    columns = ["code", "size"] if name != "all differ" else None
    assert label_columns(open_source(FRAME.assign(code=HONEST[name]), feature_columns=columns and tuple(columns))) == {}


def test_a_rare_class_and_its_absence_are_no_leak():
    frame = FRAME.assign(label=np.where(np.arange(150) == 3, "eel", "cat"), code=1 + (np.arange(150) == 9))
    assert label_columns(open_source(frame, feature_columns=["code", "size"])) == {}


@pytest.mark.parametrize("label", [0, 1])
def test_nothing_tells_a_label_that_all_rows_have(label):
    """As in a check of new samples of one class, or for a tag that is on all samples or on none."""
    source = open_source(FRAME.assign(label=np.where(TRUE == 0, "cat", "dog"), code=TRUE))
    for tags in (None, np.full((150, 2), bool(label))):
        assert label_columns(replace(source, labels=np.full(150, label), tags=tags)) == {}


def test_parts_and_excluded_columns():
    frame = FRAME.assign(code=LEAKS["a code"], split=["train"] * 100 + ["test"] * 50)
    frame.loc[100:, "code"] = 10
    assert label_columns(open_source(frame)) == {"code": 1.0}
    assert label_columns(open_source(frame, exclude=["code"])) == {}


def test_a_user_is_told_before_the_training_and_in_the_report(caplog, tmp_path):
    frame = FRAME.assign(**{"code 2": LEAKS["a code"]})
    jnpl.find_label_issues(frame, "label", settings=["train.epochs=1"], out=tmp_path / "run")
    line = (
        "column 'code 2' predicts the label in 100 % of the rows: if it tells it, leave it out with --exclude 'code 2'"
    )
    assert line in caplog.text
    assert line in (tmp_path / "run" / "data.json").read_text()


def texts(values):
    return Source(
        "texts", Texts(np.array(values, object)), np.arange(len(values)) % 2, ("a", "b"), np.arange(len(values))
    )


@pytest.mark.parametrize("form", ["files", "array", "texts", "table"])
def test_test_data_that_are_training_data_are_told(tmp_path, caplog, form):
    if form == "files":
        photos(tmp_path / "photos")
        data, test = tmp_path / "photos", tmp_path / "photos"
        other = photos(tmp_path / "other", seed=1)
    elif form == "texts":
        data, test, other = texts(["x", "y", "z"]), texts([" y", "z"]), texts(["w", "v"])
    elif form == "array":
        x = RANDOM.random((20, 3))
        data, test, other = (x, [0, 1] * 10), (x[:4], [0, 1] * 2), (x[:4] + 1, [0, 1] * 2)
    else:
        data, test, other = FRAME, FRAME[:50], FRAME[:50].assign(size=7.5)
    count = {"files": 12, "texts": 2, "array": 4, "table": 50}[form]
    for part, line in ((test, f"{count} of the {count} test samples"), (other, "")):
        caplog.clear()
        warn_of_leaks(open_test(open_source(data), part, OpenOptions()))
        assert line in caplog.text
        assert ("are training samples too: the test accuracy is that of remembered labels" in caplog.text) == bool(line)
