"""What a data owner gets of a run beside its findings: data.json, thumbnails.parquet and report.html."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.problems import problems
from jnpl.data.source import UnreadableError
from jnpl.errors import InputError
from jnpl.files import write_text
from jnpl.findings import Findings
from jnpl.report import page, thumbs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jnpl.data.source import Source

_ROWS = 500  # suspects that the report shows
_COLUMNS = 12  # of a table, beside the labels
_TEXT = 400  # letters of a text


def write(folder: Path, source: Source, *, command: Sequence[str] = (), choices: Sequence[str] = ()) -> Path:
    """Write the three files for a run that is done; returns where the report lies."""
    findings = Findings.load(folder)
    suspects = findings.worst(_ROWS).index.to_numpy()
    if len(suspects) == 0 or not findings.is_label_issue.any():
        suspects = suspects[:20]
    facts: dict[str, Any] = {
        "kind": source.kind, "command": list(command), "choices": list(choices), "root": source.root,
        **problems(source, unreadable=_unreadable(findings, source)).to_dict(),
    }  # fmt: skip
    if source.kind == "vector":
        facts["columns"] = _columns(source, suspects)
    write_text(folder / "data.json", json.dumps(facts, indent=1, default=str) + "\n")
    if source.kind == "image":
        thumbs.write(folder, suspects.tolist(), source.inputs.read)
    return page.write(folder)


def _unreadable(findings: Findings, source: Source) -> dict[int, str]:
    """Position -> why it cannot be read; the run's findings say which, the files say why."""
    told = dict(source.unreadable or {})
    for position in [] if findings.unreadable is None else np.flatnonzero(findings.unreadable).tolist():
        if position not in told:
            try:
                source.inputs.read(position)
                told[position] = "could not be read in training"
            except (UnreadableError, OSError, InputError) as error:
                told[position] = str(error)
    return told


def _columns(source: Source, suspects: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The suspects as rows of a table, for people: their texts, or their first numbers."""
    if source.texts is not None:
        return {"names": ["text"], "rows": {str(at): [str(source.texts[at])[:_TEXT]] for at in suspects.tolist()}}
    values = {at: source.inputs.read(at)[:_COLUMNS].tolist() for at in suspects.tolist()}
    width = len(next(iter(values.values()), []))
    names = (source.encoding or {}).get("names") or [f"feature {number}" for number in range(width)]
    return {"names": list(names)[:width], "rows": {str(at): [float(f"{value:.4g}") for value in row]
                                                   for at, row in values.items()}}  # fmt: skip
