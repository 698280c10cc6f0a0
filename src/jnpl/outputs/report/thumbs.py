"""Small pictures of samples that the report shows: thumbnails.parquet in the run folder, for the report and the review.

The worst suspects come first, then near duplicates and outliers.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from jnpl.data.source import UnreadableError
from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing
from jnpl.internal.tables import load_parquet, save_parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import numpy.typing as npt

FILE = "thumbnails.parquet"
SIDE = 96  # pixels of the longer side
MAX_SUSPECTS = 500
MAX_PICTURES = 750  # in a file
_MAX_PNG_SIDE = 64  # a PNG of this side is small, and a JPEG would blur its few pixels


def write(folder: Path, positions: Iterable[int], read: Callable[[int], npt.NDArray[Any]]) -> int:
    """Write pictures of the first 750 samples that can be read; returns their number.

    Args:
        folder: the run folder.
        positions: of the samples, the worst suspects first.
        read: position -> uint8 (H, W, 1 or 3); UnreadableError or OSError where a sample cannot be read.

    Returns:
        The number of pictures in the file.
    """
    import pyarrow as pa  # noqa: PLC0415 (light without it)

    pictures: dict[int, bytes] = {}
    for position in positions:
        if len(pictures) == MAX_PICTURES:
            break
        try:
            pictures[int(position)] = encoded(read(int(position)))
        except (UnreadableError, OSError):
            continue
    columns = {"position": pa.array(list(pictures), pa.int64()), "image": pa.array(pictures.values(), pa.binary())}
    with replacing(folder / FILE) as draft:
        save_parquet(draft, pa.table(columns))
    return len(pictures)


def encoded(pixels: npt.NDArray[Any]) -> bytes:
    """Return uint8 (H, W, 1 or 3) as a JPEG or PNG of at most 96 pixels a side.

    >>> encoded(np.zeros((8, 8, 1), np.uint8))[:4], encoded(np.zeros((480, 640, 3), np.uint8))[:2].hex()
    (b'\\x89PNG', 'ffd8')
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in (1, 3) or 0 in pixels.shape:
        raise InputError(f"a picture must be uint8 (H, W, 1 or 3), not {pixels.dtype} of shape {pixels.shape}")
    picture = Image.fromarray(np.ascontiguousarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels))
    picture.thumbnail((SIDE, SIDE))
    file = io.BytesIO()
    if max(picture.size) <= _MAX_PNG_SIDE:
        picture.save(file, format="PNG", optimize=True)
    else:
        picture.save(file, format="JPEG", quality=80, optimize=True)
    return file.getvalue()


def load(folder: Path) -> dict[int, bytes]:
    """Return position -> picture, worst first; empty if the folder has no thumbnails."""
    file = folder / FILE
    if not file.is_file():
        return {}
    try:
        table = load_parquet(file, columns=["position", "image"])
        positions, images = table["position"].to_pylist(), table["image"].to_pylist()
        return {int(position): bytes(image) for position, image in zip(positions, images, strict=True)}
    except (OSError, LookupError, TypeError, ValueError) as error:  # pyarrow's errors are among these
        raise InputError(f"{str(file)!r} holds no pictures that can be read: {error}") from error
