"""Small pictures as PNG or JPEG."""

import io
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from jnpl.internal.errors import InputError

_MAX_PNG_SIDE = 64  # a PNG of this side is small, and a JPEG would blur its few pixels
_MEDIA_TYPES = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}  # by the first bytes


def encoded(pixels: npt.NDArray[Any], side: int, quality: int = 80) -> bytes:
    """Return uint8 (H, W, 1 or 3) as a JPEG, or a PNG if it is tiny, of at most `side` pixels a side.

    >>> encoded(np.zeros((8, 8, 1), np.uint8), 96)[:4], encoded(np.zeros((480, 640, 3), np.uint8), 96)[:2].hex()
    (b'\\x89PNG', 'ffd8')
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape:
        raise InputError(f"a picture must be uint8 (H, W, 1 or 3), not {pixels.dtype} of shape {pixels.shape}")
    picture = Image.fromarray(np.ascontiguousarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels))
    picture.thumbnail((side, side))
    file = io.BytesIO()
    if max(picture.size) <= _MAX_PNG_SIDE:
        picture.save(file, format="PNG", optimize=True)
    else:
        picture.save(file, format="JPEG", quality=quality, optimize=True)
    return file.getvalue()


def media_type(content: bytes) -> str | None:
    """Return "image/png" or "image/jpeg"; None for anything else."""
    return next((kind for start, kind in _MEDIA_TYPES.items() if content.startswith(start)), None)
