"""Write docs/results/fast.md, docs/results/*.md of its suites and their picture from the committed results.

    python benchmarks/fast_page.py

The texts are in docs/templates. benchmarks/README.md gets the table of targets.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from jnpl.experiments import plots
from jnpl.experiments import result_tables as tables
from jnpl.experiments import results as jsonl
from jnpl.experiments.result_tables import Result
from jnpl.experiments.spec import RunSpec
from jnpl.experiments.variants import BENCH, LONG, NEWER, SHARE

ROOT = Path(__file__).parents[1]
RESULTS, DOCS = ROOT / "benchmarks/results", ROOT / "docs"
TEMPLATES, PICTURE = DOCS / "templates", DOCS / "images/quality-ap-time.png"
README = ROOT / "benchmarks/README.md"
BLOCK = re.compile(r"(<!-- fast: generated -->\n).*?(<!-- end -->)", re.DOTALL)  # in README
SUITES = ("decisive", "full", "cost", "noises", "breadth", "ablation")
FAST, CE, CLEAN, CLEANLAB = "fast", "ce", "ce-clean", "cleanlab"
BASELINES = (CE, "nlnl", CLEANLAB, "jnpl-paper")  # the target for AP names these
WITHOUT_RATE = (*BASELINES, "gce")  # need no noise rate
RIVALS = (*WITHOUT_RATE, "co-teaching")
HARDEST, SETTINGS, SEEDS = "symm80", 7, 3  # of the decisive suite
LEEWAY, STEADY, GAP, FOLDED, ONCE = 0.005, 0.01, 0.9, 0.25, 1.3  # the targets
NOT_RUN, INCOMPLETE = "not run", "incomplete"
GAP_SETTING = "symm", 0.4  # where the gap between ce and ce-clean is measured
TIMES = ("cpu_seconds", "total_cpu_seconds", "seconds", "total_seconds", "seconds_per_epoch")
PARTS = {  # rows of the ablation that docs/results/fast.md shows
    "fast-filter": "the filter of `fast`",
    "fast-sampled": "one sampled complement instead of all",
    "fast-nl": "NL throughout",
    "fast-nl-plus": "NL+ from the first step",
    "fast-ce": "cross-entropy instead of NL+ and PL+",
    "fast-no-pl": "no PL+",
    "fast-no-weights": "no class weights",
    "fast-network": "ranked by the network's p_y, not by the posterior",
    "fast-no-average": "no averaged weights",
    "fast-no-crop": "no crops",
    "fast-batch-128": "batches of 128",
    "fast": "the classifier of `fast`",
    "fast-short": "classifier with as many epochs as the filter",
    "fast-light": "classifier with the filter's weight decay",
    "fast-hard": "hard pseudo-labels",
    "fast-fresh": "classifier from new weights",
}


def pages() -> dict[Path, str]:
    """Every page that this script writes: path -> text."""
    results = load()
    decisive, full, breadth = results["decisive"], results["full"], results["breadth"]
    texts = {
        DOCS / "results/fast.md": _fill(
            "results/fast.md",
            ap=means_table(decisive, "ap"),
            accuracy=means_table(decisive, "test_accuracy"),
            times=times(decisive),
            targets=tables.markdown_table([["target", "result", "met"], *targets(results)]),
            full=_listed(full, "ap", "AP"),
            ahead=ahead(breadth),
        ),
        DOCS / "results/fast-details.md": _fill(
            "results/fast-details.md",
            crops=equal_crops(decisive),
            newer=newer_table(decisive),
            long=long_rivals(decisive),
            parts=parts_table(results["ablation"]),
            scratch=scratch_table(),
            scratch_verdict=scratch_verdict(),
        ),
    }
    own = {
        "decisive": {"leads": leads_table(decisive)},
        "full": {"per_epoch": per_epoch(full)},
        "breadth": {"ahead": ahead(breadth)},
        "ablation": {"rows": _row_list(results["ablation"])},
    }
    for suite, found in results.items():
        shown = tables.markdown(found).strip() if found else "Not run."
        source = f"benchmarks/results/quality-{suite}.jsonl"
        texts[DOCS / f"results/{suite}.md"] = _fill(
            f"results/{suite}.md", tables=shown, source=source, **own.get(suite, {})
        )
    return texts


def _fill(template: str, **values: str) -> str:
    return (TEMPLATES / template).read_text("utf-8").format(**values)


def readme_block() -> str:
    """The table of targets in benchmarks/README.md."""
    return tables.markdown_table([["target", "result", "met"], *targets(load())]) + "\n"


def load() -> dict[str, list[Result]]:
    """Suite -> its results."""
    found = {suite: tables.load(RESULTS / f"quality-{suite}.jsonl") for suite in SUITES}
    return {**found, "decisive": comparable(found["decisive"])}


def comparable(results: Sequence[Result]) -> list[Result]:
    """The results without the times of runs that ran on several machines."""
    return [
        replace(each, facts={name: fact for name, fact in each.facts.items() if name not in TIMES})
        if _ran_on_several_machines(each.spec)
        else each
        for each in results
    ]


def _ran_on_several_machines(spec: RunSpec) -> bool:
    return spec.seed == 1 or (spec.seed, spec.noise) == (3, "human") or spec.variant.endswith("-augmented")


def means_table(results: Sequence[Result], figure: str) -> str:
    """Means over seeds, a row per method and a column per setting; the best of each column is bold."""
    settings = _by_setting(results)
    columns = [
        {row: mean for row in (*RIVALS, FAST) if (mean := _mean(own, row, figure, _seeds(own, row))) is not None}
        for own in settings
    ]
    lines = [
        [f"`{row}`", *(_marked(column[row], max(column.values())) if row in column else "-" for column in columns)]
        for row in (*RIVALS, FAST)
    ]
    names = [own[0].setting.removeprefix("cifar10-").replace("cifar10n-human", "human") for own in settings]
    return tables.markdown_table([["", *names], *lines])


def _marked(value: float, best: float) -> str:
    return f"**{value:.3f}**" if value == best else f"{value:.3f}"


def parts_table(ablation: Sequence[Result]) -> str:
    """AP and accuracy of variants of `fast` on CIFAR-10."""
    cifar = [each for each in ablation if each.spec.data == "cifar10"]
    found: dict[tuple[str, str], Result] = {(each.spec.variant, each.spec.noise): each for each in cifar}

    def shown(row: str, noise: str, figure: str) -> str:
        value = found[row, noise].get(figure) if (row, noise) in found else None
        return "-" if value is None else f"{value:.3f}"

    columns = (("symm", "ap"), ("asymm", "ap"), ("symm", "test_accuracy"))
    lines = [[text, *(shown(row, *column) for column in columns)] for row, text in PARTS.items()]
    return tables.markdown_table([["variant", "AP, symm40", "AP, asymm40", "accuracy, symm40"], *lines])


SCRATCH = {"before": "`fast`", "ce": "`--method ce`", "default": "default"}  # rows of benchmarks/scratch.py


def _scratch() -> dict[tuple[str, str, str], dict[str, float]]:
    """Set, noise and seed -> row -> AP, from benchmarks/scratch.py, where all rows are run."""
    specs: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for name, line in jsonl.read(RESULTS / "scratch.jsonl").items():
        data, noise, row, seed = name.split("/")
        specs[data, noise, seed][row] = line["results"]["ap"]
    return {spec: found for spec, found in specs.items() if set(found) == set(SCRATCH)}


def scratch_table() -> str:
    """AP on small image sets from random weights, a line per set, noise and seed."""
    lines = [[*spec, *(f"{found[row]:.3f}" for row in SCRATCH)] for spec, found in _scratch().items()]
    return tables.markdown_table([["images", "noise", "seed", *SCRATCH.values()], *lines])


def scratch_verdict() -> str:
    """How the default on small image sets compares with cross-entropy and with `fast`, over all runs."""
    specs = _scratch().values()
    over_ce, over_fast = ([found["default"] - found[row] for found in specs] for row in ("ce", "before"))
    return (
        f"The default is above `--method ce` in {sum(lead > 0 for lead in over_ce)} of {len(over_ce)} cells "
        f"({min(over_ce):+.3f} to {max(over_ce):+.3f}), and above `fast` in {sum(lead > 0 for lead in over_fast)} "
        f"({min(over_fast):+.3f} to {max(over_fast):+.3f}, mean {statistics.mean(over_fast):+.3f}).\nThe target, at "
        f"most 0.01 below `--method ce` in any cell, is missed in {sum(lead < -STEADY for lead in over_ce)}."
    )


def _row_list(results: Sequence[Result]) -> str:
    names = dict.fromkeys(each.spec.variant for each in results)
    return "\n".join(f"- `{name}`: {BENCH[name].description}" for name in BENCH if name in names)


def leads_table(decisive: Sequence[Result]) -> str:
    """The lead of `fast` in each setting."""
    head = [
        "setting",
        f"AP over the best of {', '.join(BASELINES)}",
        "AP over the best of all",
        "AP over ce's best epoch",
        "best epoch over the last, `fast`",
        "accuracy over the best other method",
    ]
    return tables.markdown_table([head, *(comparison.line() for comparison in comparisons(decisive))])


class Target(NamedTuple):
    """A target, the result, and whether it is met."""

    target: str
    result: str
    met: bool
    missing: str = ""  # what is not run yet

    def line(self) -> list[str]:
        """Of a table."""
        if self.missing:
            result = self.result if self.missing == self.result else f"{self.result} ({self.missing})"
            return [self.target, result, INCOMPLETE]
        return [self.target, self.result, "yes" if self.met else "**no**"]


def targets(results: Mapping[str, Sequence[Result]]) -> list[list[str]]:
    """Target, result and "yes" or "no", a line each."""
    decisive = results["decisive"]
    found = [
        *_comparison_targets(comparisons(decisive)),
        _gap_target(decisive, CE, CLEAN),
        _gap_target(decisive, "ce-augmented", "ce-clean-augmented"),
        *_cost_targets(results["cost"]),
        _order_target(decisive, results["full"]),
    ]
    return [each.line() for each in found]


def _comparison_targets(found: Sequence[Comparison]) -> list[Target]:
    if not found:
        return []
    seeds = min(each.seeds for each in found)
    complete = len(found) == SETTINGS and seeds == SEEDS
    missing = "" if complete else f"{len(found)} of {SETTINGS} settings, {seeds} of {SEEDS} seeds"
    ap, accuracy = min(found, key=lambda each: each.ap), min(found, key=lambda each: each.accuracy)
    worst, above = min(each.oracle for each in found), sum(each.oracle > 0 for each in found)
    lost, single = max(found, key=lambda each: each.lost), max(found, key=lambda each: each.most_lost)
    every = [
        Target(
            f"AP above {', '.join(BASELINES)} in every setting",
            f"smallest lead {ap.ap} in {ap.setting}",
            ap.ap.lead > 0,
            missing,
        ),
        Target(
            "AP at most 0.005 below the best epoch of ce (an oracle) in any setting, above it in most",
            f"smallest lead {worst:+.3f}; above it in {above} of {len(found)}",
            worst >= -LEEWAY and above > len(found) / 2,
            missing,
        ),
        Target(
            "AP of the last epoch within 0.01 of the run's best epoch, mean over seeds",
            f"at most {lost.lost:.3f} below, in {lost.setting}; in a single run {single.most_lost:.3f}, in "
            f"{single.setting}",
            lost.lost <= STEADY,
            missing,
        ),
        Target(
            "accuracy above every other method in every setting",
            f"smallest lead {accuracy.accuracy} in {accuracy.setting}",
            accuracy.accuracy.lead > 0,
            missing,
        ),
    ]
    return every + [
        Target(
            f"{HARDEST}: AP and accuracy above every other method",
            f"AP {each.best}, accuracy {each.accuracy}",
            min(each.best.lead, each.accuracy.lead) > 0,
            _missing_seeds(each.seeds),
        )
        for each in found
        if each.setting.endswith(HARDEST)
    ]


def _missing_seeds(seeds: int) -> str:
    return "" if seeds == SEEDS else f"{seeds} of {SEEDS} seeds"


def equal_crops(decisive: Sequence[Result]) -> str:
    """The lead of `fast` where all rows have its crops, and where none has crops."""
    own = _at_gap_setting(decisive)
    here = {each.spec.variant for each in own}
    augmented = [*(f"{row}-augmented" for row in RIVALS), *NEWER]
    lines = []
    for text, ours, others in (
        ("crops for all", FAST, [row for row in augmented if row in here]),
        ("no crops", "fast-flip", [row for row in RIVALS if row in here]),
    ):
        if ours not in here or not others:
            continue
        found = _compare(own, ours, others, seeds=_seeds(own, ours, *others))
        if found:
            lines.append([text, f"{found.seeds}", str(found.best), str(found.accuracy)])
    head = ["symm40", "seeds", "AP over the best other method", "accuracy over the best other method"]
    return tables.markdown_table([head, *lines]) if lines else "Not run."


def newer_table(decisive: Sequence[Result]) -> str:
    """AP and accuracy of all rows with the crops of `fast`, one setting and one seed, and which were not run."""
    own = [each for each in _at_gap_setting(decisive) if each.spec.seed == 1]
    rows = (FAST, *(f"{row}-augmented" for row in RIVALS), *NEWER)
    figures = [(row, _mean(own, row, "ap", {1}), _mean(own, row, "test_accuracy", {1})) for row in rows]
    known = [(row, ap, right) for row, ap, right in figures if ap is not None and right is not None]
    if not known:
        return "Not run."
    best_ap, best_right = max(ap for _, ap, _ in known), max(right for *_, right in known)
    lines = [[f"`{row}`", _marked(ap, best_ap), _marked(right, best_right)] for row, ap, right in known]
    missing = [f"`{row}`" for row in NEWER if row not in {line[0] for line in known}]
    table = tables.markdown_table([["40 % symmetric noise, seed 1", "AP", "accuracy"], *lines])
    return f"{table}\n\nNot run: {', '.join(missing)}." if missing else table


def long_rivals(decisive: Sequence[Result]) -> str:
    """AP and accuracy of the methods that have the crops and all epochs of `fast`."""
    own = _at_gap_setting(decisive)
    rows = [row for row in LONG if any(each.spec.variant == row for each in own)]
    if not rows:
        return "not run."
    seeds = _seeds(own, FAST, *rows)
    parts = [
        f"{_mean(own, row, 'ap', seeds):.3f} and {_mean(own, row, 'test_accuracy', seeds):.3f} for `{row}`"
        for row in (*rows, FAST)
    ]
    return f"AP and accuracy {', '.join(parts)} ({len(seeds)} seed{'' if len(seeds) == 1 else 's'})."


def ahead(breadth: Sequence[Result]) -> str:
    """In how many settings `fast` ranks best."""
    groups = _by_setting(breadth)
    every = [found for own in groups if (found := _compare(own))]
    without_rate = [found for own in groups if (found := _compare(own, rivals=WITHOUT_RATE))]
    if not every:
        return "not run."
    first, second = (sum(each.best.lead > 0 for each in found) for found in (every, without_rate))
    return (
        f"`fast` has the best AP in {first} of {len(every)} settings, in {second} if Co-teaching, which needs the "
        "noise rate, is left out."
    )


def times(decisive: Sequence[Result]) -> str:
    """What `fast` and cleanlab cost, relative to `ce`."""
    shown = {}
    for row in (FAST, CLEANLAB):
        own = {each.spec.name for each in decisive if each.spec.variant == row}
        both = [tables.costs(decisive, figure) for figure in ("cpu_seconds", "total_cpu_seconds")]
        known = [[ratio for name, ratio in each.items() if name in own] for each in both]
        if not all(known):
            return ""
        shown[row] = [statistics.mean(each) for each in known]
    return (
        f"In CPU seconds, on average, the filter of `fast` takes {shown[FAST][0]:.2f} times a run of `ce`, filter and "
        f"classifier {shown[FAST][1]:.2f} times; `cleanlab` takes {shown[CLEANLAB][0]:.2f} and "
        f"{shown[CLEANLAB][1]:.2f} times."
    )


def _at_gap_setting(results: Sequence[Result]) -> list[Result]:
    return [each for each in results if (each.spec.noise, each.spec.rate) == GAP_SETTING]


def _mean(results: Sequence[Result], row: str, figure: str, seeds: set[int]) -> float | None:
    values = [each.get(figure) for each in results if each.spec.variant == row and each.spec.seed in seeds]
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known and len(known) == len(seeds) else None


def _seeds(results: Sequence[Result], *rows: str) -> set[int]:
    """The seeds that all rows have."""
    return set.intersection(*({each.spec.seed for each in results if each.spec.variant == row} for row in rows))


class Lead(NamedTuple):
    """A difference, and the method it is measured against."""

    lead: float
    rival: str

    def __str__(self) -> str:
        return f"{self.lead:+.3f} ({self.rival})"


class Comparison(NamedTuple):
    """`fast` beside the other methods in one setting."""

    setting: str
    seeds: int
    ap: Lead  # over the baselines
    best: Lead  # over all
    oracle: float  # over ce's best epoch
    lost: float  # AP of the best epoch less that of the last, mean over seeds
    accuracy: Lead
    most_lost: float = 0.0  # in a single run

    def line(self) -> list[str]:
        """Of a table."""
        name = f"{self.setting}, {self.seeds} seed{'' if self.seeds == 1 else 's'}"
        return [name, str(self.ap), str(self.best), f"{self.oracle:+.3f}", f"{self.lost:.3f}", str(self.accuracy)]


def comparisons(results: Sequence[Result]) -> list[Comparison]:
    """One for each setting in which all rows were run."""
    return [found for own in _by_setting(results) if (found := _compare(own))]


def _by_setting(results: Sequence[Result]) -> list[list[Result]]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for each in results:
        groups[each.setting].append(each)
    return list(groups.values())


def _compare(
    own: Sequence[Result], ours: str = FAST, rivals: Sequence[str] = RIVALS, seeds: set[int] | None = None
) -> Comparison | None:
    """Differences of means over the seeds that all rows have; None if a row is missing.

    The accuracy of another method is that of its final classifier or of the network that ranked, whichever is better.
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
    baselines = {row: theirs for row, theirs in ranked.items() if row in BASELINES} or ranked
    lost = [
        (each.get("ap_peak") or 0.0) - (each.get("ap") or 0.0)
        for each in own
        if each.spec.variant == ours and each.spec.seed in seeds
    ]
    return Comparison(
        own[0].setting,
        len(seeds),
        _lead(ap, baselines),
        _lead(ap, ranked),
        ap - oracle,
        peak - ap,
        _lead(accuracy, classified),
        max(lost),
    )


def _lead(ours: float, rivals: Mapping[str, float]) -> Lead:
    best = max(rivals, key=lambda row: rivals[row])
    return Lead(ours - rivals[best], best)


def _gap_target(decisive: Sequence[Result], noisy: str, clean: str) -> Target:
    """How much of the gap between noisy and clean labels the classifier of `fast` closes."""
    own = _at_gap_setting(decisive)
    crops = "" if noisy == CE else "crops for all: "
    target = f"{crops}90 % of the gap in accuracy between `{noisy}` and `{clean}` closed at symm40"
    seeds = _seeds(own, FAST, noisy, clean)
    fast, low, high = (_mean(own, row, "test_accuracy", seeds) for row in (FAST, noisy, clean))
    if fast is None or low is None or high is None:
        return Target(target, NOT_RUN, False, NOT_RUN)
    part = (fast - low) / (high - low)
    result = f"{part:.1%}: {low:.3f} for `{noisy}`, {high:.3f} for `{clean}`, {fast:.3f} for `{FAST}`"
    return Target(target, result, part >= GAP, _missing_seeds(len(seeds)))


def _cost_targets(cost: Sequence[Result]) -> list[Target]:
    """The filter's time beside that of a cross-validation and of cross-entropy."""
    quarter = "time of the filter at most a quarter of the cross-validation"
    once = f"time of the filter at most 1.3 times a run of `{CE}` with as many epochs"
    seeds = _seeds(cost, "fast-filter", CE, CLEANLAB)
    fast, ce, folds = (_mean(cost, row, "cpu_seconds", seeds) for row in ("fast-filter", CE, CLEANLAB))
    if fast is None or ce is None or folds is None:
        return [Target(target, NOT_RUN, False, NOT_RUN) for target in (quarter, once)]
    more = fast / SHARE  # with as many epochs as the others
    missing = _missing_seeds(len(seeds))
    return [
        Target(
            quarter,
            f"{fast / folds:.3f} (27 epochs, as in the comparison; with 30 it would be {more / folds:.3f})",
            fast / folds <= FOLDED,
            missing,
        ),
        Target(once, f"{more / ce:.2f} (and {fast / ce:.2f} with its 27 epochs)", more / ce <= ONCE, missing),
    ]


def _order_target(decisive: Sequence[Result], full: Sequence[Result]) -> Target:
    """Whether all images order the methods as the small scale does."""
    target = "all 50,000 images: the same order of methods"
    rows = (CE, "nlnl", FAST)
    orders = []
    for own in (_at_gap_setting(decisive), full):
        ranked = {row: ap for row in rows if (ap := _mean(own, row, "ap", _seeds(own, *rows))) is not None}
        if len(ranked) < len(rows):
            return Target(target, NOT_RUN, False, NOT_RUN)
        orders.append(sorted(rows, key=lambda row: -ranked[row]))
    return Target(target, " > ".join(orders[1]), orders[0] == orders[1])


def per_epoch(full: Sequence[Result]) -> str:
    """What an epoch of each filter took on all images."""
    return _listed(full, "seconds_per_epoch", "CPU seconds of an epoch of the filter:", 1)


def _listed(results: Sequence[Result], figure: str, name: str, digits: int = 3) -> str:
    known = {each.spec.variant: value for each in results if (value := each.get(figure)) is not None}
    if not known:
        return "not run."
    return f"{name} " + ", ".join(f"{value:.{digits}f} for `{row}`" for row, value in known.items()) + "."


def main() -> None:
    """Write the pages and the picture."""
    for path, text in pages().items():
        path.write_text(text, "utf-8")
        print(path)
    README.write_text(BLOCK.sub(lambda match: match[1] + readme_block() + match[2], README.read_text("utf-8")), "utf-8")
    decisive = tables.load(RESULTS / "quality-decisive.jsonl")
    plots.ap_against_time(PICTURE, [each for each in decisive if not _ran_on_several_machines(each.spec)])


if __name__ == "__main__":
    main()
