"""What a source refuses, and what its fingerprint tells apart."""

from dataclasses import replace

import numpy as np
import pytest

from jnpl.data.source import InMemory, Source, number
from jnpl.data.sources.images import ImageFiles
from jnpl.internal.errors import InputError

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 6, 6, 3), np.uint8)


def source(**changes):
    plain = Source("toy", InMemory(PIXELS), np.array([0, 1, 1, 0]), ("a", "b"), np.arange(4))
    return replace(plain, **changes)


def test_fingerprint_is_that_of_the_data():
    assert source().fingerprint() == source().fingerprint()
    assert source().fingerprint() == source(name="other").fingerprint()
    whole = np.zeros((4, 6, 12, 3), np.uint8)
    whole[:, :, ::2] = PIXELS
    assert source(inputs=InMemory(whole[:, :, ::2])).fingerprint() == source().fingerprint()


@pytest.mark.parametrize(
    "changes",
    [
        {"ids": np.array([0, 1, 2, 4])},
        {"ids": np.array(["0", "1", "2", "x"], object)},
        {"labels": np.array([0, 1, 1, 1])},
        {"true_labels": np.zeros(4, np.int64)},
        {"test": source()},
        {"class_names": ("a", "c")},
        {"inputs": InMemory(PIXELS[::-1])},
        {"inputs": InMemory(PIXELS.reshape(4, 12, 3, 3))},
    ],
)
def test_fingerprint_changes_with_the_data(changes):
    assert source(**changes).fingerprint() != source().fingerprint()


def test_fingerprint_changes_with_one_pixel():
    changed = PIXELS.copy()
    changed[3, 5, 5, 2] ^= 1
    assert source(inputs=InMemory(changed)).fingerprint() != source().fingerprint()


def test_fingerprint_changes_with_the_size_of_a_file(tmp_path):
    paths = [tmp_path / f"{at}.png" for at in range(4)]
    for path in paths:
        path.write_bytes(b"abc")
    files = source(inputs=ImageFiles(paths))
    before = files.fingerprint()
    assert before == files.fingerprint()
    paths[2].write_bytes(b"abcd")
    assert files.fingerprint() == before  # each file was looked at once
    assert source(inputs=ImageFiles(paths)).fingerprint() != before


def test_inputs_have_a_fingerprint_without_labels():
    assert source(labels=np.zeros(4, np.int64)).inputs_fingerprint() == source().inputs_fingerprint()
    assert source(inputs=InMemory(PIXELS[::-1])).inputs_fingerprint() != source().inputs_fingerprint()
    assert source(ids=np.arange(1, 5)).inputs_fingerprint() != source().inputs_fingerprint()


@pytest.mark.parametrize("channels", [1, 3])
def test_arrays_are_resized_on_demand(channels):
    inputs = InMemory(np.full((2, 6, 8, channels), 7, np.uint8))
    assert inputs.kind == "image"
    assert len(inputs) == 2
    assert inputs.read(1).shape == (6, 8, channels)
    assert inputs.read(1, 4).shape == (4, 4, channels)
    assert (inputs.read(1, 4) == 7).all()
    assert inputs.sizes().tolist() == [48 * channels] * 2


def test_vectors_have_no_size():
    inputs = InMemory(np.eye(3, dtype=np.float32))
    assert inputs.kind == "vector"
    assert inputs.read(1, 4).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    "values", [np.zeros((2, 3)), np.zeros((2, 4, 4, 2), np.uint8), np.zeros((2, 4, 4, 3), np.float32), np.zeros(3)]
)
def test_other_arrays_are_refused(values):
    with pytest.raises(InputError, match=r"must be uint8 images .* or float32 vectors .*, not "):
        InMemory(values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": InMemory(PIXELS[:0]), "labels": np.zeros(0, np.int64), "ids": np.arange(0)}, "holds no samples"),
        ({"labels": np.array([0, 1, 1])}, r"must be 4 int64, not int64 \(3,\)"),
        ({"labels": np.array([0.0, 1, 1, 0])}, r"must be 4 int64, not float64"),
        ({"labels": np.array([0, 1, 2, 0])}, r"must lie in 0\.\.1, not 0\.\.2"),
        ({"true_labels": np.array([0, -1, 1, 0])}, r"true_labels .* must lie in 0\.\.1, not -1\.\.1"),
        ({"ids": np.arange(3)}, "4 samples but 3 ids"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        source(**changes)


def test_class_names_are_numbered_in_sorted_order():
    labels, names = number([np.int64(10), 9, 10])
    assert labels.tolist() == [1, 0, 1]
    assert names == (9, 10)
    labels, names = number(["10", 9, True])
    assert labels.tolist() == [0, 1, 2]
    assert names == ("10", "9", "True")


def test_a_source_has_a_text_for_every_sample():
    texts = np.array(["one", "three"], object)
    values = InMemory(np.zeros((2, 3), np.float32))
    source = Source("toy", values, np.array([0, 1]), ("a", "b"), np.arange(2), texts=texts)
    assert source.fingerprint() == Source("toy", values, source.labels, ("a", "b"), source.ids).fingerprint()
    with pytest.raises(InputError, match="toy has 2 samples but 1 texts"):
        Source("toy", values, np.array([0, 1]), ("a", "b"), np.arange(2), texts=texts[:1])


def test_realised_noise_is_that_of_the_true_labels():
    random = np.random.default_rng(0)
    true = random.integers(0, 3, 120)
    given = np.where(random.random(120) < 0.3, random.integers(0, 3, 120), true)
    noisy = Source("toy", InMemory(np.zeros((120, 2), np.float32)), given, ("a", "b", "c"), np.arange(120), true)
    rate, matrix = noisy.realised_noise()
    assert rate == pytest.approx((given != true).mean())
    for label in range(3):
        for other in range(3):
            assert matrix[label, other] == pytest.approx((given[true == label] == other).mean())
    assert replace(noisy, true_labels=None).realised_noise() == (None, None)
