"""What the decisions of a review, and of those before it, mean for the labels of the data."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.label_files import WithoutLabel
from jnpl.data.split import part
from jnpl.internal.errors import InputError
from jnpl.outputs.review.decisions import ACTIONS, open_store
from jnpl.run_folder import RunFolder

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import numpy.typing as npt

    from jnpl.data.source import Source
    from jnpl.judging.findings import Findings
    from jnpl.outputs.review.decisions import CurrentDecisions
    from jnpl.run_folder import DataFacts


@dataclass(frozen=True, eq=False)
class ReviewedLabels:
    """What a review decided about the N samples of a run."""

    # (N,) decided class numbers, the given one for "keep"; -1 where nothing was decided, or "unsure"
    labels: npt.NDArray[np.int64]
    dropped: npt.NDArray[np.bool_]  # (N,) true for samples to leave out
    is_unsure: npt.NDArray[np.bool_]  # (N,) true for samples of which the reviewer was unsure

    @property
    def is_decided(self) -> npt.NDArray[np.bool_]:
        """(N,) true for samples with a decision of any kind."""
        return (self.labels >= 0) | self.dropped | self.is_unsure

    @property
    def unsure(self) -> int:
        """Number of samples of which the reviewer was unsure."""
        return int(self.is_unsure.sum())

    @property
    def count(self) -> int:
        """Number of samples with a decided label, or dropped."""
        return int((self.labels >= 0).sum() + self.dropped.sum())

    def rows(self, findings: Findings) -> list[tuple[str, Any]]:
        """Return id and label, or `WithoutLabel`, of the samples with a decision, as a table of decisions has them."""
        names = findings.names

        def decision(at: int) -> Any:
            if self.dropped[at] or self.is_unsure[at]:
                return WithoutLabel.DROP if self.dropped[at] else WithoutLabel.UNSURE
            return names[int(self.labels[at])]

        return [(str(findings.ids[at]), decision(at)) for at in np.flatnonzero(self.is_decided).tolist()]

    def earlier_rows(self, findings: Findings, facts: DataFacts) -> list[tuple[str, Any]]:
        """Return id and label of the samples that earlier reviews decided about and this one did not."""
        decided_here = {str(name) for name in findings.ids[self.is_decided].tolist()}
        return [(str(sample.id), sample.label) for sample in facts.decided if str(sample.id) not in decided_here]


def reviewed_labels(run: RunFolder) -> ReviewedLabels | None:
    """Return the decisions of the review of a run; None if it was never reviewed."""
    if not run.decisions.exists():
        return None
    with closing(open_store(run)) as store:
        return resolve(store.current(), run.findings.given_labels)


def with_review(source: Source, folder: str | os.PathLike[str]) -> Source:
    """Return the source with the decisions of the review of a run: decided labels beside the given ones, and without
    the dropped samples. Samples that the run does not have stay as they are.

    Decisions that the run was given itself (`jnpl find --review`) count as well, unless its own review says otherwise.
    """
    run = RunFolder(folder)
    findings, facts = run.findings, run.require_data_facts()
    reviewed = reviewed_labels(run)
    if reviewed is None:
        if not facts.decided and not facts.dropped:
            raise InputError(
                f"{str(run.path)!r} has no decisions: there is no {run.decisions.name} (jnpl review {run.path})"
            )
        nothing = np.zeros(len(findings.ids), bool)
        reviewed = ReviewedLabels(np.full(len(nothing), -1, np.int64), nothing, nothing)
    names = {str(name): number for number, name in enumerate(source.class_names)}
    classes = findings.names
    if strange := [str(name) for name in classes if str(name) not in names]:
        raise InputError(f"{str(run.path)!r} has a class {strange[0]!r} that {source.name} has not")
    rows = _rows_of(source.ids, findings.ids, run.path)
    numbers = np.array([names[str(name)] for name in classes], np.int64)
    labels, dropped = _earlier(facts, source, names, run.path)
    has_row = rows >= 0
    has_row[has_row] = reviewed.is_decided[rows[has_row]]
    decided = reviewed.labels[rows[has_row]]
    labels[has_row] = np.where(decided >= 0, numbers[decided], -1)
    dropped[has_row] = reviewed.dropped[rows[has_row]]
    kept = replace(source, decided=labels)
    if not dropped.any():
        return kept
    some = part(kept, np.flatnonzero(~dropped))
    return replace(some, test=source.test, validation=source.validation)


def _earlier(
    facts: DataFacts, source: Source, names: dict[str, int], run: Path
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return labels (N,), or -1, and dropped samples (N,) by the decisions that a run was given itself."""
    decided = {str(sample.id): str(sample.label) for sample in facts.decided}
    if strange := [label for label in decided.values() if label not in names]:
        raise InputError(f"data.json of {str(run)!r} has a class {strange[0]!r} that {source.name} has not")
    ids, dropped = [str(name) for name in source.ids.tolist()], {str(name) for name in facts.dropped}
    labels = np.array([names[decided[name]] if name in decided else -1 for name in ids], np.int64)
    return labels, np.array([name in dropped for name in ids], bool)


def decided_before(run: RunFolder) -> npt.NDArray[np.bool_]:
    """Return which samples (N,) of a run the reviews of earlier runs decided about."""
    decided, ids = {str(sample.id) for sample in run.data_facts.decided}, run.findings.ids
    if not decided:  # as usual; ids may be a million
        return np.zeros(len(ids), bool)
    return np.array([str(name) in decided for name in ids.tolist()], bool)


def given_decisions(before: Source, after: Source) -> dict[str, Any]:
    """Return what `with_review` has changed, for data.json of the next run: decided labels and dropped ids."""
    decided = np.full(len(after), -1) if after.decided is None else after.decided
    rows = np.flatnonzero(decided >= 0)
    kept = {str(name) for name in after.ids.tolist()}
    return {
        "decided": [
            {"id": name, "label": after.class_names[label]}
            for name, label in zip(after.ids[rows].tolist(), decided[rows].tolist(), strict=True)
        ],
        "dropped": [name for name in before.ids.tolist() if str(name) not in kept],
    }


def _rows_of(ids: npt.NDArray[Any], ids_of_run: npt.NDArray[Any], run: Path) -> npt.NDArray[np.int64]:
    """Return the row of a run for each of N samples (N,), -1 where it has none."""
    names, names_of_run = [str(name) for name in ids.tolist()], [str(name) for name in ids_of_run.tolist()]
    if names == names_of_run:
        return np.arange(len(names))
    place = {name: row for row, name in enumerate(names_of_run)}
    if len(place) < len(names_of_run):
        raise InputError(f"several samples of {str(run)!r} share an id, and these are not exactly its data")
    rows = np.array([place.get(name, -1) for name in names], np.int64)
    if (rows < 0).all():
        raise InputError(f"none of the samples is in {str(run)!r}: an id there is one like {names_of_run[0]!r}")
    return rows


def resolve(current: CurrentDecisions, given_labels: npt.NDArray[np.int64]) -> ReviewedLabels:
    """Return labels and dropped samples that current decisions mean for (N,) given labels."""
    labels = np.full(len(given_labels), -1, np.int64)
    dropped, unsure = np.zeros(len(given_labels), bool), np.zeros(len(given_labels), bool)
    is_kept, is_moved, is_dropped, is_unsure = (current.actions == number for number in range(len(ACTIONS)))
    kept, moved = current.positions[is_kept], current.positions[is_moved]
    labels[kept] = given_labels[kept]
    labels[moved] = current.labels[is_moved]
    dropped[current.positions[is_dropped]] = True
    unsure[current.positions[is_unsure]] = True
    return ReviewedLabels(labels, dropped, unsure)
