"""The paper's figures and tables, by name. A new one is a file with an `ITEM`, and a line here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jnpl.experiments.reproduce import beyond, fig1, fig2, fig3, fig4, fig5, fig6, table1, table2
from jnpl.experiments.reproduce.item import ASYMM40, SYMM60
from jnpl.experiments.reproduce.paper import DATA_NAMES
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from jnpl.experiments.cell import Cell
    from jnpl.experiments.reproduce.item import Status
    from jnpl.experiments.reproduce.runs import PaperRuns
    from jnpl.experiments.reproduce.scales import Scale

_EVERY = (*(module.ITEM for module in (fig1, fig2, fig3, fig4, fig5, fig6, table1, table2)), *beyond.ITEMS)
ITEMS = {item.name: item for item in _EVERY}
FIGURES = tuple(name for name, item in ITEMS.items() if item.draw is not None)
_FIRST = (SYMM60, ("symm", 0.4), ASYMM40)
GROUPS = {"figures": FIGURES, "all": tuple(ITEMS)}


@dataclass(frozen=True)
class ClaimVerdict:
    """A claim, whether our runs agree with it, by which rule, and the figures."""

    name: str
    item: str
    claim: str
    rule: str
    status: Status
    figures: str


def verdicts(runs: PaperRuns) -> list[ClaimVerdict]:
    """All claims, checked by the runs there are."""
    return [
        ClaimVerdict(claim.name, item.name, claim.claim, claim.rule, *claim.check(runs))
        for item in ITEMS.values()
        for claim in item.claims
    ]


def names_of(item: str) -> tuple[str, ...]:
    """One item, or those of a group.

    >>> names_of("fig4"), len(names_of("figures")), len(names_of("all"))
    (('fig4',), 6, 13)
    """
    if item not in ITEMS and item not in GROUPS:
        raise InputError(f"there is no item {item!r}; there are {', '.join([*ITEMS, *GROUPS])}")
    return GROUPS.get(item, (item,))


def plan(
    items: Iterable[str], scale: Scale, seeds: int | None, parts: Collection[str], weights: str | None = None
) -> list[Cell]:
    """The cells of several items, each once; a cell with a classifier also covers its filter alone."""
    every = [cell for item in items for cell in ITEMS[item].cells(scale, seeds, parts, weights)]
    whole = {cell for cell in every if cell.classify}
    kept = [cell for cell in every if cell.classify or cell.model_copy(update={"classify": True}) not in whole]
    return sorted(dict.fromkeys(kept), key=_importance)


def _importance(cell: Cell) -> tuple[int, int, int]:
    """CIFAR-10 first; of it the first seed; of that the settings of the figures."""
    place = (cell.noise, cell.rate)
    return list(DATA_NAMES).index(cell.data) if cell.data in DATA_NAMES else 0, cell.seed, [*_FIRST, place].index(place)
