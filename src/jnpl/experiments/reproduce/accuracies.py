"""Test accuracies of Tables 1 and 2: mean and spread over seeds, and what the paper prints."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from jnpl.experiments.paper import Setting
from jnpl.experiments.result_tables import csv_table

if TYPE_CHECKING:
    from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns


@dataclass(frozen=True)
class Accuracies:
    """Of a variant in a setting: test accuracies in percent by seed, the paper's, and runs without a classifier."""

    values: tuple[float, ...]
    paper: float | None
    failed: int = 0

    @property
    def mean(self) -> float | None:
        """Mean over seeds."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """The standard deviation over seeds, from two on."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def text(self) -> str:
        """Mean ± spread.

        >>> Accuracies((50.0, 52.0), None).text, Accuracies((50.0,), 60.0).text, Accuracies((), 60.0).text
        ('51.0 ± 1.4', '50.0', '-')
        """
        if self.mean is None:
            return "no classifier" if self.failed else "-"
        shown = f"{self.mean:.1f}" + ("" if self.spread is None else f" ± {self.spread:.1f}")
        return shown + (f" ({self.failed} without)" if self.failed else "")


AccuracyTable: TypeAlias = "dict[str, dict[str, list[Accuracies]]]"  # data set -> variant -> one for each setting


def accuracies(runs: Sequence[PaperRun], paper: float | None = None) -> Accuracies:
    """The accuracies of one variant in one setting."""
    values = [run.get("test_accuracy") for run in runs]
    in_percent = tuple(100 * value for value in values if value is not None)
    return Accuracies(in_percent, paper, len(values) - len(in_percent))


def as_csv(runs: PaperRuns, table: AccuracyTable, settings: Sequence[Setting] = ()) -> str:
    """A line for each variant and setting: seeds, mean, spread, the paper's number, scale, our data."""

    def figure(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    return csv_table(
        {
            "data": part,
            "method": variant,
            **({"noise": settings[column][0], "rate": settings[column][1]} if settings else {}),
            "seeds": len(entry.values),
            "mean": figure(entry.mean),
            "spread": figure(entry.spread),
            "paper": figure(entry.paper),
            "scale": runs.scale.name,
            "ours": runs.scale.stands_for.get(part, ""),
        }
        for part, rows in table.items()
        for variant, row in rows.items()
        for column, entry in enumerate(row)
    )


def not_run(runs: PaperRuns, part: str) -> str:
    """Why nothing of ours is in a table."""
    return f"Not run: {runs.missing.get(part, 'there are no results')}."
