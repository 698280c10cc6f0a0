"""Samples inside a table: a column of texts, of the bytes of images, or of structs of bytes and path (Hugging Face)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from jnpl.data.source import Array, Inputs
from jnpl.data.sources.images import ImageBytes, ImageFiles
from jnpl.internal.errors import InputError
from jnpl.internal.files import printable
from jnpl.internal.tables import holds_bytes, is_missing


def holds_images(column: pd.Series[Any]) -> bool:
    """Whether a column holds images as bytes, or as structs of bytes and path.

    >>> holds_images(pd.Series([None, {"bytes": b"...", "path": None}])), holds_images(pd.Series(["a.png"]))
    (True, False)
    """
    if isinstance(column.dtype, pd.ArrowDtype):
        return holds_bytes(column.dtype.pyarrow_dtype)
    first = next((cell for cell in column if not is_missing(cell)), None) if column.dtype == object else None
    return isinstance(first, bytes | bytearray) or (isinstance(first, dict) and "bytes" in first)


def images_of(column: pd.Series[Any], name: str, where: str, root: Path) -> tuple[Inputs, Array, dict[int, str] | None]:
    """Return the N images of a column of bytes or structs, their ids (N,), and {row: reason} of empty cells, or None.

    The ids are the paths in the structs if every row has one of its own, else the row positions.
    """
    if isinstance(column.dtype, pd.ArrowDtype):
        contents, paths = _from_arrow(column)
        has_bytes = contents.null_count < len(contents)
        empty = np.asarray(contents.is_null())
    else:
        contents, paths = _from_objects(column, name, where)
        empty = np.array([content is None for content in contents], bool)
        has_bytes = not empty.all()
    named = np.array([bool(path) for path in paths], bool)
    unreadable = {int(row): "the table has no image" for row in np.flatnonzero(empty & ~named)}
    if len(unreadable) == len(contents):
        raise InputError(f"column {name!r} of {where} holds no image at all")
    ids: Array = np.arange(len(contents))
    if named.all() and len(set(paths.tolist())) == len(paths):
        ids = np.array([printable(Path(path).as_posix()) for path in paths], object)
    if not has_bytes:  # of files, the cache of embeddings also looks at the time of their last change
        return ImageFiles([path or "" for path in paths], root), ids, unreadable or None
    return ImageBytes(contents, paths, root=root), ids, unreadable or None


def _from_arrow(column: pd.Series[Any]) -> tuple[Any, Array]:
    """Return bytes, without a copy, and paths (N,) of a column that Arrow stores."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.compute as pc  # noqa: PLC0415

    cells = pa.chunked_array(column.array.__arrow_array__())
    if not pa.types.is_struct(cells.type):
        return cells, np.full(len(cells), None, object)
    paths = np.full(len(cells), None, object)
    if cells.type.get_field_index("path") >= 0:
        paths[:] = [path if isinstance(path, str) else None for path in pc.struct_field(cells, "path").to_pylist()]
    return pc.struct_field(cells, "bytes"), paths


def _from_objects(column: pd.Series[Any], name: str, where: str) -> tuple[Array, Array]:
    """Return bytes and paths (N,) of a column of Python objects."""
    contents, paths = np.full(len(column), None, object), np.full(len(column), None, object)
    for row, cell in enumerate(column.tolist()):
        if is_missing(cell):
            continue
        content, path = (cell.get("bytes"), cell.get("path")) if isinstance(cell, dict) else (cell, None)
        if not isinstance(content, bytes | bytearray | None) or not isinstance(path, str | None):
            wrong = f"{type(cell).__name__} in row {row} (counted from 0)"
            raise InputError(f"column {name!r} of {where} must hold the bytes of images, not {wrong}")
        contents[row], paths[row] = content, path
    return contents, paths


def texts_of(column: pd.Series[Any], name: str, where: str) -> tuple[Array, dict[int, str] | None]:
    """Return the texts of a column (N,), empty where missing, and {row: reason} of the missing ones, or None."""
    missing = column.isna().tolist()
    cells = ["" if gone else cell for cell, gone in zip(column.tolist(), missing, strict=True)]
    for row, cell in enumerate(cells):
        if not isinstance(cell, str):
            wrong = f"{type(cell).__name__} in row {row} (counted from 0)"
            raise InputError(f"column {name!r} of {where} must hold texts, not {wrong}")
    unreadable = {row: "the table has no text" for row, cell in enumerate(cells) if not cell.strip()}
    if len(unreadable) == len(cells):
        raise InputError(f"column {name!r} of {where} holds no text at all")
    return np.array(cells, object), unreadable or None
