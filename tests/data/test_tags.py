"""Several tags per sample: how they are read, and the one line for what cannot be."""

import logging

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from jnpl.data.opening import open_source
from jnpl.data.split import part
from jnpl.data.tags import as_tags, tags_of_lists
from jnpl.internal.errors import InputError

LISTS = [["cat", "dog"], ["dog"], [], ["cat"]] * 5
MATRIX = np.array([[1, 1], [0, 1], [0, 0], [1, 0]] * 5)
NUMBERS = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)).round(3), columns=["a", "b"])


@pytest.mark.parametrize(
    "cells",
    [
        LISTS,
        [np.array(row, object) for row in LISTS],
        [";".join(row) for row in LISTS],
        [" | ".join(row) or None for row in LISTS],
        [",".join([*row, *row]) for row in LISTS],
        [str(row).replace("'", '"') for row in LISTS],
    ],
    ids=["lists", "arrays", "semicolons", "bars and nothing", "commas, tags twice", "JSON"],
)
def test_lists_of_tags_are_read(cells):
    tags = tags_of_lists(cells, "y")
    assert tags.names == ("cat", "dog")
    assert (tags.given == MATRIX).all()


@pytest.mark.parametrize(
    "y", [MATRIX, MATRIX.tolist(), MATRIX.astype(bool), sparse.csr_matrix(MATRIX), MATRIX.astype(float)]
)
def test_matrices_are_read_in_the_order_of_the_names(y):
    tags = as_tags(y, ["dog", "ant"])
    assert tags.names == ("dog", "ant")
    assert (tags.given == MATRIX).all()
    assert as_tags(pd.DataFrame(MATRIX, columns=["x", "y"])).names == ("x", "y")
    assert as_tags(LISTS, ["dog", "cat", "eel"]).given.sum(0).tolist() == [10, 10, 0]


def tables(folder):
    """The same tags as a table in every form: (data, options)."""
    NUMBERS.assign(label=LISTS).to_parquet(folder / "lists.parquet")
    NUMBERS.assign(label=[";".join(row) for row in LISTS]).to_csv(folder / "lists.csv", index=False)
    NUMBERS.assign(cat=MATRIX[:, 0], dog=MATRIX[:, 1] == 1).to_csv(folder / "columns.csv", index=False)
    yield folder / "lists.parquet", {}
    yield folder / "lists.csv", {"multi_label": True}
    yield folder / "columns.csv", {"tag_columns": ["cat", "dog"]}
    yield NUMBERS.assign(label=LISTS), {}


def test_every_form_of_a_table_gives_the_same_source(tmp_path):
    sources = [open_source(data, **options) for data, options in tables(tmp_path)]
    for source in sources:
        assert source.class_names == ("cat", "dog")
        assert (source.tags == MATRIX).all()
        assert not source.labels.any()
        assert source.inputs.array().shape == (20, 2)
    assert len({source.fingerprint() for source in sources}) == 1
    assert sources[0].fingerprint() != open_source(NUMBERS.assign(label=LISTS[::-1])).fingerprint()


def test_tags_follow_their_samples():
    split = ["train", "test"] * 10
    source = open_source(NUMBERS.assign(label=LISTS, split=split))
    assert (source.tags == MATRIX[::2]).all()
    assert (source.test.tags == MATRIX[1::2]).all()
    assert (part(source, np.array([1, 0])).tags == MATRIX[[2, 0]]).all()
    kept = open_source(NUMBERS.assign(label=LISTS), skip_unlabelled=True)
    assert kept.tags.any(1).all()
    assert len(kept) == 15


def test_lists_are_recognised_only_when_asked():
    texts = NUMBERS.assign(label=["cat;dog", "dog"] * 10)
    assert open_source(texts).class_names == ("cat;dog", "dog")
    assert open_source(texts).tags is None


def test_what_cannot_be_judged_is_said(caplog):
    never = MATRIX[:, :1] * 0
    rare = np.eye(20, 1, dtype=int)
    frame = NUMBERS.assign(dog=MATRIX[:, 1], none=never[:, 0], all=1, rare=rare[:, 0])
    with caplog.at_level(logging.WARNING, "jnpl"):
        open_source(frame, tag_columns=["dog", "none", "all", "rare"])
    said = caplog.text
    for line in ("on no sample are not judged: 'none'", "on every sample are not judged: 'all'"):
        assert line in said
    assert "on fewer than 5 samples are not judged: 'rare'" in said
    caplog.clear()
    open_source(NUMBERS.assign(label=LISTS))
    assert "5 of 20 samples have no tag" in caplog.text


def test_spellings_of_a_tag_are_merged_on_request(caplog):
    labels = [["Dog"], ["dog"], ["dog", "cat"], ["cat"]] * 5
    source = open_source(NUMBERS.assign(label=labels))
    assert len(source.class_names) == 3
    assert "--merge-classes" in caplog.text
    merged = open_source(NUMBERS.assign(label=labels), merge_classes=True)
    assert sorted(merged.class_names) == ["cat", "dog"]
    assert merged.tags[:, merged.class_names.index("dog")].sum() == 15


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"label": "a;b,c"}, {"multi_label": True}, "separates tags in several ways: ';' in row 0"),
        ({"label": [";".join(row) for row in LISTS[:10]] + ["a|b"] * 10}, {"multi_label": True}, r"'\|' in row 10"),
        ({"label": ""}, {"multi_label": True}, "has no tag at all"),
        ({"label": 0.5}, {"multi_label": True}, "must hold lists of tags or texts"),
        ({"label": '["a"'}, {"multi_label": True}, "no JSON list"),
        ({"label": '[["a"]]'}, {"multi_label": True}, "flat lists"),
        (
            {"cat": 2},
            {"tag_columns": ["cat"]},
            r"tag column 'cat' of the data frame must hold 0 and 1, not 2 \(row 0\)",
        ),
        ({"cat": np.nan}, {"tag_columns": ["cat"]}, "must hold 0 and 1, not nan"),
        ({"cat": 0}, {"tag_columns": ["cat"]}, "no sample of table has a tag"),
        ({"cat": 1}, {"tag_columns": ["cat"]}, "none can be judged"),
        ({"cat": 1}, {"tag_columns": ["cat", "cat"]}, "names the column 'cat' twice"),
        ({"cat": 1}, {"tag_columns": ["eel"]}, "eel"),
        ({"cat": 1, "label": "x"}, {"tag_columns": ["cat"], "label_column": "label"}, "exclude each other"),
        ({"label": "x", "c": "x"}, {"multi_label": True, "true_label_column": "c"}, "exclude each other"),
        ({"label": [f"t{at};u{at}" for at in range(20)]}, {"multi_label": True}, "none can be judged"),
    ],
)
def test_what_is_wrong_is_one_line(changes, options, message):
    with pytest.raises(InputError, match=message) as error:
        open_source(NUMBERS.assign(**changes), **options)
    assert "\n" not in str(error.value)


def test_other_mistakes_are_one_line():
    with pytest.raises(InputError, match="must hold 0 and 1, not 2"):
        as_tags([[0, 2]])
    with pytest.raises(InputError, match="2 different names"):
        as_tags(MATRIX, ["one"])
    with pytest.raises(InputError, match="'dog', which is not in class_names"):
        as_tags(LISTS, ["cat"])
    with pytest.raises(InputError, match="at most 10,000 tags"):
        as_tags(np.zeros((2, 10_001)))
    with pytest.raises(InputError, match="multi_label has no meaning"):
        open_source((np.zeros((4, 2)), ["a", "b"] * 2), multi_label=True)
