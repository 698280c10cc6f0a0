"""Findings as files: findings.parquet for programs, findings.csv for people, findings.json for what stands above."""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.findings._checks import checked_names
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, replacing, write_text
from jnpl.internal.tables import load_parquet, save_parquet, table_writer

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from jnpl.findings._checks import Array

_KIND, _VERSION = "jnpl.findings", 1


def write_files(folder: Path, columns: dict[str, Array], meta: dict[str, Any]) -> None:
    """Write the columns, each (N,), and the plain facts `meta`: three files, each whole or not at all."""
    import pyarrow as pa  # noqa: PLC0415 (light without it)

    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder to save findings in")
    make_folder(folder)
    with replacing(folder / "findings.parquet") as draft:
        save_parquet(draft, pa.table(columns))
        digest = hashlib.sha256(draft.read_bytes()).hexdigest()
    with table_writer(folder / "findings.csv") as write:
        write(frame(columns))
    # Last, with the hash: a crash in between leaves a pair that is seen not to belong together.
    facts = {"kind": _KIND, "version": _VERSION, **meta, "parquet_sha256": digest}
    write_text(folder / "findings.json", json.dumps(facts, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def read_files(folder: Path) -> dict[str, Any]:
    """Read what `write_files` wrote: every field of Findings, by name."""
    import pyarrow as pa  # noqa: PLC0415 (light without it)

    try:
        meta = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
        if (meta["kind"], meta["version"]) != (_KIND, _VERSION):
            raise InputError(f"kind {meta['kind']!r} and version {meta['version']!r}")
        with pa.OSFile(os.fspath(folder / "findings.parquet")) as file:
            content = file.read_buffer()  # read once: the table below is the one that was hashed
        if hashlib.sha256(content).hexdigest() != meta["parquet_sha256"]:
            raise InputError("findings.parquet is not the one that findings.json was written with")
        table = load_parquet(content)
        columns = {name: table[name].to_numpy() for name in table.column_names}
        if len(table) != meta["samples"]:
            raise InputError(f"{len(table)} rows, where findings.json speaks of {meta['samples']}")
        names = None if meta["class_names"] is None else tuple(meta["class_names"])
        number = {name: i for i, name in enumerate(names or range(meta["classes"]))}
        given, suggested = (
            np.array([number[label] for label in columns[name].tolist()], np.int64)
            for name in ("given_label", "suggested_label")
        )
        return {
            "given_labels": given,
            "suggested_labels": suggested,
            "label_quality": columns["label_quality"].astype(np.float64),
            "suggested_confidence": columns["suggested_confidence"].astype(np.float64),
            "num_classes": int(meta["classes"]),
            "class_names": checked_names(names, int(meta["classes"])),
            "ids": columns["id"],
            "paths": columns.get("path"),
            "unreadable": columns.get("unreadable"),
            "threshold_info": dict(meta["threshold"]),
        }
    except (OSError, LookupError, TypeError, ValueError) as error:  # pyarrow's errors are among these
        what = f"no entry {error}" if isinstance(error, KeyError) else str(error)
        if isinstance(error, FileNotFoundError):
            what = "name the folder of a finished run, as `jnpl find DATA -o RUN` writes it"
        raise InputError(f"{folder} holds no findings that can be read: {what}") from error


def frame(columns: dict[str, Array]) -> pd.DataFrame:
    """A frame whose texts are plain objects under every version of pandas."""
    import pandas as pd  # noqa: PLC0415 (light without it)

    return pd.DataFrame({name: pd.Series(values, dtype=values.dtype) for name, values in columns.items()})
