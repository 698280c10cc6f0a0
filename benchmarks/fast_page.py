"""docs/fast.md and its pictures from the JSON in results/quality: `python benchmarks/fast_page.py`."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jnpl.experiments.bench import plot, table
from jnpl.experiments.bench.rows import LONG, SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jnpl.experiments.bench.cell import Cell
    from jnpl.experiments.bench.table import Result

HERE = Path(__file__).parent
RESULTS, TEMPLATE = HERE / "results" / "quality", HERE / "fast.md.in"
README, BLOCK = HERE / "README.md", re.compile(r"(<!-- fast: generated -->\n).*?(<!-- end -->)", re.DOTALL)
PAGE, PICTURE = HERE.parent / "docs/fast.md", HERE.parent / "docs/images/quality-ap-time.png"
SUITES = ("decisive", "full", "cost", "noises", "breadth", "ablation")
FAST, CE, CLEAN, CLEANLAB = "fast", "ce", "ce-clean", "cleanlab"
ASKED = (CE, "nlnl", CLEANLAB, "jnpl-paper")
UNTOLD = (*ASKED, "gce")
RIVALS = (*UNTOLD, "co-teaching")
HARDEST, SETTINGS, SEEDS = "symm80", 7, 3  # of the decisive suite
LEEWAY, STEADY, GAP, FOLDED, ONCE = 0.005, 0.01, 0.9, 0.25, 1.3  # what was asked
NOT_RUN = "not run"
CLOSED = "symm", 0.4  # where the gap between ce and ce-clean is measured
TIMES = ("cpu_seconds", "total_cpu_seconds", "seconds", "total_seconds", "seconds_per_epoch")


def page() -> str:
    """The text of docs/fast.md."""
    every = load()
    parts = {suite: table.markdown(own, 3).strip() if own else "Not run." for suite, own in every.items()}
    parts["goals"], parts["times"] = goals(every), times(every["decisive"])
    parts["crops"], parts["per_epoch"] = equal_crops(every["decisive"]), per_epoch(every["full"])
    parts["long"], parts["ahead"] = long_rivals(every["decisive"]), ahead(every["breadth"])
    return TEMPLATE.read_text("utf-8").format(**parts)


def block() -> str:
    """What benchmarks/README.md says of `fast`."""
    return _lines(["asked", "reached", "met"], verdicts(load())) + "\n"


def load() -> dict[str, list[Result]]:
    """All results, by suite."""
    every = {suite: table.load(RESULTS / suite) for suite in SUITES}
    return {**every, "decisive": comparable(every["decisive"])}


def comparable(results: Sequence[Result]) -> list[Result]:
    """Without times that say more of a machine than of a method."""
    return [
        replace(each, facts={name: fact for name, fact in each.facts.items() if name not in TIMES})
        if _is_scattered(each.cell)
        else each
        for each in results
    ]


def _is_scattered(cell: Cell) -> bool:
    """Whether cells of this seed and noise, or of this row, ran on several machines: their times do not compare."""
    return cell.seed == 1 or (cell.seed, cell.noise) == (3, "human") or cell.row.endswith("-augmented")


def goals(every: Mapping[str, Sequence[Result]]) -> str:
    """What was asked for beside what was reached, means over the seeds that all rows have."""
    stands = _stands(every["decisive"])
    head = [
        "setting",
        f"AP over the best of {', '.join(ASKED)}",
        "AP over the best of all",
        "AP over ce's best epoch",
        "last epoch under fast's own best",
        "accuracy over the best rival",
    ]
    return f"""### What was asked, and what was reached

{_lines(["asked", "reached", "met"], verdicts(every))}

{_lines(head, [stand.line() for stand in stands])}"""


def verdicts(every: Mapping[str, Sequence[Result]]) -> list[list[str]]:
    """Asked, reached, and whether that is enough."""
    decisive = every["decisive"]
    told = [
        *_standing(_stands(decisive)),
        _closed(decisive, CE, CLEAN),
        _closed(decisive, "ce-augmented", "ce-clean-augmented"),
        *_spent(every["cost"]),
        _order(decisive, every["full"]),
    ]
    return [verdict.line() for verdict in told]


class Verdict(NamedTuple):
    """On one thing that was asked."""

    asked: str
    reached: str
    met: bool
    partial: str = ""  # what it is judged by, if that is not all

    def line(self) -> list[str]:
        """Of a table."""
        if self.partial:
            told = self.reached if self.partial == self.reached else f"{self.reached} ({self.partial})"
            return [self.asked, told, "not yet"]
        return [self.asked, self.reached, "yes" if self.met else "**no**"]


def _standing(stands: Sequence[Stand]) -> list[Verdict]:
    if not stands:
        return []
    seeds = min(stand.seeds for stand in stands)
    whole = len(stands) == SETTINGS and seeds == SEEDS
    partial = "" if whole else f"{len(stands)} of {SETTINGS} settings, {seeds} of {SEEDS} seeds"
    ap, accuracy = min(stands, key=lambda stand: stand.ap), min(stands, key=lambda stand: stand.accuracy)
    below, above = min(stand.oracle for stand in stands), sum(stand.oracle > 0 for stand in stands)
    lost, worst = max(stands, key=lambda stand: stand.lost), max(stands, key=lambda stand: stand.worst)
    told = [
        Verdict(
            f"AP above {', '.join(ASKED)} in every setting",
            f"the least lead is {ap.ap} in {ap.setting}",
            ap.ap.lead > 0,
            partial,
        ),
        Verdict(
            "AP at most 0.005 below ce's best epoch, an oracle, in any, above it in most",
            f"the worst is {below:+.3f}; above it in {above} of {len(stands)}",
            below >= -LEEWAY and above > len(stands) / 2,
            partial,
        ),
        Verdict(
            "AP at the last epoch within 0.01 of the run's own best, mean over seeds",
            f"{lost.lost:.3f} at most, in {lost.setting}; in a single run {worst.worst:.3f}, in {worst.setting}",
            lost.lost <= STEADY,
            partial,
        ),
        Verdict(
            "accuracy above every rival in every setting",
            f"the least lead is {accuracy.accuracy} in {accuracy.setting}",
            accuracy.accuracy.lead > 0,
            partial,
        ),
    ]
    return told + [
        Verdict(
            f"{HARDEST}: AP and accuracy above every rival",
            f"AP {stand.best}, accuracy {stand.accuracy}",
            min(stand.best.lead, stand.accuracy.lead) > 0,
            _few(stand.seeds),
        )
        for stand in stands
        if stand.setting.endswith(HARDEST)
    ]


def _few(seeds: int) -> str:
    return "" if seeds == SEEDS else f"{seeds} of {SEEDS} seeds"


def equal_crops(decisive: Sequence[Result]) -> str:
    """What is left of the lead where all have the crops of `fast`, or nobody."""
    own = [each for each in decisive if (each.cell.noise, each.cell.rate) == CLOSED]
    here = {each.cell.row for each in own}
    rows = {CE: "ce-augmented", **{row: f"{row}-augmented" for row in RIVALS if row != CE}}
    lines = []
    for shown, ours, others in (
        ("crops for all", FAST, [row for row in rows.values() if row in here]),
        ("crops for nobody", "fast-flip", [row for row in RIVALS if row in here]),
    ):
        if ours not in here or not others:
            continue
        stand = _stand(own, ours, others, seeds=_seeds(own, ours, *others))
        if stand:
            lines.append([shown, f"{stand.seeds}", str(stand.best), str(stand.accuracy)])
    head = ["symm40", "seeds", "AP over the best rival", "accuracy over the best rival"]
    return _lines(head, lines) if lines else "Not run."


def long_rivals(decisive: Sequence[Result]) -> str:
    """AP and accuracy where rivals have the crops and all epochs of `fast`."""
    own = [each for each in decisive if (each.cell.noise, each.cell.rate) == CLOSED]
    rows = [row for row in LONG if any(each.cell.row == row for each in own)]
    if not rows:
        return "Not run."
    seeds = _seeds(own, FAST, *rows)
    told = [
        f"{_mean(own, row, 'ap', seeds):.3f} and {_mean(own, row, 'test_accuracy', seeds):.3f} for `{row}`"
        for row in (*rows, FAST)
    ]
    return f"AP and accuracy {', '.join(told)} ({len(seeds)} seed{'' if len(seeds) == 1 else 's'})."


def ahead(breadth: Sequence[Result]) -> str:
    """In how many settings with all rows `fast` ranks best, of all and of those that are told nothing."""
    stands = [stand for own in _by_setting(breadth) if (stand := _stand(own))]
    alone = [stand for own in _by_setting(breadth) if (stand := _stand(own, rivals=UNTOLD))]
    if not stands:
        return ""
    first, untold = (sum(stand.best.lead > 0 for stand in each) for each in (stands, alone))
    return (
        f"In AP `fast` is ahead of all in {first} of {len(stands)} settings, and in {untold} if Co-teaching, which is "
        "told the rate, is left out."
    )


def times(decisive: Sequence[Result]) -> str:
    """What `fast` and cleanlab cost in the table, in runs of `ce`."""
    shown = {}
    for row in (FAST, CLEANLAB):
        own = {each.cell.name for each in decisive if each.cell.row == row}
        both = [table.costs(decisive, figure) for figure in ("cpu_seconds", "total_cpu_seconds")]
        known = [[ratio for name, ratio in each.items() if name in own] for each in both]
        if not all(known):
            return ""
        shown[row] = [statistics.mean(each) for each in known]
    return (
        f"In the mean over all settings the filter of `fast` took {shown[FAST][0]:.2f} times a run of `ce` and all of "
        f"it {shown[FAST][1]:.2f} times, cleanlab {shown[CLEANLAB][0]:.2f} and {shown[CLEANLAB][1]:.2f} (CPU seconds, "
        "two runs at a time on two cores; without seed 1 and the human labels of seed 3, whose runs were on several "
        "machines)."
    )


def _mean(results: Sequence[Result], row: str, figure: str, seeds: set[int]) -> float | None:
    values = [each.get(figure) for each in results if each.cell.row == row and each.cell.seed in seeds]
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known and len(known) == len(seeds) else None


def _seeds(results: Sequence[Result], *rows: str) -> set[int]:
    return set.intersection(*({each.cell.seed for each in results if each.cell.row == row} for row in rows))


class Lead(NamedTuple):
    """Over which rival, and by how much."""

    lead: float
    rival: str

    def __str__(self) -> str:
        return f"{self.lead:+.3f} ({self.rival})"


class Stand(NamedTuple):
    """Where `fast` stands in a setting."""

    setting: str
    seeds: int
    ap: Lead  # over those that were asked for
    best: Lead  # over all
    oracle: float  # over ce's best epoch
    lost: float  # since its own best epoch
    accuracy: Lead
    worst: float = 0.0  # lost in a single run

    def line(self) -> list[str]:
        """Of a table."""
        name = f"{self.setting}, {self.seeds} seed{'' if self.seeds == 1 else 's'}"
        return [name, str(self.ap), str(self.best), f"{self.oracle:+.3f}", f"{self.lost:.3f}", str(self.accuracy)]


def _stands(results: Sequence[Result]) -> list[Stand]:
    """Setting by setting, where there is enough to tell."""
    return [stand for own in _by_setting(results) if (stand := _stand(own))]


def _by_setting(results: Sequence[Result]) -> list[list[Result]]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for each in results:
        groups[each.setting].append(each)
    return list(groups.values())


def _stand(
    own: Sequence[Result], ours: str = FAST, rivals: Sequence[str] = RIVALS, seeds: set[int] | None = None
) -> Stand | None:
    """Differences in means over the seeds that all rows have; None if a row is missing.

    A rival's classifier may be the network that ranked the labels, where that is the better one.
    """
    seeds = _seeds(own, ours, CE, *rivals) if seeds is None else seeds
    ap, peak, accuracy = (_mean(own, ours, figure, seeds) for figure in ("ap", "ap_peak", "test_accuracy"))
    oracle = _mean(own, CE, "ap_peak", seeds)
    if ap is None or peak is None or accuracy is None or oracle is None:
        return None
    ranked = {row: theirs for row in rivals if (theirs := _mean(own, row, "ap", seeds)) is not None}
    both = {
        row: [_mean(own, row, figure, seeds) for figure in ("test_accuracy", "filter_test_accuracy")] for row in rivals
    }
    classified = {
        row: max(right for right in rights if right is not None) for row, rights in both.items() if any(rights)
    }
    asked = {row: theirs for row, theirs in ranked.items() if row in ASKED} or ranked
    lost = [
        (each.get("ap_peak") or 0.0) - (each.get("ap") or 0.0)
        for each in own
        if each.cell.row == ours and each.cell.seed in seeds
    ]
    return Stand(
        own[0].setting,
        len(seeds),
        _lead(ap, asked),
        _lead(ap, ranked),
        ap - oracle,
        peak - ap,
        _lead(accuracy, classified),
        max(lost),
    )


def _lead(ours: float, rivals: Mapping[str, float]) -> Lead:
    best = max(rivals, key=lambda row: rivals[row])
    return Lead(ours - rivals[best], best)


def _gap(own: Sequence[Result], *rows: str) -> list[float] | None:
    """Accuracies of rows, over the seeds that all have."""
    told = [_mean(own, row, "test_accuracy", _seeds(own, *rows)) for row in rows]
    known = [accuracy for accuracy in told if accuracy is not None]
    return known if len(known) == len(rows) else None


def _closed(decisive: Sequence[Result], noisy: str, clean: str) -> Verdict:
    """Which part of the gap between noisy and clean labels the classifier closes."""
    own = [each for each in decisive if (each.cell.noise, each.cell.rate) == CLOSED]
    gap_told = f"of the gap in accuracy between `{noisy}` and `{clean}` closed at symm40"
    asked = f"90 % {gap_told}" if noisy == CE else f"(not asked: crops for all) 90 % {gap_told}"
    gap = _gap(own, FAST, noisy, clean)
    if gap is None:
        return Verdict(asked, NOT_RUN, False, NOT_RUN)
    fast, low, high = gap
    part, seeds = (fast - low) / (high - low), len(_seeds(own, FAST, noisy, clean))
    reached = f"{part:.1%}: {low:.3f} for `{noisy}`, {high:.3f} for `{clean}`, {fast:.3f} for `{FAST}`"
    return Verdict(asked, reached, part >= GAP, _few(seeds))


def _spent(cost: Sequence[Result]) -> list[Verdict]:
    """The filter's time beside those of a cross-validation and of cross-entropy."""
    quarter = "time of the filter at most a quarter of the cross-validation"
    once = f"time of the filter at most 1.3 times a run of `{CE}` of as many epochs"
    seeds = _seeds(cost, "fast-filter", CE, CLEANLAB)
    fast, ce, folds = (_mean(cost, row, "cpu_seconds", seeds) for row in ("fast-filter", CE, CLEANLAB))
    if fast is None or ce is None or folds is None:
        return [Verdict(asked, NOT_RUN, False, NOT_RUN) for asked in (quarter, once)]
    more = fast / SHARE  # with as many epochs as the others
    return [
        Verdict(
            quarter,
            f"{fast / folds:.3f} (27 epochs, as in the table; with 30 it would be {more / folds:.3f})",
            fast / folds <= FOLDED,
            _few(len(seeds)),
        ),
        Verdict(once, f"{more / ce:.2f} (and {fast / ce:.2f} with its 27 epochs)", more / ce <= ONCE, _few(len(seeds))),
    ]


def _order(decisive: Sequence[Result], full: Sequence[Result]) -> Verdict:
    """Whether all images rank the methods as the decisive scale does."""
    asked = "all 50,000 images: the same order of methods"
    rows = (CE, "nlnl", FAST)
    small = [each for each in decisive if (each.cell.noise, each.cell.rate) == CLOSED]
    orders = []
    for own in (small, full):
        ranked = {row: ap for row in rows if (ap := _mean(own, row, "ap", _seeds(own, *rows))) is not None}
        if len(ranked) < len(rows):
            return Verdict(asked, NOT_RUN, False, NOT_RUN)
        orders.append(sorted(rows, key=lambda row: -ranked[row]))
    return Verdict(asked, " > ".join(orders[1]), orders[0] == orders[1])


def per_epoch(full: Sequence[Result]) -> str:
    """What an epoch of each filter took on all images."""
    known = {each.cell.row: spent for each in full if (spent := each.get("seconds_per_epoch")) is not None}
    told = ", ".join(f"{spent:.1f} for `{row}`" for row, spent in known.items())
    return f"CPU seconds of an epoch of the filter: {told}." if told else ""


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def main() -> None:
    """Write the page and its picture."""
    PAGE.write_text(page(), "utf-8")
    README.write_text(BLOCK.sub(lambda match: match[1] + block() + match[2], README.read_text("utf-8")), "utf-8")
    decisive = table.load(RESULTS / "decisive")
    plot.ap_against_time(PICTURE, [each for each in decisive if not _is_scattered(each.cell)])
    print(PAGE.read_text("utf-8"))


if __name__ == "__main__":
    main()
