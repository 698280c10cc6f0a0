"""docs/fast.md and its pictures from the JSON in results/quality: `python benchmarks/fast_page.py`."""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from jnpl.bench import plot, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.bench.table import Result

HERE = Path(__file__).parent
RESULTS, TEMPLATE = HERE / "results" / "quality", HERE / "fast.md.in"
PAGE, PICTURE = HERE.parent / "docs/fast.md", HERE.parent / "docs/images/quality-ap-time.png"
SUITES = ("decisive", "full", "cost", "noises", "breadth", "ablation")
FAST, CE, CLEAN, CLEANLAB = "fast", "ce", "ce-clean", "cleanlab"
RIVALS = (CE, "nlnl", CLEANLAB, "jnpl-paper", "gce", "co-teaching")
CLOSED = "symm", 0.4  # where the gap between ce and ce-clean is measured


def page() -> str:
    """The text of docs/fast.md."""
    parts = {}
    for suite in SUITES:
        results = table.load(RESULTS / suite)
        parts[suite] = table.markdown(results, 3).strip() if results else "Not run."
    decisive = table.load(RESULTS / "decisive")
    parts["goals"], parts["times"] = goals(decisive, table.load(RESULTS / "cost")), times(decisive)
    return TEMPLATE.read_text("utf-8").format(**parts)


def goals(decisive: Sequence[Result], cost: Sequence[Result]) -> str:
    """What was asked for beside what was reached, means over the seeds that both have."""
    rows = [_goal(setting, own) for setting, own in _by_setting(decisive).items()]
    head = ["setting", "AP over the best rival", "AP over ce's best epoch", "last epoch under fast's own best",
            "accuracy over the best rival"]  # fmt: skip
    lines = [head, ["---"] * len(head), *(row for row in rows if row)]
    text = ["### What was asked, and what was reached", "\n".join("| " + " | ".join(line) + " |" for line in lines)]
    if closed := _closed(decisive):
        text.append(closed)
    if spent := _spent(cost):
        text.append(spent)
    return "\n\n".join(text)


def times(decisive: Sequence[Result]) -> str:
    """What `fast` and cleanlab cost in the table, in runs of `ce`."""
    shown = {}
    for row in (FAST, CLEANLAB):
        own = {each.cell.name for each in decisive if each.cell.row == row}
        both = [table.costs(decisive, figure) for figure in ("cpu_seconds", "total_cpu_seconds")]
        shown[row] = [statistics.mean([ratio for name, ratio in each.items() if name in own] or [0]) for each in both]
    return (
        f"In the mean over all settings the filter of `fast` took {shown[FAST][0]:.2f} times a run of `ce` and all of "
        f"it {shown[FAST][1]:.2f} times, cleanlab {shown[CLEANLAB][0]:.2f} and {shown[CLEANLAB][1]:.2f} (CPU seconds, "
        "two runs at a time on two cores)."
    )


def _by_setting(results: Sequence[Result]) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for each in results:
        groups[each.setting].append(each)
    return groups


def _mean(results: Sequence[Result], row: str, figure: str, seeds: set[int]) -> float | None:
    values = [each.get(figure) for each in results if each.cell.row == row and each.cell.seed in seeds]
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known and len(known) == len(seeds) else None


def _seeds(results: Sequence[Result], *rows: str) -> set[int]:
    return set.intersection(*({each.cell.seed for each in results if each.cell.row == row} for row in rows))


def _goal(setting: str, own: Sequence[Result]) -> list[str] | None:
    """A line: differences in means over the seeds that all have, and who the best rival is.

    A rival's classifier may be the network that ranked the labels, where that is the better one.
    """
    here = {each.cell.row for each in own}
    seeds = _seeds(own, FAST, CE, *(row for row in RIVALS if row in here))
    ours, ours_accuracy = (_mean(own, FAST, figure, seeds) for figure in ("ap", "test_accuracy"))
    peak, oracle = _mean(own, FAST, "ap_peak", seeds), _mean(own, CE, "ap_peak", seeds)
    ranked = {row: ap for row in RIVALS if (ap := _mean(own, row, "ap", seeds)) is not None}
    known = {
        row: [right for figure in ("test_accuracy", "filter_test_accuracy")
              if (right := _mean(own, row, figure, seeds)) is not None]
        for row in RIVALS
    }  # fmt: skip
    classified = {row: max(each) for row, each in known.items() if each}
    if ours is None or peak is None or oracle is None or ours_accuracy is None:
        return None
    first, second = max(ranked, key=lambda row: ranked[row]), max(classified, key=lambda row: classified[row])
    name = f"{setting}, {len(seeds)} seed{'' if len(seeds) == 1 else 's'}"
    return [name, f"{ours - ranked[first]:+.3f} ({first})", f"{ours - oracle:+.3f}", f"{peak - ours:.3f}",
            f"{ours_accuracy - classified[second]:+.3f} ({second})"]  # fmt: skip


def _closed(decisive: Sequence[Result]) -> str | None:
    """Which part of the gap between noisy and clean labels the classifier closes."""
    own = [each for each in decisive if (each.cell.noise, each.cell.rate) == CLOSED]
    seeds = _seeds(own, FAST, CE, CLEAN)
    fast, ce, clean = (_mean(own, row, "test_accuracy", seeds) for row in (FAST, CE, CLEAN))
    if fast is None or ce is None or clean is None:
        return None
    return (
        f"Symmetric 40 %: accuracy {ce:.3f} for `ce`, {clean:.3f} for `ce-clean`, {fast:.3f} for `fast`: "
        f"{(fast - ce) / (clean - ce):.0%} of the gap (asked: 90 %)."
    )


def _spent(cost: Sequence[Result]) -> str | None:
    seeds = _seeds(cost, "fast-filter", CE, CLEANLAB)
    fast, ce, folds = (_mean(cost, row, "cpu_seconds", seeds) for row in ("fast-filter", CE, CLEANLAB))
    if fast is None or ce is None or folds is None:
        return None
    return (
        f"Time of the filter: {fast / folds:.3f} of the cross-validation (asked: at most 0.25), {fast / ce:.2f} times "
        "one run of `ce` (asked: at most 1.3)."
    )


def main() -> None:
    """Write the page and its picture."""
    PAGE.write_text(page(), "utf-8")
    plot.ap_against_time(PICTURE, table.load(RESULTS / "decisive"))
    print(PAGE.read_text("utf-8"))


if __name__ == "__main__":
    main()
