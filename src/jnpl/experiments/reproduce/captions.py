"""Captions: scale, the paper's claim, our figures and whether they agree, from the results."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from jnpl.experiments.reproduce.items import ITEMS, verdicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.experiments.cell import Cell
    from jnpl.experiments.reproduce.items import ClaimVerdict
    from jnpl.experiments.reproduce.runs import PaperRun, PaperRuns


class Caption(NamedTuple):
    """The texts that go with an item."""

    title: str
    claim: str  # of the paper
    seen: str  # here
    agrees: str
    scale: str
    command: str


def caption(runs: PaperRuns, item: str) -> Caption:
    """Return the texts that go with an item."""
    own = [verdict for verdict in verdicts(runs) if verdict.item == item]
    return Caption(
        ITEMS[item].title,
        ITEMS[item].claim,
        seen(own),
        agreement(own),
        describe(runs, item),
        command(runs, item),
    )


def command(runs: PaperRuns, item: str) -> str:
    """The command that makes the item."""
    root = "" if runs.scale.name == "tiny" else " --data-root DIR"
    seeds = "" if runs.seeds is None else f" --seeds {runs.seeds}"
    return f"jnpl reproduce {item} --scale {runs.scale.name}{seeds}{root} --out OUT"


def foot(runs: PaperRuns, item: str) -> str:
    """The line at the bottom of the picture: command, runs and seeds."""
    seeds = len({each.cell.seed for each in used(runs, item)})
    return f"{command(runs, item)}   ({_runs(runs, item)}, {seeds} seed{'' if seeds == 1 else 's'})"


def used(runs: PaperRuns, item: str) -> list[PaperRun]:
    """The runs that an item is drawn from."""
    wanted, found = _wanted(runs, item), []
    for cell in wanted:
        setting = None if cell.noise == "none" else (cell.noise, cell.rate)
        part = next(part for part, data in runs.scale.stands_for.items() if data == cell.data)
        if setting is None or cell.classify:
            own = runs.of(cell.row, setting, part, classify=cell.classify)
        else:
            beside = dict.fromkeys(each.row for each in wanted)
            own = runs.shared(tuple(beside), setting, part).get(cell.row, [])
        found += [each for each in (own[:1] if ITEMS[item].one_seed else own) if each not in found]
    return found


def lacking(runs: PaperRuns, item: str) -> int:
    """How many runs of the item are missing; data sets that are not there do not count."""
    have = Counter(_place(each.cell) for each in used(runs, item))
    wanted = Counter(_place(cell) for cell in _wanted(runs, item))
    return (wanted - have).total()


def _place(cell: Cell) -> tuple[object, ...]:
    """Everything but the seed."""
    return cell.row, cell.data, cell.noise, cell.rate


def _wanted(runs: PaperRuns, item: str) -> list[Cell]:
    parts = [part for part in runs.scale.stands_for if part not in runs.missing]
    cells = ITEMS[item].cells(runs.scale, runs.seeds, parts, weights="any")
    return [cell for cell in cells if cell.row not in ITEMS[item].not_shown]


def _runs(runs: PaperRuns, item: str) -> str:
    have, missing = len(used(runs, item)), lacking(runs, item)
    return f"{have} of {have + missing} runs" if missing else f"{have} run{'' if have == 1 else 's'}"


def describe(runs: PaperRuns, item: str) -> str:
    """Scale, runs and seeds of an item, what is missing, and how to read it."""
    own = used(runs, item)
    seeds = sorted({each.cell.seed for each in own})
    sentences = [f"Scale {runs.scale.name}."]
    if _wanted(runs, item):
        names = ", ".join(map(str, seeds)) or "none"
        sentences = [f"Scale {runs.scale.name}, {_runs(runs, item)}, seed{'' if len(seeds) == 1 else 's'} {names}."]
    sentences += [f"{runs.missing[part]}." for part in ITEMS[item].optional if part in runs.missing]
    sentences += ITEMS[item].notes(runs, own)
    if stale := sum(not each.is_current for each in own):
        sentences.append(f"{stale} of the runs were made with other settings than those of this version.")
    return " ".join(sentences)


def seen(own: Sequence[ClaimVerdict]) -> str:
    """The figures behind an item's verdicts, in words."""
    known = [verdict.figures for verdict in own if verdict.status != "not enough data"]
    return " ".join(known) if known else "not run, or not enough of it."


def agreement(own: Sequence[ClaimVerdict]) -> str:
    """Whether our runs agree with each claim, in words."""
    sentences = []
    for verdict in own:
        claim = verdict.claim.rstrip(".")
        if verdict.status == "not enough data":
            sentences.append(f"Not enough data to judge: {claim}.")
        elif verdict.status == "no difference":
            sentences.append(f"No difference is seen: {claim}.")
        else:
            sentences.append(f"{verdict.status.capitalize()} with the paper: {claim}.")
    return " ".join(sentences)
