"""Given labels from a file in place of the data's own: noise of `jnpl corrupt`, or corrections of `jnpl apply`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.data.split import part
from jnpl.internal.errors import InputError
from jnpl.internal.tables import SUFFIXES, load_parquet, suffix_of, unescaped
from jnpl.noise.noisy_labels import NoisyLabels

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from jnpl.data.source import Source

Labels: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = list[tuple[str, Any]]  # id and label, as a table lists them


def with_labels(source: Source, path: Path) -> Source:
    """The same data with given labels from a file: of `jnpl corrupt` (.npz), or a table of `jnpl apply` (id, label).

    The clean labels of the first must be the data's own. Samples that a table does not name are left out.
    """
    if path.suffix.lower() in SUFFIXES:
        return _corrected(source, path)
    noisy = NoisyLabels.load(path)
    known = source.labels if source.true_labels is None else source.true_labels
    if len(noisy.labels) != len(source) or (noisy.clean_labels != known).any():
        raise InputError(f"the labels of {str(path)!r} were made from others than those of {source.name}")
    return replace(source, labels=noisy.labels.copy(), true_labels=known, name=f"{source.name}+{noisy.sha256[:12]}")


def _corrected(source: Source, path: Path) -> Source:
    """The samples of a source that a table names, with the table's labels."""
    said, missing = f"{str(path)!r} names", source.name
    labels = place_labels(read_label_rows(path), source.ids, source.class_names, said_by=said, missing_in=missing)
    kept = np.flatnonzero(labels >= 0)
    if not len(kept):
        raise InputError(f"{str(path)!r} names no samples; it needs rows of id and label")
    some = source if len(kept) == len(source) else part(source, kept)
    return replace(some, labels=labels[kept], test=source.test, validation=source.validation)


def read_label_rows(path: str | os.PathLike[str]) -> Rows:
    """Read rows of a .csv, .parquet or .json with the columns id and label, others aside; `apply` writes such files.

    Ids are texts, labels as they stand (texts, in a .csv). The apostrophe that a .csv has before formulas is taken
    away; `match` finds those that were there before.
    """
    import pandas as pd  # noqa: PLC0415 (slow to import)

    suffix = suffix_of(path)
    try:
        if suffix == ".csv":
            frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig").map(unescaped)
        elif suffix == ".parquet":
            frame = load_parquet(path).to_pandas()
        else:
            frame = pd.DataFrame(json.loads(Path(path).read_text("utf-8")), dtype=object)
    except FileNotFoundError as error:
        raise InputError(f"no such file: {str(path)!r}") from error
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read {str(path)!r}: not a valid {suffix} table of rows") from error
    for column in ("id", "label"):
        if column not in frame.columns:
            shown = ", ".join(map(str, frame.columns)) or "none"
            raise InputError(f"{str(path)!r} has no column {column!r}; its columns are {shown}")
    found: Rows = []
    for row, (name, label) in enumerate(zip(frame["id"].tolist(), frame["label"].tolist(), strict=True)):
        if label is None or label != label or str(label).strip() == "":  # noqa: PLR0124 - nan differs from itself
            raise InputError(f"{str(path)!r} has no label in row {row} (counted from 0), id {str(name)!r}")
        found.append((str(name), label))
    return found


def match(text: str, known: Iterable[str] | dict[str, Any]) -> str | None:
    """Return the one of the known texts that `read_label_rows` read, None if there is none.

    Where a table is not from here, an apostrophe may have been the text's own.
    """
    return next((each for each in (text, f"'{text}") if each in known), None)


def place_labels(
    table: Rows, ids: npt.NDArray[Any], names: Sequence[str | int], *, said_by: str, missing_in: str
) -> Labels:
    """(N,) class numbers of a table of ids and labels, -1 for samples that it does not name.

    Where several samples share an id, one label is for all of them; as many as there are samples follow their order.
    `said_by` and `missing_in` tell in an error whose table it is, and what it does not fit.
    """
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(ids.tolist()):
        rows.setdefault(str(name), []).append(row)
    numbers = {str(name): label for label, name in enumerate(names)}
    told: dict[str, list[int]] = {}
    for name, label in table:
        at, to = match(name, rows), match(str(label).strip(), numbers)
        if at is None:
            like = next(iter(rows))
            raise InputError(f"{said_by} id {name!r}, which is not in {missing_in}: an id is one like {like!r}")
        if to is None:
            shown = ", ".join(list(numbers)[:20])
            raise InputError(f"{said_by} {name!r} with the label {label!r}, which is no class of {missing_in}: {shown}")
        told.setdefault(at, []).append(numbers[to])
    chosen = np.full(len(ids), -1, np.int64)
    for at, labels in told.items():
        where = rows[at]
        if len(labels) != len(where) and len(set(labels)) > 1:
            shown = " and ".join(repr(str(names[label])) for label in sorted(set(labels))[:2])
            what = f"id {at!r} in {len(labels)} rows, as {shown}"
            raise InputError(f"{said_by} {what}, but {missing_in} has {len(where)} of that id")
        chosen[where] = labels if len(labels) == len(where) else labels[0]
    return chosen
