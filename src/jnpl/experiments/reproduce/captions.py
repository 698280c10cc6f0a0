"""What is said of each item, from its results: the scale, the paper's claim, what is seen here, whether it agrees."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from jnpl.experiments.reproduce.claims import verdicts
from jnpl.experiments.reproduce.items import BESIDE, ITEMS, cells_of, nl_of
from jnpl.experiments.reproduce.stages import MOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.experiments.reproduce.cell import Cell
    from jnpl.experiments.reproduce.claims import Verdict
    from jnpl.experiments.reproduce.results import Result, Results

ONE_SEED = ("fig1", "fig2", "fig6")  # histograms and maps are of one run; curves and bars are means


class Caption(NamedTuple):
    """Of one item."""

    title: str
    claim: str  # of the paper
    seen: str  # here
    agrees: str
    scale: str
    command: str


def caption(results: Results, item: str) -> Caption:
    """All that is said of an item."""
    own = [verdict for verdict in verdicts(results) if verdict.item == item]
    return Caption(
        ITEMS[item].title,
        ITEMS[item].claim,
        seen(own),
        agreement(own),
        describe(results, item),
        command(results, item),
    )


def command(results: Results, item: str) -> str:
    """What makes it."""
    root = "" if results.scale.name == "tiny" else " --data-root DIR"
    seeds = "" if results.seeds is None else f" --seeds {results.seeds}"
    return f"jnpl reproduce {item} --scale {results.scale.name}{seeds}{root} --out OUT"


def foot(results: Results, item: str) -> str:
    """The line in the picture itself."""
    seeds = len({each.cell.seed for each in used(results, item)})
    return f"{command(results, item)}   ({_runs(results, item)}, {seeds} seed{'' if seeds == 1 else 's'})"


def used(results: Results, item: str) -> list[Result]:
    """The runs that an item is drawn from."""
    wanted, found = _wanted(results, item), []
    for cell in wanted:
        setting = None if cell.noise == "none" else (cell.noise, cell.rate)
        part = next(part for part, data in results.scale.stands_for.items() if data == cell.data)
        if setting is None or cell.classify:
            own = results.of(cell.variant, setting, part, classify=cell.classify)
        else:
            beside = dict.fromkeys(each.variant for each in wanted)
            own = results.shared(tuple(beside), setting, part).get(cell.variant, [])
        found += [each for each in (own[:1] if item in ONE_SEED else own) if each not in found]
    return found


def lacking(results: Results, item: str) -> int:
    """How many runs of the item there are too few; without those of data sets that are missing."""
    have = Counter(_place(each.cell) for each in used(results, item))
    wanted = Counter(_place(cell) for cell in _wanted(results, item))
    return (wanted - have).total()


def _place(cell: Cell) -> tuple[object, ...]:
    """All but the seed."""
    return cell.variant, cell.data, cell.noise, cell.rate


def _wanted(results: Results, item: str) -> list[Cell]:
    parts = [part for part in results.scale.stands_for if part not in results.missing]
    cells = cells_of(item, results.scale, results.seeds, parts, weights="any")
    return [cell for cell in cells if cell.variant not in BESIDE.get(item, ())]


def _runs(results: Results, item: str) -> str:
    have, missing = len(used(results, item)), lacking(results, item)
    return f"{have} of {have + missing} runs" if missing else f"{have} run{'' if have == 1 else 's'}"


def describe(results: Results, item: str) -> str:
    """At which scale it was made, by how many runs and seeds, and what is missing."""
    own = used(results, item)
    seeds = sorted({each.cell.seed for each in own})
    told = [f"Scale {results.scale.name}."]
    if _wanted(results, item):
        names = ", ".join(map(str, seeds)) or "none"
        told = [f"Scale {results.scale.name}, {_runs(results, item)}, seed{'' if len(seeds) == 1 else 's'} {names}."]
    told += [f"{results.missing[part]}." for part in needed(item) if part in results.missing]
    told += _notes(results, item, own)
    if stale := sum(not each.is_current for each in own):
        told.append(f"{stale} of the runs were made with other settings than those of this version.")
    return " ".join(told)


def _notes(results: Results, item: str, own: Sequence[Result]) -> list[str]:
    """What one must know to read the picture."""
    is_paper = results.scale.name == "paper"
    points = f"Up to {MOST} points of each kind are drawn, whatever the rate, on the gradient made pale."
    if item == "fig1":
        return ["The paper does not say the rate: 60 % is our choice."]
    if item == "fig2":
        return [
            points,
            *([] if is_paper else ["Runs of NL that becomes NL+ go with it and are in no picture of it."]),
            *_budget(results, own),
        ]
    if item in ("fig3", "fig4"):
        few = results.scale.curve_images
        told = ["The paper does not say the rate of (d): 60 % is our choice."] if item == "fig3" else []
        told.append("Thin lines are of each epoch, thick ones means of it and up to four before it.")
        told += [] if few is None else [f"Curves are of the first {few:,} test images."]
        weak = "PL+ begins after a third of the epochs and weighs a ninth of the paper's proportion."
        beside = ["Runs of NL that becomes NL+, with PL+, go with it and are in no picture of it."]
        return told if is_paper else [*told, weak, *(beside if item == "fig4" else [])]
    if item == "fig5" and len({each.cell.seed for each in own}) > 1:
        return ["Where a setting has several seeds, a point is their mean and a line goes from least to most."]
    if item == "fig6":
        selnl = "SelNL has no gradient below p_y = 1/10: it does not learn from those samples."
        return [
            points,
            selnl,
            *([] if is_paper else ["A run of NL that becomes NL+ goes with it and is in no picture of it."]),
        ]
    return []


def _budget(results: Results, own: Sequence[Result]) -> list[str]:
    """The epochs of NL and NL+ in Figure 2, where they are known."""
    variant, stage = nl_of(results.scale)
    epochs = [
        {each.stage(name)["epoch"] for each in own if each.cell.variant == which}
        for which, name in ((variant, stage), ("nl-plus", None))
    ]
    if any(len(each) != 1 for each in epochs):
        return []
    kind = "NLNL's first stage" if variant == "nlnl" else "NL alone"
    return [f"NL is {kind}, {epochs[0].pop()} epochs; NL+ has {epochs[1].pop()}."]


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
        elif verdict.status == "no difference":
            told.append(f"No difference is seen: {claim}.")
        else:
            told.append(f"{verdict.status.capitalize()} with the paper: {claim}.")
    return " ".join(told)
