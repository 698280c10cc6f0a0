"""Beyond the paper: human labels (CIFAR-10N and CIFAR-100N), a linear head, and when PL+ begins."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jnpl.experiments.reproduce.entries import Entry, entry, not_run, origin
from jnpl.experiments.reproduce.item import SYMM60, Item
from jnpl.experiments.reproduce.paper import DATA_NAMES
from jnpl.experiments.reproduce.table1 import methods
from jnpl.experiments.result_tables import csv_table, latex_text, markdown_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.experiments.reproduce.paper import Setting
    from jnpl.experiments.reproduce.runs import PaperRun, PaperRuns
    from jnpl.experiments.reproduce.scales import Scale

HUMAN: Setting = ("human", 0.0)
PARTS = ("cifar10n", "cifar100n")
HEADS = {"ce": "CE", "nlnl": "NLNL", "nl-plus": "NL+", "jnpl": "JNPL", "jnpl-pl30": "JNPL, PL+ from 30 %"}
LINEAR = "-linear"
STARTS = {"jnpl": 0, "jnpl-pl30": 30, "jnpl-pl60": 60, "jnpl-pl80": 80, "nl-plus": None}  # per cent of the epochs


def _only_on_features(setting: Setting, scale: Scale) -> Sequence[Setting | None]:
    return () if scale.features is None or len(scale.settings) == 1 else (setting,)


def entries(runs: PaperRuns) -> dict[str, list[Entry]]:
    """Variant -> its entries on CIFAR-10N and CIFAR-100N."""
    return {
        variant: [entry(runs.of(variant, HUMAN, part, classify=True), None) for part in PARTS]
        for variant in methods(runs.scale)
    }


def markdown(runs: PaperRuns) -> str:
    """A column for each data set."""
    rows = entries(runs)
    lines = [["method", *(DATA_NAMES[part] for part in PARTS)]]
    lines += [[methods(runs.scale)[variant], *(each.text() for each in row)] for variant, row in rows.items()]
    missing = [not_run(runs, part) for part in PARTS if part in runs.missing]
    return "\n\n".join([markdown_table(lines), *missing]) + "\n"


def as_csv(runs: PaperRuns) -> str:
    """A line for each entry."""
    return csv_table(
        {"data": part, "method": variant, **each.columns, **origin(runs, part)}
        for variant, row in entries(runs).items()
        for part, each in zip(PARTS, row, strict=True)
    )


def latex(runs: PaperRuns) -> str:
    """The same for LaTeX with booktabs."""
    lines = [r"\begin{tabular}{l|cc}", r"\toprule", rf"Method & {' & '.join(DATA_NAMES[p] for p in PARTS)} \\ \midrule"]
    for variant, row in entries(runs).items():
        texts = " & ".join(each.text(r" $\pm$ ", "--") for each in row)
        lines.append(f"{latex_text(methods(runs.scale)[variant])} & {texts}" + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def head_rows(runs: PaperRuns) -> list[list[str]]:
    """AP, accuracy and p_y of the filters with both heads, at 60 % symmetric noise."""
    rows = [["method", "head", "AP", "accuracy: last epoch", "best epoch", "mean p_y right / wrong"]]
    for variant, name in HEADS.items():
        for head, row in (("MLP", variant), ("linear", f"{variant}{LINEAR}")):
            found = runs.first(row, SYMM60)
            rows.append([name, head, *(_facts(found) if found else ["-"] * 4)])
    return rows


def _facts(run: PaperRun) -> list[str]:
    stage, curve = run.stage(), run.curve()
    right, wrong = (stage[kind]["mean"] for kind in ("clean", "noisy"))
    shown = [f"{stage['ap']:.3f}", f"{100 * stage['test_accuracy']:.1f}", f"{100 * max(curve):.1f}"]
    return [*shown, f"{right:.2f} / {wrong:.2f}"]


def heads_markdown(runs: PaperRuns) -> str:
    """A line for each method and head."""
    return markdown_table(head_rows(runs)) + "\n"


def heads_csv(runs: PaperRuns) -> str:
    """A line for each method and head."""
    names, *rows = head_rows(runs)
    return csv_table(dict(zip(names, row, strict=True)) for row in rows)


def start_rows(runs: PaperRuns) -> list[list[str]]:
    """How the filter ends, by the time at which PL+ begins, at 60 % symmetric noise."""
    rows = [["PL+ from", "accuracy before it", "accuracy at the end", "AP", "mean p_y right / wrong"]]
    plus = runs.first("nl-plus", SYMM60)
    for variant, share in STARTS.items():
        found = runs.first(variant, SYMM60)
        name = "never (NL+ alone)" if share is None else f"{share} % of the epochs" if share else "the first step"
        if found is None or plus is None:
            rows.append([name, *["-"] * 4])
            continue
        before = found.pl_begins() if share else 0
        ap, end, _, sides = _facts(found)
        rows.append([name, f"{100 * plus.curve()[before - 1]:.1f}" if before else "-", end, ap, sides])
    return rows


def starts_markdown(runs: PaperRuns) -> str:
    """A line for each start."""
    return markdown_table(start_rows(runs)) + "\n"


def starts_csv(runs: PaperRuns) -> str:
    """A line for each start."""
    names, *rows = start_rows(runs)
    return csv_table(dict(zip(names, row, strict=True)) for row in rows)


HUMAN_LABELS = Item(
    name="human",
    title="Beyond the paper: test accuracy with human labels",
    claim="The paper has no such columns.",
    variants=lambda scale: tuple(methods(scale)),
    settings=partial(_only_on_features, HUMAN),
    parts=PARTS,
    classify=True,
    files={"md": markdown, "csv": as_csv, "tex": latex},
    notes=lambda _runs, _own: ["CIFAR-10N has the labels `worse`."],
    claims=(),
)
LINEAR_HEAD = Item(
    name="heads",
    title="Beyond the paper: a linear head beside the perceptron, 60 % symmetric noise",
    claim="The paper has one network.",
    variants=lambda _scale: (*HEADS, *(f"{name}{LINEAR}" for name in HEADS)),
    settings=partial(_only_on_features, SYMM60),
    files={"md": heads_markdown, "csv": heads_csv},
    notes=lambda _runs, _own: ["Figures of the filters, without classifiers; the best epoch is that of 2,000 images."],
    claims=(),
)
PL_START = Item(
    name="starts",
    title="Beyond the paper: when PL+ begins, 60 % symmetric noise",
    claim="In the paper PL+ begins with the first step.",
    variants=lambda _scale: tuple(STARTS),
    settings=partial(_only_on_features, SYMM60),
    files={"md": starts_markdown, "csv": starts_csv},
    notes=lambda _runs, _own: [
        "Accuracy before PL+ is that of NL+ alone with the same seed, of 2,000 test images; at the end, of all."
    ],
    claims=(),
)
ITEMS = (HUMAN_LABELS, LINEAR_HEAD, PL_START)
