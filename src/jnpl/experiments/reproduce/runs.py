"""Runs of the paper's cells, by what the paper calls them."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jnpl.experiments.cell import Cell
from jnpl.experiments.reproduce.scales import SCALES, Scale
from jnpl.experiments.results import read
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jnpl.experiments.reproduce.paper import Setting

_SMOOTHED = 5  # epochs


@dataclass(frozen=True)
class PaperRun:
    """The line of a cell; current if today's settings of the cell are those that it was made with."""

    cell: Cell
    line: dict[str, Any]
    is_current: bool

    def get(self, figure: str) -> float | None:
        """A figure of its results, None where it does not exist."""
        value = self.line["results"].get(figure)
        return None if value is None else float(value)

    def stage(self, name: str | None = None) -> dict[str, Any]:
        """The facts of a stage of the filter; None: of the last."""
        stages = {key: each for key, each in self.line["stages"].items() if not key.startswith("pseudo")}
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
        recipe = self.line["recipe"]
        return math.ceil(float(recipe["method"]["pl_start"]) * int(recipe["train"]["epochs"]))

    def borders(self) -> list[tuple[str, int]]:
        """Stages of the filter and their epochs."""
        return [(name, count) for name, count in self.line["results"]["curve_stages"] if not name.startswith("pseudo")]


@dataclass
class PaperRuns:
    """All cells of a scale; `part` below is a data set of the paper, whatever stands for it."""

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
        data = self.scale.stands_for.get(part)
        found: dict[int, PaperRun] = {}
        for each in self.every:
            cell = each.cell
            if (cell.row, cell.data, cell.noise, cell.rate) != (variant, data, noise, rate):
                continue
            if classify and not cell.classify:
                continue
            best = found.get(cell.seed)
            if best is None or _rank(each) > _rank(best):
                found[cell.seed] = each
        current = {seed: each for seed, each in found.items() if each.is_current}
        return [each for _, each in sorted((current or found).items())]

    def reading(self, later: str) -> PaperRuns:
        """The same runs with JNPL read as the variants whose names end in `later`, which are beyond the paper."""
        read = {each.cell.row for each in self.every if each.cell.row.endswith(later)}
        left = {name.removesuffix(later) for name in read}

        def renamed(run: PaperRun) -> PaperRun:
            row = run.cell.row.removesuffix(later)
            return replace(run, cell=run.cell.model_copy(update={"row": row}))

        return replace(self, every=[renamed(each) for each in self.every if each.cell.row not in left])

    def first(self, variant: str, setting: Setting, part: str = "cifar10") -> PaperRun | None:
        """The run with the first seed there is; None without one."""
        found = self.of(variant, setting, part)
        return found[0] if found else None

    def together(
        self, variants: Sequence[str], setting: Setting, part: str = "cifar10", *, classify: bool = False
    ) -> list[list[PaperRun]]:
        """The runs of each variant, of the seeds that all of them have."""
        found = [self.of(variant, setting, part, classify=classify) for variant in variants]
        seeds = set.intersection(*({each.cell.seed for each in own} for own in found))
        return [[each for each in own if each.cell.seed in seeds] for own in found]

    def beside(self, variants: Sequence[str], setting: Setting) -> list[PaperRun | None]:
        """A run of each variant, of the first seed that all have; without one, the first of each, if any."""
        found = self.together(variants, setting)
        return [own[0] if own else self.first(variant, setting) for variant, own in zip(variants, found, strict=True)]

    def shared(self, variants: Sequence[str], setting: Setting, part: str = "cifar10") -> dict[str, list[PaperRun]]:
        """Those variants that have runs -> their runs of the seeds that all of these have; if none, all of each."""
        there = [variant for variant in variants if self.of(variant, setting, part)]
        found = self.together(there, setting, part) if there else []
        return {variant: own or self.of(variant, setting, part) for variant, own in zip(there, found, strict=True)}

    def curves(self, variants: Sequence[str], setting: Setting) -> dict[str, list[float]]:
        """Test accuracy of the filter after every epoch, the mean over the seeds that all variants here have."""
        return {variant: mean_curve(own) for variant, own in self.shared(variants, setting).items()}


def mean_curve(found: Sequence[PaperRun]) -> list[float]:
    """The mean of the curves of several runs, epoch by epoch; empty if there is none."""
    curves = [each.curve() for each in found]
    return [statistics.fmean(values) for values in zip(*curves, strict=False)] if curves else []


def smooth(curve: Sequence[float]) -> npt.NDArray[np.float64]:
    """The mean of an epoch and up to four before it: (E,) -> (E,).

    >>> smooth([0.0, 1.0]).tolist()
    [0.0, 0.5]
    """
    return np.array([statistics.fmean(curve[max(0, at - _SMOOTHED + 1) : at + 1]) for at in range(len(curve))])


def start_of_pl(found: Sequence[Sequence[PaperRun]]) -> int | None:
    """The epoch at which PL+ begins in the last of these variants; None where a curve does not reach it."""
    if not found[-1]:
        return None
    start = max(each.pl_begins() for each in found[-1])
    return start if all(len(mean_curve(own)) > start for own in found) else None


def where(own: Sequence[PaperRun]) -> str:
    """The setting of Figures 3 and 4, and over how many seeds the means are."""
    return "symm 60" if len(own) == 1 else f"symm 60, {len(own)} seeds"


def _rank(run: PaperRun) -> tuple[bool, bool]:
    """Today's settings before others; the whole run before its filter alone."""
    return run.is_current, run.cell.classify


def load(path: Path, scale: str, missing: dict[str, str] | None = None, seeds: int | None = None) -> PaperRuns:
    """All cells of a scale in a file of results, which need not exist."""
    found = []
    for name, line in sorted(read(path).items()):
        try:
            cell = Cell.model_validate(line["cell"])
            run = PaperRun(cell, line, name == cell.name)
            _ = run.curve(), run.stage(), run.classes  # whatever is missing shows here
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(
                f"{name!r} in {str(path)!r} is not the result of a run: move the file away, or begin in another folder"
            ) from error
        if cell.scale == scale:
            found.append(run)
    return PaperRuns(SCALES[scale], found, missing or {}, seeds)
