"""What a finished run stores about its data, for the report and the review: problems, rows of the table, pictures."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jnpl.analysis.problems import Problems, problems
from jnpl.analysis.short_vectors import ShortVectors
from jnpl.analysis.sure_samples import evidence
from jnpl.data.source import Inputs, Kind, Source, UnreadableError
from jnpl.internal.errors import InputError
from jnpl.judging.findings import Findings

if TYPE_CHECKING:
    import pandas as pd

MAX_SUSPECTS = 2000  # shown with pictures or texts
MAX_OUTLIERS = 50
MAX_NEAR_GROUPS, _MAX_MEMBERS = 50, 4  # of near duplicates
MAX_COLUMNS = 12  # of the data's own table
_FIRST = 700  # suspects with pictures before those of others
_WITHOUT_SUSPECTS = 20  # the worst samples, shown where no label is a suspect
_MAX_TEXT = 400  # characters
_MAX_DIGITS = 12  # characters of a fraction; longer ones are shown with 8 digits


@dataclass(frozen=True, eq=False)
class DataReport:
    """Facts of the data of a run."""

    kind: Kind  # of the samples as people see them
    root: str | None  # the folder that paths of images start from; None for other data
    images: str | None  # the folder of all images where some lie outside `root`
    notes: list[str]  # what the columns of a table became
    held_out: list[dict[str, Any]]  # id and given label of the samples held out of the run
    has_true_labels: bool  # held-out samples are tested with true labels
    problems: Problems  # duplicates, outliers, unreadable samples, tiny classes
    columns: dict[str, Any] | None  # the shown samples as rows of a table, {"names", "rows"}; None for images
    shown: list[int]  # positions of the samples that are shown, the worst suspects first
    evidence: dict[int, dict[int, int]]  # of suspects: class number -> the nearest sample that surely has it
    pictures: Inputs | None  # the images that are shown; None for other data


def describe_data(
    source: Source,
    findings: Findings,
    held_out: Sequence[dict[str, Any]] = (),
    progress: Callable[[float], None] = lambda _: None,
    short: ShortVectors | None = None,
) -> DataReport:
    """Return what the report and the review say of the data of a run."""
    worst = findings.worst_positions(MAX_SUSPECTS)
    if not findings.is_label_issue.any():
        worst = worst[:_WITHOUT_SUSPECTS]
    suspects = worst[findings.is_label_issue[worst]]
    examples = evidence(source, findings, suspects)
    pictures = source.inputs if source.kind == "image" else source.pictures
    found_problems = problems(source, _unreadable(findings, source), progress, short)
    first, others = worst[:_FIRST].tolist(), [at for by_kind in examples.values() for at in by_kind.values()]
    of_first = [at for name in first for at in examples.get(name, {}).values()]
    special = _shown_neighbours(source, found_problems)
    shown = list(dict.fromkeys([*first, *special, *of_first, *worst.tolist(), *others]))
    images = None
    if source.root is not None and source.ids.dtype == object:
        images = _common_folder([*source.ids.tolist(), *(str(sample["id"]) for sample in held_out)], source.root)
    return DataReport(
        kind=source.kind if pictures is None else "image",
        root=source.root,
        images=images,
        notes=[f"columns: {note}" for note in (source.encoding or {}).get("notes", ())],
        held_out=list(held_out),
        has_true_labels=source.true_labels is not None,
        problems=found_problems,
        columns=_columns(source, np.array(shown, np.int64)) if pictures is None else None,
        shown=shown,
        evidence=examples,
        pictures=pictures,
    )


def shown_members(labels: Sequence[object]) -> list[int]:
    """Return which members of a group of near duplicates are shown: four, of different labels if possible.

    >>> shown_members(["rose", "rose", "rose", "rose", "rose", "tulip"])
    [0, 1, 2, 5]
    """
    first = {label: at for at, label in reversed(list(enumerate(labels)))}
    return sorted(
        [*sorted(first.values()), *(at for at in range(len(labels)) if at not in first.values())][:_MAX_MEMBERS]
    )


def positions_of(ids: npt.NDArray[Any], names: Collection[int | str]) -> dict[int | str, int]:
    """Return the positions of the samples with these names, of N ids."""
    wanted = set(names)
    return {name: at for at, name in enumerate(ids.tolist()) if name in wanted}


def _shown_neighbours(source: Source, listed: Problems) -> list[int]:
    """Return the positions of the duplicates, near duplicates and outliers that the report shows."""
    groups = listed.near_duplicates[:MAX_NEAR_GROUPS]
    outliers = [name for name, _ in listed.outliers[:MAX_OUTLIERS]]
    groups = [*(listed.duplicates or ())[:MAX_NEAR_GROUPS], *groups]
    names = [*(group.ids[at] for group in groups for at in shown_members(group.labels)), *outliers]
    position = positions_of(source.ids, names)
    return [position[name] for name in names]


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


def _common_folder(paths: Iterable[str], root: str) -> str | None:
    """Return the folder of all images if some lie outside `root`, where their paths start; else None."""
    base, folders = os.path.abspath(root), {os.path.dirname(path) for path in paths}  # noqa: PTH100, PTH120
    folders = {os.path.abspath(os.path.join(base, folder)) for folder in folders}  # noqa: PTH100, PTH118
    try:
        common = os.path.commonpath([base, *folders])
        return None if common == base else os.path.commonpath(folders)
    except ValueError:  # different drives of Windows
        return None


def _columns(source: Source, samples: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Return samples as rows of a table: texts, table cells or numbers; all names, the first 12 values."""
    rows: list[list[Any]]
    if source.texts is not None:
        names, rows = ["text"], [[str(source.texts[at])[:_MAX_TEXT]] for at in samples.tolist()]
    elif source.cells is not None:
        cells = source.cells.iloc[source.ids[samples]]
        names = list(cells.columns)
        shown = [_texts(cells.iloc[:, at]) for at in range(len(names))[:MAX_COLUMNS]]
        rows = [list(row) for row in zip(*shown, strict=True)]
    else:
        values = [source.inputs.read(at) for at in samples.tolist()]
        names = [f"feature {number}" for number in range(len(values[0]) if values else 0)]
        rows = [[float(f"{value:.4g}") for value in row[:MAX_COLUMNS].tolist()] for row in values]
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
