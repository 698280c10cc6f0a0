"""Beyond the paper: human labels, a linear head, when PL+ begins, class weights, NL+ with 100 classes, a stable PL+."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from jnpl.experiments.paper import DATA_NAMES, SETTINGS, TABLE1, Setting, percent
from jnpl.experiments.paper_variants import STABLE
from jnpl.experiments.reproduce.experiment import ASYMM40, SYMM60, Experiment, Rows
from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns
from jnpl.experiments.reproduce.table1 import Accuracies, AccuracyTable, accuracies, as_csv, methods, not_run
from jnpl.experiments.scales import Scale

HUMAN: Setting = ("human", 0.0)
PARTS = ("cifar10n", "cifar100n")
HEADS = {"ce": "CE", "nlnl": "NLNL", "nl-plus": "NL+", "jnpl": "JNPL", "jnpl-pl30": "JNPL, PL+ from 30 %"}
LINEAR = "-linear"
WEIGHT_SETTINGS: tuple[Setting, ...] = (("asymm", 0.2), ASYMM40)
WEIGHTS = {"nlnl": "NLNL, with its class weights", "nl-plus": "NL+", "nl-plus-weights": "NL+ with these weights"}
STARTS = {
    "jnpl": "the first step",
    "jnpl-batch": "the first step, a mean over the batch",
    "jnpl-pl30": "30 % of the epochs",
    "jnpl-pl60": "60 % of the epochs",
    "jnpl-pl80": "80 % of the epochs",
    "nl-plus": "never (NL+ alone)",
}
STEPS = {"nl-plus": "NL+", "nl": "NL", "nl-plus-long": "NL+, epochs not divided"}
FILTERS = {"nlnl": "NLNL", "nl-plus": "NL+", "jnpl": "JNPL as written", STABLE: STABLE}
FILTER_PARTS = ("cifar10", "cifar100")
_NO_CLASSIFIERS = (
    "Figures of the filters, without classifiers. The best epoch is by 2,000 test images, the last by all."
)


def human_table(runs: PaperRuns) -> AccuracyTable:
    """Accuracies on CIFAR-10N and CIFAR-100N."""

    def entries(part: str) -> dict[str, list[Accuracies]]:
        return {name: [accuracies(runs.of(name, HUMAN, part, classify=True))] for name in methods(runs.scale)}

    return {part: entries(part) for part in PARTS}


def human_blocks(runs: PaperRuns) -> list[str | Rows]:
    """A column for each data set."""
    columns = human_table(runs).values()
    lines = [["method", *(DATA_NAMES[part] for part in PARTS)]]
    lines += [[name, *(rows[variant][0].text for rows in columns)] for variant, name in methods(runs.scale).items()]
    return [lines, *(not_run(runs, part) for part in PARTS if part in runs.missing)]


def head_rows(runs: PaperRuns) -> Rows:
    """AP, accuracy and p_y of the filters with both heads, at 60 % symmetric noise."""
    rows = [["method", "head", "AP", "accuracy: last epoch", "best epoch", "mean p_y right / wrong"]]
    for variant, name in HEADS.items():
        for head, whole_name in (("MLP", variant), ("linear", f"{variant}{LINEAR}")):
            run = runs.first(whole_name, SYMM60)
            rows.append([name, head, *(_facts(run) if run else ["-"] * 4)])
    return rows


def _facts(run: PaperRun) -> list[str]:
    stage, curve = run.stage(), run.curve()
    right, wrong = (stage[kind]["mean"] for kind in ("clean", "noisy"))
    shown = [f"{stage['ap']:.3f}", f"{100 * stage['test_accuracy']:.1f}", f"{100 * max(curve):.1f}"]
    return [*shown, f"{right:.2f} / {wrong:.2f}"]


def start_rows(runs: PaperRuns) -> Rows:
    """How the filter ends, by the time at which PL+ begins, at 60 % symmetric noise."""
    rows = [["PL+ from", "accuracy before it", "accuracy at the end", "AP", "mean p_y right / wrong"]]
    plus = runs.first("nl-plus", SYMM60)
    for variant, name in STARTS.items():
        run = runs.first(variant, SYMM60)
        if run is None or plus is None:
            rows.append([name, *["-"] * 4])
            continue
        before = run.pl_begins()
        ap, end, _, sides = _facts(run)
        rows.append([name, f"{100 * plus.curve()[before - 1]:.1f}" if before else "-", end, ap, sides])
    return rows


def weight_rows(runs: PaperRuns) -> Rows:
    """AP of the filter and accuracy of the classifier with asymmetric noise, with and without class weights."""

    def text(variant: str, setting: Setting) -> str:
        stored = runs.of(variant, setting, classify=True)
        if not stored:
            return "-"
        return f"{statistics.fmean(run.stage()['ap'] for run in stored):.3f} / {accuracies(stored).text}"

    def best(setting: Setting) -> str:
        """The method of the paper with the highest accuracy among those that were run."""
        entries = {name: accuracies(runs.of(name, setting, classify=True)) for name in TABLE1["cifar10"]}
        means = [(entry.mean, name) for name, entry in entries.items() if entry.mean is not None]
        return f"{methods(runs.scale)[max(means)[1]]} {entries[max(means)[1]].text}" if means else "-"

    return [
        ["AP / accuracy", *(f"{noise} {percent(rate)}" for noise, rate in WEIGHT_SETTINGS)],
        *([name, *(text(variant, setting) for setting in WEIGHT_SETTINGS)] for variant, name in WEIGHTS.items()),
        ["best of the paper's methods in Table 1", *(best(setting) for setting in WEIGHT_SETTINGS)],
    ]


def step_rows(runs: PaperRuns) -> Rows:
    """How NL+ ends on CIFAR-100 with its epochs divided and not, beside NL, at 60 % symmetric noise."""
    rows = [["filter", "epochs", "AP", "accuracy: last epoch", "best epoch", "mean p_y right / wrong"]]
    for variant, name in STEPS.items():
        run = runs.first(variant, SYMM60, "cifar100")
        rows.append([name, str(len(run.curve())), *_facts(run)] if run else [name, *["-"] * 5])
    return rows


def stable_rows(runs: PaperRuns) -> Rows:
    """AP and accuracy of the filters in the columns of Table 1, of the first seed that all of them have."""
    rows = [["AP / accuracy", "noise", *FILTERS.values()]]
    for part in FILTER_PARTS:
        for noise, rate in SETTINGS:
            stored = runs.together(tuple(FILTERS), (noise, rate), part)
            facts = [_short(seeds[0]) if seeds else "-" for seeds in stored]
            rows.append([DATA_NAMES[part], f"{noise} {percent(rate)}", *facts])
    return rows


def _short(run: PaperRun) -> str:
    ap, accuracy, *_ = _facts(run)
    return f"{ap} / {accuracy}"


def _experiment(
    name: str,
    title: str,
    claim: str,
    variants: Sequence[str],
    settings: Sequence[Setting],
    rows: Callable[[PaperRuns], Rows],
    note: str,
    **options: Any,
) -> Experiment:
    """A table of filters or classifiers at scale `features`, which has no claim of the paper."""

    def if_on_features(scale: Scale) -> Sequence[Setting]:
        return settings if scale.name == "features" else ()

    return Experiment(
        name,
        f"Beyond the paper: {title}",
        claim,
        lambda _scale: variants,
        settings=if_on_features,
        blocks=lambda runs: [rows(runs)],
        notes=lambda _all, _used: [note],
        **options,
    )


EXPERIMENTS = (
    Experiment(
        name="human",
        title="Beyond the paper: test accuracy with human labels",
        claim="The paper has no such columns.",
        variants=lambda scale: tuple(methods(scale)),
        settings=lambda scale: (HUMAN,) if scale.name == "features" else (),
        parts=PARTS,
        classify=True,
        blocks=human_blocks,
        csv=lambda runs: as_csv(runs, human_table(runs)),
        notes=lambda _all, _used: ["CIFAR-10N has the labels `worse`."],
    ),
    _experiment(
        "heads",
        "a linear head beside the perceptron, 60 % symmetric noise",
        "The paper has one network.",
        (*HEADS, *(f"{name}{LINEAR}" for name in HEADS)),
        (SYMM60,),
        head_rows,
        _NO_CLASSIFIERS,
    ),
    _experiment(
        "starts",
        "when PL+ begins, 60 % symmetric noise",
        "In the paper PL+ begins with the first step.",
        tuple(STARTS),
        (SYMM60,),
        start_rows,
        "Accuracy before PL+ is that of NL+ alone with the same seed, of 2,000 test images; at the end, of all.",
    ),
    _experiment(
        "weights",
        "NL+ with the class weights of NLNL's code, asymmetric noise",
        "The paper does not say whether NL+ has class weights.",
        tuple(WEIGHTS),
        WEIGHT_SETTINGS,
        weight_rows,
        "AP of the filter, accuracy of the classifier, means over the seeds.",
        classify=True,
    ),
    _experiment(
        "steps",
        "NL+ with 100 classes, 60 % symmetric noise",
        "In the paper NL+ has 1,000 epochs.",
        tuple(STEPS),
        (SYMM60,),
        step_rows,
        _NO_CLASSIFIERS,
        parts=("cifar100",),
    ),
    _experiment(
        "stable",
        "JNPL with a PL+ that keeps all classes",
        "In the paper PL+ begins with the first step and takes the class with the largest p.",
        tuple(FILTERS),
        SETTINGS,
        stable_rows,
        "Figures of the filters, seed 1; accuracy of all test images after the last epoch.",
        parts=FILTER_PARTS,
    ),
)
