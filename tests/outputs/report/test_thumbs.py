"""Small pictures of suspects: written, read again, small."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from jnpl.data.source import UnreadableError
from jnpl.internal.errors import InputError
from jnpl.internal.pictures import encoded
from jnpl.internal.tables import load_parquet
from jnpl.run_folder import RunFolder


def opened(data):
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize(
    ("shape", "kind", "size"),
    [
        ((8, 8, 1), "PNG", (8, 8)),
        ((64, 64, 3), "PNG", (64, 64)),
        ((65, 65, 1), "JPEG", (65, 65)),
        ((480, 640, 3), "JPEG", (96, 72)),
        ((3000, 2, 3), "JPEG", (1, 96)),
    ],
)
def test_a_picture_is_at_most_96_pixels(shape, kind, size):
    pixels = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    picture = opened(encoded(pixels, 96))
    assert (picture.format, picture.size) == (kind, size)


def test_small_pictures_lose_nothing():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    assert (np.asarray(opened(encoded(pixels, 96))) == pixels).all()


def test_they_come_back_in_their_order_without_those_that_cannot_be_read(tmp_path):
    def read(position):
        if position == 5:
            raise UnreadableError("empty file")
        if position == 6:
            raise FileNotFoundError("gone")
        return np.full((10, 10, 1), position, np.uint8)

    assert RunFolder(tmp_path).write_thumbnails(np.array([9, 5, 2, 6, 7]), read) == 3
    pictures = RunFolder(tmp_path).thumbnails()
    assert list(pictures) == [9, 2, 7]
    assert [np.asarray(opened(data))[0, 0] for data in pictures.values()] == [9, 2, 7]
    table = load_parquet(tmp_path / "thumbnails.parquet")
    assert (table.schema.field("position").type, table.schema.field("image").type) == (pa.int64(), pa.binary())


def test_there_are_at_most_750_and_no_more_are_read(tmp_path):
    asked = []

    def read(position):
        asked.append(position)
        return np.zeros((2, 2, 1), np.uint8)

    assert RunFolder(tmp_path).write_thumbnails(range(1000), read) == 750 == len(asked)


def test_a_mistake_of_the_caller_is_told_and_leaves_no_file(tmp_path):
    with pytest.raises(InputError, match=r"uint8 \(H, W, 1 or 3\), not float64 of shape \(4, 4\)"):
        RunFolder(tmp_path).write_thumbnails([0], lambda _: np.zeros((4, 4)))
    assert list(tmp_path.iterdir()) == []


def test_no_file_is_no_pictures_and_a_broken_one_is_named(tmp_path):
    assert RunFolder(tmp_path).thumbnails() == {}
    (tmp_path / "thumbnails.parquet").write_bytes(b"not a table")
    with pytest.raises(InputError, match=r"thumbnails\.parquet"):
        RunFolder(tmp_path).thumbnails()
    pq.write_table(pa.table({"position": [1]}), tmp_path / "thumbnails.parquet")
    with pytest.raises(InputError, match="image"):
        RunFolder(tmp_path).thumbnails()
