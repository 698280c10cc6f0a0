"""One class in two spellings: named when data are opened, and merged on request."""

import logging

import numpy as np
import pandas as pd
import pytest

import jnpl
from jnpl.data.new_data import open_new
from jnpl.data.opening import open_source, open_test
from jnpl.data.options import OpenOptions
from jnpl.internal.errors import InputError

X = np.arange(12.0)[:, None]
NAMES = ["dog"] * 4 + ["caf\u00e9"] * 5


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        ("Caf\u00e9", "'Caf\u00e9' (3) and 'caf\u00e9' (5)"),
        ("cafe\u0301", r"'cafe\u0301' (3) and 'caf\u00e9' (5)".replace(r"\u00e9", "\u00e9")),
        ("caf\u00e9\u200b", r"'caf\u00e9' (5) and 'caf\xe9\u200b' (3)".replace(r"\u00e9", "\u00e9")),
        ("\u00a0caf\u00e9 ", r"'caf\u00e9' (5) and '\xa0caf\xe9 ' (3)".replace(r"\u00e9", "\u00e9")),
    ],
    ids=["case", "decomposed", "zero width", "blanks"],
)
def test_a_line_names_the_spellings_and_the_option_merges_them(caplog, other, shown):
    labels = [*NAMES, *[other] * 3]
    with caplog.at_level(logging.WARNING, "jnpl"):
        source = open_source((X, labels))
    assert len(source.class_names) == 3
    assert "classes that differ in spelling only: " + shown in caplog.text
    assert "--merge-classes (merge_classes) makes one of each" in caplog.text
    caplog.clear()
    merged = open_source((X, labels), merge_classes=True)
    assert sorted(merged.class_names) == ["caf\u00e9", "dog"]
    assert [merged.class_names[label] for label in merged.labels] == ["dog"] * 4 + ["caf\u00e9"] * 8
    assert caplog.text == ""


def test_inner_blanks_and_true_labels_and_split_rows():
    frame = pd.DataFrame(
        {
            "length": np.arange(8.0),
            "label": ["ice cream", "ice  cream", "ice cream", "tea", "Tea", "tea", "Ice Cream", "ice cream"],
            "right": ["TEA", "ice cream", "tea", "tea", "tea", "tea", "ice cream", "ice cream"],
            "split": ["train"] * 6 + ["test"] * 2,
        }
    )
    source = open_source(frame, true_label_column="right", merge_classes=True)
    ice, tea = (source.class_names.index(name) for name in ("ice cream", "tea"))
    assert source.labels.tolist() == [ice, ice, ice, tea, tea, tea]
    assert source.true_labels.tolist() == [tea, ice, tea, tea, tea, tea]
    assert (source.test.class_names, source.test.labels.tolist()) == (source.class_names, [ice, ice])


def test_names_of_other_letters_and_numbers_stay(caplog):
    assert open_source((X[:4], ["a", "b", "a-", "\u00e1"]), merge_classes=True).class_names == (
        "a",
        "a-",
        "b",
        "\u00e1",
    )
    assert open_source((X[:2], [1, 2])).class_names == (1, 2)
    assert caplog.text == ""


def test_two_spellings_of_the_only_class_are_no_data():
    with pytest.raises(InputError, match="has 1 class; at least 2 are needed"):
        open_source((X[:2], ["a", "A"]), merge_classes=True)
    assert open_source((X[:2], ["a", "A"]), merge_classes=True, one_class=True).class_names == ("A",)


def test_test_data_and_new_data_get_the_names_of_the_training_data():
    frame = pd.DataFrame({"length": np.arange(4.0), "label": ["Cat", "cat", "cat", "dog"]})
    options = OpenOptions(merge_classes=True)
    source = open_source(frame, options)
    test = open_test(source, frame.assign(label=["CAT", "dog", "Dog", "cat"]), options).test
    assert (test.class_names, test.labels.tolist()) == (("cat", "dog"), [0, 1, 1, 0])
    new = open_new(frame.assign(label=["Cat", "DOG", "cat", "bird"]), source.class_names, kind="vector")
    assert new.labels.tolist() == [0, 1, 0, -2]
    new = open_new(frame.assign(label=["Cat", "CAT", "cat", "dog"]), ("Cat", "cat", "dog"), kind="vector")
    assert new.labels.tolist() == [0, -2, 1, 2]


def test_labels_in_python():
    labels = ["even" if number % 2 else "odd" for number in range(40)]
    labels[3:9:2] = ["Even", "EVEN ", "e\u200bven"]
    settings = ["train.epochs=1"]
    findings = jnpl.find_label_issues(
        [[at % 2, at / 9] for at in range(40)], labels, settings=settings, merge_classes=True
    )
    assert findings.class_names == ("even", "odd")
