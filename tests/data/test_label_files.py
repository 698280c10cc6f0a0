"""Reading labels, features, matrices and maps the way users keep them."""

import numpy as np
import pandas as pd
import pytest

from jnpl.data import label_files
from jnpl.data.opening import open_source
from jnpl.internal.errors import InputError
from jnpl.internal.tables import load_parquet


@pytest.fixture
def folder(tmp_path):
    numbers, names = np.array([2, 0, 1, 2]), np.array(["dog", "bird", "cat", "dog"])
    np.save(tmp_path / "numbers.npy", numbers)
    np.save(tmp_path / "names.npy", names)
    np.savez(tmp_path / "y.npz", x=np.zeros((4, 2)), y=numbers, other=names)
    np.savez(tmp_path / "labels.npz", labels=numbers, class_names=["bird", "cat", "dog", "eel"])
    (tmp_path / "numbers.txt").write_text("2\n0\n1\n2\n\n")
    (tmp_path / "names.txt").write_text("\ufeffdog\nbird\ncat \ndog", encoding="utf-8")
    (tmp_path / "numbers.csv").write_text("path,label\na,2\nb,0.0\nc,1\nd,2\n")
    (tmp_path / "names.csv").write_text("label,class,x\n1,dog,01\n1,bird,NA\n1,cat,\n1,dog,2.50\n")
    pd.DataFrame({"label": numbers}).to_parquet(tmp_path / "numbers.parquet")
    pd.DataFrame({"label": pd.Categorical(names)}).to_parquet(tmp_path / "names.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("numbers.npy", {}),
        ("y.npz", {}),
        ("labels.npz", {}),
        ("numbers.txt", {}),
        ("numbers.csv", {}),
        ("numbers.parquet", {}),
        ("names.npy", {}),
        ("y.npz", {"key": "other"}),
        ("names.txt", {}),
        ("names.csv", {"label_column": "class"}),
        ("names.parquet", {}),
    ],
)
def test_every_format_says_the_same(folder, name, options):
    found = label_files.read_labels(folder / name, **options)
    assert found.labels.tolist() == [2, 0, 1, 2]
    assert found.holds_names == (name.startswith("names") or "key" in options)
    if found.holds_names:
        assert found.class_names == ("bird", "cat", "dog")
    assert (found.table is not None) == name.endswith((".csv", ".parquet"))


def test_class_names_beside_numbers_give_the_number_of_classes(folder):
    found = label_files.read_labels(folder / "labels.npz")
    assert found.class_names == ("bird", "cat", "dog", "eel")
    assert found.class_count(None) == 4
    with pytest.raises(InputError, match="4 class names, got num_classes=5"):
        found.class_count(5)


def test_a_table_is_written_back_as_it_was(folder):
    source = label_files.read_labels(folder / "names.csv", label_column="class")
    with label_files.writing_table(folder / "out.csv", source, np.array([0, 0, 2, 1])):
        pass
    assert (folder / "out.csv").read_text().splitlines() == [
        "label,class,x,noisy_label",
        "1,dog,01,bird",
        "1,bird,NA,bird",
        "1,cat,,dog",
        "1,dog,2.50,cat",
    ]
    source = label_files.read_labels(folder / "numbers.parquet")
    with label_files.writing_table(folder / "out.parquet", source, np.array([0, 0, 2, 1])):
        pass
    assert load_parquet(folder / "out.parquet").to_pandas()["noisy_label"].tolist() == [0, 0, 2, 1]
    with (
        pytest.raises(InputError, match="'noisy_label' already"),
        label_files.writing_table(folder / "x.csv", label_files.read_labels(folder / "out.csv"), np.zeros(4, int)),
    ):
        pass
    with (
        pytest.raises(InputError, match="cannot write"),
        label_files.writing_table(folder / "no" / "x.csv", source, np.zeros(4, int)),
    ):
        pass


def test_mappings(folder):
    (folder / "map.json").write_text('{"0": 1}')
    assert label_files.read_mapping(str(folder / "map.json"), None) == {0: 1}
    assert label_files.read_mapping('{"0": "1", "cat": 0}', ("bird", "cat")) == {0: 1, 1: 0}
    assert label_files.read_mapping("pairflip", None) == "pairflip"
    for text, message in [
        ("{", "not valid JSON"),
        ('{"cow": "cat"}', "'cow', but the classes are bird, cat"),
        ('{"0": 1.5}', "class 1.5"),
        ('{"0": true}', "class True"),
        (str(folder / "missing.json"), "no such file"),
    ]:
        with pytest.raises(InputError, match=message):
            label_files.read_mapping(text, ("bird", "cat"))
    (folder / "list.json").write_text("[1]")
    with pytest.raises(InputError, match="JSON object"):
        label_files.read_mapping(str(folder / "list.json"), None)


def test_matrices_and_features(folder):
    np.save(folder / "m.npy", np.eye(2))
    (folder / "m.csv").write_text("1,0\n 0 , 1\n")
    for name in ("m.npy", "m.csv"):
        assert (label_files.read_matrix(folder / name) == np.eye(2)).all()
    assert label_files.read_features(folder / "y.npz").shape == (4, 2)
    assert label_files.read_features(folder / "m.npy").shape == (2, 2)
    (folder / "ragged.csv").write_text("1,0\n1\n")
    (folder / "words.csv").write_text("a,b\n")
    for read, name, message in [
        (label_files.read_matrix, "ragged.csv", "differ in length"),
        (label_files.read_matrix, "words.csv", "numbers only"),
        (label_files.read_matrix, "m.txt", r"use \.npy or \.csv"),
        (label_files.read_features, "labels.npz", "no array x; its arrays are labels, class_names"),
        (label_files.read_features, "m.csv", r"use \.npy"),
    ]:
        with pytest.raises(InputError, match=message):
            read(folder / name)


def test_files_with_mistakes(folder):
    (folder / "broken.npy").write_bytes(b"\x93NUMPY junk")
    (folder / "broken.npz").write_bytes((folder / "y.npz").read_bytes()[:100])
    (folder / "broken.parquet").write_text("hello")
    (folder / "binary.txt").write_bytes(b"\xff\xfe\xff")
    (folder / "binary.csv").write_bytes(b"label\n\xff\x81\xff\n")
    (folder / "empty.csv").write_text("")
    (folder / "gap.csv").write_text("label,x\n1,2\n,3\n")
    (folder / "short.csv").write_text("x,label\n1,2\n3\n")
    (folder / "long.csv").write_text("x,label\n1,2,3\n1,2,3\n")
    (folder / "gap.txt").write_text("1\n\n2\n")
    (folder / "real.txt").write_text("0.5\n1\n")
    (folder / "folder.npy").mkdir()
    np.save(folder / "pickle.npy", np.array([{}], dtype=object))
    pd.DataFrame({"label": [1, None]}).to_parquet(folder / "gap.parquet")
    for name, message in [
        ("missing.npy", "no such file"),
        ("missing.csv", "no such file"),
        ("labels.dat", "use .npy, .npz, .csv, .parquet or .txt"),
        ("broken.npy", "not a valid .npy file"),
        ("broken.npz", "not a valid .npz file"),
        ("pickle.npy", "not a valid .npy file"),
        ("broken.parquet", "not a valid .parquet table"),
        ("binary.txt", "not a valid .txt file"),
        ("binary.csv", "neither UTF-8 nor Windows-1252"),
        ("empty.csv", "not a valid .csv table"),
        ("long.csv", "not a valid .csv table"),
        ("names.csv", "no column 'kind'; its columns are label, class, x"),
        ("gap.csv", "no label in row 1"),
        ("short.csv", "no label in row 1"),
        ("gap.parquet", "no label in row 1"),
        ("gap.txt", "no label in row 1"),
        ("real.txt", "got '0.5'"),
        ("folder.npy", "is a folder"),
    ]:
        with pytest.raises(InputError) as caught:
            label_files.read_labels(folder / name, label_column="kind" if name == "names.csv" else "label")
        assert message in str(caught.value), name
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no array z; its arrays are x, y, other"):
        label_files.read_labels(folder / "y.npz", key="z")
    with pytest.raises(InputError, match=r"inside an \.npz"):
        label_files.read_labels(folder / "numbers.npy", key="z")


def test_tags_of_a_table(tmp_path):
    frame = pd.DataFrame({"x": np.sin(np.arange(24)), "label": [["cat"], ["cat", "dog"], [], ["dog"]] * 6})
    for name, cells in (("a.csv", [";".join(tags) for tags in frame["label"]]), ("a.parquet", frame["label"].tolist())):
        cells[0], cells[3] = cells[3], cells[2]
        table = pd.DataFrame({"id": range(24), "tags": cells, "changed": False}).drop(index=5)
        table.to_csv(tmp_path / name, index=False) if name.endswith("csv") else table.to_parquet(tmp_path / name)
        source = open_source(frame, labels=tmp_path / name)
        assert source.ids.tolist() == [at for at in range(24) if at != 5]
        assert source.tags[:4].tolist() == [[False, True], [True, True], [False, False], [False, False]]
    for text, message in (
        ("id,label\n0,cat\n", "has no column 'tags'"),
        ("id,tags\n0,fox\n", "has the tag 'fox', which no sample of table has"),
        ("id,tags\n77,cat\n", "names id '77', which is not in table"),
    ):
        (tmp_path / "b.csv").write_text(text)
        with pytest.raises(InputError, match=message):
            open_source(frame, labels=tmp_path / "b.csv")
    with pytest.raises(InputError, match="holds one label per sample: tags are in a table with the"):
        open_source(frame, labels=tmp_path / "b.npz")
