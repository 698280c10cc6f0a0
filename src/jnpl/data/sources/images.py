"""Image files, decoded one at a time. Files are not trusted; a bad one is one unreadable sample."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from pathlib import Path, PurePath
from typing import IO, Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from jnpl.data.source import Array, Inputs, Labels, UnreadableError

MAX_PIXELS = 1024**3 // 4 // 3  # 89 million: above this, Pillow warns of decompression bombs
_PATHS_TRIED = 20
ORIENTATION = 0x0112  # the EXIF tag
# EPS would run the program in the file with Ghostscript; the others have no decoder (WMF: only on Windows).
REFUSED = frozenset({"BUFR", "EPS", "GRIB", "HDF5", "MPEG", "WMF"})
_TURN = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class ImageFiles(Inputs):
    """N image files, given by path; `read` returns uint8 RGB (H, W, 3).

    Paths are stored as one string of bytes and one array, which worker processes share: there may be millions.

    Args:
        paths: of the files, relative to `root`.
        root: by default the working directory.
        stats: bytes and time of the last change in nanoseconds of each file (N, 2), where known; else each file is
            asked for them once.
    """

    def __init__(
        self, paths: Sequence[Path] | Sequence[str], root: Path | None = None, stats: Labels | None = None
    ) -> None:
        encoded = [os.fsencode(path) for path in paths]
        self._root = os.path.abspath(root or Path.cwd())  # noqa: PTH100 - a string, joined a million times
        self._names = b"".join(encoded)
        self._ends = np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), dtype=np.int64)
        if stats is not None:
            self._stats = stats

    kind = "image"

    def __len__(self) -> int:
        return len(self._ends)

    def path(self, position: int) -> Path:
        """Return the path of the sample at `position`."""
        return Path(self._where(position))

    def read(self, position: int, size: int | None = None) -> Array:
        """Return the sample at `position`: uint8 (H, W, 3), or (size, size, 3). Raises UnreadableError."""
        return decode(self._file(position), size)

    def side(self, position: int) -> int:
        """Return the shorter side of the image at `position` in pixels, without decoding it. Raises UnreadableError."""
        try:
            with Image.open(self._file(position), formats=_formats()) as picture:
                return min(picture.size)
        except UnreadableError:
            raise
        except Exception as error:  # a damaged file makes a decoder raise anything
            raise UnreadableError(_system_reason(error)) from error

    def sizes(self) -> Labels:
        """Return the bytes of each file (N,); 0 where it is missing."""
        return self._stats[:, 0]

    def modified_times(self) -> Labels:
        """Return when each file was last changed (N,), in nanoseconds; 0 where it is missing."""
        return self._stats[:, 1]

    def select(self, positions: Labels) -> ImageFiles:
        """Return the files at some positions (M,)."""
        stats = self.__dict__.get("_stats")
        names = [self._name(position) for position in positions.tolist()]
        return ImageFiles(names, Path(self._root), None if stats is None else stats[positions])

    @cached_property
    def _stats(self) -> Labels:
        """Bytes and times of the last change (N, 2)."""
        root, ends = os.fsencode(self._root), self._ends.tolist()
        names = (self._names[start:end] for start, end in zip([0, *ends], ends, strict=False))
        pairs = (_stat(os.path.join(root, name)) if name else (0, 0) for name in names)  # noqa: PTH118
        return np.fromiter(pairs, np.dtype((np.int64, 2)), len(self))

    def _file(self, position: int) -> str:
        """Return the path of a sample that is a file with content; anything else is an UnreadableError."""
        where = self._where(position)
        try:
            stats = Path(where).stat()
        except (OSError, ValueError) as error:  # ValueError: a null byte in the path
            raise UnreadableError(_system_reason(error)) from error
        if not stat.S_ISREG(stats.st_mode):  # a folder, or a pipe, which would block
            raise UnreadableError("not a file")
        if stats.st_size == 0:
            raise UnreadableError("empty file")
        return where

    def _where(self, position: int) -> str:
        return os.path.join(self._root, self._name(position))  # noqa: PTH118

    def _name(self, position: int) -> str:
        position = range(len(self))[position]  # negative counts from the end; beyond it is an IndexError
        start = 0 if position == 0 else int(self._ends[position - 1])
        return os.fsdecode(self._names[start : int(self._ends[position])])


def file_samples(paths: Sequence[str], root: Path) -> dict[str, Any]:
    """Return image files as fields of a `Source`: inputs, ids, unreadable and root. An empty path names no file."""
    named = [path for path in paths if path]
    ids = np.array([Path(path).as_posix() if path else f"row {row}" for row, path in enumerate(paths)], object)
    unreadable = {row: "the table names no file" for row, path in enumerate(paths) if not path} or None
    inputs = ImageFiles(paths, root)
    if named and all(os.path.isabs(path) for path in named):  # noqa: PTH117 - a million times
        root = Path(os.path.commonpath([os.path.dirname(path) for path in named]))  # noqa: PTH120
    return {"inputs": inputs, "ids": ids, "unreadable": unreadable, "root": absolute(root)}


def absolute(root: Path) -> str:
    """Return an absolute path that keeps links."""
    return os.path.abspath(root)  # noqa: PTH100


def any_exists(paths: Sequence[str], root: Path) -> bool:
    """Whether one of the first 20 paths is there."""
    return any(os.path.exists(root / path) for path in paths[:_PATHS_TRIED])  # noqa: PTH110 - never raises


def are_image_paths(cells: Iterable[object]) -> bool:
    """Whether all of several cells are paths, or texts that end like the name of an image."""
    return all(isinstance(cell, os.PathLike) or (isinstance(cell, str) and names_image(cell)) for cell in cells)


def names_image(text: str) -> bool:
    """Whether a text ends like the name of an image.

    >>> names_image("photos/1.JPG"), names_image("A photo of a cat.")
    (True, False)
    """
    return PurePath(text).suffix.lower() in extensions()


def decode(file: str | Path | IO[bytes], size: int | None = None) -> Array:
    """Decode an image file: uint8 RGB (H, W, 3), or (size, size, 3). Raises UnreadableError.

    An animation gives its first frame.
    """
    try:
        with Image.open(file, formats=_formats()) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                raise UnreadableError(f"too large: {picture.width} x {picture.height} pixels")  # noqa: TRY301
            if size is not None:
                picture.draft("RGB", (size, size))  # a JPEG is decoded at 1/2, 1/4 or 1/8 where that is enough
            picture.load()
            return pixels(picture, size)
    except UnreadableError:
        raise
    except UnidentifiedImageError as error:
        raise UnreadableError("not an image that Pillow can open") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnreadableError(f"too large: {_one_line(error)}") from error
    except MemoryError as error:
        raise UnreadableError("too large for the memory") from error
    except Exception as error:  # a damaged file makes a decoder raise anything
        raise UnreadableError(_system_reason(error)) from error


def pixels(picture: Image.Image, size: int | None = None) -> Array:
    """Return a PIL image as uint8 RGB (H, W, 3), or (size, size, 3).

    It is rotated as its EXIF data say, and transparent pixels become white. Of 16 bits, the upper 8 are kept; 32-bit
    integers and floats, which have no fixed range, are scaled from their minimum and maximum to 0..255.

    >>> pixels(Image.new("LA", (1, 1), (0, 0))).tolist()
    [[[255, 255, 255]]]
    """
    turn = _TURN.get(_orientation(picture))
    if picture.mode.startswith("I") or picture.mode == "F":
        picture = Image.fromarray(_eight_bits(np.asarray(picture), sixteen=_is_sixteen(picture)))
    if picture.has_transparency_data:
        solid = picture.convert("RGBA")
        white = Image.new("RGBA", solid.size, "white")
        picture = Image.alpha_composite(white, solid)
    if picture.mode != "RGB":
        picture = picture.convert("RGB")
    if turn is not None:
        picture = picture.transpose(turn)
    if size is not None and picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.array(picture)  # a copy: the picture's own memory is read-only


@cache
def extensions() -> frozenset[str]:
    """Return the file extensions, in lower case and with the dot, of the formats that `decode` opens."""
    formats = {*_formats(), "MPO"}  # an MPO is opened as the JPEG that it starts with
    return frozenset(ending.lower() for ending, name in Image.registered_extensions().items() if name in formats)


@cache
def _formats() -> tuple[str, ...]:
    Image.init()
    first = [name for name in ("JPEG", "PNG", "WEBP") if name in Image.ID]  # Pillow tries them in this order
    return tuple(name for name in dict.fromkeys([*first, *Image.ID]) if name not in REFUSED)


def _orientation(picture: Image.Image) -> int:
    try:
        orientation = picture.getexif().get(ORIENTATION, 1)
    except Exception:  # noqa: BLE001 - damaged EXIF data, not a damaged image
        return 1
    return orientation if isinstance(orientation, int) else 1


def _is_sixteen(picture: Image.Image) -> bool:
    return picture.mode.startswith("I;16") or (picture.mode == "I" and picture.format in ("PNG", "PPM"))


def _eight_bits(values: Array, *, sixteen: bool) -> Array:
    """Return grey values (H, W) of more than 8 bits as uint8 (H, W)."""
    if sixteen:
        return (values.astype(np.int64).clip(0, 65535) >> 8).astype(np.uint8)
    low, high = float(values.min()), float(values.max())
    if not np.isfinite(high - low):
        raise UnreadableError("holds pixels that are not finite")
    spread = (values.astype(np.float64) - low) * (255 / (high - low) if high > low else 0)
    return np.rint(spread).astype(np.uint8)


def _stat(path: bytes) -> tuple[int, int]:
    try:
        stats = os.stat(path)  # noqa: PTH116 - a million times
    except (OSError, ValueError):
        return 0, 0
    return stats.st_size, stats.st_mtime_ns


def _system_reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if "truncated" in str(error).lower():
        return "truncated image"
    return f"damaged image: {_one_line(error)}"


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 120 else f"{text[:117]}..."


class ImageBytes(Inputs):
    """Encoded images (PNG, JPEG, ...) in memory, decoded one at a time; `read` returns uint8 RGB (H, W, 3).

    Args:
        contents: the bytes of M images: a `pyarrow.ChunkedArray`, or an object array; None for none.
        paths: M paths of files, read where there are no bytes; None for none.
        rows: positions (N,) of the samples among the M images; by default all of them.
    """

    def __init__(self, contents: Any, paths: Array, rows: Labels | None = None, root: Path | None = None) -> None:
        self._contents, self._paths = contents, paths
        self._rows = np.arange(len(contents)) if rows is None else rows
        self._root = root

    kind = "image"

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
