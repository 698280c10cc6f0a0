"""Entries of Tables 1 and 2: mean and spread over seeds, and what the paper prints."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.experiments.reproduce.runs import PaperRun, PaperRuns


@dataclass(frozen=True)
class Entry:
    """A place in Table 1 or 2: test accuracies in percent by seed, the paper's, and runs without a classifier."""

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
    def columns(self) -> dict[str, str | int]:
        """Columns of a CSV file: seeds, mean, spread and the paper's number."""
        figures = {"mean": self.mean, "spread": self.spread, "paper": self.paper}
        shown = {name: "" if value is None else f"{value:.2f}" for name, value in figures.items()}
        return {"seeds": len(self.values), **shown}

    def text(self, plus_minus: str = " ± ", nothing: str = "-") -> str:
        """Mean ± spread.

        >>> Entry((50.0, 52.0), None).text(), Entry((50.0,), 60.0).text(), Entry((), 60.0).text()
        ('51.0 ± 1.4', '50.0', '-')
        """
        if self.mean is None:
            return "no classifier" if self.failed else nothing
        shown = f"{self.mean:.1f}" + ("" if self.spread is None else f"{plus_minus}{self.spread:.1f}")
        return shown + (f" ({self.failed} without)" if self.failed else "")


def entry(found: Sequence[PaperRun], paper: float | None) -> Entry:
    """The entry of one method in one setting."""
    values = [each.get("test_accuracy") for each in found]
    known = tuple(100 * value for value in values if value is not None)
    return Entry(known, paper, len(values) - len(known))


def origin(runs: PaperRuns, part: str) -> dict[str, str]:
    """Columns of a CSV file: the scale, and the data that stand for those of the paper."""
    return {"scale": runs.scale.name, "ours": runs.scale.stands_for.get(part, "")}


def not_run(runs: PaperRuns, part: str) -> str:
    """Why nothing of ours is in a table."""
    return f"Not run: {runs.missing.get(part, 'there are no results')}."
