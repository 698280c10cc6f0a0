"""Tables of image paths, of features, of embeddings and of texts."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tests.helpers.runs import photos

from jnpl.data.new_data import open_new
from jnpl.data.sources import table
from jnpl.data.split import part
from jnpl.internal.errors import InputError

FRAME = pd.DataFrame({"width": [1.5, 2.5, 3.5], "count": [1, 2, 3], "label": ["b", "a", "b"]})


def save(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


def images(root, *names):
    for number, name in enumerate(names):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (3, 2), number).save(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".CSV"])
def test_features_from_every_kind_of_file(tmp_path, suffix):
    source = table.load(save(FRAME, tmp_path / f"toy{suffix}"))
    assert (source.name, source.kind, source.class_names) == ("toy", "vector", ("a", "b"))
    assert source.labels.tolist() == [1, 0, 1]
    assert source.inputs.values.tolist() == [[1.5, 1], [2.5, 2], [3.5, 3]]
    assert source.ids.tolist() == [0, 1, 2]


def test_the_frame_is_left_alone():
    before = FRAME.copy(deep=True)
    assert table.load(FRAME).inputs.values.dtype == np.float32
    pd.testing.assert_frame_equal(FRAME, before)


def test_chosen_features_and_true_labels():
    frame = FRAME.assign(town=["x", "y", "z"], truth=["c", "a", "b"])
    source = table.load(frame, feature_columns=["count"], true_label_column="truth")
    assert source.inputs.values.tolist() == [[1], [2], [3]]
    assert source.class_names == ("a", "b", "c")
    assert source.true_labels.tolist() == [2, 0, 1]
    with pytest.raises(InputError, match="holds the label column 'truth'"):
        table.load(frame, feature_columns=["truth"], true_label_column="truth")


def test_features_that_are_no_numbers_are_encoded(tmp_path, caplog):
    frame = FRAME.assign(
        town=["x", "y", "x"],
        flag=[True, False, True],
        when=["2020-01-03", "2020-01-01", "2020-01-01"],
        planet=["earth"] * 3,
        code=["p1", "p2", "p3"],
    )
    expected = [[1.5, 1, 1, 0, 1, 2], [2.5, 2, 0, 1, 0, 0], [3.5, 3, 1, 0, 1, 0]]
    for given in (frame, save(frame, tmp_path / "a.csv"), save(frame, tmp_path / "a.parquet")):
        caplog.clear()
        source = table.load(given)
        assert source.inputs.values.tolist() == expected
        assert source.encoding["names"] == ["width", "count", "town=x", "town=y", "flag", "when"]
        assert "categories as 0 and 1: town (2)" in caplog.text
        assert "dates as days: when" in caplog.text
        assert "left out because they only number or name the rows: code" in caplog.text
        assert "left out, the same in every row or empty: planet" in caplog.text
    assert table.load(FRAME.assign(town=["x", "y", "x"]), feature_columns=["town"]).inputs.values.shape == (3, 2)


def test_a_table_is_encoded_as_another_was():
    first = table.load(FRAME.assign(town=["x", "y", "x"], count=[4, None, 6]))
    second = table.load(
        pd.DataFrame({"town": ["y", "z"], "count": [None, 7], "more": [1, 2], "width": [0, 1], "label": ["a", "b"]}),
        encoding=json.loads(json.dumps(first.encoding)),
    )
    assert second.inputs.values.tolist() == [[0, 5, 1, 0, 1], [1, 7, 0, 0, 0]]
    assert second.encoding == first.encoding
    with pytest.raises(InputError, match="the data frame has no column 'town'; its columns are width, count, label"):
        table.load(FRAME, encoding=first.encoding)
    with pytest.raises(InputError, match="feature_columns and encoding are given"):
        table.load(FRAME, encoding=first.encoding, feature_columns=["count"])


@pytest.mark.parametrize("labels", [["cat", "dog", "dog"], [1, 2, 2]])
def test_labels_beside_the_labels_are_no_features(caplog, labels):
    swapped = labels[::-1]
    frame = FRAME.assign(label=labels, noisy_label=swapped)
    source = table.load(frame, label_column="noisy_label")
    assert source.encoding["names"] == ["width", "count"]
    assert "left out because they hold labels too: label (--true-label-column names the true ones)" in caplog.text
    assert source.encoding["notes"][-1] in caplog.text
    with pytest.raises(InputError, match="no column to learn from: left out because they hold labels too: label"):
        table.load(frame[["label", "noisy_label"]], label_column="noisy_label")
    named = table.load(frame, label_column="noisy_label", feature_columns=["label"])
    assert named.inputs.values.shape[0] == 3
    answers = frame.rename(columns={"label": "housing"})  # yes and no are answers to many questions
    assert len(table.load(answers, label_column="noisy_label").encoding["columns"]) == 3


def test_texts_beside_numbers_are_features_too(caplog):
    frame = pd.concat([FRAME] * 40, ignore_index=True)
    frame["review"] = [f"the {row}th {'good' if row % 2 else 'bad'} review" for row in range(len(frame))]
    assert table.load(frame).encoding["names"][-2:] == ["review~bad", "review~good"]
    assert "texts as their most frequent words (TF-IDF): review (2)" in caplog.text
    assert table.load(frame, feature_columns=["count"]).inputs.values.shape == (120, 1)


def test_columns_that_name_the_rows_are_no_features(tmp_path):
    path = tmp_path / "a.csv"
    FRAME.to_csv(path)  # with an index that nobody asked for
    assert table.load(path).inputs.values.shape == (3, 2)
    assert table.load(FRAME.assign(id=["r1", "r2", "r3"])).inputs.values.shape == (3, 2)
    assert table.load(FRAME.assign(id=[1, 1, 2])).inputs.values.shape == (3, 3)
    assert table.load(FRAME.assign(id=[1, 2, 3]), feature_columns=["id"]).inputs.values.shape == (3, 1)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_missing_numbers_become_the_median_and_the_log_says_so(tmp_path, suffix, caplog):
    frame = pd.DataFrame({"x": [1.0, np.nan, 5.0, 9.0], "z": [1, 2, 3, 4], "label": [0, 1, 0, 1]})
    source = table.load(save(frame, tmp_path / f"a{suffix}"))
    assert source.inputs.values.tolist() == [[1, 0, 1], [5, 1, 2], [5, 0, 3], [9, 0, 4]]
    assert source.encoding["names"] == ["x", "x missing", "z"]
    assert "1 missing in column 'x', filled with its median 5" in caplog.text
    assert caplog.records[0].name == "jnpl"


def test_nullable_columns():
    frame = pd.DataFrame(
        {"x": pd.array([1, None, 3], "Int64"), "z": pd.array([0.5, 1.5, None], "Float64"), "label": ["a", "b", "a"]}
    )
    assert table.load(frame).inputs.values.tolist() == [[1, 0, 0.5, 0], [2, 1, 1.5, 0], [3, 0, 1.0, 1]]


def test_numbers_that_cannot_be_used():
    labels = {"label": [0, 1]}
    with pytest.raises(InputError, match="column 'x' of the data frame holds inf in row 1"):
        table.load(pd.DataFrame({"x": [0.0, np.inf], **labels}))
    with pytest.raises(InputError, match="no column to learn from: left out, the same in every row or empty: x"):
        table.load(pd.DataFrame({"x": [np.nan, np.nan], **labels}))
    with pytest.raises(InputError, match=r"1e\+300 in row 0"):
        table.load(pd.DataFrame({"x": [1e300, 1.0], **labels}))


def test_labels_in_text_files(tmp_path):
    def classes(cells):
        (tmp_path / "a.csv").write_text("x,label\n" + "".join(f"{n},{cell}\n" for n, cell in enumerate(cells)))
        return table.load(tmp_path / "a.csv").class_names

    assert classes(["10", "9", " 2"]) == (2, 9, 10)
    assert classes(["1.0", "2.0"]) == (1, 2)
    assert classes(["NA", "None", "null"]) == ("NA", "None", "null")  # names, even these
    assert classes(["True", "False"]) == ("False", "True")
    assert classes(["1", "x"]) == ("1", "x")
    with pytest.raises(InputError, match=r"no label in column 'label' of row 1 \(counted from 0\); 2 rows have none"):
        classes(["a", "", " "])


@pytest.mark.parametrize("missing", [None, np.nan, "", "  "])
def test_a_missing_label_is_named(missing):
    frame = pd.DataFrame({"x": [1, 2, 3], "label": ["a", "b", missing]})
    with pytest.raises(InputError, match="no label in column 'label' of row 2"):
        table.load(frame)
    with pytest.raises(InputError, match="no label in column 'true' of row 2"):
        table.load(FRAME.assign(true=frame["label"]), true_label_column="true")


def test_labels_that_are_measurements():
    with pytest.raises(
        InputError, match=r"column 'label' of the data frame holds 0.5, which looks like a regression t"
    ):
        table.load(pd.DataFrame({"x": [1, 2], "label": [1.0, 0.5]}))


def test_many_numbers_with_few_rows_each_look_like_a_regression_target(tmp_path):
    price = np.arange(600) % 200 * 7 + 326
    frame = pd.DataFrame({"x": np.arange(600) % 11, "price": price})
    for given in (frame, save(frame, tmp_path / "a.csv")):
        with pytest.raises(
            InputError, match=r"holds 200 different numbers in 600 rows: it looks like a regression targ"
        ):
            table.load(given, label_column="price")
    assert len(table.load(frame.assign(price=price // 20), label_column="price").class_names) == 70  # few enough
    assert len(table.load(frame.assign(price=(price - 326) // 7), label_column="price").class_names) == 200  # 0 .. 199
    codes = frame.assign(price=[f"c{each}" for each in price])
    assert len(table.load(codes, label_column="price").class_names) == 200
    often = pd.concat([frame] * 17, ignore_index=True)  # 51 rows of each
    assert len(table.load(often, label_column="price").class_names) == 200


def test_many_numbers_with_fractions_look_like_a_regression_target(tmp_path):
    measured = pd.DataFrame({"x": np.arange(4000) % 11, "text": "words", "y": np.arange(4000) % 200 / 8})
    path = save(measured, tmp_path / "a.csv")
    for more in ({}, {"text_column": "text"}):
        with pytest.raises(
            InputError, match=r"holds 200 different numbers in 4,000 rows: it looks like a regression t"
        ):
            table.load(path, label_column="y", **more)
    stars = save(measured.assign(y=np.arange(4000) % 20 / 2), tmp_path / "b.csv")
    assert len(table.load(stars, label_column="y").class_names) == 20  # 0.0, 0.5, ..., 9.5
    for code in ("c{}", "0{}", "{}-a"):
        codes = save(measured.assign(y=[code.format(each) for each in measured["y"]]), tmp_path / "c.csv")
        assert len(table.load(codes, label_column="y").class_names) == 200
    numbered = measured.assign(y=measured["y"] * 80 + 326)  # 200 whole numbers, 20 rows each
    with pytest.raises(InputError, match="regression target"):
        table.load(numbered.drop(columns="text"), label_column="y")
    assert len(table.load(numbered, label_column="y", text_column="text").class_names) == 200  # such as articles


def test_rows_without_a_label_are_skipped_on_request(tmp_path, caplog):
    frame = pd.DataFrame({"x": [1, 2, 3, 4, 5], "label": ["a", None, "b", " ", "a"]})
    for given in (frame, save(frame, tmp_path / "a.csv")):
        with pytest.raises(InputError, match=r"of row 1 \(counted from 0\); 2 rows have none: --skip-unlabelled "):
            table.load(given)
        caplog.clear()
        source = table.load(given, skip_unlabelled=True)
        assert source.ids.tolist() == [0, 2, 4]
        assert source.inputs.values.tolist() == [[1], [3], [5]]
        assert [source.class_names[label] for label in source.labels] == ["a", "b", "a"]
        assert source.cells["x"].iloc[source.ids].tolist() == [1, 3, 5]
        assert "2 rows without a label are skipped" in caplog.text
    with pytest.raises(InputError, match="no label in column 'label' at all"):
        table.load(frame.assign(label=None), skip_unlabelled=True)
    assert len(table.load(frame.dropna().iloc[[0, 1, 3]], skip_unlabelled=True)) == 3


def test_excluded_columns_are_not_learnt_from():
    frame = FRAME.assign(town=["x", "y", "x"])
    source = table.load(frame, exclude=["width", "town"])
    assert source.encoding["names"] == ["count"]
    assert list(source.cells.columns) == ["width", "count", "town"]  # reports show them
    with pytest.raises(InputError, match="no column 'twon'; its columns are"):
        table.load(frame, exclude=["twon"])
    with pytest.raises(InputError, match=r"--feature-column.*--exclude.* exclude each other"):
        table.load(frame, exclude=["width"], feature_columns=["count"])
    with pytest.raises(InputError, match="has no columns beside the labels"):
        table.load(frame, exclude=["width", "count", "town"])


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
def test_a_file_with_two_columns_of_one_name_is_refused(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    separator = "\t" if suffix == ".tsv" else ","
    lines = [separator.join(row) for row in (("label", "a", "label"), ("x", "1", "y"), ("y", "2", "y"))]
    content = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    with pytest.raises(InputError, match=r"a\.[a-z.]+' has 2 columns named 'label'; rename or remove one"):
        table.load(path)


def test_images_lie_beside_the_table(tmp_path):
    images(tmp_path, "a/1.png", "ä 2.png")
    frame = pd.DataFrame({"picture": ["a/1.png", "ä 2.png"], "age": [3, 4], "label": ["x", "y"]})
    source = table.load(save(frame, tmp_path / "t.csv"), image_column="picture")
    assert source.kind == "image"
    assert source.ids.tolist() == ["a/1.png", "ä 2.png"]
    assert source.inputs.read(1).shape == (2, 3, 3)
    assert source.unreadable is None
    assert source.root == str(tmp_path)
    assert table.load(frame, image_column="picture", image_root=str(tmp_path)).inputs.read(0, 5).shape == (5, 5, 3)


def test_images_lie_in_the_image_root_or_in_the_working_directory(tmp_path, monkeypatch):
    images(tmp_path / "pictures", "1.png", "2.png")
    frame = pd.DataFrame({"path": ["1.png", "2.png"], "label": ["x", "y"]})
    path = save(frame, tmp_path / "t.parquet")
    assert table.load(path, image_root=tmp_path / "pictures").inputs.read(0).shape == (2, 3, 3)
    with pytest.raises(InputError, match=r"in column 'path' that are not there, first '1.png' in .*image_root"):
        table.load(path)
    monkeypatch.chdir(tmp_path / "pictures")
    assert table.load(frame).inputs.read(0).shape == (2, 3, 3)
    assert table.load(frame).root == str(tmp_path / "pictures")
    assert table.load(frame).fingerprint() == table.load(path, image_root=tmp_path / "pictures").fingerprint()


@pytest.mark.parametrize("column", ["image", "path", "file", "filename", "image_path", "Image"])
def test_an_image_column_is_guessed_where_nothing_is_numeric(tmp_path, column):
    images(tmp_path, "1.png", "2.png")
    frame = pd.DataFrame({"note": ["n", "m"], column: ["1.png", "2.png"], "label": ["x", "y"]})
    assert table.load(save(frame, tmp_path / "t.csv")).kind == "image"
    assert table.load(save(frame.assign(id=[0, 1]), tmp_path / "t.csv")).kind == "image"
    with pytest.raises(
        InputError, match=rf"'{column}' \(paths of images\); .* or take images with image_column \(--image-column\)"
    ):
        table.load(frame.assign(age=[1, 2]))


def test_a_row_without_a_path_is_left_out(tmp_path):
    images(tmp_path, "1.png")
    frame = pd.DataFrame({"path": ["1.png", None, "gone.png"], "label": ["x", "y", "x"]})
    for suffix in (".csv", ".parquet"):
        source = table.load(save(frame, tmp_path / f"t{suffix}"), image_column="path")
        assert source.unreadable == {1: "the table names no file"}
        assert source.ids.tolist() == ["1.png", "row 1", "gone.png"]


def test_a_column_of_numbers_holds_no_paths():
    with pytest.raises(InputError, match="column 'count' of the data frame must hold paths, not int"):
        table.load(FRAME, image_column="count")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_embeddings(tmp_path, suffix):
    frame = pd.DataFrame({"e": [[0.5, 1], [2, 3], [4, 5]], "label": ["a", "b", "a"], "x": [1, 2, 3]})
    if suffix == ".parquet":
        frame["e"] = [np.array(cell, np.float32) for cell in frame["e"]]
    source = table.load(save(frame, tmp_path / f"t{suffix}"), embedding_column="e")
    assert source.inputs.values.tolist() == [[0.5, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("cell", ["[0.1 0.2]", "", None, "[1, NaN]", [1, "a"], "{}", "[[1, 2]]", [], 3, float("nan")])
def test_embeddings_that_are_refused(cell):
    frame = pd.DataFrame({"e": [[1.0, 2.0], cell], "label": ["a", "b"]})
    with pytest.raises(InputError, match=r"column 'e' of the data frame must hold lists of finite .* in row 1"):
        table.load(frame, embedding_column="e")


def lengths(texts):
    return [[len(text), text.count("a")] for text in texts]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_texts(tmp_path, suffix):
    frame = pd.DataFrame({"note": ["a", "banana", None, "12"], "label": ["x", "y", "x", "y"], "z": [1, 2, 3, 4]})
    path = save(frame, tmp_path / f"t{suffix}")
    source = table.load(path, text_column="note", embed=lengths)
    assert source.inputs.values.tolist() == [[1, 1], [6, 3], [0, 0], [2, 0]]
    assert source.texts.tolist() == ["a", "banana", "", "12"]
    assert source.unreadable == {2: "the table has no text"}
    assert source.encoding is None
    for options in ({"embed": lengths}, {"embed": lengths, "feature_columns": ["z"]}):
        with pytest.raises(InputError, match=r"embed .*needs text_column"):
            table.load(path, **options)
    as_they_are = table.load(path, text_column="note")
    assert as_they_are.kind == "text"
    assert as_they_are.inputs.values.tolist() == ["a", "banana", "", "12"]
    assert as_they_are.unreadable == {2: "the table has no text"}
    other = table.load(frame.assign(note=["a", "banana", None, "13"]), text_column="note")
    assert other.fingerprint() != as_they_are.fingerprint()
    with pytest.raises(InputError, match=r"column 'z' of .* must hold texts, not int in row 0"):
        table.load(frame, text_column="z", embed=lengths)


def test_embeddings_of_unequal_length():
    frame = pd.DataFrame({"e": ["[1, 2]", "[1, 2]", "[1]"], "label": ["a", "b", "a"]})
    with pytest.raises(InputError, match="differ in length: 1 numbers in row 2, but 2 in row 0"):
        table.load(frame, embedding_column="e")


def test_columns_that_are_not_there():
    for options in (
        {"label_column": "no"},
        {"true_label_column": "no"},
        {"image_column": "no"},
        {"embedding_column": "no"},
        {"text_column": "no", "embed": len},
        {"feature_columns": ["count", "no"]},
    ):
        with pytest.raises(InputError, match="has no column 'no'; its columns are width, count, label"):
            table.load(FRAME, **options)
    with pytest.raises(InputError, match="or texts, but image_column and text_column are given"):
        table.load(FRAME, image_column="width", text_column="count")
    with pytest.raises(InputError, match="has 2 columns named 'count'"):
        table.load(pd.concat([FRAME, FRAME["count"]], axis=1))
    with pytest.raises(InputError, match="no columns beside the labels"):
        table.load(FRAME[["label"]])
    with pytest.raises(InputError, match="no rows"):
        table.load(FRAME.iloc[:0])


def test_columns_named_by_numbers():
    frame = pd.DataFrame(np.arange(6.0).reshape(2, 3)).assign(label=["a", "b"])
    assert table.load(frame).inputs.values.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert table.load(frame, feature_columns=["1"]).inputs.values.tolist() == [[1], [4]]


def test_files_that_are_refused(tmp_path):
    def refused(name, body, message):
        (tmp_path / name).write_bytes(body)
        with pytest.raises(InputError, match=message):
            table.load(tmp_path / name)

    refused("a.csv", b"", "not a valid .csv table")
    refused("a.csv", b"x,label\n1,a\n2,b,c,d\n", "not a valid .csv table")
    refused("a.csv", b"x,label\n1,\xff\x81\n", "neither UTF-8 nor Windows-1252")
    refused("a.parquet", b"not parquet", "not a valid .parquet table")
    refused("a.xlsx", b"", r"a table is one of .csv, .tsv, .parquet, .csv.gz, .tsv.gz, not")
    refused("a.csv", b"x,label\n", "has no rows")
    with pytest.raises(InputError, match=r"no such file: '.*none.csv'"):
        table.load(tmp_path / "none.csv")


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    (tmp_path / "a.csv").write_text("label,x\na,1\nb,2\n", encoding="utf-8-sig")
    assert table.load(tmp_path / "a.csv").class_names == ("a", "b")


def test_splits_that_do_not_know_of_each_other_are_numbers_alone():
    frame = FRAME.assign(id=[7, 8, 9], gap=[1.0, None, 3.0])
    expected = [[1.5, 1, 1], [2.5, 2, 2], [3.5, 3, 3]]
    assert table.vectors(frame, {"label"}, "toy").tolist() == expected
    assert table.vectors(frame.assign(e=["[1]"] * 3), {"label"}, "toy", embedding_column="e").tolist() == [[1]] * 3
    for changed, message in (
        (frame.assign(town=["x", "y", "x"]), "features must be numbers, but toy has 'town'; use feature_columns"),
        (frame.assign(gap=np.nan), "column 'gap' of toy holds no numbers at all"),
        (frame[["id", "label"]], "toy has no columns but the labels and those that number the rows"),
    ):
        with pytest.raises(InputError, match=message):
            table.vectors(changed, {"label"}, "toy")


VECTORS = pd.DataFrame({"embedding": [[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]], "label": ["a", "b", "a"]})


def test_embeddings_keep_the_pictures_beside_them(tmp_path):
    images(tmp_path / "photos", "1.png", "2.png")
    frame = VECTORS.assign(path=["1.png", "2.png", None])
    source = table.load(frame, embedding_column="embedding", image_column="path", image_root=tmp_path / "photos")
    assert (source.kind, source.inputs.values.tolist()) == ("vector", VECTORS["embedding"].tolist())
    assert source.ids.tolist() == ["1.png", "2.png", "row 2"]
    assert source.unreadable is None
    assert source.pictures.read(1).tolist() == np.full((2, 3, 3), 1).tolist()
    assert source.root == str(tmp_path / "photos")
    with pytest.raises(InputError, match="names images in column 'path' that are not there"):
        table.load(frame, embedding_column="embedding", image_column="path", image_root=tmp_path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_embeddings_are_recognised_with_what_is_beside_them(tmp_path, suffix):
    images(tmp_path, "1.png", "2.png", "3.png")
    plain = table.load(save(VECTORS, tmp_path / f"t{suffix}"))
    assert (plain.inputs.values.tolist(), plain.pictures) == (VECTORS["embedding"].tolist(), None)
    paths = [str(tmp_path / f"{number}.png") for number in (1, 2, 3)]
    shown = table.load(save(VECTORS.assign(path=paths), tmp_path / f"p{suffix}"))
    assert (shown.kind, len(shown.pictures), shown.ids.tolist()) == ("vector", 3, paths)
    assert shown.root == str(tmp_path)
    gone = table.load(save(VECTORS.assign(path=["x.png", "y.png", "z.png"]), tmp_path / f"g{suffix}"))
    assert (gone.pictures, gone.ids.tolist()) == (None, [0, 1, 2])
    texts = table.load(save(VECTORS.assign(text=["one", "two", "three"]), tmp_path / f"w{suffix}"))
    assert (texts.kind, texts.texts.tolist()) == ("vector", ["one", "two", "three"])
    named = table.load(VECTORS.assign(note=["x", "y", "z"]), embedding_column="embedding", text_column="note")
    assert named.texts.tolist() == ["x", "y", "z"]


def test_numbers_called_embedding_are_features():
    frame = pd.DataFrame({"embedding": [1.0, 2.0], "label": ["a", "b"]})
    assert table.load(frame).inputs.values.tolist() == [[1], [2]]


@pytest.mark.parametrize(("name", "separator"), [("toy.csv.gz", ","), ("toy.TSV.gz", "\t")])
def test_compressed_tables(tmp_path, name, separator):
    FRAME.to_csv(tmp_path / name, index=False, sep=separator, compression="gzip")
    source = table.load(tmp_path / name)
    assert (source.name, source.inputs.values.tolist()) == ("toy", [[1.5, 1], [2.5, 2], [3.5, 3]])
    whole = (tmp_path / name).read_bytes()
    for broken in (whole[:-12], b"no gzip", b""):
        (tmp_path / name).write_bytes(broken)
        with pytest.raises(InputError, match=r"cannot read .*: not a valid \.[ct]sv\.gz table"):
            table.load(tmp_path / name)


def test_a_lone_text_column_and_a_column_of_image_paths_need_no_name(tmp_path, caplog):
    texts = [f"{'late' if row % 2 else 'lost'} parcel {row}" for row in range(80)]
    frame = pd.DataFrame({"id": range(80), "note": texts, "label": [0, 1] * 40, "truth": [0, 1] * 40})
    with caplog.at_level("WARNING"):
        source = table.load(frame)
    assert source.inputs.texts().tolist() == texts
    assert "learning from the texts in column 'note' (--text-column)" in caplog.text
    assert table.load(frame, embed=lengths).kind == "vector"
    new = open_new(frame.drop(columns="label"), (0, 1), kind="text")
    assert new.source.inputs.texts().tolist() == texts
    paths = sorted(photos(tmp_path, each=1).rglob("*.png"))
    for cells in (paths, list(map(str, paths))):
        source = table.load(pd.DataFrame({"where": cells, "label": [0, 1, 0]}))
        assert source.kind == "image"
        assert source.ids.tolist() == [path.as_posix() for path in paths]


def test_group_columns_are_kept_and_not_learnt_from():
    days = pd.date_range("2024-01-01", periods=60, freq="D").strftime("%Y-%m-%d")
    frame = pd.DataFrame(
        {"length": np.sqrt(np.arange(60.0) % 17), "who": ["ann", "bob"] * 30, "day": days, "label": ["a", "b"] * 30}
    )
    source = table.load(frame, group_columns=["who", "day"])
    assert [column["name"] for column in source.encoding["columns"]] == ["length"]
    assert source.groups["who"][:2].tolist() == ["ann", "bob"]
    assert source.groups["day"][:2].tolist() == ["2024-01-01/2024-01-07"] * 2  # a week
    assert part(source, np.array([1, 3])).groups["who"].tolist() == ["bob", "bob"]
    with pytest.raises(InputError, match="'week'"):
        table.load(frame, group_columns=["week"])
