"""Parts of a source."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from jnpl.data.opening import open_source
from jnpl.data.sources import table
from jnpl.data.sources.arrays import from_arrays
from jnpl.data.sources.images import ImageFiles
from jnpl.data.split import find_split, hold_out, part, to_hold_out, with_test
from jnpl.internal.errors import InputError


def source(samples=100, **more):
    return from_arrays(np.arange(2 * samples).reshape(samples, 2), np.arange(samples) % 4, **more)


def test_a_part_keeps_everything_in_its_place():
    whole = source(y_true=(np.arange(100) + 1) % 4)
    some = part(whole, np.array([7, 3, 50]))
    assert some.labels.tolist() == [3, 3, 2]
    assert some.true_labels.tolist() == [0, 0, 3]
    assert some.ids.tolist() == [7, 3, 50]
    assert some.inputs.read(1).tolist() == [6, 7]


def test_a_part_of_files_reads_its_own(tmp_path):
    for number, label in enumerate("aab"):
        (tmp_path / label).mkdir(exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), 10 * number, np.uint8)).save(tmp_path / label / f"{number}.png")
    whole = open_source(str(tmp_path))
    some = part(whole, np.array([2, 1]))
    assert [int(some.inputs.read(at)[0, 0, 0]) for at in range(2)] == [20, 10]
    assert some.ids.tolist() == ["b/2.png", "a/1.png"]
    assert some.inputs.sizes().tolist() == whole.inputs.sizes()[[2, 1]].tolist()
    assert (len(some.inputs), some.kind) == (2, "image")


def held_out(whole, share, seed):
    return hold_out(whole, to_hold_out(whole, share, seed))


@pytest.mark.parametrize("seed", range(3))
def test_held_out_samples_are_of_every_class_and_never_trained_on(seed):
    told = held_out(source(), 0.2, seed)
    assert (len(told), len(told.test)) == (80, 20)
    assert np.bincount(told.test.labels).tolist() == [5] * 4
    assert set(told.ids.tolist()) | set(told.test.ids.tolist()) == set(range(100))
    again = held_out(source(), 0.2, seed)
    assert again.test.ids.tolist() == told.test.ids.tolist()
    assert held_out(source(), 0.2, seed + 1).test.ids.tolist() != told.test.ids.tolist()


def test_held_out_samples_are_tested_by_true_labels_where_they_are_known():
    told = held_out(source(y_true=np.zeros(100, int)), 0.2, 0)
    assert told.test.labels.tolist() == [0] * 20
    assert told.test.true_labels is None


def test_a_class_of_one_sample_stays():
    told = held_out(from_arrays(np.zeros((11, 2)), [0] * 10 + [1]), 0.5, 0)
    assert 1 in told.labels
    assert 1 not in told.test.labels


def test_what_cannot_be_held_out_is_told():
    for share in (0, 1, -0.1, 1.5):
        with pytest.raises(InputError, match="between 0 and 1"):
            held_out(source(), share, 0)
    with pytest.raises(InputError, match="hold out more"):
        held_out(source(8), 0.01, 0)
    with pytest.raises(InputError, match="test data of its own"):
        held_out(source(x_test=[[1, 2]], y_test=[0]), 0.1, 0)


def test_test_data_from_elsewhere_are_numbered_alike():
    train = from_arrays(np.zeros((4, 2)), ["a", "b", "c", "a"])
    test = from_arrays(np.zeros((3, 2)), ["c", "a", "c"])
    told = with_test(train, test)
    assert told.test.labels.tolist() == [2, 0, 2]
    assert told.test.class_names == ("a", "b", "c")
    with pytest.raises(InputError, match="a class 'd' that"):
        with_test(train, from_arrays(np.zeros((2, 2)), ["a", "d"]))
    with pytest.raises(InputError, match="holds images, but"):
        with_test(train, from_arrays(np.zeros((2, 4, 4), np.uint8), ["a", "b"]))


def test_files_stay_files_and_validation_data_stay(tmp_path):
    for number in range(10):
        (tmp_path / f"{number}").write_bytes(bytes([number]))
    files = ImageFiles([f"{number}" for number in range(10)], tmp_path)
    whole = replace(source(10), inputs=files, validation=source(4))
    some = hold_out(whole, np.array([1, 3]))
    assert isinstance(some.inputs, ImageFiles)
    assert [some.inputs.path(at).name for at in range(8)] == ["0", "2", "4", "5", "6", "7", "8", "9"]
    assert [some.test.inputs.path(at).name for at in range(2)] == ["1", "3"]
    assert len(some.validation) == 4


@pytest.mark.parametrize(
    ("ours", "theirs"), [((4, 2), (4, 3)), ((4, 8, 8), (4, 8, 8, 3)), ((4, 16, 16, 3), (4, 20, 20, 3))]
)
def test_test_data_of_another_shape_are_refused(ours, theirs):
    one, other = (from_arrays(np.zeros(shape, np.uint8), [0, 1, 0, 1]) for shape in (ours, theirs))
    with pytest.raises(InputError, match=r"arrays has samples of shape .*, but arrays of"):
        with_test(one, other)


def test_test_data_of_another_form_are_refused(tmp_path):
    images = from_arrays(np.zeros((4, 8, 8, 3), np.uint8), [0, 1, 0, 1])
    files = replace(images, inputs=ImageFiles(["a", "b", "c", "d"], tmp_path), name="photos")
    with pytest.raises(InputError, match="photos comes as files, arrays as an array: test data must"):
        with_test(files, images)


SPLIT = ["train", "test", "train", "test", "train"]
FRAME = pd.DataFrame(
    {
        "x": [1.0, 2.0, 3.0, 4.0, 5.0],
        "label": ["a", None, "b", None, "a"],
        "truth": ["a", "b", "a", "c", "a"],
        "split": SPLIT,
    }
)


def test_test_rows_have_the_true_labels(caplog):
    source = table.load(FRAME, true_label_column="truth")
    assert source.inputs.values.tolist() == [[1], [3], [5]]
    assert source.ids.tolist() == [0, 2, 4]
    assert source.class_names == ("a", "b", "c")
    assert (source.labels.tolist(), source.true_labels.tolist()) == ([0, 1, 0], [0, 0, 0])
    assert (source.test.ids.tolist(), source.test.labels.tolist()) == ([1, 3], [1, 2])
    assert source.test.true_labels is None
    expected = "by its column 'split', 3 rows are the data, 2 are test data with the labels in 'truth'"
    assert expected in caplog.text
    assert source.encoding["names"] == ["x"]


def test_rows_without_a_label_are_left_out(caplog):
    source = table.load(FRAME.drop(columns="truth"))
    assert (len(source), source.test) == (3, None)
    assert "2 test rows are left out: some have no label" in caplog.text
    with pytest.raises(
        InputError, match=r"no label in column 'label' of row 2 \(counted from 0\); 1 row has none: --skip-"
    ):
        table.load(FRAME.assign(label=["a", "b", None, "b", "a"]))
    skipped = table.load(FRAME.assign(label=["a", "b", None, "b", "a"]), skip_unlabelled=True)
    assert None not in skipped.ids.tolist()
    assert 2 not in skipped.ids.tolist()


def test_validation_rows():
    frame = FRAME.assign(label=list("abaab"))
    alone = table.load(frame.assign(split=["train", "val", "train", "val", "train"]))
    assert (alone.test.ids.tolist(), alone.validation) == ([1, 3], None)
    both = table.load(frame.assign(split=["train", "test", "train", "dev", "train"]))
    assert (both.test.ids.tolist(), both.validation.ids.tolist()) == ([1], [3])


def test_numbers_with_gaps_stay_whole():
    frame = FRAME.assign(label=[3.0, np.nan, 7.0, np.nan, 3.0], truth=[3, 7, 3, 9, 3])
    assert table.load(frame, true_label_column="truth").class_names == (3, 7, 9)


@pytest.mark.parametrize(
    "cells", [["train"] * 5, ["test"] * 5, [*SPLIT[:4], "other"], [*SPLIT[:4], None], [1, 2] * 2 + [1]]
)
def test_other_columns_are_no_split(cells):
    assert find_split(pd.DataFrame({"split": cells})) is None


def test_a_column_that_is_used_is_no_split():
    frame = FRAME.assign(label=list("abaab"))
    assert table.load(frame, feature_columns=["split"]).test is None
    assert table.load(frame, label_column="split").class_names == ("test", "train")


def test_texts_and_images_are_divided_too():
    frame = FRAME.assign(words=list("vwxyz"), label=list("abaab"))
    source = table.load(frame, text_column="words")
    assert (source.texts.tolist(), source.test.texts.tolist()) == (["v", "x", "z"], ["w", "y"])
    embedded = table.load(frame, text_column="words", embed=lambda texts: [[ord(text)] for text in texts])
    assert embedded.test.inputs.values.ravel().tolist() == [ord("w"), ord("y")]
