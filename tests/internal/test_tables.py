"""Tables in three file formats come back as they were written; only one function reads Parquet."""

import ast
import csv
import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from tests.helpers.paths import ROOT

from jnpl.internal.errors import InputError
from jnpl.internal.tables import (
    is_missing,
    json_rows,
    load_parquet,
    load_table,
    require_columns,
    save_parquet,
    suffix_of,
    table_writer,
    unescaped,
)

HARD = ["plain", "=1+1", "'=1", "''-", "'tis", "-x", "@a", "a,b", 'say "hi"', "two\nlines", "car\rriage", "ünï", ""]


def frame(texts):
    number = np.arange(len(texts)) / 3
    return pd.DataFrame({"id": np.arange(len(texts)), "text": pd.array(texts, dtype="string"), "value": number})


def write(path, *frames):
    with table_writer(path) as put:
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
    found = load_parquet(tmp_path / "out.parquet").to_pandas()
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


def test_json_rows_have_plain_numbers():
    single = pd.DataFrame({"p": np.array([0.25], np.float32), "n": pd.array([None], dtype="Int64")})
    assert json_rows(single) == [{"p": 0.25, "n": None}]
    assert json.dumps(json_rows(pd.DataFrame({"p": np.array([0.1], np.float32)}))) == '[{"p": 0.100000001}]'


@pytest.mark.parametrize("cell", [None, float("nan"), np.float32("nan"), pd.NaT, pd.NA])
def test_cells_without_a_value(cell):
    assert is_missing(cell)


@pytest.mark.parametrize("cell", ["", 0, 0.0, np.float64(1), False, [], {}, np.ones(2), np.zeros(0)])
def test_cells_with_a_value(cell):
    assert not is_missing(cell)


def test_classes_in_numbers_without_a_sign(tmp_path):
    names = json.dumps({"info": {"features": {"y": {"_type": "ClassLabel", "names": ["cat", "dog"]}}}})
    codes = pa.table({"y": pa.array([1, None, 0], pa.uint8())})
    save_parquet(tmp_path / "classes.parquet", codes.replace_schema_metadata({"huggingface": names}))
    assert load_table(tmp_path / "classes.parquet")["y"].fillna("none").tolist() == ["dog", "none", "cat"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".json"])
def test_a_failure_leaves_what_was_there(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_text("before")

    def fail():
        with table_writer(path) as put:
            put(frame(HARD))
            raise RuntimeError("torn")

    with pytest.raises(RuntimeError, match="torn"):
        fail()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    assert path.read_text() == "before"


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", "is not UTF-8: read as UTF-16"),
        ("utf-32", "is not UTF-8: read as UTF-32"),
        ("utf-16-le", "is not UTF-8: read as UTF-16-LE"),
        ("utf-16-be", "is not UTF-8: read as UTF-16-BE"),
        ("latin-1", "is not UTF-8: read as Windows-1252 (Latin-1); if letters look wrong, save it as UTF-8"),
    ],
)
def test_other_encodings_are_read_with_a_note(tmp_path, caplog, suffix, encoding, note):
    separator = "\t" if suffix == ".tsv" else ","
    content = "".join(f"{separator.join(row)}\n" for row in [("gr\u00f6\u00dfe", "label"), *[("1", "caf\u00e9")] * 99])
    raw = content.encode(encoding)
    (tmp_path / f"t{suffix}").write_bytes(gzip.compress(raw) if suffix == ".csv.gz" else raw)
    read = load_table(tmp_path / f"t{suffix}")
    assert (list(read.columns), read["label"].tolist()) == (["gr\u00f6\u00dfe", "label"], ["caf\u00e9"] * 99)
    assert note in caplog.text
    assert bool(caplog.text) == bool(note)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"label,a\n" + bytes(9000), "is no text file: it holds bytes of zero"),
        (b"label,a\n" + b"cat,1\n" * 2000 + bytes(5000), "is no text file: it holds bytes of zero"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\0\0\0\0", "is no text file: it holds bytes of zero"),
        ("label,a\n\u3001,1\n".encode("cp932"), "it is neither UTF-8 nor Windows-1252; save it as UTF-8"),
    ],
    ids=["sparse", "sparse later", "picture", "Japanese"],
)
def test_files_that_are_no_text_are_refused_at_once(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_table(tmp_path / "t.csv")


def test_a_large_sparse_file_is_not_read(tmp_path):
    with (tmp_path / "t.csv").open("wb") as file:
        file.write(b"label,a\ncat,1\n")
        file.truncate(2**40)
    with pytest.raises(InputError, match="is no text file"):
        load_table(tmp_path / "t.csv")


def test_repeated_columns_of_parquet_are_named_as_those_of_csv(tmp_path):
    save_parquet(tmp_path / "t.parquet", pa.table([[1], [2]], names=["a", "a"]))
    (tmp_path / "t.csv").write_text("a,a\n1,2\n")
    for name in ("t.parquet", "t.csv"):
        with pytest.raises(InputError, match=f"{name}' has 2 columns named 'a'; rename or remove one"):
            load_table(tmp_path / name)


def test_names_of_files(tmp_path):
    assert suffix_of("a/B.JSON") == ".json"
    with pytest.raises(InputError, match=r"must end in \.csv, \.parquet, \.json, got 'x\.xlsx'"):
        suffix_of("x.xlsx")
    with pytest.raises(InputError, match=r"must end in \.csv, got 'x\.json'"):
        suffix_of("x.json", ".csv")
    with pytest.raises(InputError, match="cannot write"), table_writer(tmp_path / "no" / "where.csv"):
        pass


READERS = {"read_parquet", "read_table", "ParquetFile", "ParquetDataset", "read_feather", "open_csv", "read_pandas"}
HELPER = ROOT / "src/jnpl/internal/tables.py"


def arrow_readers(source):
    """Line numbers where source names a reader of Arrow, or chooses it as the engine of a pandas reader."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            named = node.attr in READERS
        elif isinstance(node, ast.ImportFrom):
            named = any(alias.name in READERS for alias in node.names)
        else:
            named = isinstance(node, ast.keyword) and node.arg == "engine" and ast.unparse(node.value) == "'pyarrow'"
        if named:
            found.append(node.lineno if hasattr(node, "lineno") else node.value.lineno)
    return found


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks", "examples", "docs"])
def test_parquet_is_read_in_one_place(folder):
    """Arrow's threads and a Python-owned file abort the interpreter at its exit: see `load_parquet`."""
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for path in (ROOT / folder).rglob("*.py")
        if path != HELPER
        for line in arrow_readers(path.read_text("utf-8"))
    }
    assert found == set()


def test_that_place_reads_without_threads_and_without_reading_ahead():
    calls = [
        node
        for node in ast.walk(ast.parse(HELPER.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READERS
    ]
    options = [{option.arg: ast.unparse(option.value) for option in call.keywords} for call in calls]
    assert [(each["use_threads"], each["pre_buffer"]) for each in options] == [("False", "False")]


def test_a_missing_column_is_told_with_the_nearest_name_and_some_of_the_others():
    columns = ["label", *(f"x{number}" for number in range(38))]
    line = "no column 'labell'; its columns are label, x0, x1, x2, x3, x4 and 33 more; did you mean 'label'?"
    with pytest.raises(InputError) as error:
        require_columns(columns, ["labell"], "the table")
    assert str(error.value) == f"the table has {line}"
