"""Table 2: test accuracy on Clothing1M, ours beside what the paper prints."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from jnpl.experiments.paper import TABLE2
from jnpl.experiments.reproduce.experiment import NOT_ALL, REACHES, Claim, Experiment, Rows, Verdict, agrees_if
from jnpl.experiments.reproduce.table1 import AccuracyTable, accuracies, as_csv, not_run

if TYPE_CHECKING:
    from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns


def _runs(runs: PaperRuns, variant: str) -> list[PaperRun]:
    return runs.of(variant, None, "clothing1m", classify=True)


def table(runs: PaperRuns) -> AccuracyTable:
    """Variant -> its accuracies."""
    return {"clothing1m": {name: [accuracies(_runs(runs, name), paper)] for name, (_, paper) in TABLE2.items()}}


def blocks(runs: PaperRuns) -> list[str | Rows]:
    """The paper's numbers beside ours."""
    rows = [(name, accuracies(_runs(runs, variant), paper)) for variant, (name, paper) in TABLE2.items()]
    lines = [["method", "paper", "ours"], *([name, f"{entry.paper:.2f}", entry.text] for name, entry in rows)]
    return [lines, *([] if any(entry.values for _, entry in rows) else [not_run(runs, "clothing1m")])]


def clothing(runs: PaperRuns) -> Verdict:
    """Check our JNPL on Clothing1M."""
    values = [value for run in _runs(runs, "jnpl") if (value := run.get("test_accuracy")) is not None]
    if not values:
        return ("not enough data", runs.missing.get("clothing1m", NOT_ALL[1]))
    ours, paper = 100 * statistics.fmean(values), TABLE2["jnpl"][1]
    return agrees_if(ours >= paper - 100 * REACHES, f"accuracy {ours:.2f} %, in the paper {paper:.2f} %.")


EXPERIMENT = Experiment(
    name="table2",
    title="Table 2: test accuracy on Clothing1M",
    claim="JNPL reaches 74.15 %, more than eight other methods.",
    variants=lambda _scale: tuple(TABLE2),
    settings=lambda _scale: (None,),
    parts=("clothing1m",),
    classify=True,
    blocks=blocks,
    csv=lambda runs: as_csv(runs, table(runs)),
    claims=(Claim("clothing", "JNPL reaches 74.15 % on Clothing1M.", "Ours is at most one point below.", clothing),),
)
