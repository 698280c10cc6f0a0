"""Encoded images in memory."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from tests.data.sources.test_sample_columns import png

from jnpl.analysis.problems import problems
from jnpl.data.source import Source, UnreadableError
from jnpl.data.sources.image_bytes import ImageBytes
from jnpl.data.split import part

NO_PATHS = np.full(4, None, object)


def contents(kind):
    values = [png(0), png(50), None, b"broken"]
    return pa.chunked_array([values[:1], values[1:]], pa.binary()) if kind == "arrow" else np.array(values, object)


@pytest.mark.parametrize("kind", ["arrow", "objects"])
def test_images_are_decoded_one_at_a_time(kind):
    images = ImageBytes(contents(kind), NO_PATHS)
    assert (images.kind, len(images)) == ("image", 4)
    assert images.read(1).tolist() == np.full((4, 6, 3), 50).tolist()
    assert images.read(0, 5).shape == (5, 5, 3)
    assert images.sizes().tolist() == [len(png(0)), len(png(50)), 0, 6]
    with pytest.raises(UnreadableError, match="no image"):
        images.read(2)
    with pytest.raises(UnreadableError, match="not an image that Pillow can open"):
        images.read(3)
    assert pickle.loads(pickle.dumps(images)).read(1)[0, 0, 0] == 50


def test_a_part_shares_the_bytes():
    images = ImageBytes(contents("arrow"), NO_PATHS)
    chosen = images.select(np.array([3, 1])).select(np.array([1]))
    assert chosen.read(0)[0, 0, 0] == 50
    assert chosen._contents is images._contents


def test_the_digest_follows_the_content():
    first, other = png(0), bytearray(png(0))
    other[-20] ^= 1  # of the same size
    made = [ImageBytes(np.array([each], object), NO_PATHS[:1]) for each in (first, bytes(other))]
    assert made[0].sizes().tolist() == made[1].sizes().tolist()
    assert made[0].digest() != made[1].digest()
    assert ImageBytes(contents("arrow"), NO_PATHS).digest() == ImageBytes(contents("objects"), NO_PATHS).digest()


def test_a_file_where_there_are_no_bytes(tmp_path):
    (tmp_path / "a.png").write_bytes(png(7))
    images = ImageBytes(np.array([None, png(9)], object), np.array(["a.png", None], object), root=tmp_path)
    assert [images.read(at)[0, 0, 0] for at in range(2)] == [7, 9]


def test_files_where_there_are_no_bytes_are_no_duplicates_of_each_other(tmp_path):
    inputs = ImageBytes(
        np.array([None, png(9), None], object), np.array(["a.png", None, "b.png"], object), None, tmp_path
    )
    assert problems(Source("toy", inputs, np.array([0, 1, 1]), ("a", "b"), np.arange(3))).duplicates == []


def test_duplicates_and_parts_of_a_source():
    values = np.array([png(1), png(2), png(1)], object)
    inputs = ImageBytes(values, NO_PATHS[:3])
    source = Source("toy", inputs, np.array([0, 1, 1]), ("a", "b"), np.arange(3))
    found = problems(source)
    assert found.compared
    assert [group.ids for group in found.duplicates] == [[0, 2]]
    assert isinstance(part(source, np.array([2, 0])).inputs, ImageBytes)
    changed = Source("toy", inputs.select(np.array([0, 1, 1])), source.labels, ("a", "b"), np.arange(3))
    assert changed.fingerprint() != source.fingerprint()


def test_sizes_and_times_are_those_of_files_where_there_are_no_bytes(tmp_path):
    (tmp_path / "a.png").write_bytes(png(7))
    paths = np.array(["a.png", None, None], object)
    images = ImageBytes(np.array([None, png(9), None], object), paths, root=tmp_path)
    assert images.sizes().tolist() == [len(png(7)), len(png(9)), 0]
    assert images.modified_times().tolist() == [(tmp_path / "a.png").stat().st_mtime_ns, 0, 0]
