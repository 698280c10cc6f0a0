"""The files of findings: findings.parquet for programs, findings.csv for people, findings.json with counts."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import numpy as np
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

Kind = Literal["jnpl.findings", "jnpl.tag-findings"]  # written to findings.json
_NAMES: dict[Kind, str] = {"jnpl.findings": "findings", "jnpl.tag-findings": "findings on tags"}
_VERSION = 1
_Facts = TypeVar("_Facts", bound="FilesFacts")
_MOST_CLASSES = 10_000_000  # in a file


def write(folder: Path, kind: Kind, table: Any, shown: pd.DataFrame, content: Mapping[str, Any]) -> None:
    """Write the three files: a table of pyarrow, the rows as people see them (`shown`), and facts (`content`)."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, not a folder to save findings in")
    make_folder(folder)
    with replacing(folder / "findings.parquet") as draft:
        save_parquet(draft, table)
        digest = hashlib.sha256(draft.read_bytes()).hexdigest()
    with table_writer(folder / "findings.csv") as write_rows:
        write_rows(shown)
    # The hash is written last: after a crash in between, `read` sees that the files do not match.
    facts = {"kind": kind, "version": _VERSION, **content, "parquet_sha256": digest}
    write_text(folder / "findings.json", json.dumps(facts, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def read(
    folder: Path, kind: Kind, facts_type: type[_Facts], fields_of: Callable[[Any, _Facts], dict[str, Any]]
) -> dict[str, Any]:
    """Return the fields of findings that `write` wrote, which `fields_of` makes of the table and the checked facts;
    missing or other files are an InputError."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    try:
        content = read_json(folder / "findings.json")
        if (content["kind"], content["version"]) != (kind, _VERSION):
            raise InputError(f"kind {content['kind']!r} and version {content['version']!r}")
        facts = check_facts(content, facts_type, "findings.json")
        with pa.OSFile(os.fspath(require_file(folder / "findings.parquet"))) as file:
            raw = file.read_buffer()  # read once: the table below is the one that was hashed
        if hashlib.sha256(raw).hexdigest() != facts.parquet_sha256:
            raise InputError("findings.parquet is not the one that findings.json was written with")
        table = load_parquet(raw)
        if len(table) != facts.samples:
            raise InputError(f"{len(table)} rows, where findings.json has {facts.samples}")
        return fields_of(table, facts)
    except (OSError, LookupError, TypeError, ValueError) as error:  # pyarrow's errors are among these
        reason = f"no entry {error}" if isinstance(error, KeyError) else str(error)
        if isinstance(error, FileNotFoundError):
            reason = "name the folder of a finished run, as `jnpl find DATA -o RUN` writes it"
        raise InputError(f"{folder} holds no {_NAMES[kind]} that can be read: {reason}") from error


class FilesFacts(StoredFacts):
    """What findings.json of every kind has."""

    samples: Annotated[int, Field(ge=1)]
    parquet_sha256: str


class LabelFacts(FilesFacts):
    """findings.json of findings on labels, as far as it is used."""

    classes: Annotated[int, Field(ge=1, le=_MOST_CLASSES)]
    class_names: list[str] | list[int] | None
    threshold: Any
    noise: Any = None


def label_fields(table: Any, facts: LabelFacts) -> dict[str, Any]:
    """Return the fields of `Findings` in a table of pyarrow and the facts beside it."""
    columns = {name: table[name].to_numpy() for name in table.column_names}
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
        "threshold_info": checked_threshold(facts.threshold, facts.classes),
        "noise": None if facts.noise is None else checked_noise(facts.noise),
    }


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
