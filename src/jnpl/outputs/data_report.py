"""Files of a run for the data owner, beside its findings: data.json, thumbnails.parquet and report.html."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.problems import problems
from jnpl.data.source import UnreadableError
from jnpl.findings.findings import Findings
from jnpl.internal.errors import InputError
from jnpl.internal.files import write_text
from jnpl.outputs.report import page, page_tables, thumbs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from jnpl.data.source import Source

_MAX_TEXT = 400  # characters


def write(
    folder: Path,
    source: Source,
    *,
    command: Sequence[str] = (),
    choices: Sequence[str] = (),
    held_out: Sequence[dict[str, Any]] = (),
    report: bool = True,
) -> None:
    """Write the three files of a finished run; without `report`, only data.json. `held_out`: ids and labels."""
    findings = Findings.load(folder)
    suspects = page_tables.worst(findings, thumbs.MAX_PICTURES)
    if len(suspects) == 0 or not findings.is_label_issue.any():
        suspects = suspects[:20]
    pictures = source.inputs if source.kind == "image" else source.pictures
    facts: dict[str, Any] = {
        "kind": source.kind if pictures is None else "image",
        "command": list(command),
        "choices": list(choices),
        "root": source.root,
        **problems(source, unreadable=_unreadable(findings, source)).to_dict(),
    }
    if held_out:
        facts |= {"held_out": list(held_out), "true_labels": source.true_labels is not None}
    if pictures is None:
        facts["columns"] = _columns(source, suspects)
    write_text(folder / "data.json", json.dumps(facts, indent=1, default=str) + "\n")
    if not report:
        return
    if pictures is not None:
        thumbs.write(folder, suspects.tolist(), pictures.read)
    page.write(folder)


def _unreadable(findings: Findings, source: Source) -> dict[int, str]:
    """Return position -> reason for every sample that could not be read; a new read gives the reason."""
    reasons = dict(source.unreadable or {})
    for position in [] if findings.unreadable is None else np.flatnonzero(findings.unreadable).tolist():
        if position not in reasons:
            try:
                (source.pictures or source.inputs).read(position)
                reasons[position] = "could not be read in training"
            except (UnreadableError, OSError, InputError) as error:
                reasons[position] = str(error)
    return reasons


def _columns(source: Source, suspects: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the suspects as rows of a table: texts, table cells or numbers; all names, the first 12 values."""
    rows: list[list[Any]]
    if source.texts is not None:
        names, rows = ["text"], [[str(source.texts[at])[:_MAX_TEXT]] for at in suspects.tolist()]
    elif source.cells is not None:
        found = source.cells.iloc[source.ids[suspects]]
        names = list(found.columns)
        shown = [_texts(found.iloc[:, at]) for at in range(len(names))[: page_tables.MAX_COLUMNS]]
        rows = [list(row) for row in zip(*shown, strict=True)]
    else:
        values = [source.inputs.read(at) for at in suspects.tolist()]
        names = [f"feature {number}" for number in range(len(values[0]) if values else 0)]
        rows = [[float(f"{value:.4g}") for value in row[: page_tables.MAX_COLUMNS].tolist()] for row in values]
    return {"names": names, "rows": dict(zip(map(str, suspects.tolist()), rows, strict=True))}


def _texts(cells: pd.Series[Any]) -> list[str | None]:
    """Return (M,) cells as texts like those in the file: 3 for 3.0 in a column with gaps, no hour for a date."""
    end = {"f": ".0", "M": " 00:00:00"}.get(cells.dtype.kind, "")
    values = cells.to_numpy() if cells.dtype.kind == "f" else cells  # float32 with the digits that it has
    return [
        None if missing else str(cell).removesuffix(end)[:_MAX_TEXT]
        for cell, missing in zip(values, cells.isna(), strict=True)
    ]
