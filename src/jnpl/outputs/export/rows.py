"""Rows as a .csv, .parquet or .json file, written a part at a time: memory stays bounded."""

from __future__ import annotations

import csv
import json
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import pandas as pd

from jnpl.internal.files import replacing
from jnpl.internal.tables import escaped, suffix_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def writing(path: str | os.PathLike[str], suffix: str | None = None) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Yield a function that takes frames with the same columns, one after another; the file is whole or not there.

    Texts need pandas' type "string": with it a part without any text is of the same kind as the others. In a .csv a
    text that a spreadsheet would take for a formula starts with an apostrophe. A .json is a list of objects, with
    null for what is missing.
    """
    suffix = suffix_of(path, suffix)
    with replacing(path) as draft:
        if suffix == ".parquet":
            with _parquet(draft) as write:
                yield write
        else:
            with (
                draft.open("w", encoding="utf-8", newline="") as file,
                _csv(file) if suffix == ".csv" else _json(file) as write,
            ):
                yield write


@contextmanager
def _csv(file: IO[str]) -> Iterator[Callable[[pd.DataFrame], None]]:
    first = True

    def write(frame: pd.DataFrame) -> None:
        nonlocal first
        plain = frame.copy(deep=False)
        returns = False
        for name in frame.columns:
            if frame[name].dtype == "string":
                texts = frame[name].fillna("").tolist()
                plain[name] = [escaped(text) for text in texts]
                returns = returns or any("\r" in text for text in texts)
        quoting = csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL  # Python before 3.13 leaves "\r" unquoted
        form: dict[str, Any] = {"lineterminator": "\n", "float_format": "%.9g", "quoting": quoting}
        plain.to_csv(file, index=False, header=first, **form)
        first = False

    yield write


@contextmanager
def _parquet(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    import pyarrow as pa  # noqa: PLC0415 - the other forms do without
    import pyarrow.parquet as pq  # noqa: PLC0415

    writer: Any = None

    def write(frame: pd.DataFrame) -> None:
        nonlocal writer
        part = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
        if writer is None:
            writer = pq.ParquetWriter(path, part.schema)
        writer.write_table(part)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


@contextmanager
def _json(file: IO[str]) -> Iterator[Callable[[pd.DataFrame], None]]:
    first = True

    def write(frame: pd.DataFrame) -> None:
        nonlocal first
        for record in records(frame):
            file.write(("" if first else ",\n") + json.dumps(record, ensure_ascii=False, allow_nan=False))
            first = False

    file.write("[\n")
    yield write
    file.write("\n]\n")


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain objects, None for what is missing."""
    columns = [[_plain(value) for value in frame[name].tolist()] for name in frame.columns]
    names = [str(name) for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    if isinstance(value, dict | str | bool | int):
        return value
    if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - nan differs from itself
        return None
    return float(f"{value:.9g}") if isinstance(value, float) else value
