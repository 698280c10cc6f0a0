"""Rows in three forms, written in parts: the same rows come back, and a failure leaves nothing."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest

from jnpl.internal.errors import InputError
from jnpl.internal.tables import suffix_of, unescaped
from jnpl.outputs.export.rows import records, writing

HARD = ["plain", "=1+1", "'=1", "''-", "'tis", "-x", "@a", "a,b", 'say "hi"', "two\nlines", "car\rriage", "ünï", ""]


def frame(texts):
    number = np.arange(len(texts)) / 3
    return pd.DataFrame({"id": np.arange(len(texts)), "text": pd.array(texts, dtype="string"), "value": number})


def write(path, *frames):
    with writing(path) as put:
        for each in frames:
            put(each)


def test_csv_comes_back_and_no_cell_is_a_formula(tmp_path):
    write(tmp_path / "out.csv", frame(HARD[:3]), frame(HARD[3:]))
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["id", "text", "value"]
    assert [unescaped(line[1]) for line in lines] == HARD
    assert not any(line[1].startswith(("=", "+", "-", "@")) for line in lines)
    assert [float(line[2]) for line in lines[:3]] == pytest.approx([0, 1 / 3, 2 / 3])


def test_parquet_comes_back_though_a_part_has_no_text(tmp_path):
    write(tmp_path / "out.parquet", frame([None, None]), frame(["a", "=b"]))
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert found["text"].isna().tolist() == [True, True, False, False]
    assert found["text"].tolist()[2:] == ["a", "=b"]
    assert found["id"].tolist() == [0, 1, 0, 1]


def test_json_comes_back(tmp_path):
    nan = pd.DataFrame({"value": [0.1, np.nan], "nested": [{"a": 1.0}, None], "flag": [True, False]})
    write(tmp_path / "out.json", nan, nan)
    once = [{"value": 0.1, "nested": {"a": 1.0}, "flag": True}, {"value": None, "nested": None, "flag": False}]
    assert json.loads((tmp_path / "out.json").read_text("utf-8")) == once * 2
    write(tmp_path / "none.json", nan.iloc[:0])
    assert json.loads((tmp_path / "none.json").read_text("utf-8")) == []


def test_records_have_plain_numbers():
    single = pd.DataFrame({"p": np.array([0.25], np.float32), "n": pd.array([None], dtype="Int64")})
    assert records(single) == [{"p": 0.25, "n": None}]
    assert json.dumps(records(pd.DataFrame({"p": np.array([0.1], np.float32)}))) == '[{"p": 0.100000001}]'


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_a_failure_leaves_what_was_there(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_text("before")

    def fail():
        with writing(path) as put:
            put(frame(HARD))
            raise RuntimeError("torn")

    with pytest.raises(RuntimeError, match="torn"):
        fail()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "before"


def test_names_of_files(tmp_path):
    assert suffix_of("a/B.JSON") == ".json"
    with pytest.raises(InputError, match=r"must end in \.csv, \.parquet, \.json, got 'x\.xlsx'"):
        suffix_of("x.xlsx")
    with pytest.raises(InputError, match=r"must end in \.csv, got 'x\.json'"):
        suffix_of("x.json", ".csv")
    with pytest.raises(InputError, match="cannot write"), writing(tmp_path / "no" / "where.csv"):
        pass
