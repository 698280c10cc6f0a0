"""Files of a run for the data owner, beside its findings.

data.json, neighbours.parquet (where the data have embeddings), thumbnails.parquet and report.html.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.analysis.problems import problems
from jnpl.data.source import UnreadableError
from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing, write_text
from jnpl.internal.tables import save_parquet
from jnpl.judging.findings import Findings
from jnpl.outputs.image_folder import common_folder
from jnpl.outputs.report import page, page_tables, thumbs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import pandas as pd

    from jnpl.analysis.neighbours import Neighbours
    from jnpl.analysis.problems import Problems
    from jnpl.data.source import Source

NEIGHBOURS_FILE = "neighbours.parquet"
_MAX_TEXT = 400  # characters
_MAX_DIGITS = 12  # characters of a fraction; longer ones are shown with 8 digits


def write(
    folder: Path,
    source: Source,
    *,
    command: Sequence[str] = (),
    choices: Sequence[str] = (),
    options: dict[str, Any] | None = None,
    held_out: Sequence[dict[str, Any]] = (),
    report: bool = True,
) -> None:
    """Write the files of a finished run; without `report`, no pictures and no page. See `write_data`."""
    write_data(folder, source, command=command, choices=choices, options=options, held_out=held_out, thumbnails=report)
    if report:
        page.write(folder)


def write_data(
    folder: Path,
    source: Source,
    *,
    command: Sequence[str] = (),
    choices: Sequence[str] = (),
    options: dict[str, Any] | None = None,
    held_out: Sequence[dict[str, Any]] = (),
    reviewed: dict[str, Any] | None = None,
    thumbnails: bool = True,
    progress: Callable[[float], None] = lambda _: None,
) -> None:
    """Write all but the page, which also shows the results: these files are there before a run counts as finished.

    Args:
        folder: the run folder.
        source: the data, embedded where the run embedded them.
        command: the command of the run.
        choices: automatic choices in words.
        options: how the data can be opened again.
        held_out: ids and labels of the samples that were held out.
        reviewed: decisions of earlier reviews, as `given_decisions` of `outputs.review.decisions` returns them.
        thumbnails: write small pictures.
        progress: called with the share of the search for duplicates and outliers done, 0..1; what it raises stops it.
    """
    findings = Findings.load(folder)
    suspects = page_tables.worst(findings, thumbs.MAX_SUSPECTS)
    if len(suspects) == 0 or not findings.is_label_issue.any():
        suspects = suspects[:20]
    pictures = source.inputs if source.kind == "image" else source.pictures
    found = problems(source, _unreadable(findings, source), progress)
    shown = list(dict.fromkeys([*suspects.tolist(), *_shown_neighbours(source, found)]))
    facts: dict[str, Any] = {
        "kind": source.kind if pictures is None else "image",
        "command": list(command),
        "choices": [*choices, *(f"columns: {note}" for note in (source.encoding or {}).get("notes", ()))],
        "root": source.root,
        **({} if options is None else {"options": options}),
        **found.to_dict(),
    }
    if source.root is not None and source.ids.dtype == object:
        paths = [*source.ids.tolist(), *(str(each["id"]) for each in held_out)]
        facts |= {} if (images := common_folder(paths, source.root)) is None else {"images": images}
    if held_out:
        facts |= {"held_out": list(held_out), "true_labels": source.true_labels is not None}
    facts |= {name: each for name, each in (reviewed or {}).items() if each}
    if pictures is None:
        facts["columns"] = _columns(source, np.array(shown, np.int64))
    if found.neighbours is not None:
        _write_neighbours(folder, found.neighbours)
    write_text(folder / "data.json", json.dumps(facts, indent=1, default=str) + "\n")
    if thumbnails and pictures is not None:
        thumbs.write(folder, shown, pictures.read)


def _shown_neighbours(source: Source, found: Problems) -> list[int]:
    """Return the positions of the near duplicates and outliers that the page shows."""
    groups = found.near_duplicates[: page_tables.MAX_NEAR_GROUPS]
    outliers = [name for name, _ in found.outliers[: page_tables.MAX_OUTLIERS]]
    names = [*(group.ids[at] for group in groups for at in page_tables.shown_members(group.labels)), *outliers]
    position = page_tables.positions(source.ids, names)
    return [position[name] for name in names]


def _write_neighbours(folder: Path, found: Neighbours) -> None:
    """Write neighbours.parquet, a row per sample in the order of the data."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    groups = found.group_numbers()
    columns = {
        "position": pa.array(np.arange(len(groups))),
        "near_duplicate_group": pa.array(groups, mask=groups < 0),
        "outlier_score": pa.array(found.outlier_score, mask=np.isnan(found.outlier_score)),
        "is_outlier": pa.array(found.is_outlier),
    }
    with replacing(folder / NEIGHBOURS_FILE) as draft:
        save_parquet(draft, pa.table(columns))


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


def _columns(source: Source, samples: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return samples as rows of a table: texts, table cells or numbers; all names, the first 12 values."""
    rows: list[list[Any]]
    if source.texts is not None:
        names, rows = ["text"], [[str(source.texts[at])[:_MAX_TEXT]] for at in samples.tolist()]
    elif source.cells is not None:
        found = source.cells.iloc[source.ids[samples]]
        names = list(found.columns)
        shown = [_texts(found.iloc[:, at]) for at in range(len(names))[: page_tables.MAX_COLUMNS]]
        rows = [list(row) for row in zip(*shown, strict=True)]
    else:
        values = [source.inputs.read(at) for at in samples.tolist()]
        names = [f"feature {number}" for number in range(len(values[0]) if values else 0)]
        rows = [[float(f"{value:.4g}") for value in row[: page_tables.MAX_COLUMNS].tolist()] for row in values]
    return {"names": names, "rows": dict(zip(map(str, samples.tolist()), rows, strict=True))}


def _texts(cells: pd.Series[Any]) -> list[str | None]:
    """Return (M,) cells as texts like those in the file: 3 for 3.0 in a column with gaps, no hour for a date."""
    end = {"f": ".0", "M": " 00:00:00"}.get(cells.dtype.kind, "")
    values: Any = cells.to_numpy() if cells.dtype.kind == "f" else cells  # float32 with the digits that it has
    if cells.dtype.kind == "f":
        values = [f"{cell:.8g}" if len(str(cell)) > _MAX_DIGITS else cell for cell in values]
    return [
        None if missing else str(cell).removesuffix(end)[:_MAX_TEXT]
        for cell, missing in zip(values, cells.isna(), strict=True)
    ]
