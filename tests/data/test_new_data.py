"""New data: everything that training takes, and what has no labels."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.helpers.runs import CLASSES, photos

from jnpl.data.new_data import open_new
from jnpl.data.options import OpenOptions
from jnpl.data.sources.arrays import from_arrays
from jnpl.data.sources.encoding import Encoding
from jnpl.internal.errors import InputError

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def opened(data, kind="vector", classes=CLASSES, **more):
    return open_new(data, classes, kind=kind, **more)


def values(new):
    return np.stack([new.source.inputs.read(at) for at in range(len(new.source))])


def save(path, **arrays):
    np.savez(path, **arrays)
    return path


def test_a_folder_of_class_folders_has_labels(tmp_path):
    new = opened(photos(tmp_path / "photos", each=2), "image")
    assert new.source.ids.tolist() == [f"{name}/{at}.png" for name in CLASSES for at in range(2)]
    assert new.labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_folder_without_classes_has_none(tmp_path):
    photos(tmp_path / "photos", each=1)
    (tmp_path / "photos").rename(tmp_path / "in")
    for name in CLASSES:
        (tmp_path / "in" / name).rename(tmp_path / "in" / f"batch {name}")
    new = opened(tmp_path / "in", "image")
    assert new.source.ids.tolist() == ["batch cat/0.png", "batch dog/0.png", "batch eel/0.png"]
    assert new.labels is None


def test_depth_strangers_and_hidden_files(tmp_path):
    deep = tmp_path / "a" / "cat" / "dog"
    deep.mkdir(parents=True)
    for path in (deep / "1.png", tmp_path / "2.png", tmp_path / "notes.txt", tmp_path / ".hidden", tmp_path / "bare"):
        path.write_bytes(b"x")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "1.png").write_bytes(b"x")
    new = opened(tmp_path, "image")
    assert new.source.ids.tolist() == ["2.png", "a/cat/dog/1.png", "bare", "notes.txt"]
    assert new.labels.tolist() == [-1, 0, -1, -1]  # the outermost folder that is called as a class


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="needs links between folders")
def test_links_do_not_run_in_circles(tmp_path):
    folder = photos(tmp_path / "photos", each=1)
    (folder / "cat" / "again").symlink_to(folder)
    (folder / "gone.png").symlink_to(tmp_path / "nowhere")
    assert len(opened(folder, "image").source) == 4


@pytest.mark.skipif(os.name == "nt", reason="Windows has Unicode names only")
def test_names_that_are_no_text(tmp_path):
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png")).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system has Unicode names only")
    assert opened(tmp_path, "image").source.ids.tolist() == ["\\udcff.png"]


def test_one_image(tmp_path):
    path = photos(tmp_path / "photos", each=1) / "dog" / "0.png"
    new = opened(path, "image")
    assert (new.source.ids.tolist(), new.labels) == (["0.png"], None)
    assert new.source.inputs.read(0, 8).shape == (8, 8, 3)


def test_arrays_in_an_npz(tmp_path):
    bare = opened(save(tmp_path / "x.npz", x=X))
    assert (values(bare) == X).all()
    assert bare.labels is None
    with_names = opened(save(tmp_path / "xy.npz", x=X, y=np.array(["dog", "cat", "cow", "eel"])))
    assert with_names.labels.tolist() == [1, 0, -2, 2]
    positions = opened(save(tmp_path / "pos.npz", x=X, y=[0, 1, 0, 1], class_names=np.array(["eel", "cat"])))
    assert positions.labels.tolist() == [2, 0, 2, 0]
    test = opened(save(tmp_path / "test.npz", x=X, x_test=X[:2] + 1, y_test=np.array(["dog", "cat"])), part="test")
    assert (values(test) == X[:2] + 1).all()
    assert test.labels.tolist() == [1, 0]


def test_tables(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.to_csv(tmp_path / "bare.csv", index=False)
    assert (values(opened(tmp_path / "bare.csv")) == X).all()
    assert opened(tmp_path / "bare.csv").labels is None
    frame.assign(label=["dog", "", "cow", "eel"], id=range(4)).to_csv(tmp_path / "some.csv", index=False)
    some = opened(str(tmp_path / "some.csv"))
    assert (values(some) == X).all()
    assert some.labels.tolist() == [1, -1, -2, 2]
    frame.assign(label=[1.0, None, 2.0, 0.0]).to_parquet(tmp_path / "numbers.parquet")
    assert opened(tmp_path / "numbers.parquet", classes=(0, 1, 2)).labels.tolist() == [1, -1, 2, 0]
    frame.assign(label=pd.array([1, None, 2, 0], dtype="Int64")).to_parquet(tmp_path / "nullable.parquet")
    assert opened(tmp_path / "nullable.parquet", classes=(0, 1, 2)).labels.tolist() == [1, -1, 2, 0]
    frame.assign(label=["01", "2.0", "x", "0"]).to_csv(tmp_path / "texts.csv", index=False)
    assert opened(tmp_path / "texts.csv", classes=(0, 1, 2)).labels.tolist() == [1, 2, -2, 0]
    chosen = opened(frame.assign(other=9), options=OpenOptions(feature_columns=["c", "a"]))
    assert (values(chosen) == X[:, [2, 0]]).all()


def test_tables_with_one_row_or_one_class():
    assert len(opened(pd.DataFrame(X[:1])).source) == 1
    frame = pd.DataFrame(X).assign(label="cat")
    assert opened(frame).labels.tolist() == [0, 0, 0, 0]


def test_embeddings_and_texts():
    frame = pd.DataFrame({"vector": [row.tolist() for row in X], "text": ["a", "bb", "", "dddd"]})
    assert (values(opened(frame, options=OpenOptions(embedding_column="vector"))) == X).all()
    by_length = OpenOptions(text_column="text", embed=lambda texts: [[len(each)] for each in texts])
    lengths = opened(frame, options=by_length)
    assert values(lengths)[:, 0].tolist() == [1, 2, 0, 4]
    assert list(lengths.source.unreadable) == [2]
    with pytest.raises(InputError, match="the model takes vectors: --embed names the function"):
        opened(frame, options=OpenOptions(text_column="text"))


def test_tables_of_images(tmp_path):
    photos(tmp_path / "in", each=1)
    table = pd.DataFrame({"Path": ["in/cat/0.png", None, "in/gone.png"], "label": ["cat", "dog", "dog"]})
    table.to_csv(tmp_path / "table.csv", index=False)
    new = opened(tmp_path / "table.csv", "image")
    assert new.source.ids.tolist() == ["in/cat/0.png", "row 1", "in/gone.png"]
    assert new.source.unreadable == {1: "the table names no file"}
    assert new.labels.tolist() == [0, 1, 1]
    assert new.source.inputs.read(0, 8).shape == (8, 8, 3)
    moved = opened(
        table.assign(Path="cat/0.png"), "image", options=OpenOptions(image_column="Path", image_root=tmp_path / "in")
    )
    assert moved.source.inputs.read(2, 8).shape == (8, 8, 3)


def test_what_training_takes():
    digits = opened("digits", classes=tuple(range(10)))
    assert (len(digits.source), (digits.labels >= 0).all()) == (1400, True)
    assert len(opened("digits", part="test").source) == 397
    pair = opened((X, ["dog", "cat", "dog", "cow"]))
    assert pair.labels.tolist() == [1, 0, 1, -2]
    source = from_arrays(X, ["eel", "cat", "cat", "cat"])
    assert opened(source).source is source
    assert opened(source).labels.tolist() == [2, 0, 0, 0]
    items = opened([([0.0, 1.0], "cat"), ([2.0, 3.0], "dog")])
    assert items.labels.tolist() == [0, 1]


TABLE = Encoding.fit(pd.DataFrame({"length": [1, 3, 2], "width": [5, 4, 6]}), None, "the table").to_dict()


@pytest.mark.parametrize(
    ("data", "more", "told"),
    [
        ("nowhere", {}, "no such file or folder: 'nowhere'"),
        ("digit", {}, "did you mean 'digits'"),
        (X, {"part": "some"}, "part is one of train, test, validation, not 'some'"),
        (X, {"part": "test"}, "part='test' has no meaning for an array"),
        (X, {"options": OpenOptions(label_column="y")}, "label_column has no meaning for data of type ndarray"),
        ((X, [0, 1, 0, 1]), {"part": "test"}, "arrays has no test data"),
        (pd.DataFrame(X), {"part": "test"}, "no meaning for the data frame: it has no column split"),
        (pd.DataFrame(X), {"options": OpenOptions(label_column="y")}, "has no column 'y'; its columns are 0, 1, 2"),
        (pd.DataFrame({"a": ["x", "y"]}), {}, "features must be numbers, but the data frame has 'a'"),
        (
            pd.DataFrame(X),
            {"kind": "image"},
            "trained on images, and the data frame is a table: give a folder of images",
        ),
        (
            pd.DataFrame({"a": ["x"]}),
            {"kind": "image", "options": OpenOptions(text_column="a")},
            "has no meaning here: the model was trained on images",
        ),
        (
            pd.DataFrame({"a": ["x"]}),
            {"kind": "text"},
            r"trained on texts: text_column \(--text-column\) names the column of the data frame that holds them",
        ),
        (
            pd.DataFrame({"a": ["x"]}),
            {"kind": "text", "options": OpenOptions(image_column="a")},
            "has no meaning here: the model was trained on texts",
        ),
        (
            pd.DataFrame({"text": ["x"], "label": ["cat"]}),
            {"encoding": TABLE},
            "trained on a table of length, width; the data frame has only text, label",
        ),
        (
            pd.DataFrame({"text": ["x"]}),
            {"encoding": TABLE, "options": OpenOptions(text_column="text")},
            "trained on the columns of a table, which it finds by name",
        ),
        (pd.DataFrame({"a": ["x"]}), {"options": OpenOptions(image_column="a")}, "no meaning for a model of vectors"),
        ("digits", {"options": OpenOptions(image_column="a")}, "image_column has no meaning for digits"),
        (7, {}, "data must be a path"),
    ],
)
def test_mistakes(data, more, told):
    with pytest.raises(InputError, match=told):
        opened(data, **more)


def test_mistakes_in_files(tmp_path):
    (tmp_path / "bad.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"cannot read .*bad\.npz"):
        opened(tmp_path / "bad.npz")
    with pytest.raises(InputError, match="has no array 'x'; its arrays are z"):
        opened(save(tmp_path / "z.npz", z=X))
    with pytest.raises(InputError, match="has no array 'x_test'"):
        opened(save(tmp_path / "x.npz", x=X), part="test")
    with pytest.raises(InputError, match="holds 4 samples, but 2 labels"):
        opened(save(tmp_path / "xy.npz", x=X, y=[0, 1]))
    with pytest.raises(InputError, match=r"label_column has no meaning for the .npz .*x.npz"):
        opened(tmp_path / "x.npz", options=OpenOptions(label_column="y"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no files"):
        opened(tmp_path / "empty", "image")
    with pytest.raises(InputError, match="part='test' has no meaning"):
        opened(tmp_path / "empty", "image", part="test")


def means(images):
    return [[float(np.asarray(image).mean()), 1.0] for image in images]


def test_images_embedded_by_a_function_of_ones_own(tmp_path):
    root = photos(tmp_path / "photos", each=2)
    (root / "cat" / "0.png").write_bytes(b"broken")
    embedding = OpenOptions(embed=means)
    new = opened(root, options=embedding)
    assert (values(new).shape, new.source.kind, new.labels.tolist()) == ((6, 2), "vector", [0, 0, 1, 1, 2, 2])
    assert new.source.unreadable == {0: "not an image that Pillow can open"}
    assert values(opened(root / "dog" / "1.png", options=embedding)).tolist() == values(new)[[3]].tolist()
    frame = pd.DataFrame({"path": ["dog/1.png"]})
    table = opened(frame, options=OpenOptions(embed=means, image_root=root))
    assert (values(table).tolist(), table.source.ids.tolist()) == (values(new)[[3]].tolist(), ["dog/1.png"])
    x = np.full((1, 4, 4, 3), 9, np.uint8)
    assert values(opened(x, options=embedding)).tolist() == [[9, 1]]
    with pytest.raises(InputError, match=r"embed \(--embed\) has no meaning for a model of images"):
        opened(root, "image", options=embedding)


def test_images_inside_a_table(tmp_path):
    photo = next(photos(tmp_path / "photos", each=1).rglob("*.png")).read_bytes()
    frame = pd.DataFrame({"photo": [{"bytes": photo, "path": "a.png"}, {"bytes": b"", "path": "b.png"}]})
    new = opened(frame, "image")
    assert new.source.ids.tolist() == ["a.png", "b.png"]
    assert new.source.inputs.read(0, 8).shape == (8, 8, 3)


def test_a_part_of_a_table():
    frame = pd.DataFrame(X, columns=list("abc")).assign(label="cat", split=["train", "test", "train", "test"])
    features = OpenOptions(feature_columns=list("abc"))
    new = opened(frame, part="test", options=features)
    assert (values(new).tolist(), new.source.ids.tolist()) == (X[[1, 3]].tolist(), [1, 3])
    assert new.labels.tolist() == [0, 0]
    with pytest.raises(InputError, match="part='validation' has no meaning for the data frame"):
        opened(frame, part="validation", options=features)


def test_embeddings_are_recognised(tmp_path):
    root = photos(tmp_path / "photos", each=1)
    frame = pd.DataFrame({"embedding": X[:1].tolist(), "path": [str(root / "cat" / "0.png")]})
    new = opened(frame)
    assert (values(new).tolist(), new.source.ids.tolist()) == (X[:1].tolist(), [str(root / "cat" / "0.png")])


def test_compressed_tables(tmp_path):
    pd.DataFrame(X).to_csv(tmp_path / "x.csv.gz", index=False)
    new = opened(tmp_path / "x.csv.gz")
    assert (values(new).tolist(), new.source.name) == (X.tolist(), "x")
