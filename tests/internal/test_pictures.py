"""Small pictures: of the right size and form, and nothing but pixels."""

import io

import numpy as np
import pytest
from PIL import Image

from jnpl.internal.errors import InputError
from jnpl.internal.pictures import encoded, media_type


def opened(content):
    return Image.open(io.BytesIO(content))


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
def test_a_picture_is_at_most_so_many_pixels(shape, kind, size):
    content = encoded(np.random.default_rng(0).integers(0, 256, shape, np.uint8), 96)
    assert (opened(content).format, opened(content).size) == (kind, size)
    assert media_type(content) == f"image/{kind.lower()}"


def test_small_pictures_lose_nothing():
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    assert (np.asarray(opened(encoded(pixels, 96))) == pixels).all()


def test_anything_else_is_no_picture():
    with pytest.raises(InputError, match=r"uint8 \(H, W, 1 or 3\), not float64 of shape \(4, 4\)"):
        encoded(np.zeros((4, 4)), 96)
    assert media_type(b"<svg onload=alert(1)>") is media_type(b"") is None
