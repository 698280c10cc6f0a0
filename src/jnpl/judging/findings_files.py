"""The files of findings: findings.parquet for programs, findings.csv for people, findings.json with counts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, replacing, require_file, write_text
from jnpl.internal.json_files import StoredFacts, check_facts, read_json
from jnpl.internal.tables import load_parquet, save_parquet, table_writer
from jnpl.judging.column_checks import checked_names
from jnpl.judging.consensus import VOTE
from jnpl.judging.groups import COLUMN
from jnpl.judging.noise_model import NoiseEstimate

if TYPE_CHECKING:
    import pandas as pd

_KIND, _VERSION = "jnpl.findings", 1  # written to findings.json
_MOST_CLASSES = 10_000_000  # in a file


def write(
    folder: Path, columns: Mapping[str, npt.NDArray[Any]], frame: pd.DataFrame, content: Mapping[str, Any]
) -> None:
    """Write the three files.

    Args:
        folder: made if it is not there.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder to save findings in")
    make_folder(folder)
    with replacing(folder / "findings.parquet") as draft:
        save_parquet(draft, pa.table(columns))
        digest = hashlib.sha256(draft.read_bytes()).hexdigest()
    with table_writer(folder / "findings.csv") as write_rows:
        write_rows(frame)
    # The hash is written last: after a crash in between, `read` sees that the files do not match.
    facts = {"kind": _KIND, "version": _VERSION, **content, "parquet_sha256": digest}
    write_text(folder / "findings.json", json.dumps(facts, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def read(folder: Path) -> dict[str, Any]:
    """Return the fields of `Findings` that `write` wrote; missing or other files are an InputError."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    try:
        content = read_json(folder / "findings.json")
        if (content["kind"], content["version"]) != (_KIND, _VERSION):
            raise InputError(f"kind {content['kind']!r} and version {content['version']!r}")
        facts = check_facts(content, _FindingsFacts, "findings.json")
        with pa.OSFile(os.fspath(require_file(folder / "findings.parquet"))) as file:
            raw = file.read_buffer()  # read once: the table below is the one that was hashed
        if hashlib.sha256(raw).hexdigest() != facts.parquet_sha256:
            raise InputError("findings.parquet is not the one that findings.json was written with")
        table = load_parquet(raw)
        columns = {name: table[name].to_numpy() for name in table.column_names}
        if len(table) != facts.samples:
            raise InputError(f"{len(table)} rows, where findings.json has {facts.samples}")
        names = checked_names(facts.class_names, facts.classes)
        number = {name: i for i, name in enumerate(names or range(facts.classes))}
        by_text = {str(name): i for name, i in number.items()}
        given, suggested = (
            np.array([number[label] for label in columns[name].tolist()], np.int64)
            for name in ("given_label", "suggested_label")
        )
        quality, confidence = (columns[name].astype(np.float64) for name in ("label_quality", "suggested_confidence"))
        unclear = columns.get("is_unclear", np.zeros(len(given), bool)).astype(bool)
        return {
            "given_labels": given,
            "suggested_labels": np.where(unclear, given, suggested),
            "label_quality": quality,
            "suggested_confidence": np.where(unclear, quality, confidence),
            "other_labels": np.where(suggested == given, -1, suggested),
            "other_confidence": np.where(suggested == given, np.nan, confidence),
            "num_classes": facts.classes,
            "class_names": names,
            "ids": columns["id"],
            "paths": columns.get("path"),
            "unreadable": columns.get("unreadable"),
            "decided": columns.get("decided"),
            "groups": {name[len(COLUMN) :]: of for name, of in columns.items() if name.startswith(COLUMN)} or None,
            "excerpts": columns.get("excerpt"),
            "votes": {
                name[len(VOTE) :]: np.array([by_text.get(label, -1) for label in of.tolist()], np.int64)
                for name, of in columns.items()
                if name.startswith(VOTE)
            }
            or None,
            "threshold_info": checked_threshold(content["threshold"], facts.classes),
            "noise": checked_noise(content["noise"]) if "noise" in content else None,
        }
    except (OSError, LookupError, TypeError, ValueError) as error:  # pyarrow's errors are among these
        reason = f"no entry {error}" if isinstance(error, KeyError) else str(error)
        if isinstance(error, FileNotFoundError):
            reason = "name the folder of a finished run, as `jnpl find DATA -o RUN` writes it"
        raise InputError(f"{folder} holds no findings that can be read: {reason}") from error


class _FindingsFacts(StoredFacts):
    """findings.json, as far as it is used."""

    samples: Annotated[int, Field(ge=1)]
    classes: Annotated[int, Field(ge=1, le=_MOST_CLASSES)]
    class_names: list[str] | list[int] | None
    parquet_sha256: str


_Finite = Annotated[float, Field(allow_inf_nan=False)]


class _ThresholdFacts(StoredFacts):
    """The threshold in findings.json."""

    rule: str
    value: _Finite
    reason: str
    by_class: list[_Finite] | None = None


def checked_threshold(info: Any, num_classes: int) -> dict[str, Any]:
    """Return the facts of a threshold after a check."""
    by_class = check_facts(info, _ThresholdFacts, "the threshold in findings.json").by_class
    if by_class is not None and len(by_class) != num_classes:
        raise InputError(f"{len(by_class)} thresholds for {num_classes} classes")
    return dict(info)


class _NoiseFacts(StoredFacts):
    """The noise rate in findings.json."""

    rate: Annotated[float, Field(ge=0, le=1)]
    low: Annotated[float, Field(ge=0, le=1)]
    high: Annotated[float, Field(ge=0, le=1)]
    overlap: Annotated[float, Field(ge=0, le=1)]
    unlikely: Annotated[float, Field(ge=0, le=1)] | None = None
    caveat: str | None = None
    checked: Annotated[int, Field(ge=0)] = 0


def checked_noise(info: Any) -> NoiseEstimate:
    """Return a stored estimate of the noise rate after a check."""
    facts = check_facts(info, _NoiseFacts, "the noise rate in findings.json")
    return NoiseEstimate(**facts.model_dump())
