"""The user's function that makes vectors of texts or images."""

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from jnpl.data.opening import open_source
from jnpl.data.sources.user_embedding import BATCH, IMAGE_BATCH, embed_texts
from jnpl.internal.errors import InputError

TEXTS = np.array(["one", "three"], object)


def test_texts_come_in_batches_and_in_order():
    texts = np.array([str(row) for row in range(2 * BATCH + 3)], object)
    calls = []

    def embed(batch):
        calls.append(batch)
        return np.array([[float(text), -float(text)] for text in batch])

    values = embed_texts(texts, embed, {1: "no text", BATCH: "no text"})
    assert [len(batch) for batch in calls] == [BATCH, BATCH, 1]
    assert all(isinstance(batch, list) for batch in calls)
    expected = np.arange(len(texts), dtype=np.float32)
    expected[[1, BATCH]] = 0
    np.testing.assert_array_equal(values, np.stack([expected, -expected], axis=1))
    assert values.dtype == np.float32


@pytest.mark.parametrize(
    "kind", [np.asarray, torch.tensor, list, pytest.param(lambda x: torch.tensor(x).bfloat16(), id="b")]
)
def test_whatever_is_an_array_will_do(kind):
    assert embed_texts(TEXTS, lambda batch: kind([[len(text), 0.5] for text in batch])).tolist() == [[3, 0.5], [5, 0.5]]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ([[1.0]], r"must return \(2, F\) for 2 texts, not \(1, 1\)"),
        ([1.0, 2.0], "must return finite numbers .*, but on rows 0 to 1 its result must be vectors"),
        (
            [[1.0], [np.nan]],
            "must return finite .* on rows 0 to 1 its result holds values that are not finite, first in sample 1",
        ),
        ([[1.0], [1.0, 2.0]], "must return .* its result must be a regular array"),
        ([["a"], ["b"]], "must return .* its result must hold numbers"),
        (np.zeros((2, 3, 3)), r"must return \(2, F\) for 2 texts, not \(2, 3, 3\)"),
        (np.zeros((2, 0)), "must return .* its result must be vectors"),
        (None, "must return .* its result must hold numbers, not object"),
    ],
)
def test_results_that_are_refused(result, message):
    def own(batch):
        return result

    with pytest.raises(InputError, match=f"embed 'own' {message}"):
        embed_texts(TEXTS, own)


def test_results_of_unequal_width():
    texts = np.array(["x"] * (BATCH + 1), object)
    with pytest.raises(InputError, match=f"embed '<lambda>' gave {BATCH} numbers a text, then 1"):
        embed_texts(texts, lambda batch: np.zeros((len(batch), len(batch))))


def test_what_the_function_raises_is_told_in_one_line():
    def own(batch):
        raise RuntimeError("no\nmodel")

    with pytest.raises(InputError, match=r"^embed 'own' failed on rows 0 to 1: RuntimeError: no model$"):
        embed_texts(TEXTS, own)


def test_a_function_by_its_place(tmp_path, monkeypatch):
    (tmp_path / "own_texts.py").write_text(
        "class Model:\n    @staticmethod\n    def encode(texts):\n        return [[1.0]] * len(texts)\nnumber = 3\n"
    )
    (tmp_path / "own_broken.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert embed_texts(TEXTS, "own_texts:Model.encode").tolist() == [[1], [1]]
    for place, message in {
        "own_texts": "embed must be named as MODULE:FUNCTION, got 'own_texts'",
        ":encode": "named as MODULE:FUNCTION, got ':encode'",
        "own_texts:nothing": "'own_texts' has no 'nothing', of embed 'own_texts:nothing'",
        "own_texts:number": "embed 'own_texts:number' must be a function, not int",
        "own_broken:encode": "cannot import 'own_broken' of embed .*: ModuleNotFoundError: No module named 'no_such_",
        "own_absent:encode": "cannot import 'own_absent'",
    }.items():
        with pytest.raises(InputError, match=message):
            embed_texts(TEXTS, place)


def test_no_text_at_all():
    with pytest.raises(InputError, match="there is no text for embed 'len'"):
        embed_texts(TEXTS, len, {0: "none", 1: "none"})


def gray(images):
    assert all(isinstance(image, Image.Image) and image.mode == "RGB" for image in images)
    return np.array([[np.asarray(image).mean(), 1.0] for image in images])


def test_images_of_a_folder(tmp_path):
    for split in ("train", "test"):
        for label, value in (("a", 10), ("b", 20)):
            (tmp_path / split / label).mkdir(parents=True)
            Image.new("L", (3, 2), value).save(tmp_path / split / label / "1.png")
    (tmp_path / "train" / "a" / "2.png").write_bytes(b"broken")
    source = open_source(tmp_path, embed=gray)
    assert source.inputs.values.tolist() == [[10, 1], [0, 0], [20, 1]]
    assert source.unreadable == {1: "not an image that Pillow can open"}
    assert (source.kind, source.pictures.kind, source.test.pictures.kind) == ("vector", "image", "image")
    assert source.test.inputs.values.tolist() == [[10, 1], [20, 1]]


def test_images_of_a_table_and_of_arrays(tmp_path):
    x = np.stack([np.full((4, 4, 1), value, np.uint8) for value in range(IMAGE_BATCH + 2)])
    y = ["a", "b"] * (len(x) // 2)
    expected = [[value, 1] for value in range(len(x))]
    assert open_source((x, y), embed=gray).inputs.values.tolist() == expected
    Image.new("L", (3, 2), 7).save(tmp_path / "1.png")
    frame = pd.DataFrame({"file": ["1.png", "1.png"], "label": ["a", "b"]})
    source = open_source(frame, embed=gray, image_root=tmp_path)
    assert source.inputs.values.tolist() == [[7, 1], [7, 1]]
    assert (source.ids.tolist(), source.root) == (["1.png", "1.png"], str(tmp_path))


def test_what_cannot_be_embedded(tmp_path):
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "1.png").write_bytes(b"broken")
    with pytest.raises(
        InputError, match="there is no image for embed 'gray': none of 2 can be read, the first: not an"
    ):
        open_source(tmp_path, embed=gray)
    with pytest.raises(InputError, match="takes texts or images, but arrays holds vectors"):
        open_source(([[1.0], [2.0]], ["a", "b"]), embed=gray)
    frame = pd.DataFrame({"x": [1.0, 2.0], "label": ["a", "b"]})
    for options in ({}, {"feature_columns": ["x"]}, {"embedding_column": "x"}):
        with pytest.raises(InputError, match=r"embed \(--embed\) needs text_column .* or image_column"):
            open_source(frame, embed=gray, **options)
