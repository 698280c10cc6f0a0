"""Tables as .csv, .tsv, .parquet or .json files: the one place where they are read and written."""

from __future__ import annotations

import codecs
import csv
import difflib
import gzip
import json
import logging
import os
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing, require_file
from jnpl.internal.json_files import parse_json, read_json

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".parquet", ".json")  # of tables that jnpl writes and reads back
DATA_SUFFIXES = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")  # of tables of samples
_UTF_8, _WINDOWS = "utf-8-sig", "cp1252"
_HEAD, _ZEROS = 4096, 0.1  # bytes by which UTF-16 is told, and share of zeros
NAMED = 6  # columns that a message names
_LOG = logging.getLogger("jnpl")
# A spreadsheet runs a cell that starts like this as a formula (OWASP, "CSV Injection"). Leading apostrophes count too,
# so that `unescaped` can remove exactly one.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def load_parquet(source: str | os.PathLike[str] | Any, columns: Sequence[str] | None = None) -> Any:
    """Read a Parquet file as a `pyarrow.Table`.

    Arrow gets a path or memory of its own, and reads without threads: a worker thread of Arrow that releases a Python
    file or buffer while the interpreter shuts down aborts the process.

    Args:
        source: a path, or a `pyarrow.Buffer` that Arrow itself has read (`pyarrow.OSFile(path).read_buffer()`).
        columns: names of the columns to read; all of them by default.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    place = pa.BufferReader(source) if isinstance(source, pa.Buffer) else os.fspath(require_file(source))
    if isinstance(place, str):
        _refuse_repeated_names(pq.read_schema(place).names, place)  # Arrow's message names no column
    return pq.read_table(place, columns=columns, use_threads=False, pre_buffer=False)


def load_table(
    path: str | os.PathLike[str], *, as_text: Collection[str | None] | None = None, missing: Sequence[str] = ()
) -> pd.DataFrame:
    """Read a .csv, .tsv, .parquet or .json table as a data frame; a file that cannot be read is an InputError.

    A .csv and a .tsv may be compressed (.csv.gz). Of a Parquet file, columns of bytes, and of structs with bytes, stay
    in Arrow's memory; columns of classes, as the library `datasets` writes them, hold the names of the classes.

    Args:
        as_text: columns of a .csv or .tsv that stay text, such as labels (a class may be called 007); by default all
            columns. Pandas chooses the type of the others. In a .parquet and a .json, types are stored.
        missing: texts that stand for a missing value in columns that do not stay text.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    suffix = data_suffix(path) or Path(path).suffix.lower()
    require_file(path)
    try:
        if suffix == ".parquet":
            return _with_class_names(load_parquet(path))
        if suffix == ".json":
            return pd.DataFrame(read_json(path), dtype=object)
        encoding = _encoding(path)
        if encoding != _UTF_8:
            _LOG.warning("%r is not UTF-8: read as %s", os.fspath(path), encoding)
        try:
            return _read_csv(path, encoding, suffix, as_text, missing)
        except UnicodeDecodeError:
            frame = _read_csv(path, _WINDOWS, suffix, as_text, missing)
            hint = "if letters look wrong, save it as UTF-8"
            _LOG.warning("%r is not UTF-8: read as Windows-1252 (Latin-1); %s", os.fspath(path), hint)
            return frame
    except FileNotFoundError as error:
        raise InputError(f"no such file: {os.fspath(path)!r}") from error
    except (InputError, MemoryError):
        raise
    except Exception as error:  # pandas and Arrow raise many kinds on damaged files
        reason = error.strerror if isinstance(error, OSError) and error.strerror else f"not a valid {suffix} table"
        if isinstance(error, UnicodeError):
            reason = "it is neither UTF-8 nor Windows-1252; save it as UTF-8"
        raise InputError(f"cannot read {os.fspath(path)!r}: {reason}") from error


def _read_csv(
    path: str | os.PathLike[str],
    encoding: str,
    suffix: str,
    as_text: Collection[str | None] | None,
    missing: Sequence[str],
) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - slow to import

    opened = gzip.open if suffix.endswith(".gz") else open
    with opened(path, "rt", encoding=encoding, newline="") as file, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # a row with cells beyond the last column
        separator = "\t" if suffix.startswith(".tsv") else ","
        _refuse_repeated_names(next(csv.reader(file, delimiter=separator), []), path)
        file.seek(0)
        columns = list(pd.read_csv(file, sep=separator, nrows=0).columns)
        texts = [column for column in columns if as_text is None or column in as_text]
        file.seek(0)
        frame = pd.read_csv(
            file,
            sep=separator,
            index_col=False,
            keep_default_na=False,
            na_values={column: list(missing) for column in columns if column not in texts},
            dtype=dict.fromkeys(texts, str),
            low_memory=False,
        )
        return frame.fillna("") if as_text is None else frame


def _encoding(path: str | os.PathLike[str]) -> str:
    """Return the encoding that the first bytes of a text file show; one of many zeros, or binary, is an InputError."""
    is_packed = Path(path).suffix.lower() == ".gz"
    with (gzip.open if is_packed else open)(path, "rb") as file:
        head: bytes = file.read(_HEAD)
        if not is_packed and (size := os.fstat(file.fileno()).st_size) > 2 * _HEAD:
            file.seek(size - _HEAD)  # of a sparse file, the end is zeros
            head += file.read()
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):  # the first begins with the mark of UTF-16
        return "UTF-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    first, second = (head[start::2].count(0) / max(len(head) // 2, 1) for start in (0, 1))
    if max(first, second) < _ZEROS:
        return _UTF_8
    if min(first, second) >= _ZEROS:
        raise InputError(f"{os.fspath(path)!r} is no text file: it holds bytes of zero")
    return "UTF-16-BE" if first > second else "UTF-16-LE"


def _refuse_repeated_names(names: list[str], path: str | os.PathLike[str]) -> None:
    """Raise an InputError if two columns have the same name: pandas would rename one of them."""
    for name, count in Counter(names).items():
        if name and count > 1:
            raise InputError(f"{os.fspath(path)!r} has {count} columns named {name!r}; rename or remove one")


def data_suffix(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a table of samples, one of `DATA_SUFFIXES`; empty if the file is something else.

    >>> data_suffix("news.CSV.gz"), data_suffix("news.v2.parquet"), data_suffix("news.gz")
    ('.csv.gz', '.parquet', '')
    """
    name = Path(path).name.lower()
    return next((suffix for suffix in DATA_SUFFIXES if name.endswith(suffix)), "")


def _with_class_names(stored: Any) -> pd.DataFrame:
    """Return a `pyarrow.Table` as a data frame, columns of bytes without a copy, classes by their names."""
    import numpy as np  # noqa: PLC0415 - slow to import
    import pandas as pd  # noqa: PLC0415

    def in_arrow(kind: Any) -> Any:
        return pd.ArrowDtype(kind) if holds_bytes(kind) else None

    frame: pd.DataFrame = stored.to_pandas(types_mapper=in_arrow)
    for column, names in _class_names(stored.schema.metadata).items():
        if column in frame.columns and str(stored.schema.field(column).type).startswith(("int", "uint")):
            codes = stored.column(column).cast("int64").fill_null(-1).to_numpy()  # -1 is a hidden label
            if len(codes) and codes.min() >= -1 and codes.max() < len(names):
                frame[column] = np.array([*names, None], object)[codes]
    return frame


def holds_bytes(kind: Any) -> bool:
    """Whether a type of Arrow is bytes, or a struct with a field `bytes`, as `datasets` stores images."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if pa.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0 and holds_bytes(kind.field("bytes").type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _class_names(metadata: dict[bytes, bytes] | None) -> dict[str, list[str]]:
    """Return {column: names} of the columns of classes, from the metadata of a file that `datasets` wrote."""
    try:
        features = parse_json((metadata or {})[b"huggingface"])["info"]["features"]
        names_of = {column: kind["names"] for column, kind in features.items() if kind.get("_type") == "ClassLabel"}
    except (LookupError, ValueError, TypeError, AttributeError):  # another writer, or another version
        return {}
    return {column: list(map(str, names)) for column, names in names_of.items() if isinstance(names, list)}


def save_parquet(path: str | os.PathLike[str], table: pd.DataFrame | Any) -> None:
    """Write a `pyarrow.Table`, or a data frame without its index, as a Parquet file."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    content = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    pq.write_table(content, os.fspath(path))


def suffix_of(path: str | os.PathLike[str], only: str | None = None) -> str:
    """Return the suffix of a table file, in lower case; any but the three known ones (or `only`) is an InputError.

    >>> suffix_of("predictions.CSV")
    '.csv'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (SUFFIXES if only is None else (only,)):
        raise InputError(f"the file's name must end in {only or ', '.join(SUFFIXES)}, got {str(path)!r}")
    return suffix


def listed(names: list[str], most: int = 20) -> str:
    """Return names in one line, the first ones if there are many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def require_columns(columns: Iterable[object], wanted: Iterable[str], where: str) -> None:
    """Raise an InputError unless a table, called `where`, has all wanted columns.

    >>> require_columns(["id", "text"], ["label"], "the table")
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.InputError: the table has no column 'label'; its columns are id, text
    """
    names = [str(column) for column in columns]
    other = len(names) == 1 and any(separator in names[0] for separator in ";\t|")
    hint = "; commas separate the columns of a .csv, tabs those of a .tsv" if other else ""
    for column in wanted:
        if column not in names:
            near = difflib.get_close_matches(str(column), names, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            shown = listed(names, NAMED) or "none"
            raise InputError(f"{where} has no column {column!r}; its columns are {shown}{hint or meant}")


@contextmanager
def table_writer(path: str | os.PathLike[str], suffix: str | None = None) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Yield a function that writes data frames with the same columns, one after another; memory stays bounded.

    The file appears when the block ends without an error. If several frames are written, texts need pandas' type
    "string", so that a frame without any text has the same column types as the others. In a .csv, a text that a
    spreadsheet would run as a formula gets an apostrophe in front. A .json is a list of objects, with null for missing
    values.
    """
    suffix = suffix_of(path, suffix)
    with replacing(path) as draft:
        if suffix == ".parquet":
            with _parquet_writer(draft) as write:
                yield write
        else:
            with (
                draft.open("w", encoding="utf-8", newline="") as file,
                _csv_writer(file) if suffix == ".csv" else _json_writer(file) as write,
            ):
                yield write


def escaped(text: str) -> str:
    """Return the text with an apostrophe in front if a spreadsheet would take it for a formula.

    >>> escaped("=1"), escaped("tis")
    ("'=1", 'tis')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unescaped(text: str) -> str:
    """Remove the apostrophe that `escaped` put in front.

    >>> unescaped("'=1"), unescaped("'tis")
    ('=1', "'tis")
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def is_missing(cell: object) -> bool:
    """Return whether a cell of a table has no value: None, nan, a date that is none, or pandas' NA; an array has one.

    >>> is_missing(float("nan")), is_missing("")
    (True, False)
    """
    pandas = sys.modules.get("pandas")  # where it is not imported, no cell can be its NA, which has no truth value
    if cell is None or (pandas is not None and cell is pandas.NA):
        return True
    differs = cell != cell  # noqa: PLR0124 - nan differs from itself
    return getattr(differs, "ndim", 0) == 0 and bool(differs)


def json_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows as objects that JSON can hold, None for missing values, floats with 9 digits."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict | str | bool | int):
            return value
        if is_missing(value):
            return None
        return float(f"{value:.9g}") if isinstance(value, float) else value

    columns = [[plain(value) for value in frame[name].tolist()] for name in frame.columns]
    names = [str(name) for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@contextmanager
def _csv_writer(file: IO[str]) -> Iterator[Callable[[pd.DataFrame], None]]:
    from pandas.api.types import is_string_dtype  # noqa: PLC0415 - slow to import

    first = True

    def write(frame: pd.DataFrame) -> None:
        nonlocal first
        plain = frame.copy(deep=False)
        returns = False
        for name in frame.columns:
            if is_string_dtype(frame[name]):
                texts = frame[name].fillna("").tolist()
                plain[name] = [escaped(text) for text in texts]
                returns = returns or any("\r" in text for text in texts)
        quoting = csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL  # Python before 3.13 leaves "\r" unquoted
        form: dict[str, Any] = {"lineterminator": "\n", "float_format": "%.9g", "quoting": quoting}
        plain.to_csv(file, index=False, header=first, **form)
        file.flush()  # a full disk is known now
        first = False

    yield write


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    import pyarrow as pa  # noqa: PLC0415 - slow to import
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
def _json_writer(file: IO[str]) -> Iterator[Callable[[pd.DataFrame], None]]:
    first = True

    def write(frame: pd.DataFrame) -> None:
        nonlocal first
        for row in json_rows(frame):
            file.write(("" if first else ",\n") + json.dumps(row, ensure_ascii=False, allow_nan=False))
            first = False

    file.write("[\n")
    yield write
    file.write("\n]\n")
