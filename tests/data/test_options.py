"""Options for opening data, as data.json keeps them."""

import numpy as np
import pandas as pd
import pytest

from jnpl.data.opening import open_source, open_test
from jnpl.data.options import OpenOptions
from jnpl.internal.errors import InputError


def test_stored_options_are_read_back_with_absolute_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = OpenOptions(feature_columns=["size"], image_root="photos", root="data", labels="fixed.csv", coarse=True)
    stored = options.to_json()
    assert stored["feature_column"] == ["size"]
    assert stored["data_root"] == str(tmp_path / "data")
    again = OpenOptions.from_json({**stored, "recipe": "fast"})
    assert again.changed() == {
        "feature_columns": ["size"],
        "image_root": str(tmp_path / "photos"),
        "root": str(tmp_path / "data"),
        "labels": str(tmp_path / "fixed.csv"),
        "coarse": True,
    }


@pytest.mark.parametrize(
    ("stored", "name"),
    [({"label_column": 3}, "label_column"), ({"coarse": "perhaps"}, "coarse"), ({"feature_column": "abc"}, "feature")],
)
def test_stored_options_of_another_type_are_refused(stored, name):
    with pytest.raises(InputError, match=f"^the options in data.json cannot be used: {name}"):
        OpenOptions.from_json(stored)


def test_a_function_is_not_stored():
    with pytest.raises(InputError, match="cannot be stored; name it as module:function"):
        OpenOptions(embed=len).to_json()


def test_only_what_differs_from_the_defaults_counts():
    assert OpenOptions(exclude=[], skip_unlabelled=False, val_size=0).changed() == {}
    assert OpenOptions(exclude=["id"], seed=3).changed() == {"exclude": ["id"], "seed": 3}


def test_test_data_share_columns_and_the_encoding_of_a_table():
    train = pd.DataFrame({"size": [1.0, 2.0] * 20, "town": ["Ulm", "Bonn"] * 20, "kind": ["a", "b"] * 20})
    test = pd.DataFrame({"size": [3.0, 4.0], "town": ["Rome", "Ulm"], "kind": ["b", "a"]})
    options = OpenOptions(label_column="kind", exclude=["x"], seed=7)
    source = open_test(open_source(train.assign(x=range(40)), options), test, options)
    assert source.test.labels.tolist() == [1, 0]
    assert source.test.encoding == source.encoding
    assert source.test.inputs.values.shape[1] == source.inputs.values.shape[1]


def test_labels_of_a_file_replace_those_of_the_data(tmp_path):
    (tmp_path / "fixed.csv").write_text("id,label\n0,b\n1,b\n")
    source = open_source((np.eye(3), ["a", "b", "a"]), labels=tmp_path / "fixed.csv")
    assert source.labels.tolist() == [1, 1]
