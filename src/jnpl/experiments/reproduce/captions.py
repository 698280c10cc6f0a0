"""Captions: scale, the paper's claim, our figures and whether they agree, from the results."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from jnpl.experiments.reproduce.catalogue import EXPERIMENTS, ClaimVerdict, verdicts
from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns
from jnpl.experiments.spec import RunSpec


class Caption(NamedTuple):
    """The texts that go with an experiment."""

    title: str
    claim: str  # of the paper
    seen: str  # here
    agrees: str
    scale: str
    command: str


def caption(runs: PaperRuns, name: str) -> Caption:
    """Return the texts that go with an experiment."""
    own_verdicts = [verdict for verdict in verdicts(runs) if verdict.item == name]
    experiment = EXPERIMENTS[name]
    texts = seen(own_verdicts), agreement(own_verdicts), describe(runs, name), command(runs, name)
    return Caption(experiment.title, experiment.claim, *texts)


def command(runs: PaperRuns, name: str) -> str:
    """The command that makes the experiment."""
    root = "" if runs.scale.name == "tiny" else " --data-root DIR"
    seeds = "" if runs.seeds is None else f" --seeds {runs.seeds}"
    return f"jnpl reproduce {name} --scale {runs.scale.name}{seeds}{root} --out OUT"


def foot(runs: PaperRuns, name: str) -> str:
    """The line at the bottom of the picture: command, runs and seeds."""
    seeds = len({run.spec.seed for run in used(runs, name)})
    return f"{command(runs, name)}   ({_count(runs, name)}, {seeds} seed{'' if seeds == 1 else 's'})"


def used(runs: PaperRuns, name: str) -> list[PaperRun]:
    """The runs that an experiment is drawn from."""
    wanted = _wanted(runs, name)
    drawn: list[PaperRun] = []
    variants = tuple(dict.fromkeys(spec.variant for spec in wanted))
    for spec in wanted:
        setting = None if spec.noise == "none" else (spec.noise, spec.rate)
        part = next(part for part, data in runs.scale.stands_for.items() if data == spec.data)
        if setting is None or spec.classify:
            stored = runs.of(spec.variant, setting, part, classify=spec.classify)
        else:
            stored = runs.shared(variants, setting, part).get(spec.variant, [])
        drawn += [run for run in (stored[:1] if EXPERIMENTS[name].one_seed else stored) if run not in drawn]
    return drawn


def lacking(runs: PaperRuns, name: str) -> int:
    """How many runs of the experiment are missing; data sets that are not there do not count."""

    def places(specs: Sequence[RunSpec]) -> Counter[tuple[object, ...]]:
        return Counter((spec.variant, spec.data, spec.noise, spec.rate) for spec in specs)

    return (places(_wanted(runs, name)) - places([run.spec for run in used(runs, name)])).total()


def _wanted(runs: PaperRuns, name: str) -> list[RunSpec]:
    parts = [part for part in runs.scale.stands_for if part not in runs.missing]
    specs = EXPERIMENTS[name].specs(runs.scale, runs.seeds, parts, weights="any")
    return [spec for spec in specs if spec.variant not in EXPERIMENTS[name].not_shown]


def _count(runs: PaperRuns, name: str) -> str:
    have, missing = len(used(runs, name)), lacking(runs, name)
    return f"{have} of {have + missing} runs" if missing else f"{have} run{'' if have == 1 else 's'}"


def describe(runs: PaperRuns, name: str) -> str:
    """Scale, runs and seeds of an experiment, what is missing, and how to read it."""
    drawn, experiment = used(runs, name), EXPERIMENTS[name]
    seeds = sorted({run.spec.seed for run in drawn})
    sentences = [f"Scale {runs.scale.name}."]
    if _wanted(runs, name):
        names = ", ".join(map(str, seeds)) or "none"
        sentences = [f"Scale {runs.scale.name}, {_count(runs, name)}, seed{'' if len(seeds) == 1 else 's'} {names}."]
    sentences += [f"{runs.missing[part]}." for part in experiment.optional if part in runs.missing]
    sentences += experiment.notes(runs, drawn)
    if stale := sum(not run.is_current for run in drawn):
        sentences.append(f"{stale} of the runs were made with other settings than those of this version.")
    return " ".join(sentences)


def seen(of_experiment: Sequence[ClaimVerdict]) -> str:
    """The figures behind an experiment's verdicts, in words."""
    figures = [verdict.figures for verdict in of_experiment if verdict.status != "not enough data"]
    return " ".join(figures) if figures else "not run, or not enough of it."


def agreement(of_experiment: Sequence[ClaimVerdict]) -> str:
    """Whether our runs agree with each claim, in words."""
    words = {"not enough data": "Not enough data to judge", "no difference": "No difference is seen"}
    words |= {status: f"{status.capitalize()} with the paper" for status in ("agrees", "disagrees")}
    return " ".join(f"{words[verdict.status]}: {verdict.claim.rstrip('.')}." for verdict in of_experiment)
