"""An item of the paper: its cells, its claims, how it is drawn, and notes for the reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jnpl.experiments.cell import Cell
from jnpl.experiments.reproduce.paper import DATA_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from matplotlib.figure import Figure

    from jnpl.experiments.reproduce.paper import Setting
    from jnpl.experiments.reproduce.runs import PaperRun, PaperRuns
    from jnpl.experiments.reproduce.scales import Scale

Status = Literal["agrees", "disagrees", "no difference", "not enough data"]
Outcome = tuple[Status, str]  # and the figures that it follows from, in words

SYMM60: Setting = ("symm", 0.6)  # also where the paper does not say (Figures 1 and 3)
ASYMM40: Setting = ("asymm", 0.4)
ACCURACY = 0.005  # smaller differences are taken for chance, also of AP
AP = 0.005
REACHES = 0.01  # an accuracy so far below another still reaches it
NOT_ALL: Outcome = ("not enough data", "Not all runs that the rule speaks of are there.")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and the rule by which the runs agree or disagree, fixed before they were seen."""

    name: str
    claim: str
    rule: str
    check: Callable[[PaperRuns], Outcome]


def _all_settings(scale: Scale) -> Sequence[Setting | None]:
    return scale.settings


@dataclass(frozen=True)
class Item:
    """A figure or a table."""

    name: str
    title: str
    claim: str  # what the paper says
    variants: Callable[[Scale], Sequence[str]]
    claims: tuple[Claim, ...]
    settings: Callable[[Scale], Sequence[Setting | None]] = _all_settings
    parts: tuple[str, ...] = ("cifar10",)  # data sets of the paper
    classify: bool = False  # of classifiers: the cells of Table 1 and 2
    draw: Callable[[PaperRuns], Figure] | None = None  # of a figure
    files: Mapping[str, Callable[[PaperRuns], str]] = field(default_factory=dict)  # of a table, by suffix
    notes: Callable[[PaperRuns, Sequence[PaperRun]], list[str]] = lambda _runs, _own: []  # needed to read the picture
    not_shown: tuple[str, ...] = ()  # variants that are run with it and are in no picture of it
    one_seed: bool = False  # histograms and maps are of one run; curves and bars are means

    @property
    def optional(self) -> tuple[str, ...]:
        """The data sets that it may have to do without."""
        return tuple(part for part in self.parts if part != "cifar10")

    def cells(self, scale: Scale, seeds: int | None, parts: Collection[str], weights: str | None = None) -> list[Cell]:
        """Its cells on the data sets of the paper that are there, `parts`.

        Without `seeds` there are as many as the scale has for a figure, or for a setting of Table 1.
        """

        def count(setting: Setting | None) -> int:
            if seeds is not None:
                return seeds
            return scale.more_seeds.get(setting, 1) if self.classify else scale.figure_seeds.get(self.name, 1)

        def cell(variant: str, part: str, setting: Setting | None, seed: int) -> Cell:
            noise, rate = setting or ("none", 0.0)
            same: dict[str, Any] = {"noise": noise, "rate": rate, "scale": scale.name, "classify": self.classify}
            own = weights if part == "clothing1m" else None
            return Cell(row=variant, data=scale.stands_for[part], seed=seed, weights=own, **same)

        return [
            cell(variant, part, setting, seed)
            for part in self.parts
            if part in parts
            for setting in self.settings(scale)
            for seed in range(1, count(setting) + 1)
            for variant in self.variants(scale)
        ]


def agrees_if(agrees: bool, figures: str) -> Outcome:
    """Agrees or disagrees."""
    return ("agrees" if agrees else "disagrees"), figures


def unless_even(differences: Iterable[float], margin: float, agrees: bool, figures: str) -> Outcome:
    """No difference where all differences are below `margin`, which is taken for chance."""
    if all(abs(each) < margin for each in differences):
        return "no difference", f"{figures} All of it is below what is taken for chance."
    return agrees_if(agrees, figures)


def parts_of(runs: PaperRuns) -> dict[str, str]:
    """CIFAR-10, and CIFAR-100 if JNPL was run in all its settings -> how they are named beside each other."""
    whole = all(runs.of("jnpl", setting, "cifar100") for setting in runs.scale.settings)
    both = [part for part in ("cifar10", "cifar100") if part == "cifar10" or whole]
    return {part: f"{DATA_NAMES[part]}, " if len(both) > 1 else "" for part in both}
