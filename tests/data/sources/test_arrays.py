"""Arrays, tensors, lists and .npz files."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import sparse
from tests.helpers.runs import photos

from jnpl.data.new_data import open_new
from jnpl.data.sources import arrays
from jnpl.data.sources.arrays import as_inputs, as_labels, from_arrays, number_together
from jnpl.internal.errors import InputError

Y = [0, 1, 0]
IMAGES = np.arange(3 * 4 * 5 * 3, dtype=np.uint8).reshape(3, 4, 5, 3)


@pytest.mark.parametrize("make", [np.array, torch.tensor, list, tuple, pd.DataFrame])
def test_vectors_of_every_kind(make):
    source = from_arrays(make([[1, 2], [3, 4], [5, 6]]), Y)
    assert source.kind == "vector"
    assert source.inputs.values.dtype == np.float32
    assert source.inputs.read(2).tolist() == [5, 6]
    assert source.ids.tolist() == [0, 1, 2]
    assert (source.name, source.true_labels, source.test) == ("arrays", None, None)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int64, np.float16, np.float64, ">f8"])
def test_vectors_of_any_numbers(dtype):
    assert as_inputs(np.ones((3, 2), dtype)).dtype == np.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_tensors_that_numpy_does_not_know(dtype):
    assert as_inputs(torch.ones(3, 2, dtype=dtype, requires_grad=True)).tolist() == [[1, 1]] * 3


def test_images_with_channels_first_or_last_or_none():
    np.testing.assert_array_equal(as_inputs(IMAGES), IMAGES)
    first = as_inputs(torch.from_numpy(IMAGES).permute(0, 3, 1, 2))
    np.testing.assert_array_equal(first, IMAGES)
    assert first.flags.c_contiguous
    assert as_inputs(IMAGES[..., 0]).shape == (3, 4, 5, 1)
    assert as_inputs(IMAGES[:, None, :, :, 0]).shape == (3, 4, 5, 1)
    assert as_inputs(np.zeros((2, 3, 9, 3), np.uint8)).shape == (2, 3, 9, 3)  # the last axis goes first


@pytest.mark.parametrize("make", [list, lambda paths: list(map(str, paths)), pd.Series, np.array])
def test_paths_of_images(make, tmp_path):
    folder = photos(tmp_path, each=1)
    paths = sorted(folder.rglob("*.png"))
    source = from_arrays(make(paths), Y)
    assert source.kind == "image"
    assert source.ids.tolist() == [path.as_posix() for path in paths]
    assert source.root == str(folder)
    assert source.inputs.read(2).tolist() == np.asarray(Image.open(paths[2])).tolist()


def test_what_is_no_path_of_an_image(tmp_path):
    bare = [tmp_path / name for name in "abc"]
    for path in bare:
        path.write_bytes(b"x")
    assert from_arrays(list(map(str, bare)), Y).kind == "image"  # files without an ending
    assert from_arrays(["a.png", "b.png", "a photo"], Y).kind == "text"
    with pytest.raises(InputError, match=r"^x names images that are not there, first 'a\.png'$"):
        from_arrays(["a.png", "b.png", "c.png"], Y)
    with pytest.raises(InputError, match=r"^x_test holds images, but x texts$"):
        from_arrays(["a", "b", "c"], Y, x_test=bare, y_test=Y)


@given(st.integers(0, 255))
def test_floats_are_rounded_back_to_what_they_were(value):
    images = np.full((1, 2, 2, 1), value, np.uint8)
    for dtype in (np.float16, np.float32, np.float64):
        scaled = (images / 255).astype(dtype)
        np.testing.assert_array_equal(as_inputs(scaled), images)


def test_large_float_images_are_converted_in_parts():
    values = np.linspace(0, 1, 2500 * 4, dtype=np.float32).reshape(2500, 2, 2)
    np.testing.assert_array_equal(as_inputs(values)[..., 0], np.rint(values * 255))


def test_other_images():
    assert as_inputs([[[0, 200], [255, 3]]])[0, :, :, 0].tolist() == [[0, 200], [255, 3]]
    assert as_inputs(np.array([[[True, False]]])).ravel().tolist() == [255, 0]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ([1.0, 2.0, 3.0], r"not of shape \(3,\)"),
        (np.zeros((3, 0)), r"not of shape \(3, 0\)"),
        (np.zeros((3, 2, 2, 4), np.uint8), "must have 1 or 3 channels, first or last"),
        (np.zeros((3, 2, 2, 2, 3), np.uint8), "not of shape"),
        ([[1], [2, 3], [4]], "regular array"),
        ([["a"], ["b"], ["c"]], "must hold numbers, not <U1"),
        (np.zeros((3, 2), complex), "must hold numbers, not complex128"),
        ([[1.0], [np.nan], [2.0]], "not finite, first in sample 1"),
        ([[1.0], [2.0], [1e300]], "not finite, first in sample 2"),
        (np.full((3, 2, 2), np.inf), "not finite, first in sample 0"),
        (np.full((3, 2, 2), -0.5), r"float64 and must lie in 0..1 \(or be uint8\), not in -0.5..-0.5"),
        (np.full((3, 2, 2), 300), "must lie in 0..255, not in 300..300"),
        (None, "must hold numbers"),
    ],
)
def test_inputs_that_are_refused(x, message):
    with pytest.raises(InputError, match=message):
        from_arrays(x, Y)


def test_labels_of_every_kind():
    expected = ["b", "a"]
    for y in (expected, np.array(expected), np.array(expected, object), pd.Series(expected), [b"b", b"a"]):
        assert as_labels(y) == expected
    categories = pd.Series(expected, dtype="category")
    assert as_labels(categories) == expected
    for y in (
        [5, 2],
        np.array([5, 2], np.uint8),
        torch.tensor([5, 2]),
        [5.0, 2.0],
        [[5], [2]],
        list(torch.tensor([5, 2])),
    ):
        assert as_labels(np.array(y) if isinstance(y[0], list) else y) == [5, 2]
    assert as_labels([True, False]) == ["True", "False"]
    assert as_labels([1, "a"]) == ["1", "a"]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, None, 1], "y has no label at sample 1"),
        ([0, np.nan, 1], "y has no label at sample 1"),
        (pd.Series([0, pd.NA, 1], dtype="Int64"), "y has no label at sample 1"),
        ([0.5, 1, 0], r"names or whole numbers, but y has 0.5 at sample 0"),
        (np.eye(3), r"one label per sample, shape \(N,\), not \(3, 3\)"),
        ([0, 1], "x holds 3 samples, but y 2 labels"),
    ],
)
def test_labels_that_are_refused(y, message):
    with pytest.raises(InputError, match=message):
        from_arrays(np.zeros((3, 2)), y)


def test_true_and_test_labels_are_numbered_together():
    source = from_arrays(
        np.zeros((3, 2)), ["b", "c", "b"], y_true=["a", "c", "b"], x_test=np.ones((2, 2)), y_test=["d", "a"], name="toy"
    )
    assert source.class_names == source.test.class_names == ("a", "b", "c", "d")
    assert source.labels.tolist() == [1, 2, 1]
    assert source.true_labels.tolist() == [0, 2, 1]
    assert source.test.labels.tolist() == [3, 0]
    assert source.test.name == "toy/test"


def test_class_names_name_numbers_or_hold_the_labels():
    assert from_arrays(np.zeros((3, 2)), Y, class_names=["cat", "dog", "cow"]).class_names == ("cat", "dog", "cow")
    assert from_arrays(np.zeros((3, 2)), ["dog", "cat", "dog"], class_names=["dog", "cat"]).labels.tolist() == [0, 1, 0]
    assert from_arrays(np.zeros((3, 2)), [20, 10, 10], class_names=[10, 20]).labels.tolist() == [1, 0, 0]
    with pytest.raises(InputError, match="y has 2 at sample 1, which is not a class: cat, dog"):
        from_arrays(np.zeros((3, 2)), [0, 2, 1], class_names=["cat", "dog"])
    with pytest.raises(InputError, match="y has 'cow' at sample 2, which is not a class: cat, dog"):
        from_arrays(np.zeros((3, 2)), ["cat", "dog", "cow"], class_names=["cat", "dog"])
    with pytest.raises(InputError, match="class_names holds 'cat' twice"):
        number_together({"y": [0, 1]}, ["cat", "cat"])


def test_test_data_must_fit():
    with pytest.raises(InputError, match="x_test and y_test need each other"):
        from_arrays(np.zeros((3, 2)), Y, x_test=np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"samples of shape \(3,\), but x of \(2,\)"):
        from_arrays(np.zeros((3, 2)), Y, x_test=np.zeros((3, 3)), y_test=Y)
    with pytest.raises(InputError, match="x_test holds 3 samples, but y_test 1 labels"):
        from_arrays(np.zeros((3, 2)), Y, x_test=np.zeros((3, 2)), y_test=[0])


def test_npz(tmp_path):
    path = tmp_path / "toy.npz"
    np.savez(path, x=IMAGES, y=Y, y_true=[1, 1, 0], x_test=IMAGES, y_test=Y, class_names=["cat", "dög"], more=1)
    source = arrays.load(path)
    assert (source.name, source.class_names) == ("toy", ("cat", "dög"))
    assert source.true_labels.tolist() == [1, 1, 0]
    assert len(source.test) == 3
    assert source.fingerprint() == arrays.load(str(path)).fingerprint()
    np.savez_compressed(path, x=[[1.0], [2.0]], y=np.array([b"a", b"b"]))
    assert arrays.load(path).class_names == ("a", "b")


def test_npz_that_is_refused(tmp_path):
    def refused(message):
        with pytest.raises(InputError, match=message):
            arrays.load(tmp_path / "a.npz")

    refused(r"cannot read '.*a.npz': no such file")
    (tmp_path / "a.npz").write_bytes(b"")
    refused("not a valid .npz file")
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 no zip")
    refused("not a valid .npz file")
    np.savez(tmp_path / "a.npz", images=IMAGES, y=Y)
    refused("has no array 'x'; its arrays are images, y")
    np.savez(tmp_path / "a.npz", x=np.array([{}, 1], object), y=Y)
    refused("Python objects, which are not loaded")
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 1)), y=[0, 1])
    refused(r"a.npz': x holds 3 samples, but y 2 labels")
    np.savez(tmp_path / "whole.npz", x=np.zeros((50, 50)), y=np.zeros(50))
    (tmp_path / "a.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:5000])
    refused("not a valid .npz file")
    np.save(tmp_path / "b.npy", IMAGES)
    (tmp_path / "b.npy").rename(tmp_path / "b.npz")
    with pytest.raises(InputError, match="has no array 'x'; its arrays are without names"):
        arrays.load(tmp_path / "b.npz")


def test_validation_data():
    x, y = np.arange(12.0).reshape(6, 2), ["a", "b", "a", "b", "a", "b"]
    source = from_arrays(x, y, x_val=x[:3], y_val=["b", "b", "c"])
    assert source.test is None
    assert source.class_names == ("a", "b", "c")
    assert source.validation.labels.tolist() == [1, 1, 2]
    assert source.fingerprint() != from_arrays(x, y, class_names=["a", "b", "c"]).fingerprint()
    with pytest.raises(InputError, match="x_val and y_val need each other"):
        from_arrays(x, y, x_val=x)
    with pytest.raises(InputError, match=r"x_val has samples of shape \(1,\), but x of \(2,\)"):
        from_arrays(x, y, x_val=x[:, :1], y_val=y)


def test_texts_with_true_labels_test_and_validation_data():
    more = {"x_test": ["a cat", ""], "y_test": ["cat", "dog"], "x_val": np.array(["dogs"]), "y_val": ["dog"]}
    source = from_arrays(["one cat", "two dogs", " "], ["cat", "dog", "dog"], y_true=["dog", "dog", "dog"], **more)
    assert (source.kind, source.unreadable, source.true_labels.tolist()) == (
        "text",
        {2: "the text is empty"},
        [1, 1, 1],
    )
    assert (source.test.kind, source.test.unreadable) == ("text", {1: "the text is empty"})
    assert source.validation.inputs.values.tolist() == ["dogs"]
    with pytest.raises(InputError, match="x_test holds vectors, but x texts"):
        from_arrays(["one cat", "two dogs"], ["cat", "dog"], x_test=[[1.0, 2.0]], y_test=["dog"])


def test_masked_values_are_refused_and_a_mask_of_nothing_is_not():
    x = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], [[False, True], [False, False]])
    with pytest.raises(InputError, match="x is a masked array with 1 masked values"):
        from_arrays(x, [0, 1])
    with pytest.raises(InputError, match="y is a masked array with 1 masked values"):
        from_arrays(x.data, np.ma.masked_array([0, 1], [False, True]))
    assert len(from_arrays(np.ma.masked_array(x.data), [0, 1])) == 2


Y = [0, 1, 0]


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.coo_array])
def test_sparse_matrices(make):
    few = np.array([[0, 1.5], [2, 0], [0, 0]], np.float32)
    assert from_arrays(make(few), Y).inputs.values.tolist() == few.tolist()
    many = np.random.default_rng(0).normal(size=(3, 400)) * (np.arange(400) % 3 == 0)
    values = from_arrays(make(many), Y).inputs.values
    assert values.shape == (3, 3)
    np.testing.assert_allclose(values @ values.T, many @ many.T, rtol=1e-4, atol=1e-3)  # the rank is 3
    with pytest.raises(InputError, match="x is a sparse matrix: find_label_issues and JNPLClassifier take it"):
        open_new(make(few), Y, kind="vector")
    with pytest.raises(InputError, match="x_test is sparse"):
        from_arrays(few, Y, x_test=make(few), y_test=Y)
    with pytest.raises(InputError, match="x must be a sparse matrix of numbers"):
        from_arrays(make(few.astype(complex)), Y)
