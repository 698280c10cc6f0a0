"""Table 2: test accuracy on Clothing1M, ours beside what the paper prints."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from jnpl.experiments.reproduce.entries import Entry, entry, not_run, origin
from jnpl.experiments.reproduce.item import NOT_ALL, REACHES, Claim, Item, Outcome, agrees_if
from jnpl.experiments.reproduce.paper import TABLE2
from jnpl.experiments.result_tables import csv_table, latex_text, markdown_table

if TYPE_CHECKING:
    from jnpl.experiments.reproduce.runs import PaperRuns


def entries(runs: PaperRuns) -> dict[str, Entry]:
    """Variant -> its entry."""
    return {
        variant: entry(runs.of(variant, None, "clothing1m", classify=True), quoted)
        for variant, (_, quoted) in TABLE2.items()
    }


def markdown(runs: PaperRuns) -> str:
    """The paper's numbers beside ours."""
    rows = entries(runs)
    lines = [["method", "paper", "ours"]]
    lines += [[TABLE2[variant][0], f"{each.paper:.2f}", each.text()] for variant, each in rows.items()]
    text = markdown_table(lines)
    return f"{text}\n" if any(each.values for each in rows.values()) else f"{text}\n\n{not_run(runs, 'clothing1m')}\n"


def as_csv(runs: PaperRuns) -> str:
    """A line for each method."""
    return csv_table(
        {"data": "clothing1m", "method": variant, **each.columns, **origin(runs, "clothing1m")}
        for variant, each in entries(runs).items()
    )


def latex(runs: PaperRuns) -> str:
    """The same for LaTeX with booktabs."""
    lines = [r"\begin{tabular}{l|cc}", r"\toprule", r"Method & Paper & Ours \\ \midrule"]
    for variant, each in entries(runs).items():
        ours = each.text(r" $\pm$ ", "--")
        lines.append(f"{latex_text(TABLE2[variant][0])} & {each.paper:.2f} & {ours}" + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def clothing(runs: PaperRuns) -> Outcome:
    """Check our JNPL on Clothing1M."""
    known = [
        value
        for each in runs.of("jnpl", None, "clothing1m", classify=True)
        if (value := each.get("test_accuracy")) is not None
    ]
    if not known:
        return ("not enough data", runs.missing.get("clothing1m", NOT_ALL[1]))
    ours, paper = 100 * statistics.fmean(known), TABLE2["jnpl"][1]
    return agrees_if(ours >= paper - 100 * REACHES, f"accuracy {ours:.2f} %, in the paper {paper:.2f} %.")


ITEM = Item(
    name="table2",
    title="Table 2: test accuracy on Clothing1M",
    claim="JNPL reaches 74.15 %, more than eight other methods.",
    variants=lambda _scale: tuple(TABLE2),
    settings=lambda _scale: (None,),
    parts=("clothing1m",),
    classify=True,
    files={"md": markdown, "csv": as_csv, "tex": latex},
    claims=(
        Claim(
            "clothing",
            "JNPL reaches 74.15 % on Clothing1M.",
            "Ours is at most one point below.",
            clothing,
        ),
    ),
)
