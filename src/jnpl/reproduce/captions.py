"""What is said of each item, from its results: the scale, the paper's claim, what is seen here, whether it agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jnpl.reproduce.claims import verdicts
from jnpl.reproduce.items import ITEMS, cells_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.reproduce.claims import Verdict
    from jnpl.reproduce.results import Results


class Caption(NamedTuple):
    """Of one item."""

    title: str
    claim: str  # of the paper
    seen: str  # here
    agrees: str
    scale: str
    command: str

    def paragraph(self) -> str:
        """All but the title and the command."""
        return f"The paper: {self.claim} Here: {self.seen} {self.agrees}"


def caption(results: Results, item: str) -> Caption:
    """All that is said of an item."""
    own = [verdict for verdict in verdicts(results) if verdict.item == item]
    return Caption(
        ITEMS[item].title, ITEMS[item].claim, seen(own), agreement(own), describe(results, item),
        command(results, item),
    )  # fmt: skip


def command(results: Results, item: str) -> str:
    """What makes it."""
    root = "" if results.scale.name == "tiny" else " --data-root DIR"
    return f"jnpl reproduce {item} --scale {results.scale.name}{root} --out OUT"


def foot(results: Results, item: str) -> str:
    """The line in the picture itself."""
    have, wanted = counted(results, item)
    seeds = {each.cell.seed for each in results.every}
    shown = f"{have} of {wanted} runs" if have < wanted else f"{wanted} runs"
    return f"{command(results, item)}   ({shown}, {len(seeds)} seed{'' if len(seeds) == 1 else 's'})"


def counted(results: Results, item: str) -> tuple[int, int]:
    """Of how many of the item's cells there are results, and how many it has; without data sets that are missing."""
    parts = [part for part in results.scale.stands_for if part not in results.missing]
    wanted = cells_of(item, results.scale, None, parts, weights="any")
    have: dict[tuple[object, ...], bool] = {}
    for each in results.every:
        cell = each.cell
        place = (cell.variant, cell.data, cell.noise, cell.rate, cell.seed)
        have[place] = have.get(place, False) or cell.classify
    known = [have.get((cell.variant, cell.data, cell.noise, cell.rate, cell.seed)) for cell in wanted]
    done = [whole or (whole is not None and not cell.classify) for whole, cell in zip(known, wanted, strict=True)]
    return sum(done), len(wanted)


def describe(results: Results, item: str) -> str:
    """The scale in words, with the seeds and what is missing."""
    have, wanted = counted(results, item)
    seeds = sorted({each.cell.seed for each in results.every})
    told = [results.scale.what]
    if wanted:
        shown = f"{have} of {wanted} runs" if have < wanted else f"{wanted} runs"
        told.append(f"{shown}, seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds)) or 'none'}.")
    told += [f"{results.missing[part]}." for part in needed(item) if part in results.missing]
    if results.stale:
        told.append(f"{results.stale} of the runs were made with other settings than those of this version.")
    return " ".join(told)


def needed(item: str) -> tuple[str, ...]:
    """The data sets that an item may have to do without."""
    return {"fig5": ("cifar100",), "table1": ("cifar100",), "table2": ("clothing1m",)}.get(item, ())


def seen(own: Sequence[Verdict]) -> str:
    """The figures of an item's claims."""
    known = [verdict.figures for verdict in own if verdict.status != "not enough data"]
    return " ".join(known) if known else "not run, or not enough of it."


def agreement(own: Sequence[Verdict]) -> str:
    """Whether the figures bear out each claim."""
    told = []
    for verdict in own:
        claim = verdict.claim.rstrip(".")
        if verdict.status == "not enough data":
            told.append(f"Not enough data to judge: {claim}.")
        else:
            told.append(f"{verdict.status.capitalize()} with the paper: {claim}.")
    return " ".join(told)
