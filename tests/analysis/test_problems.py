"""Duplicates, tiny classes and samples that cannot be read."""

import json
import os

import numpy as np
import pytest
from PIL import Image

from jnpl.analysis import problems as rooms
from jnpl.analysis.problems import problems
from jnpl.data.source import InMemory, Source
from jnpl.data.sources import folder

NAMES = ("ant", "bee", "cow")


def source(values, labels, **more):
    return Source("toy", InMemory(values), np.array(labels, np.int64), NAMES, np.arange(len(labels)), **more)


def vectors(*rows):
    return np.array(rows, np.float32)


@pytest.mark.parametrize("values", [vectors([1], [2], [1], [3], [2], [1], [4]), None])
def test_same_content_with_differing_labels_comes_first(values):
    if values is None:
        values = np.zeros((7, 2, 2, 3), np.uint8)
        values[:, 1, 1, 2] = [1, 2, 1, 3, 2, 1, 4]  # the last byte alone
    found = problems(source(values, [0, 1, 0, 2, 2, 0, 1])).to_dict()
    assert found["duplicates"] == [
        {"ids": [1, 4], "labels": ["bee", "cow"], "count": 2, "conflicting": True},
        {"ids": [0, 2, 5], "labels": ["ant", "ant", "ant"], "count": 3, "conflicting": False},
    ]
    assert (found["duplicate_samples"], found["conflicting_samples"], found["compared"]) == (5, 2, True)
    assert (found["samples"], found["different_samples"]) == (7, 4)


def test_all_are_counted_but_not_all_are_listed(monkeypatch):
    monkeypatch.setattr(rooms, "MOST", 3)
    monkeypatch.setattr(rooms, "MOST_OF_A_GROUP", 4)
    values = np.repeat(np.arange(10, dtype=np.float32), 6)[:, None]
    labels = np.zeros(60, np.int64)
    labels[[5, 59]] = 2  # the last of their group
    broken = dict.fromkeys((6, 12, 18, 24), "bad")
    found = problems(source(values, labels, unreadable=broken))
    assert [group.ids for group in found.duplicates[:2]] == [[0, 1, 2, 5], [54, 55, 56, 59]]
    assert [group.count for group in found.duplicates] == [6, 6, 6]
    assert [group.conflicting for group in found.duplicates] == [True, True, False]
    assert found.duplicates[2].ids[0] == 30  # the first that lost nothing to what cannot be read
    assert (found.duplicate_samples, found.conflicting_samples) == (56, 12)
    assert found.unreadable == [(6, "bad"), (12, "bad"), (18, "bad")]
    assert found.unreadable_samples == 4
    assert (found.samples, found.different_samples) == (56, 10)


def test_texts_are_compared_as_texts():
    texts = np.array(["same", " same", "other"], object)
    values = vectors([1.0], [np.nextafter(np.float32(1), np.float32(2))], [1.0])  # as batches round
    found = problems(source(values, [0, 1, 1], texts=texts))
    assert [group.ids for group in found.duplicates] == [[0, 1]]


def write(root, contents):
    for name, content in contents.items():
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_bytes(content)
    return folder.load(root)


def test_files_are_compared_by_their_bytes(tmp_path):
    long = os.urandom(200_000)
    contents = {
        "ant/1.png": b"abc",
        "ant/2.png": b"abd",  # as long as the first
        "ant/3.png": long,
        "ant/4.png": long[:-1] + bytes([long[-1] ^ 1]),  # begins as the third does
        "ant/empty.png": b"",
        "bee/1.png": b"abc",
        "bee/2.png": long,
        "bee/empty.png": b"",  # no content that could be the same
        "bee/alone.png": b"abcdefgh",
    }
    found = problems(write(tmp_path, contents))
    assert [(group.ids, group.labels) for group in found.duplicates] == [
        (["ant/1.png", "bee/1.png"], ["ant", "bee"]),
        (["ant/3.png", "bee/2.png"], ["ant", "bee"]),
    ]
    assert (found.duplicate_samples, found.conflicting_samples) == (4, 4)


def test_only_files_of_one_size_are_read(tmp_path, monkeypatch):
    data = write(tmp_path, {"a/1.png": b"1", "a/2.png": b"22", "b/3.png": b"333", "b/4.png": b"444"})
    asked = []
    path = data.inputs.path
    monkeypatch.setattr(data.inputs, "path", lambda position: asked.append(position) or path(position))
    assert problems(data).duplicates == []
    assert asked == [0, 2, 3]  # whether the samples are files, and those of one size


def test_files_that_are_gone_are_passed_over(tmp_path):
    contents = {f"{label}/{number}.png": b"same" for label in "ab" for number in range(2)}
    data = write(tmp_path, contents)
    sizes = data.inputs.sizes()
    (tmp_path / "a/0.png").unlink()
    data.inputs.sizes = lambda: sizes  # it goes between two looks
    assert [group.ids for group in problems(data).duplicates] == [["a/1.png", "b/0.png", "b/1.png"]]


def test_what_cannot_be_read_is_no_duplicate(tmp_path):
    data = write(tmp_path, {"a/1.png": b"no image", "a/2.png": b"no image", "b/3.png": b"no image", "b/4.png": b"x"})
    found = problems(data, {1: "damaged", 0: "not an image"})
    assert found.duplicates == []
    assert found.unreadable == [("a/1.png", "not an image"), ("a/2.png", "damaged")]
    assert found.tiny_classes == [("a", 0), ("b", 2)]
    assert problems(data, {}).duplicate_samples == 3


def test_other_inputs_are_not_compared(monkeypatch):
    monkeypatch.setattr(InMemory, "content", lambda *_: None)  # neither an array nor files
    found = problems(source(np.zeros((3, 2, 2, 3), np.uint8), [0, 1, 1]))
    assert (found.compared, found.duplicates, found.duplicate_samples) == (False, [], 0)


@pytest.mark.parametrize(
    ("counts", "tiny", "imbalance"),
    [
        ((10, 10, 40), [], 4.0),
        ((9, 10, 40), [("ant", 9)], 40 / 9),
        ((9, 0, 3), [("bee", 0), ("cow", 3), ("ant", 9)], 3.0),  # an empty class has no ratio
        ((4000, 4000, 27), [], 4000 / 27),
        ((4000, 4000, 26), [("cow", 26)], 4000 / 26),  # the mean is 2,675
    ],
)
def test_classes_of_unequal_size(counts, tiny, imbalance):
    labels = np.repeat(np.arange(3), counts)
    values = np.arange(len(labels), dtype=np.float32)[:, None]
    found = problems(source(values, labels))
    assert found.tiny_classes == tiny
    assert found.imbalance == pytest.approx(imbalance)
    assert found.duplicates == []


def test_all_of_it_is_json(tmp_path):
    for label in "ab":
        (tmp_path / label).mkdir()
        Image.new("L", (2, 2)).save(tmp_path / label / "ä.png")
    told = problems(folder.load(tmp_path), {}).to_dict()
    assert json.loads(json.dumps(told)) == told
    assert told["tiny_classes"] == [{"class": "a", "count": 1}, {"class": "b", "count": 1}]
    numbers = problems(source(vectors([1], [1]), [0, 0], unreadable={1: "bad"})).to_dict()
    assert json.loads(json.dumps(numbers))["unreadable"] == [{"id": 1, "reason": "bad"}]
    nothing = problems(source(vectors([1], [1]), [0, 0], unreadable={0: "bad", 1: "bad"})).to_dict()
    assert nothing["imbalance"] == 1.0
