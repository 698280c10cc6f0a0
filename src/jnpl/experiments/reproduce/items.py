"""Items: the figures and tables, and the cells that each is drawn from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jnpl.experiments.reproduce.cell import Cell
from jnpl.experiments.reproduce.paper import METHODS, TABLE2, Setting
from jnpl.experiments.reproduce.variants import PL_PLUS
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from jnpl.experiments.reproduce.scales import Scale

    _Wanted = tuple[Sequence[str], Sequence[Setting], Sequence[str]]  # variants, settings, data sets of the paper

SYMM60: Setting = ("symm", 0.6)  # also where the paper does not say (Figures 1 and 3)
ASYMM40: Setting = ("asymm", 0.4)
FIGURE2: tuple[Setting, ...] = (("symm", 0.2), ("symm", 0.4), ("symm", 0.6))
# Run with an item, but in no picture of it: docs/reproduction.md tells of them.
BESIDE = {"fig2": ("nl-plus-late",), "fig4": ("jnpl-late",), "fig6": ("nl-plus-late",)}


class Item(NamedTuple):
    """A figure or a table."""

    name: str
    title: str
    claim: str  # what the paper says


ITEMS = {
    item.name: item
    for item in (
        Item(
            "fig1",
            "Figure 1: p_y after NL, SelNL, SelPL, and after JNPL, 60 % symmetric noise",
            "NLNL needs three stages to draw wrong labels to p_y = 0 and right ones to 1; JNPL does it in one.",
        ),
        Item(
            "fig2",
            "Figure 2: gradients of NL and NL+, and where the training data lie",
            "NL pushes where the true class of a wrong label is sure (upper left) and so underfits, the more the more "
            "labels are wrong; NL+ does not, and gathers wrong labels there.",
        ),
        Item(
            "fig3",
            "Figure 3: PL+",
            "PL+ takes samples whose other classes are all below 1/c; with a larger N it pushes sure samples more and "
            "learns faster.",
        ),
        Item(
            "fig4",
            "Figure 4: test accuracy over epochs, 60 % symmetric noise",
            "NL+ alone reaches NL followed by SelNL; with PL+ it is faster; both overtake NLNL and do not overfit.",
        ),
        Item(
            "fig5",
            "Figure 5: average precision of the filters",
            "JNPL filters better than NLNL, and its lead grows with the noise.",
        ),
        Item(
            "fig6",
            "Figure 6: asymmetric noise of 40 %, samples labelled cat",
            "SelNL does not part cats from dogs that are labelled cat; NL+ does.",
        ),
        Item("table1", "Table 1: test accuracy", "JNPL is best in most settings, and its lead grows with the noise."),
        Item("table2", "Table 2: test accuracy on Clothing1M", "JNPL reaches 74.15 %, more than eight other methods."),
    )
}
FIGURES = tuple(name for name in ITEMS if name.startswith("fig"))
GROUPS = {"figures": FIGURES, "all": tuple(ITEMS)}


def names_of(item: str) -> tuple[str, ...]:
    """One item, or those of a group.

    >>> names_of("fig4"), len(names_of("figures")), len(names_of("all"))
    (('fig4',), 6, 8)
    """
    if item not in ITEMS and item not in GROUPS:
        raise InputError(f"there is no item {item!r}; there are {', '.join([*ITEMS, *GROUPS])}")
    return GROUPS.get(item, (item,))


def nl_of(scale: Scale) -> tuple[str, str]:
    """The variant and stage that are NL beside NL+: NLNL's first stage, where it is long enough, else NL alone."""
    return ("nlnl", "nl") if scale.name == "paper" else ("nl", "train")


def cells_of(
    item: str, scale: Scale, seeds: int | None, parts: Collection[str], weights: str | None = None
) -> list[Cell]:
    """The cells of an item; `parts` are the data sets of the paper that are there.

    Without `seeds` there are as many as the scale has for a figure, or for a setting of Table 1.
    """
    if item == "table2":
        if "clothing1m" not in parts:
            return []
        same: dict[str, Any] = {"data": scale.stands_for["clothing1m"], "noise": "none", "scale": scale.name}
        return [
            Cell(variant=variant, seed=seed, classify=True, weights=weights, **same)
            for seed in range(1, (seeds or 1) + 1)
            for variant in TABLE2
        ]
    both = [part for part in ("cifar10", "cifar100") if part in parts]
    first = [part for part in both if part == "cifar10"]
    late, later = ((), ()) if scale.name == "paper" else (("nl-plus-late",), ("jnpl-late",))
    wanted: dict[str, _Wanted] = {
        "fig1": (("nlnl", "jnpl"), (SYMM60,), first),
        "fig2": ((nl_of(scale)[0], "nl-plus", *late), FIGURE2, first),
        "fig3": (tuple(PL_PLUS), (SYMM60,), first),
        "fig4": (("nlnl", "nl-plus", "jnpl", *late, *later), (SYMM60,), first),
        "fig5": (("nlnl", "jnpl"), scale.settings, both),
        "fig6": (("nlnl", "nl-plus", *late), (ASYMM40,), first),
        "table1": (tuple(METHODS), scale.settings, both),
    }
    variants, settings, here = wanted[item]
    table = item == "table1"

    def count(setting: Setting) -> int:
        return seeds or (scale.more_seeds.get(setting, 1) if table else scale.figure_seeds.get(item, 1))

    return [
        _cell(scale, variant, part, setting, seed, classify=table)
        for part in here
        for setting in settings
        for seed in range(1, count(setting) + 1)
        for variant in variants
    ]


def _cell(scale: Scale, variant: str, part: str, setting: Setting, seed: int, *, classify: bool) -> Cell:
    same: dict[str, Any] = {"noise": setting[0], "rate": setting[1], "scale": scale.name}
    return Cell(variant=variant, data=scale.stands_for[part], seed=seed, classify=classify, **same)


def plan(
    items: Iterable[str], scale: Scale, seeds: int | None, parts: Collection[str], weights: str | None = None
) -> list[Cell]:
    """The cells of several items, each once: one that goes on to a classifier stands in for its filter alone."""
    every = [cell for item in items for cell in cells_of(item, scale, seeds, parts, weights)]
    whole = {cell for cell in every if cell.classify}
    kept = [cell for cell in every if cell.classify or cell.model_copy(update={"classify": True}) not in whole]
    return sorted(dict.fromkeys(kept), key=lambda cell: cell.seed)  # a whole set of the first seed first
