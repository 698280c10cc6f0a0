"""The paper's figures and tables, by name. A new one is a file with an `EXPERIMENT`, and a line here."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from jnpl.experiments.paper import DATA_NAMES
from jnpl.experiments.reproduce import beyond, fig1, fig2, fig3, fig4, fig5, fig6, table1, table2
from jnpl.experiments.reproduce.experiment import ASYMM40, SYMM60, Status
from jnpl.experiments.reproduce.paper_runs import PaperRuns
from jnpl.experiments.scales import Scale
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import InputError

_PAPER = tuple(module.EXPERIMENT for module in (fig1, fig2, fig3, fig4, fig5, fig6, table1, table2))
EXPERIMENTS = {experiment.name: experiment for experiment in (*_PAPER, *beyond.EXPERIMENTS)}
FIGURES = tuple(name for name, experiment in EXPERIMENTS.items() if experiment.draw is not None)
GROUPS = {"figures": FIGURES, "all": tuple(EXPERIMENTS)}
_FIRST = (SYMM60, ("symm", 0.4), ASYMM40)


class ClaimVerdict(NamedTuple):
    """A claim, whether our runs agree with it, by which rule, and the figures. As JSON the experiment is `item`."""

    name: str
    item: str
    claim: str
    rule: str
    status: Status
    figures: str


def verdicts(runs: PaperRuns) -> list[ClaimVerdict]:
    """All claims, checked by the runs there are."""
    return [
        ClaimVerdict(claim.name, name, claim.claim, claim.rule, *claim.check(runs))
        for name, experiment in EXPERIMENTS.items()
        for claim in experiment.claims
    ]


def names_of(experiment: str) -> tuple[str, ...]:
    """One experiment, or those of a group.

    >>> names_of("fig4"), len(names_of("figures")), len(names_of("all"))
    (('fig4',), 6, 14)
    """
    if experiment not in EXPERIMENTS and experiment not in GROUPS:
        raise InputError(f"there is no experiment {experiment!r}; there are {', '.join([*EXPERIMENTS, *GROUPS])}")
    return GROUPS.get(experiment, (experiment,))


def specs_of(
    names: Iterable[str], scale: Scale, seeds: int | None, parts: Collection[str], weights: str | None = None
) -> list[RunSpec]:
    """The runs of several experiments, each once; a run with a classifier also covers its filter alone."""
    specs = [spec for name in names for spec in EXPERIMENTS[name].specs(scale, seeds, parts, weights)]
    whole = {spec for spec in specs if spec.classify}
    kept = [spec for spec in specs if spec.classify or spec.model_copy(update={"classify": True}) not in whole]
    return sorted(dict.fromkeys(kept), key=_importance)


def _importance(spec: RunSpec) -> tuple[int, int, int]:
    """CIFAR-10 first; of it the first seed; of that the settings of the figures."""
    place = (spec.noise, spec.rate)
    return list(DATA_NAMES).index(spec.data) if spec.data in DATA_NAMES else 0, spec.seed, [*_FIRST, place].index(place)
