"""A column that divides a table into training, test and validation rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from jnpl.data.sources import table
from jnpl.data.sources.split_column import find_split
from jnpl.internal.errors import InputError

SPLIT = ["train", "test", "train", "test", "train"]
FRAME = pd.DataFrame(
    {
        "x": [1.0, 2.0, 3.0, 4.0, 5.0],
        "label": ["a", None, "b", None, "a"],
        "truth": ["a", "b", "a", "c", "a"],
        "split": SPLIT,
    }
)


def test_test_rows_have_the_true_labels(caplog):
    source = table.load(FRAME, true_label_column="truth")
    assert source.inputs.values.tolist() == [[1], [3], [5]]
    assert source.ids.tolist() == [0, 2, 4]
    assert source.class_names == ("a", "b", "c")
    assert (source.labels.tolist(), source.true_labels.tolist()) == ([0, 1, 0], [0, 0, 0])
    assert (source.test.ids.tolist(), source.test.labels.tolist()) == ([1, 3], [1, 2])
    assert source.test.true_labels is None
    expected = "by its column 'split', 3 rows are the data, 2 are test data with the labels in 'truth'"
    assert expected in caplog.text
    assert source.encoding["names"] == ["x"]


def test_rows_without_a_label_are_left_out(caplog):
    source = table.load(FRAME.drop(columns="truth"))
    assert (len(source), source.test) == (3, None)
    assert "2 test rows are left out: some have no label" in caplog.text
    with pytest.raises(
        InputError, match=r"no label in column 'label' of row 2 \(counted from 0\); 1 row has none: --skip-"
    ):
        table.load(FRAME.assign(label=["a", "b", None, "b", "a"]))
    skipped = table.load(FRAME.assign(label=["a", "b", None, "b", "a"]), skip_unlabelled=True)
    assert None not in skipped.ids.tolist()
    assert 2 not in skipped.ids.tolist()


def test_validation_rows():
    frame = FRAME.assign(label=list("abaab"))
    alone = table.load(frame.assign(split=["train", "val", "train", "val", "train"]))
    assert (alone.test.ids.tolist(), alone.validation) == ([1, 3], None)
    both = table.load(frame.assign(split=["train", "test", "train", "dev", "train"]))
    assert (both.test.ids.tolist(), both.validation.ids.tolist()) == ([1], [3])


def test_numbers_with_gaps_stay_whole():
    frame = FRAME.assign(label=[3.0, np.nan, 7.0, np.nan, 3.0], truth=[3, 7, 3, 9, 3])
    assert table.load(frame, true_label_column="truth").class_names == (3, 7, 9)


@pytest.mark.parametrize(
    "cells", [["train"] * 5, ["test"] * 5, [*SPLIT[:4], "other"], [*SPLIT[:4], None], [1, 2] * 2 + [1]]
)
def test_other_columns_are_no_split(cells):
    assert find_split(pd.DataFrame({"split": cells})) is None


def test_a_column_that_is_used_is_no_split():
    frame = FRAME.assign(label=list("abaab"))
    assert table.load(frame, feature_columns=["split"]).test is None
    assert table.load(frame, label_column="split").class_names == ("test", "train")


def test_texts_and_images_are_divided_too():
    frame = FRAME.assign(words=list("vwxyz"), label=list("abaab"))
    source = table.load(frame, text_column="words")
    assert (source.texts.tolist(), source.test.texts.tolist()) == (["v", "x", "z"], ["w", "y"])
    embedded = table.load(frame, text_column="words", embed=lambda texts: [[ord(text)] for text in texts])
    assert embedded.test.inputs.values.ravel().tolist() == [ord("w"), ord("y")]
