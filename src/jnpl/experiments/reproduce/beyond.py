"""Beyond the paper: human labels, a linear head, when PL+ begins, class weights, and NL+ with 100 classes."""

from __future__ import annotations

import statistics
from functools import partial
from typing import TYPE_CHECKING

from jnpl.experiments.reproduce.entries import Entry, entry, not_run, origin
from jnpl.experiments.reproduce.item import ASYMM40, SYMM60, Item
from jnpl.experiments.reproduce.paper import DATA_NAMES, TABLE1, percent
from jnpl.experiments.reproduce.table1 import methods
from jnpl.experiments.result_tables import csv_table, latex_text, markdown_table
from jnpl.experiments.rows import LATER, PL_LATER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jnpl.experiments.reproduce.paper import Setting
    from jnpl.experiments.reproduce.runs import PaperRun, PaperRuns
    from jnpl.experiments.reproduce.scales import Scale

HUMAN: Setting = ("human", 0.0)
PARTS = ("cifar10n", "cifar100n")
HEADS = {"ce": "CE", "nlnl": "NLNL", "nl-plus": "NL+", "jnpl": "JNPL", f"jnpl{LATER}": PL_LATER}
LINEAR = "-linear"
WEIGHT_SETTINGS: tuple[Setting, ...] = (("asymm", 0.2), ASYMM40)
WEIGHTS = {"nlnl": "NLNL, with its class weights", "nl-plus": "NL+", "nl-plus-weights": "NL+ with these weights"}
STARTS = {
    "jnpl": "the first step",
    "jnpl-batch": "the first step, a mean over the batch",
    f"jnpl{LATER}": "30 % of the epochs",
    "jnpl-pl60": "60 % of the epochs",
    "jnpl-pl80": "80 % of the epochs",
    "nl-plus": "never (NL+ alone)",
}
STEPS = {"nl-plus": "NL+", "nl": "NL", "nl-plus-long": "NL+, epochs not divided"}


def _table_files(rows: Callable[[PaperRuns], list[list[str]]]) -> dict[str, Callable[[PaperRuns], str]]:
    """A table of texts, its names first, as Markdown and CSV."""

    def as_lines(runs: PaperRuns) -> str:
        names, *lines = rows(runs)
        return csv_table(dict(zip(names, line, strict=True)) for line in lines)

    return {"md": lambda runs: markdown_table(rows(runs)) + "\n", "csv": as_lines}


def _only_on_features(settings: Sequence[Setting], scale: Scale) -> Sequence[Setting | None]:
    return settings if scale.name == "features" else ()


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


def start_rows(runs: PaperRuns) -> list[list[str]]:
    """How the filter ends, by the time at which PL+ begins, at 60 % symmetric noise."""
    rows = [["PL+ from", "accuracy before it", "accuracy at the end", "AP", "mean p_y right / wrong"]]
    plus = runs.first("nl-plus", SYMM60)
    for variant, name in STARTS.items():
        found = runs.first(variant, SYMM60)
        if found is None or plus is None:
            rows.append([name, *["-"] * 4])
            continue
        before = found.pl_begins()
        ap, end, _, sides = _facts(found)
        rows.append([name, f"{100 * plus.curve()[before - 1]:.1f}" if before else "-", end, ap, sides])
    return rows


def weight_rows(runs: PaperRuns) -> list[list[str]]:
    """AP of the filter and accuracy of the classifier with asymmetric noise, with and without class weights."""
    rows = [["AP / accuracy", *(f"{noise} {percent(rate)}" for noise, rate in WEIGHT_SETTINGS)]]
    for variant, name in WEIGHTS.items():
        found = [runs.of(variant, setting, classify=True) for setting in WEIGHT_SETTINGS]
        shown = [
            f"{statistics.fmean(run.stage()['ap'] for run in own):.3f} / {entry(own, None).text()}" if own else "-"
            for own in found
        ]
        rows.append([name, *shown])
    return [*rows, ["best of the paper's methods in Table 1", *(_best(runs, setting) for setting in WEIGHT_SETTINGS)]]


def _best(runs: PaperRuns, setting: Setting) -> str:
    """The method of the paper with the highest accuracy among those that were run."""
    own = {name: entry(runs.of(name, setting, classify=True), None) for name in TABLE1["cifar10"]}
    known = [(each.mean, name) for name, each in own.items() if each.mean is not None]
    return f"{methods(runs.scale)[max(known)[1]]} {own[max(known)[1]].text()}" if known else "-"


def step_rows(runs: PaperRuns) -> list[list[str]]:
    """How NL+ ends on CIFAR-100 with its epochs divided and not, beside NL, at 60 % symmetric noise."""
    rows = [["filter", "epochs", "AP", "accuracy: last epoch", "best epoch", "mean p_y right / wrong"]]
    for variant, name in STEPS.items():
        found = runs.first(variant, SYMM60, "cifar100")
        rows.append([name, str(len(found.curve())), *_facts(found)] if found else [name, *["-"] * 5])
    return rows


HUMAN_LABELS = Item(
    name="human",
    title="Beyond the paper: test accuracy with human labels",
    claim="The paper has no such columns.",
    variants=lambda scale: tuple(methods(scale)),
    settings=partial(_only_on_features, (HUMAN,)),
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
    settings=partial(_only_on_features, (SYMM60,)),
    files=_table_files(head_rows),
    notes=lambda _runs, _own: [
        "Figures of the filters, without classifiers. The best epoch is by 2,000 test images, the last by all."
    ],
    claims=(),
)
PL_START = Item(
    name="starts",
    title="Beyond the paper: when PL+ begins, 60 % symmetric noise",
    claim="In the paper PL+ begins with the first step.",
    variants=lambda _scale: tuple(STARTS),
    settings=partial(_only_on_features, (SYMM60,)),
    files=_table_files(start_rows),
    notes=lambda _runs, _own: [
        "Accuracy before PL+ is that of NL+ alone with the same seed, of 2,000 test images; at the end, of all."
    ],
    claims=(),
)
CLASS_WEIGHTS = Item(
    name="weights",
    title="Beyond the paper: NL+ with the class weights of NLNL's code, asymmetric noise",
    claim="The paper does not say whether NL+ has class weights.",
    variants=lambda _scale: tuple(WEIGHTS),
    settings=partial(_only_on_features, WEIGHT_SETTINGS),
    classify=True,
    files=_table_files(weight_rows),
    notes=lambda _runs, _own: ["AP of the filter, accuracy of the classifier, means over the seeds."],
    claims=(),
)
MORE_STEPS = Item(
    name="steps",
    title="Beyond the paper: NL+ with 100 classes, 60 % symmetric noise",
    claim="In the paper NL+ has 1,000 epochs.",
    variants=lambda _scale: tuple(STEPS),
    settings=partial(_only_on_features, (SYMM60,)),
    parts=("cifar100",),
    files=_table_files(step_rows),
    notes=lambda _runs, _own: [
        "Figures of the filters, without classifiers. The best epoch is by 2,000 test images, the last by all."
    ],
    claims=(),
)
ITEMS = (HUMAN_LABELS, LINEAR_HEAD, PL_START, CLASS_WEIGHTS, MORE_STEPS)
