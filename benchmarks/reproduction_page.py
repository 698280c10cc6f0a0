"""Write docs/reproduction.md, docs/results/reproduction.md and their figures from the committed results.

    jnpl reproduce all --scale features --data-root DIR --out runs/features    # some hours on two cores, resumable
    cp runs/features/results.jsonl benchmarks/results/reproduce-features.jsonl
    jnpl reproduce all --scale small --data-root DIR --out runs/small
    cp runs/small/results.jsonl benchmarks/results/reproduce-small.jsonl
    python benchmarks/reproduction_page.py

The texts are in docs/templates.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jnpl.experiments import style
from jnpl.experiments.features import PART
from jnpl.experiments.reproduce import beyond, output
from jnpl.experiments.reproduce.captions import caption, seen, used
from jnpl.experiments.reproduce.cost import TERA, gpu_hours, stages
from jnpl.experiments.reproduce.fig1 import sides
from jnpl.experiments.reproduce.fig2 import SETTINGS as FIGURE2
from jnpl.experiments.reproduce.item import ASYMM40, SYMM60
from jnpl.experiments.reproduce.items import FIGURES, GROUPS, ITEMS, names_of, plan, verdicts
from jnpl.experiments.reproduce.paper import DATA_NAMES, percent
from jnpl.experiments.reproduce.runs import load, mean_curve
from jnpl.experiments.reproduce.scales import SCALES, how_to_get
from jnpl.experiments.result_tables import markdown_table
from jnpl.experiments.results import read
from jnpl.experiments.rows import FACTORS, LATER, SMALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.experiments.reproduce.runs import PaperRun, PaperRuns

ROOT = Path(__file__).parents[1]
RESULTS, BREADTH = ROOT / "benchmarks/results/reproduce-small.jsonl", ROOT / "benchmarks/results/quality-breadth.jsonl"
FEATURES = ROOT / "benchmarks/results/reproduce-features.jsonl"
DOCS, IMAGES = ROOT / "docs", ROOT / "docs/images"
SCALE = "small"
LETTER, BEYOND = "as written", "PL+ from 30 %"  # JNPL as the paper has it, and our variant
ELSEWHERE = {"breast-cancer": "breast cancer (2 classes)", "wine": "wine (3)", "digits": "digits (10)"}
_SHORT = ("NLNL", "NL+", "JNPL as written", "JNPL with PL+ from 30 % of the epochs on")
SHOWN_EPOCHS = (1, 3, 5, 7, 9, 12, 20, 40, 80, 125)
PAPER_ITEMS = [item for item in ITEMS if ITEMS[item] not in beyond.ITEMS]
WHY = {"nl": "NL", "nl-plus": "NL+", "nl-plus-late": "NL, then NL+ (not in the paper)"}


def results_of(path: Path = RESULTS, scale: str = SCALE) -> PaperRuns:
    """Stored results of a scale; data sets without any are listed as missing."""
    found = load(path, scale)
    here = {each.cell.data for each in found.every}
    parts = ["cifar100", "clothing1m", *(part for part in ("cifar10n", "cifar100n") if SCALES[scale].features)]
    return load(path, scale, {name: how_to_get(name, SCALES[scale]) for name in parts if name not in here})


def features_of(path: Path = FEATURES) -> PaperRuns:
    """Stored results of scale features. What was not run yet is not missing: only Clothing1M is."""
    found = results_of(path, "features")
    return replace(found, missing={name: why for name, why in found.missing.items() if name == "clothing1m"})


def pages(small: PaperRuns, features: PaperRuns) -> dict[Path, str]:
    """Both pages: path -> text."""
    texts = {"reproduction.md": page(small, features), "results/reproduction.md": results_page(small)}
    return {DOCS / name: text for name, text in texts.items()}


def page(small: PaperRuns, features: PaperRuns) -> str:
    """The text of docs/reproduction.md, which leads with scale features."""
    letter, later = (verdicts(runs) for runs in both_readings(features))
    both = [
        [one.claim, one.item, f"**{one.status}**", f"**{two.status}**"] for one, two in zip(letter, later, strict=True)
    ]
    rules = [[f"{each.claim} ({each.item})", each.rule] for each in letter]
    return _fill(
        "reproduction.md",
        **paper_hours(),
        part=PART,
        factor=str(FACTORS["features"]),
        features_hours=f"{hours(features.every):.1f}",
        full_hours=full_hours(features),
        stored=str(len(features.every)),
        fig4_minutes=fig4_minutes(features),
        scale=features.scale.what,
        state=state(features),
        verdicts=markdown_table([["claim of the paper", "item", f"JNPL {LETTER}", f"JNPL, {BEYOND}"], *both]),
        summary=summary(features),
        figures="\n\n".join(figure_section(features, item) for item in FIGURES),
        table1=f"{paragraph(features, 'table1')}\n\n{ITEMS['table1'].files['md'](features).strip()}",
        human=table_section(features, "human"),
        heads=table_section(features, "heads"),
        starts=table_section(features, "starts"),
        memorised=memorised(features),
        reasons=reasons(features),
        budget=budget(features),
        small_verdicts=small_verdicts(small),
        rules=markdown_table([["claim", "rule"], *rules]),
        two_cores=f"{hours(small.every) / 2:.1f}",
    )


def state(features: PaperRuns) -> str:
    """How many runs there are, of how many, and with which seeds."""
    wanted = plan(names_of("all"), features.scale, None, list(features.scale.stands_for))
    done = {each.cell.name for each in features.every}
    left = [cell for cell in wanted if cell.name not in done]
    sentence = f"{len(done)} of the {len(wanted)} runs of `jnpl reproduce all --scale features` are stored."
    if not left:
        return sentence
    kinds = dict.fromkeys((DATA_NAMES[cell.data], cell.seed) for cell in left)
    counts = {kind: sum((DATA_NAMES[cell.data], cell.seed) == kind for cell in left) for kind in kinds}
    names = ", ".join(f"{count} of {data} with seed {seed}" for (data, seed), count in counts.items())
    return f"**{sentence}** Missing: {names}; the same command trains them."


def summary(features: PaperRuns) -> str:
    """Accuracy and AP of the filters at 60 % symmetric noise."""
    found = features.together(("nlnl", "nl-plus", "jnpl", f"jnpl{LATER}"), SYMM60)
    if not all(found):
        return "Figure 4 is not run."
    ends = [statistics.fmean(each.stage()["test_accuracy"] for each in own) for own in found]
    aps = [statistics.fmean(each.stage()["ap"] for each in own) for own in found]
    figures = [f"{name} {end:.1%} (AP {ap:.3f})" for name, end, ap in zip(_SHORT, ends, aps, strict=True)]
    return f"At 60 % symmetric noise the filters end with {', '.join(figures)}."


def reasons(features: PaperRuns) -> str:
    """Why claims disagree, from the runs."""
    jnpl, plus = features.first("jnpl", SYMM60), features.first("nl-plus", SYMM60)
    if jnpl is None or plus is None:
        return ""
    best, at = max((value, -number) for number, value in enumerate(jnpl.curve(), 1))
    selected = jnpl.line["results"]["selected_curve"]
    rows = [["", *map(str, SHOWN_EPOCHS)]]
    for name, values, form in (
        ("accuracy of NL+ alone", plus.curve(), ".1%"),
        ("accuracy of JNPL as written", jnpl.curve(), ".1%"),
        ("samples that its PL+ takes", selected, ".1%"),
    ):
        rows.append([name, *(format(values[epoch - 1], form) for epoch in SHOWN_EPOCHS)])
    return (
        f"With 60 % symmetric noise JNPL as written has its best epoch, {best:.1%}, after {-at} epochs, and ends with "
        f"{jnpl.curve()[-1]:.1%}; NL+ alone, with the same seed, learns on:\n\n{markdown_table(rows)}"
    )


def figure_section(features: PaperRuns, item: str) -> str:
    """A figure with its paragraph."""
    shown = f"![{ITEMS[item].title}](images/{image(item, 'features')})"
    return f"### {ITEMS[item].title}\n\n{shown}\n\n{paragraph(features, item)}"


def paragraph(features: PaperRuns, item: str) -> str:
    """What the paper says, what is seen here, where it differs with PL+ from 30 % of the epochs, and notes."""
    letter, later = ([each for each in verdicts(runs) if each.item == item] for runs in both_readings(features))
    own = [two for one, two in zip(letter, later, strict=True) if two.figures != one.figures]
    text = caption(features, item)
    parts = [f"**The paper:** {text.claim}", f"**Here:** {text.seen}"]
    parts += [f"**With {BEYOND} of the epochs on:** {seen(own)}"] if own else []
    return " ".join([*parts, text.scale])


def both_readings(features: PaperRuns) -> tuple[PaperRuns, PaperRuns]:
    """JNPL as the paper has it, and with PL+ from 30 % of the epochs on."""
    return features, features.reading(LATER)


def table_section(features: PaperRuns, item: str) -> str:
    """A table beyond the paper, and what it was made from."""
    if not used(features, item):
        return f"Not run yet: `jnpl reproduce {item} --scale features --data-root DIR`."
    return f"{ITEMS[item].files['md'](features).strip()}\n\n{caption(features, item).scale}"


def memorised(features: PaperRuns) -> str:
    """Cross-entropy's last and best epoch at 60 % symmetric noise."""
    found = features.first("ce", SYMM60)
    if found is None:
        return "(not run)"
    last, best = found.stage()["test_accuracy"], max(found.curve())
    right, wrong = (found.stage()[kind]["mean"] for kind in ("clean", "noisy"))
    return (
        f"at 60 % symmetric noise cross-entropy ends with {last:.1%} after a best epoch of {best:.1%}, and gives wrong "
        f"labels a mean probability of {wrong:.2f} (right ones {right:.2f})"
    )


def budget(features: PaperRuns) -> str:
    """CPU time of each item, of the runs there are."""
    lines = [["item", "runs", "minutes of one core"]]
    for item in ITEMS:
        own = used(features, item)
        if own:
            minutes = 60 * hours(own) if ITEMS[item].classify else sum(map(filter_minutes, own))
            lines.append([item, str(len(own)), f"{minutes:.1f}"])
    total = 60 * hours(features.every)
    lines.append(["all, each run once", str(len(features.every)), f"{total:.1f}"])
    return markdown_table(lines)


def fig4_minutes(features: PaperRuns) -> str:
    """CPU minutes of Figure 4 with three seeds, from the runs there are."""
    first = [own[0] for row in ITEMS["fig4"].variants(features.scale) if (own := features.of(row, SYMM60))]
    return f"{3 * sum(map(filter_minutes, first)):.0f}"


def filter_minutes(run: PaperRun) -> float:
    """CPU minutes of a run without the classifier that it may continue to."""
    return 60 * hours([run]) * len(run.curve()) / len(run.line["results"]["curve"])


def full_hours(features: PaperRuns) -> str:
    """Hours of Figure 4 at scale features-full, from the CPU time of a step at scale features."""
    own = used(features, "fig4")
    seconds = sum(each.get("cpu_seconds") or 0.0 for each in own)
    steps = sum(len(each.line["results"]["curve"]) * math.ceil(10_000 / 128) for each in own)
    cells = plan(["fig4"], SCALES["features-full"], None, ["cifar10"])
    wanted = sum(sum(cell.recipe().plan(name).epochs for name in stages(cell.recipe())) for cell in cells)
    return f"{seconds / max(steps, 1) * wanted * math.ceil(50_000 / 128) / 3600:.1f}"


def small_verdicts(small: PaperRuns) -> str:
    """How many claims hold at scale small."""
    counts = Counter(each.status for each in verdicts(small))
    return f"{counts['agrees']} of the paper's claims agree and {counts['disagrees']} disagree"


def results_page(results: PaperRuns) -> str:
    """The text of docs/results/reproduction.md: every item with its caption, and the claims with their rules."""
    items = []
    for item in PAPER_ITEMS:
        text = caption(results, item)
        drawn = item in FIGURES
        shown = f"![{text.title}](../images/{image(item)})" if drawn else ITEMS[item].files["md"](results).strip()
        run = "" if used(results, item) else "**Not run.** "
        paragraph = f"{run}**The paper:** {text.claim} **Here:** {text.seen} **{text.agrees}**"
        items.append(f"## {text.title}\n\n{paragraph}\n\n{shown}\n\n{text.scale} `{text.command}`")
    rules = [
        [f"{each.claim} ({each.item})", each.rule, f"**{each.status}**", each.figures] for each in verdicts(results)
    ]
    return _fill(
        "results/reproduction.md",
        scale=results.scale.what,
        time=time_spent(results),
        items="\n\n".join(items),
        claims=markdown_table([["claim", "rule", "here", "figures"], *rules]),
        source="benchmarks/results/reproduce-small.jsonl",
        first_sided=first_sided(results),
        why=why(results),
        later=later(results),
        elsewhere=elsewhere(),
        nl_epochs=str(SMALL.filter_epochs),
        stage_epochs=str(SMALL.filter_epochs // 3),
        classify_epochs=str(SMALL.classify_epochs),
    )


def _fill(template: str, **values: str) -> str:
    return (DOCS / "templates" / template).read_text("utf-8").format(**values)


def why(results: PaperRuns) -> str:
    """NL, NL+, and NL that changes to NL+: one seed each."""
    head = ["", *(f"symm {percent(rate)}" for _, rate in FIGURE2), "asymm 40, labelled cat"]
    lines = [head]
    for variant, name in WHY.items():
        cats = _cats(
            *((results.first("nlnl", ASYMM40), "nl") if variant == "nl" else (results.first(variant, ASYMM40), None))
        )
        lines.append([name, *(_short(results.first(variant, setting)) for setting in FIGURE2), cats])
    return markdown_table(lines)


def first_sided(results: PaperRuns) -> str:
    """The figure that Figure 1's rule is about, of JNPL's first seed."""
    found = results.first("jnpl", SYMM60)
    return "(not run)" if found is None else f"{sum(sides(found.stage())) / 2:.1%}"


def later(results: PaperRuns) -> str:
    """Mean accuracy with and without PL+, after NL has changed to NL+."""
    found = results.together(("nl-plus-late", "jnpl-late"), SYMM60)
    if not all(found):
        return "(not run)"
    start = found[1][0].pl_begins()
    without, beside = (statistics.fmean(mean_curve(own)[start:]) for own in found)
    return (
        f"from epoch {start + 1} on is {beside:.1%} with it and {without:.1%} without (symm 60, {len(found[0])} seeds)"
    )


def elsewhere(path: Path = BREADTH) -> str:
    """AP of the paper's JNPL with a scaled schedule, and of NLNL, on small data sets: means over seeds."""
    known: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for result in read(path).values():
        cell = result["cell"]
        known[cell["row"], cell["data"], f"{cell['noise']} {percent(cell['rate'])}"].append(result["results"]["ap"])
    settings = ("symm 20", "symm 40", "asymm 20", "asymm 40")
    lines = [["AP of JNPL / NLNL", *settings]]
    for data, name in ELSEWHERE.items():
        both = ([known[row, data, setting] for row in ("jnpl-paper", "nlnl")] for setting in settings)
        lines.append([name, *(" / ".join(f"{statistics.fmean(own):.3f}" for own in pair) for pair in both)])
    return markdown_table(lines)


def draw_why(results: PaperRuns, out: Path) -> Path:
    """Draw AP and the p_y of right and wrong labels after every epoch, at 60 % symmetric noise."""
    figure = style.new(8.4, 3.4)
    left, right = style.panels(figure, 1, 2)
    for number, (variant, name) in enumerate(WHY.items()):
        found = results.first(variant, SYMM60)
        if found is None:
            continue
        curves, line = found.line["results"], {"color": style.LINES[number], "linewidth": 1.6}
        epochs = range(1, len(curves["ap_curve"]) + 1)
        left.plot(epochs, curves["ap_curve"], label=name, **line)
        right.plot(epochs, curves["right_curve"], label=f"{name}: right", **line)
        right.plot(epochs, curves["wrong_curve"], label="wrong", linestyle="--", **line)
    style.tidy(left, "epoch", "average precision, wrong labels positive", "", "(a)")
    style.tidy(right, "epoch", r"mean $p_y$", "", "(b)")
    for axis in (left, right):
        if axis.lines:
            axis.legend(fontsize=7, frameon=False)
    return style.save(figure, out / "reproduce-why.png")


def _short(found: PaperRun | None) -> str:
    if found is None:
        return "not run"
    facts = found.stage()
    right, wrong = (facts[name]["mean"] for name in ("clean", "noisy"))
    return f"AP {facts['ap']:.3f}, accuracy {facts['test_accuracy']:.3f}, p_y {right:.2f} / {wrong:.2f}"


def _cats(found: PaperRun | None, stage: str | None) -> str:
    if found is None:
        return "not run"
    cat = found.stage(stage)["cat"]
    return f"AUC {cat['auc']:.2f}, p_y {cat['clean']['mean']:.2f} / {cat['noisy']['mean']:.2f}"


@cache
def paper_hours() -> dict[str, str]:
    """Estimated GPU-hours of scale paper."""
    plans = {item: plan(names_of(item), SCALES["paper"], None, ["cifar10", "cifar100"]) for item in GROUPS}
    estimates = {f"hours_{item}": f"{gpu_hours(cells):,.0f}" for item, cells in plans.items()}
    return {**estimates, "tera": f"{TERA / 1e12:.0f}"}


def image(item: str, scale: str = SCALE) -> str:
    """File name of an item in docs/images."""
    return f"reproduce-{item}.png" if scale == SCALE else f"reproduce-{scale}-{item}.png"


def time_spent(results: PaperRuns) -> str:
    """What the runs took, each on one thread."""
    if not results.every:
        return "Not run."
    total = hours(results.every)
    return (
        f"The {len(results.every)} runs took {total:.1f} CPU hours, each on one thread: {total / 2:.1f} hours on two "
        f"cores. The figures alone would take {figures_hours(results):.1f} hours on two cores (of NLNL and JNPL only "
        f"the filter), Table 1 alone {table_hours(results):.1f}. Starting the processes is not included."
    )


def hours(of: Sequence[PaperRun]) -> float:
    """CPU hours of training."""
    return sum(each.get("cpu_seconds") or 0.0 for each in of) / 3600


def figures_hours(results: PaperRuns) -> float:
    """Hours on two cores for the figures, without the classifiers that some of their runs continue to."""
    used = {cell.name for cell in plan(names_of("figures"), results.scale, None, ["cifar10"])}
    own = [each for each in results.every if each.cell.model_copy(update={"classify": False}).name in used]
    return sum(hours([each]) * len(each.curve()) / len(each.line["results"]["curve"]) for each in own) / 2


def table_hours(results: PaperRuns) -> float:
    """Hours on two cores for Table 1."""
    return hours([each for each in results.every if each.cell.classify]) / 2


def main() -> None:
    """Write the pages and the figures."""
    results, features = results_of(), features_of()
    for item in FIGURES:
        print(style.save(output.figure(results, item), IMAGES / image(item)))
        print(style.save(output.figure(features, item), IMAGES / image(item, "features")))
    print(draw_why(results, IMAGES))
    for path, text in pages(results, features).items():
        path.write_text(text, "utf-8")
        print(path)


if __name__ == "__main__":
    main()
