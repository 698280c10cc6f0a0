"""Results: the JSON of cells, by what the paper calls them."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jnpl.experiments.reproduce.cell import Cell
from jnpl.experiments.reproduce.scales import SCALES, Scale
from jnpl.experiments.results import read
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jnpl.experiments.reproduce.paper import Setting

FORMAT = "jnpl reproduce 1"


@dataclass(frozen=True)
class Result:
    """What a cell's JSON says; current if today's settings of the cell are those that it was made with."""

    cell: Cell
    told: dict[str, Any]
    is_current: bool

    def get(self, figure: str) -> float | None:
        """A figure of its results, None where it does not exist."""
        value = self.told["results"].get(figure)
        return None if value is None else float(value)

    def stage(self, name: str | None = None) -> dict[str, Any]:
        """The facts of a stage of the filter; None: of the last."""
        stages = {key: each for key, each in self.told["stages"].items() if not key.startswith("pseudo")}
        facts: dict[str, Any] = stages[list(stages)[-1] if name is None else name]
        return facts

    def curve(self) -> list[float]:
        """Test accuracy of the filter after every epoch."""
        length = sum(count for _, count in self.borders())
        return list(self.told["results"]["curve"][:length])

    @property
    def classes(self) -> int:
        """Of its data."""
        return int(self.told["data"]["classes"])

    def pl_begins(self) -> int:
        """The epoch, from 0, at which PL+ begins by its own recipe."""
        recipe = self.told["recipe"]
        return math.ceil(float(recipe["method"]["pl_start"]) * int(recipe["train"]["epochs"]))

    def borders(self) -> list[tuple[str, int]]:
        """Stages of the filter and their epochs."""
        return [(name, count) for name, count in self.told["results"]["curve_stages"] if not name.startswith("pseudo")]


@dataclass
class Results:
    """All cells of a scale; `part` below is a data set of the paper, whatever stands for it."""

    scale: Scale
    every: Sequence[Result]
    missing: dict[str, str] = field(default_factory=dict)  # data set of the paper -> why not, and how to get it
    seeds: int | None = None  # so many were asked for; None: as many as the scale has

    def of(
        self, variant: str, setting: Setting | None, part: str = "cifar10", *, classify: bool = False
    ) -> list[Result]:
        """One a seed, in their order; `classify`: only those that went on to a classifier.

        Of runs with today's settings, if there are any: those of other settings do not mix with them.
        """
        noise, rate = setting or ("none", 0.0)
        data = self.scale.stands_for.get(part)
        found: dict[int, Result] = {}
        for each in self.every:
            cell = each.cell
            if (cell.variant, cell.data, cell.noise, cell.rate) != (variant, data, noise, rate):
                continue
            if classify and not cell.classify:
                continue
            best = found.get(cell.seed)
            if best is None or _rank(each) > _rank(best):
                found[cell.seed] = each
        current = {seed: each for seed, each in found.items() if each.is_current}
        return [each for _, each in sorted((current or found).items())]

    def first(self, variant: str, setting: Setting, part: str = "cifar10") -> Result | None:
        """Of the first seed there is."""
        found = self.of(variant, setting, part)
        return found[0] if found else None

    def together(
        self, variants: Sequence[str], setting: Setting, part: str = "cifar10", *, classify: bool = False
    ) -> list[list[Result]]:
        """The runs of each variant, of the seeds that all of them have."""
        found = [self.of(variant, setting, part, classify=classify) for variant in variants]
        seeds = set.intersection(*({each.cell.seed for each in own} for own in found))
        return [[each for each in own if each.cell.seed in seeds] for own in found]

    def beside(self, variants: Sequence[str], setting: Setting) -> list[Result | None]:
        """A run of each variant, of the first seed that all have; without one, the first of each, if any."""
        found = self.together(variants, setting)
        return [own[0] if own else self.first(variant, setting) for variant, own in zip(variants, found, strict=True)]

    def shared(self, variants: Sequence[str], setting: Setting, part: str = "cifar10") -> dict[str, list[Result]]:
        """Those variants that have runs -> their runs of the seeds that all of these have; if none, all of each."""
        there = [variant for variant in variants if self.of(variant, setting, part)]
        found = self.together(there, setting, part) if there else []
        return {variant: own or self.of(variant, setting, part) for variant, own in zip(there, found, strict=True)}

    def curves(self, variants: Sequence[str], setting: Setting) -> dict[str, list[float]]:
        """Test accuracy of the filter after every epoch, the mean over the seeds that all variants here have."""
        return {variant: mean_curve(own) for variant, own in self.shared(variants, setting).items()}


def mean_curve(found: Sequence[Result]) -> list[float]:
    """The mean of the curves of several runs, epoch by epoch; empty if there is none."""
    curves = [each.curve() for each in found]
    return [statistics.fmean(values) for values in zip(*curves, strict=False)] if curves else []


def _rank(result: Result) -> tuple[bool, bool]:
    """Today's settings before others; the whole run before its filter alone."""
    return result.is_current, result.cell.classify


def _readable(result: Result) -> None:
    """Whatever is missing shows here."""
    if result.told["format"] != FORMAT:
        raise ValueError("another format")
    result.curve()
    result.stage()
    _ = result.classes


def load(path: Path, scale: str, missing: dict[str, str] | None = None, seeds: int | None = None) -> Results:
    """All cells of a scale in a file of results, which need not exist."""
    found = []
    for name, line in sorted(read(path).items()):
        try:
            cell = Cell.model_validate(line["cell"])
            result = Result(cell, line, name == cell.name)
            _readable(result)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InputError(
                f"{name!r} in {str(path)!r} is not the result of a run: move the file away, or begin in another folder"
            ) from error
        if result.cell.scale == scale:
            found.append(result)
    return Results(SCALES[scale], found, missing or {}, seeds)
