"""Table 1: test accuracy on CIFAR-10 and CIFAR-100, ours over the paper's."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from jnpl.experiments.reproduce.entries import Entry, entry, not_run, origin
from jnpl.experiments.reproduce.fig3 import kendall
from jnpl.experiments.reproduce.item import ACCURACY, NOT_ALL, Claim, Item, Outcome, agrees_if, parts_of, unless_even
from jnpl.experiments.reproduce.paper import DATA_NAMES, METHODS, SETTINGS, TABLE1, percent, printed
from jnpl.experiments.result_tables import csv_table, latex_text, markdown_table
from jnpl.experiments.rows import PL_LATER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jnpl.experiments.reproduce.paper import Setting
    from jnpl.experiments.reproduce.runs import PaperRuns
    from jnpl.experiments.reproduce.scales import Scale

_LEGEND = "Test accuracy in percent; ± is the standard deviation over seeds, where there are several."
NL_PLUS = "nl-plus"
_PAPERS = tuple(TABLE1["cifar10"])  # its seven methods
_BEST = 2  # the paper prints the best two of a column bold; we do so among its methods


def methods(scale: Scale) -> dict[str, str]:
    """The rows of the table at a scale: variant -> name."""
    rows = {}
    for variant, name in METHODS.items():
        rows[variant] = name
        if variant == "jnpl" and scale.features is not None:
            rows |= {**dict.fromkeys(scale.later, PL_LATER), NL_PLUS: "NL+ without PL+"}
    return rows


def entries(runs: PaperRuns) -> dict[str, dict[str, list[Entry]]]:
    """Data set of the paper -> variant -> an entry for each of its eight settings."""
    return {
        part: {
            variant: [
                entry(runs.of(variant, setting, part, classify=True), printed(part, variant, setting))
                for setting in SETTINGS
            ]
            for variant in methods(runs.scale)
        }
        for part in ("cifar10", "cifar100")
    }


def bold(rows: Mapping[str, Sequence[Entry]], column: int) -> set[str]:
    """The best two of the paper's methods in a column."""
    own = {variant: row[column].mean for variant, row in rows.items() if variant in _PAPERS}
    known = sorted((mean, variant) for variant, mean in own.items() if mean is not None)
    return {variant for _, variant in known[-_BEST:]} if len(known) > _BEST else set()


def _marked(rows: Mapping[str, Sequence[Entry]], variant: str, mark: str, *text: str) -> list[str]:
    """The entries of a row; the best two of a column replace TEXT in `mark`."""
    texts = [each.text(*text) for each in rows[variant]]
    return [mark.replace("TEXT", each) if variant in bold(rows, column) else each for column, each in enumerate(texts)]


def markdown(runs: PaperRuns) -> str:
    """A table for each data set; two lines for each method: ours, and the paper's. The best two are bold."""
    parts = []
    for part, rows in entries(runs).items():
        if not any(each.values or each.failed for row in rows.values() for each in row):
            parts.append(f"**{_title(runs, part)}**. {not_run(runs, part)}")
            continue
        names = [f"{noise} {percent(rate)}" for noise, rate in SETTINGS]
        lines = [["method", "", *names]]
        for variant, row in rows.items():
            lines.append([methods(runs.scale)[variant], "ours", *_marked(rows, variant, "**TEXT**")])
            if any(each.paper is not None for each in row):
                lines.append(["", "paper", *("-" if each.paper is None else f"{each.paper:.2f}" for each in row)])
        parts.append(f"**{_title(runs, part)}**\n\n{markdown_table(lines)}")
    legend = f"{_LEGEND} Bold: the best two of the paper's seven methods."
    ranks = f"The order of the paper's seven methods beside the paper's:\n\n{order(runs)}"
    return "\n\n".join([*parts, legend, *([ranks] if runs.scale.paper_schedule else [])]) + "\n"


def _title(runs: PaperRuns, part: str) -> str:
    ours = runs.scale.stands_for.get(part)
    return DATA_NAMES[part] + (f" (ours: {ours})" if ours not in (None, part) else "")


def order(runs: PaperRuns) -> str:
    """The order of the methods beside the paper's, column by column: Kendall's tau, and the place of JNPL."""
    lines = [["", *(f"{noise} {percent(rate)}" for noise, rate in SETTINGS)]]
    for part, rows in entries(runs).items():
        name = DATA_NAMES[part]
        columns = [_ranked(rows, column) for column in range(len(SETTINGS))]
        if not any(columns):
            continue
        lines.append([f"{name}: Kendall's tau", *(tau(each) for each in columns)])
        for variant in ("jnpl", *runs.scale.later, *(() if runs.scale.features is None else (NL_PLUS,))):
            names = f"place of {methods(runs.scale)[variant]}, ours (JNPL in the paper)"
            lines.append([f"{name}: {names}", *(_place(rows, variant, column) for column in range(len(SETTINGS)))])
    return markdown_table(lines) if len(lines) > 1 else "Not run."


def _ranked(rows: Mapping[str, Sequence[Entry]], column: int) -> list[tuple[float, float]]:
    """The paper's and our accuracy of its methods that have both; none where one of ours is missing."""
    own = [(row[column].paper, row[column].mean) for variant, row in rows.items() if variant in _PAPERS]
    known = [(paper, ours) for paper, ours in own if paper is not None and ours is not None]
    return known if len(known) == sum(paper is not None for paper, _ in own) else []


def tau(pairs: Sequence[tuple[float, float]]) -> str:
    """Kendall's tau of the second numbers in the order of the first, as text.

    >>> tau([(1.0, 5.0), (2.0, 7.0), (3.0, 6.0)])
    '+0.33'
    """
    return f"{kendall([second for _, second in sorted(pairs)]):+.2f}" if len(pairs) > 1 else "-"


def _place(rows: Mapping[str, Sequence[Entry]], variant: str, column: int) -> str:
    """The place of a row among the paper's methods, itself in the place of JNPL, and the paper's place of JNPL."""
    pairs, ours = _ranked(rows, column), rows[variant][column].mean
    if not pairs or ours is None:
        return "-"
    others = [row[column] for name, row in rows.items() if name in _PAPERS and name != "jnpl"]
    better = sum(each.mean > ours for each in others if each.mean is not None)
    papers, own = [each.paper for each in others if each.paper is not None], rows["jnpl"][column].paper or 0.0
    return f"{1 + better} ({1 + sum(each > own for each in papers)})"


def as_csv(runs: PaperRuns) -> str:
    """A line for each entry."""
    return csv_table(
        {"data": part, "method": variant, "noise": noise, "rate": rate, **each.columns, **origin(runs, part)}
        for part, methods in entries(runs).items()
        for variant, row in methods.items()
        for (noise, rate), each in zip(SETTINGS, row, strict=True)
    )


def latex(runs: PaperRuns) -> str:
    """For booktabs and multirow, in the paper's arrangement; its numbers beneath ours, in brackets.

    pandas writes no rows of two lines and no column lines between groups, so the lines are put together here.
    """
    noises = r"\multicolumn{4}{c|}{\textit{Symm}} & \multicolumn{4}{c}{\textit{Asymm}} \\"
    lines = [
        f"% Test accuracy (%), scale {runs.scale.name}; in brackets the paper's. Needs booktabs and multirow.",
        r"\begin{tabular}{c|l|cccc|cccc}\toprule",
        r"\multirow{2}{*}{Data} & \multirow{2}{*}{Method} & " + noises,
        " & & " + " & ".join(percent(rate) for _, rate in SETTINGS) + r" \\",
    ]
    for part, rows in entries(runs).items():
        lines.append(r"\midrule")
        for at, (variant, row) in enumerate(rows.items()):
            ours = _marked(rows, variant, r"\textbf{TEXT}", r" $\pm$ ", "--")
            first = latex_text(_title(runs, part)) if at == 0 else ""
            lines.append(f"{first} & {latex_text(methods(runs.scale)[variant])} & " + " & ".join(ours) + r" \\")
            if any(each.paper is not None for each in row):
                paper = ("(--)" if each.paper is None else f"({each.paper:.2f})" for each in row)
                lines.append(" & & " + " & ".join(paper) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def best_of_table(runs: PaperRuns) -> Outcome:
    """Check how often JNPL is the best of the paper's seven methods in Table 1."""
    won, places = 0, []
    for part in parts_of(runs):
        for setting in runs.scale.settings:
            means = _accuracies(runs, setting, part)
            if means is None:
                return NOT_ALL
            places.append(1 + sum(mean > means["jnpl"] for mean in means.values()))
            won += max(means, key=lambda variant: means[variant]) == "jnpl"
    place = " to ".join(map(str, sorted({min(places), max(places)})))
    figures = f"Best in {won} of {len(places)} settings, place {place} of {len(_PAPERS)}."
    return agrees_if(2 * won > len(places), figures)


def _accuracies(runs: PaperRuns, setting: Setting, part: str) -> dict[str, float] | None:
    """The paper's seven methods -> accuracy in percent, over the seeds that all have; None: there are none.

    A run without a classifier counts as chance.
    """
    names = tuple(TABLE1[part])
    found = {}
    for variant, own in zip(names, runs.together(names, setting, part, classify=True), strict=True):
        if not own:
            return None
        values = [each.get("test_accuracy") for each in own]
        known = [1 / each.classes if value is None else value for each, value in zip(own, values, strict=True)]
        found[variant] = 100 * statistics.fmean(known)
    return found


def table_lead_grows(runs: PaperRuns) -> Outcome:
    """Check JNPL's lead over the best other method at the lowest and the highest rate."""
    texts, growth, ends = [], [], []
    for part, where in parts_of(runs).items():
        for noise in ("symm", "asymm"):
            leads = {}
            for setting in (each for each in runs.scale.settings if each[0] == noise):
                means = _accuracies(runs, setting, part)
                if means is None:
                    return NOT_ALL
                leads[setting[1]] = means["jnpl"] - max(mean for name, mean in means.items() if name != "jnpl")
            if len(leads) < 2:
                return ("not enough data", "Two rates of each noise are needed.")
            rates = list(leads)
            growth.append((leads[rates[-1]] - leads[rates[0]]) / 100)
            ends.append(leads[rates[-1]])
            texts.append(f"{where}{noise}: " + ", ".join(f"{percent(rate)} % {leads[rate]:+.1f}" for rate in rates))
    figures = "Points over the best other method, " + "; ".join(texts) + "."
    return unless_even(growth, ACCURACY, min(growth) >= ACCURACY and min(ends) > 0, figures)


ITEM = Item(
    name="table1",
    title="Table 1: test accuracy",
    claim="JNPL is best in most settings, and its lead grows with the noise.",
    variants=lambda scale: tuple(methods(scale)),
    parts=("cifar10", "cifar100"),
    classify=True,
    files={"md": markdown, "csv": as_csv, "tex": latex},
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
