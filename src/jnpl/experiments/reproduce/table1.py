"""Table 1: test accuracy on CIFAR-10 and CIFAR-100, ours over the paper's; and what tables of accuracies share."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jnpl.experiments.paper import DATA_NAMES, METHODS, SETTINGS, TABLE1, Setting, percent, printed
from jnpl.experiments.reproduce.experiment import (
    ACCURACY,
    NOT_ALL,
    Claim,
    Experiment,
    Rows,
    Verdict,
    agrees_if,
    parts_of,
    unless_even,
)
from jnpl.experiments.reproduce.fig3 import kendall
from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns
from jnpl.experiments.result_tables import csv_table
from jnpl.experiments.scales import Scale

_LEGEND = (
    "Test accuracy in percent; ± is the standard deviation over seeds, where there are several. Bold: the best two of "
    "the paper's seven methods."
)
_PAPERS = tuple(TABLE1["cifar10"])  # its seven methods
_BEST = 2  # the paper prints the best two of a column bold; we do so among its methods
_COLUMNS = [f"{noise} {percent(rate)}" for noise, rate in SETTINGS]


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


AccuracyTable: TypeAlias = dict[str, dict[str, list[Accuracies]]]  # data set -> variant -> one for each setting


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


def methods(scale: Scale) -> dict[str, str]:
    """The rows of the table at a scale: variant -> name."""
    rows = {}
    for variant, name in METHODS.items():
        rows[variant] = name
        if variant == "jnpl":
            rows |= scale.beside
    return rows


def table(runs: PaperRuns) -> AccuracyTable:
    """Data set of the paper -> variant -> accuracies in each of its eight settings."""

    def entry(part: str, variant: str, setting: Setting) -> Accuracies:
        return accuracies(runs.of(variant, setting, part, classify=True), printed(part, variant, setting))

    return {
        part: {variant: [entry(part, variant, setting) for setting in SETTINGS] for variant in methods(runs.scale)}
        for part in ("cifar10", "cifar100")
    }


def bold(rows: Mapping[str, Sequence[Accuracies]], column: int) -> set[str]:
    """The best two of the paper's methods in a column."""
    means = {variant: row[column].mean for variant, row in rows.items() if variant in _PAPERS}
    ranked = sorted((mean, variant) for variant, mean in means.items() if mean is not None)
    return {variant for _, variant in ranked[-_BEST:]} if len(ranked) > _BEST else set()


def blocks(runs: PaperRuns) -> list[str | Rows]:
    """A table for each data set; two lines for each method: ours, and the paper's. The best two are bold."""
    shown: list[str | Rows] = []
    for part, rows in table(runs).items():
        ours = runs.scale.stands_for.get(part)
        title = DATA_NAMES[part] + (f" (ours: {ours})" if ours not in (None, part) else "")
        if not any(entry.values or entry.failed for row in rows.values() for entry in row):
            shown.append(f"**{title}**. {not_run(runs, part)}")
            continue
        lines = [["method", "", *_COLUMNS]]
        for variant, row in rows.items():
            marks = ["**" if variant in bold(rows, column) else "" for column in range(len(row))]
            texts = [f"{mark}{entry.text}{mark}" for mark, entry in zip(marks, row, strict=True)]
            lines.append([methods(runs.scale)[variant], "ours", *texts])
            if any(entry.paper is not None for entry in row):
                lines.append(["", "paper", *("-" if entry.paper is None else f"{entry.paper:.2f}" for entry in row)])
        shown += [f"**{title}**", lines]
    shown.append(_LEGEND)
    if runs.scale.paper_schedule:
        shown += ["The order of the paper's seven methods beside the paper's:", order(runs) or "Not run."]
    return shown


def order(runs: PaperRuns) -> Rows:
    """Kendall's tau of the methods in the paper's order, and the place of JNPL, column by column; [] if not run."""
    lines = [["", *_COLUMNS]]
    for part, rows in table(runs).items():
        name = DATA_NAMES[part]
        columns = [_ranked(rows, column) for column in range(len(SETTINGS))]
        if not any(columns):
            continue
        lines.append([f"{name}: Kendall's tau", *(tau(pairs) for pairs in columns)])
        for variant in ("jnpl", *runs.scale.beside):
            names = f"place of {methods(runs.scale)[variant]}, ours (JNPL in the paper)"
            lines.append([f"{name}: {names}", *(_place(rows, variant, column) for column in range(len(SETTINGS)))])
    return lines if len(lines) > 1 else []


def _ranked(rows: Mapping[str, Sequence[Accuracies]], column: int) -> list[tuple[float, float]]:
    """The paper's and our accuracy of its methods that have both; none where one of ours is missing."""
    entries = [row[column] for variant, row in rows.items() if variant in _PAPERS and row[column].paper is not None]
    pairs = [(entry.paper, entry.mean) for entry in entries if entry.paper is not None and entry.mean is not None]
    return pairs if len(pairs) == len(entries) else []


def tau(pairs: Sequence[tuple[float, float]]) -> str:
    """Kendall's tau of the second numbers in the order of the first, as text.

    >>> tau([(1.0, 5.0), (2.0, 7.0), (3.0, 6.0)])
    '+0.33'
    """
    return f"{kendall([second for _, second in sorted(pairs)]):+.2f}" if len(pairs) > 1 else "-"


def _place(rows: Mapping[str, Sequence[Accuracies]], variant: str, column: int) -> str:
    """The place of a row among the paper's methods, itself in the place of JNPL, and the paper's place of JNPL."""
    ours, papers_jnpl = rows[variant][column].mean, rows["jnpl"][column].paper or 0.0
    if not _ranked(rows, column) or ours is None:
        return "-"
    others = [row[column] for name, row in rows.items() if name in _PAPERS and name != "jnpl"]
    better = sum(entry.mean > ours for entry in others if entry.mean is not None)
    better_in_paper = sum(entry.paper > papers_jnpl for entry in others if entry.paper is not None)
    return f"{1 + better} ({1 + better_in_paper})"


def best_of_table(runs: PaperRuns) -> Verdict:
    """Check how often JNPL is the best of the paper's seven methods in Table 1."""
    won, places = 0, []
    for part in parts_of(runs):
        for setting in runs.scale.settings:
            means = _means(runs, setting, part)
            if means is None:
                return NOT_ALL
            places.append(1 + sum(mean > means["jnpl"] for mean in means.values()))
            won += max(means, key=lambda variant: means[variant]) == "jnpl"
    place = " to ".join(map(str, sorted({min(places), max(places)})))
    figures = f"Best in {won} of {len(places)} settings, place {place} of {len(_PAPERS)}."
    return agrees_if(2 * won > len(places), figures)


def _means(runs: PaperRuns, setting: Setting, part: str) -> dict[str, float] | None:
    """The paper's seven methods -> accuracy in percent, over the seeds that all have; None: there are none.

    A run without a classifier counts as chance.
    """
    means = {}
    for variant, stored in zip(_PAPERS, runs.together(_PAPERS, setting, part, classify=True), strict=True):
        if not stored:
            return None
        values = [run.get("test_accuracy") for run in stored]
        counted = [1 / run.classes if value is None else value for run, value in zip(stored, values, strict=True)]
        means[variant] = 100 * statistics.fmean(counted)
    return means


def table_lead_grows(runs: PaperRuns) -> Verdict:
    """Check JNPL's lead over the best other method at the lowest and the highest rate."""
    texts, growth, ends = [], [], []
    for part, where in parts_of(runs).items():
        for noise in ("symm", "asymm"):
            leads = {}
            for setting in (setting for setting in runs.scale.settings if setting[0] == noise):
                means = _means(runs, setting, part)
                if means is None:
                    return NOT_ALL
                leads[setting[1]] = means["jnpl"] - max(mean for name, mean in means.items() if name != "jnpl")
            if len(leads) < 2:
                return ("not enough data", "Two rates of each noise are needed.")
            first, *_, last = leads.values()
            growth.append((last - first) / 100)
            ends.append(last)
            shown = ", ".join(f"{percent(rate)} % {lead:+.1f}" for rate, lead in leads.items())
            texts.append(f"{where}{noise}: {shown}")
    figures = "Points over the best other method, " + "; ".join(texts) + "."
    return unless_even(growth, ACCURACY, min(growth) >= ACCURACY and min(ends) > 0, figures)


EXPERIMENT = Experiment(
    name="table1",
    title="Table 1: test accuracy",
    claim="JNPL is best in most settings, and its lead grows with the noise.",
    variants=lambda scale: tuple(methods(scale)),
    parts=("cifar10", "cifar100"),
    classify=True,
    blocks=blocks,
    csv=lambda runs: as_csv(runs, table(runs), SETTINGS),
    claims=(
        Claim(
            "best",
            "JNPL outperforms the other methods overall.",
            "It has the highest accuracy of the paper's seven methods in more than half of the settings. A run whose "
            "second part gave no classifier counts as chance. Only seeds that all seven have.",
            best_of_table,
        ),
        Claim(
            "table-lead",
            "JNPL's lead in accuracy grows with the noise.",
            "Its accuracy less that of the best other method is larger at the highest than at the lowest rate, by "
            "half a point or more, and above zero there, for both noises and on each data set. A run whose second "
            "part gave no classifier counts as chance. Only seeds that all seven have.",
            table_lead_grows,
        ),
    ),
)
