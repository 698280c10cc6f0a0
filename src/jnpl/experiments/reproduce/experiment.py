"""An experiment of the paper, a figure or a table: its runs, its claims, how it is drawn, and notes for the reader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from jnpl.experiments.paper import DATA_NAMES, Setting
from jnpl.experiments.scales import Scale
from jnpl.experiments.spec import RunSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns

Status = Literal["agrees", "disagrees", "no difference", "not enough data"]
Verdict: TypeAlias = tuple[Status, str]  # and the figures that it follows from, in words
Rows: TypeAlias = list[list[str]]  # of a table, the first is its head

SYMM60: Setting = ("symm", 0.6)  # also where the paper does not say (Figures 1 and 3)
ASYMM40: Setting = ("asymm", 0.4)
ACCURACY = 0.005  # smaller differences are taken for chance, also of AP
AP = 0.005
REACHES = 0.01  # an accuracy so far below another still reaches it
NOT_ALL: Verdict = ("not enough data", "Not all runs that the rule speaks of are there.")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and the rule by which the runs agree or disagree, fixed before they were seen."""

    name: str
    claim: str
    rule: str
    check: Callable[[PaperRuns], Verdict]


@dataclass(frozen=True)
class Experiment:
    """A figure (`draw`) or a table (`blocks`)."""

    name: str
    title: str
    claim: str  # what the paper says
    variants: Callable[[Scale], Sequence[str]]
    claims: tuple[Claim, ...] = ()
    settings: Callable[[Scale], Sequence[Setting | None]] = lambda scale: scale.settings
    parts: tuple[str, ...] = ("cifar10",)  # data sets of the paper
    classify: bool = False  # of classifiers: the runs of Table 1 and 2
    draw: Callable[[PaperRuns], Figure] | None = None
    blocks: Callable[[PaperRuns], Sequence[str | Rows]] | None = None  # lines of text, and rows of tables
    csv: Callable[[PaperRuns], str] | None = None  # where it is not the rows of the first table
    notes: Callable[[PaperRuns, Sequence[PaperRun]], list[str]] = lambda _all, _used: []  # needed to read the picture
    not_shown: tuple[str, ...] = ()  # variants that are run with it and are in no picture of it
    one_seed: bool = False  # histograms and maps are of one run; curves and bars are means

    @property
    def optional(self) -> tuple[str, ...]:
        """The data sets that it may have to do without."""
        return tuple(part for part in self.parts if part != "cifar10")

    def specs(
        self, scale: Scale, seeds: int | None, parts: Collection[str], weights: str | None = None
    ) -> list[RunSpec]:
        """Its runs on the data sets of the paper that are there, `parts`.

        Without `seeds` there are as many as the scale has for a figure, or for a setting of Table 1.
        """

        def count(setting: Setting | None) -> int:
            if seeds is not None:
                return seeds
            return scale.more_seeds.get(setting, 1) if self.classify else scale.figure_seeds.get(self.name, 1)

        def spec(variant: str, part: str, setting: Setting | None, seed: int) -> RunSpec:
            noise, rate = setting or ("none", 0.0)
            same: dict[str, Any] = {"noise": noise, "rate": rate, "scale": scale.name, "classify": self.classify}
            same["weights"] = weights if part == "clothing1m" else None
            return RunSpec(variant=variant, data=scale.stands_for[part], seed=seed, **same)

        return [
            spec(variant, part, setting, seed)
            for part in self.parts
            if part in parts
            for setting in self.settings(scale)
            for seed in range(1, count(setting) + 1)
            for variant in self.variants(scale)
        ]


def agrees_if(agrees: bool, figures: str) -> Verdict:
    """Agrees or disagrees."""
    return ("agrees" if agrees else "disagrees"), figures


def unless_even(differences: Iterable[float], margin: float, agrees: bool, figures: str) -> Verdict:
    """No difference where all differences are below `margin`, which is taken for chance."""
    if all(abs(difference) < margin for difference in differences):
        return "no difference", f"{figures} All of it is below what is taken for chance."
    return agrees_if(agrees, figures)


def parts_of(runs: PaperRuns) -> dict[str, str]:
    """CIFAR-10, and CIFAR-100 if JNPL was run in all its settings -> how they are named beside each other."""
    whole = all(runs.of("jnpl", setting, "cifar100") for setting in runs.scale.settings)
    both = ["cifar10", "cifar100"] if whole else ["cifar10"]
    return {part: f"{DATA_NAMES[part]}, " if whole else "" for part in both}


def seeds_of(runs: Sequence[PaperRun]) -> str:
    """How many seeds, in words."""
    return f"{len(runs)} seed{'' if len(runs) == 1 else 's'}"
