"""Encoded images in memory, decoded one at a time."""

from __future__ import annotations

import hashlib
import io
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.source import Inputs, UnreadableError
from jnpl.data.sources.images import ImageFiles, decode

if TYPE_CHECKING:
    from pathlib import Path

    from jnpl.data.source import Array, Kind, Labels


class ImageBytes(Inputs):
    """Encoded images (PNG, JPEG, ...) in memory, decoded one at a time; `read` returns uint8 RGB (H, W, 3).

    Args:
        contents: the bytes of M images: a `pyarrow.ChunkedArray`, or an object array; None for none.
        paths: M paths of files, read where there are no bytes; None for none.
        rows: positions (N,) of the samples among the M images; by default all of them.
        root: the folder that paths are relative to.
    """

    def __init__(self, contents: Any, paths: Array, rows: Labels | None = None, root: Path | None = None) -> None:
        self._contents, self._paths = contents, paths
        self._rows = np.arange(len(contents)) if rows is None else rows
        self._root = root

    @property
    def kind(self) -> Kind:
        """Always "image"."""
        return "image"

    def __len__(self) -> int:
        return len(self._rows)

    def select(self, positions: Labels) -> ImageBytes:
        """Return the samples at some positions (M,); no bytes are copied."""
        return ImageBytes(self._contents, self._paths, self._rows[positions], self._root)

    def stored(self, position: int) -> Any | None:
        """Return the bytes of the sample at `position`, as bytes or a buffer; None if there are none."""
        cell = self._contents[int(self._rows[position])]
        return cell if cell is None or isinstance(cell, bytes | bytearray) else cell.as_buffer()

    def read(self, position: int, size: int | None = None) -> Array:
        """Return the image at `position`: uint8 (H, W, 3), or (size, size, 3). Raises UnreadableError."""
        content = self.stored(position)
        if content is not None:
            if len(content) == 0:
                raise UnreadableError("empty image")
            return decode(io.BytesIO(content), size)
        path = self._paths[self._rows[position]]
        if not path:
            raise UnreadableError("no image")
        return ImageFiles([path], self._root).read(0, size)

    def sizes(self) -> Labels:
        """Return the bytes of each image (N,), in memory or in its file; 0 where there are none."""
        contents = (self.stored(position) for position in range(len(self)))
        sizes = np.fromiter((-1 if content is None else len(content) for content in contents), np.int64, len(self))
        outside = np.flatnonzero(sizes < 0)
        sizes[outside] = self._files(outside).sizes()
        return sizes

    def modified_times(self) -> Labels:
        """Return when the file of each image was last changed (N,), in nanoseconds; 0 for images in memory."""
        times = np.zeros(len(self), np.int64)
        outside = np.array([at for at in range(len(self)) if self.stored(at) is None], np.int64)
        times[outside] = self._files(outside).modified_times()
        return times

    def _files(self, positions: Labels) -> ImageFiles:
        return ImageFiles([self._paths[self._rows[at]] or "" for at in positions.tolist()], self._root)

    def content(self, position: int) -> Any:
        """Return the bytes of the sample at `position`, or those of its path where there are none."""
        content = self.stored(position)
        return os.fsencode(self._paths[self._rows[position]] or "") if content is None else content

    def digest(self) -> bytes:
        """Return the SHA-256 of all bytes, and of the paths where there are none."""
        digest = hashlib.sha256()
        for position in range(len(self)):
            content = self.content(position)
            digest.update(len(content).to_bytes(8, "little"))
            digest.update(content)
        return digest.digest()
