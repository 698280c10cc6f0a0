"""Stored runs of a scale, by what the paper calls them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jnpl.experiments.paper import Setting
from jnpl.experiments.reproduce.experiment import seeds_of
from jnpl.experiments.results import read
from jnpl.experiments.scales import SCALES, Scale
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import InputError

_SMOOTHED = 5  # epochs


@dataclass(frozen=True)
class PaperRun:
    """The stored line of a run; current if today's settings of the run are those that it was made with."""

    spec: RunSpec
    line: dict[str, Any]
    is_current: bool

    def get(self, figure: str) -> float | None:
        """A figure of its results, None where it does not exist."""
        value = self.line["results"].get(figure)
        return None if value is None else float(value)

    def stage(self, name: str | None = None) -> dict[str, Any]:
        """The facts of a stage of the filter; None: of the last."""
        stages = {key: facts for key, facts in self.line["stages"].items() if not key.startswith("pseudo")}
        facts: dict[str, Any] = stages[list(stages)[-1] if name is None else name]
        return facts

    def curve(self) -> list[float]:
        """Test accuracy of the filter after every epoch."""
        length = sum(count for _, count in self.borders())
        return list(self.line["results"]["curve"][:length])

    @property
    def classes(self) -> int:
        """Number of classes of its data."""
        return int(self.line["data"]["classes"])

    def pl_begins(self) -> int:
        """The epoch, from 0, at which PL+ begins by its own recipe."""
        method = self.line["recipe"]["method"]
        share = max(
            float(method.get("pl_start", 0)), float(method.get("nl_share", 0))
        )  # jnpl-stable has NL alone before
        return math.ceil(share * int(self.line["recipe"]["train"]["epochs"]))

    def borders(self) -> list[tuple[str, int]]:
        """Stages of the filter and their epochs."""
        return [(name, count) for name, count in self.line["results"]["curve_stages"] if not name.startswith("pseudo")]

    @property
    def rank(self) -> tuple[bool, bool]:
        """Today's settings before others; the whole run before its filter alone."""
        return self.is_current, self.spec.classify


@dataclass
class PaperRuns:
    """All runs of a scale; `part` below is a data set of the paper, whatever stands for it."""

    scale: Scale
    every: Sequence[PaperRun]
    missing: dict[str, str] = field(default_factory=dict)  # data set of the paper -> why not, and how to get it
    seeds: int | None = None  # of every run; None: as many as the scale has

    def of(
        self, variant: str, setting: Setting | None, part: str = "cifar10", *, classify: bool = False
    ) -> list[PaperRun]:
        """One a seed, in their order; `classify`: only those that went on to a classifier.

        Of runs with today's settings, if there are any: those of other settings do not mix with them.
        """
        noise, rate = setting or ("none", 0.0)
        place = variant, self.scale.stands_for.get(part), noise, rate
        best: dict[int, PaperRun] = {}
        for run in self.every:
            spec = run.spec
            if (spec.variant, spec.data, spec.noise, spec.rate) != place or (classify and not spec.classify):
                continue
            if spec.seed not in best or run.rank > best[spec.seed].rank:
                best[spec.seed] = run
        current = {seed: run for seed, run in best.items() if run.is_current}
        return [run for _, run in sorted((current or best).items(), key=lambda pair: pair[0])]

    def reading(self, variant: str, place: str = "jnpl") -> PaperRuns:
        """The same runs with a variant in the place of another one, those with another N of PL+ too.

        What stood there (its name, or its name and a hyphen before more) is left out.
        """
        ending = variant.removeprefix(place)

        def read(run: PaperRun) -> list[PaperRun]:
            name = run.spec.variant
            new = place if name == variant else name.removesuffix(ending) if name.startswith(f"{place}-") else name
            there = [] if (name + "-").startswith(f"{place}-") else [run]
            if new == name:
                return there
            return [*there, replace(run, spec=run.spec.model_copy(update={"variant": new}))]

        return replace(self, every=[new for run in self.every for new in read(run)])

    def first(self, variant: str, setting: Setting, part: str = "cifar10") -> PaperRun | None:
        """The run with the first seed there is; None without one."""
        return next(iter(self.of(variant, setting, part)), None)

    def together(
        self, variants: Sequence[str], setting: Setting, part: str = "cifar10", *, classify: bool = False
    ) -> list[list[PaperRun]]:
        """The runs of each variant, of the seeds that all of them have."""
        stored = [self.of(variant, setting, part, classify=classify) for variant in variants]
        seeds = set.intersection(*({run.spec.seed for run in runs} for runs in stored))
        return [[run for run in runs if run.spec.seed in seeds] for runs in stored]

    def beside(self, variants: Sequence[str], setting: Setting) -> list[PaperRun | None]:
        """A run of each variant, of the first seed that all have; without one, the first of each, if any."""
        stored = self.together(variants, setting)
        return [
            runs[0] if runs else self.first(variant, setting) for variant, runs in zip(variants, stored, strict=True)
        ]

    def shared(self, variants: Sequence[str], setting: Setting, part: str = "cifar10") -> dict[str, list[PaperRun]]:
        """Those variants that have runs -> their runs of the seeds that all of these have; if none, all of each."""
        there = [variant for variant in variants if self.of(variant, setting, part)]
        stored = self.together(there, setting, part) if there else []
        return {name: runs or self.of(name, setting, part) for name, runs in zip(there, stored, strict=True)}

    def curves(self, variants: Sequence[str], setting: Setting) -> dict[str, list[float]]:
        """Test accuracy of the filter after every epoch, the mean over the seeds that all variants here have."""
        return {variant: mean_curve(runs) for variant, runs in self.shared(variants, setting).items()}


def mean_curve(runs: Sequence[PaperRun]) -> list[float]:
    """The mean of the curves of several runs, epoch by epoch; empty if there is none."""
    return [statistics.fmean(values) for values in zip(*(run.curve() for run in runs), strict=False)]


def smooth(curve: Sequence[float]) -> npt.NDArray[np.float64]:
    """The mean of an epoch and up to four before it: (E,) -> (E,).

    >>> smooth([0.0, 1.0]).tolist()
    [0.0, 0.5]
    """
    return np.array([statistics.fmean(curve[max(0, at - _SMOOTHED + 1) : at + 1]) for at in range(len(curve))])


def start_of_pl(variants: Sequence[Sequence[PaperRun]]) -> int | None:
    """The epoch at which PL+ begins in the last of these variants; None where a curve does not reach it."""
    if not variants[-1]:
        return None
    start = max(run.pl_begins() for run in variants[-1])
    return start if all(len(mean_curve(runs)) > start for runs in variants) else None


def where(runs: Sequence[PaperRun]) -> str:
    """The setting of Figures 3 and 4, and over how many seeds the means are."""
    return "symm 60" if len(runs) == 1 else f"symm 60, {seeds_of(runs)}"


def load(path: Path, scale: str, missing: dict[str, str] | None = None, seeds: int | None = None) -> PaperRuns:
    """All runs of a scale in a file of results, which need not exist."""
    runs = []
    for name, line in sorted(read(path).items()):
        try:
            spec = RunSpec.model_validate(line["cell"])
            run = PaperRun(spec, line, name == spec.name)
            _ = run.curve(), run.stage(), run.classes  # whatever is missing shows here
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(
                f"{name!r} in {str(path)!r} is not the result of a run: move the file away, or begin in another folder"
            ) from error
        if spec.scale == scale:
            runs.append(run)
    return PaperRuns(SCALES[scale], runs, missing or {}, seeds)
