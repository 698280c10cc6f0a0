"""docs/reproduction.md and its pictures from the JSON in results/reproduce/small.

python benchmarks/reproduction_page.py                                 # after
jnpl reproduce all --scale small --data-root DIR --out runs/small      # some hours of two cores, resumable
cp runs/small/results/*.json benchmarks/results/reproduce/small/
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jnpl.experiments.reproduce import draw, style, tables
from jnpl.experiments.reproduce.captions import caption, used
from jnpl.experiments.reproduce.claims import verdicts
from jnpl.experiments.reproduce.cost import TERA, gpu_hours
from jnpl.experiments.reproduce.data import how_to_get
from jnpl.experiments.reproduce.items import ASYMM40, FIGURE2, FIGURES, GROUPS, ITEMS, SYMM60, names_of, plan
from jnpl.experiments.reproduce.judges.filters import sides
from jnpl.experiments.reproduce.paper import percent
from jnpl.experiments.reproduce.results import load, mean_curve
from jnpl.experiments.reproduce.scales import SCALES
from jnpl.experiments.reproduce.variants import SMALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.experiments.reproduce.results import Result, Results

HERE = Path(__file__).parent
RESULTS, TEMPLATE = HERE / "results" / "reproduce" / "small", HERE.parent / "docs/templates/reproduction.md"
PAGE, IMAGES = HERE.parent / "docs/reproduction.md", HERE.parent / "docs/images"
SCALE = "small"
BREADTH = HERE / "results" / "quality" / "breadth"
ELSEWHERE = {"breast-cancer": "breast cancer (2 classes)", "wine": "wine (3)", "digits": "digits (10)"}
WHY = {"nl": "NL", "nl-plus": "NL+", "nl-plus-late": "NL, then NL+ (not the paper's)"}


def results_of(folder: Path = RESULTS) -> Results:
    """The committed JSON; data sets without any are told to be missing."""
    scale = SCALES[SCALE]
    found = load(folder, SCALE)
    here = {each.cell.data for each in found.every}
    missing = {name: how_to_get(name, scale) for name in ("cifar100", "clothing1m") if name not in here}
    return load(folder, SCALE, missing)


def page(results: Results) -> str:
    """The text of docs/reproduction.md."""
    parts: dict[str, object] = {
        **paper_hours(),
        "scale": results.scale.what,
        "verdicts": verdict_table(results),
        "time": time_told(results),
        "first_sided": first_sided(results),
        "why": why(results),
        "later": later(results),
        "elsewhere": elsewhere(),
        "nl_epochs": SMALL.filter_epochs,
        "stage_epochs": SMALL.filter_epochs // 3,
        "classify_epochs": SMALL.classify_epochs,
    }
    for item in ITEMS:
        told = caption(results, item)
        shown = f"![{told.title}](images/{image(item)})" if item in FIGURES else tables.MARKDOWN[item](results).strip()
        run = "" if used(results, item) else "**Not run.** "
        paragraph = f"{run}**The paper:** {told.claim} **Here:** {told.seen} **{told.agrees}**"
        parts[item] = f"## {told.title}\n\n{paragraph}\n\n{shown}\n\n{told.scale} `{told.command}`"
    return TEMPLATE.read_text("utf-8").format(**parts)


def why(results: Results) -> str:
    """NL, NL+, and NL that becomes NL+, by the first seed of each."""
    head = ["", *(f"symm {percent(rate)}" for _, rate in FIGURE2), "asymm 40, labelled cat"]
    lines = [head, ["---"] * len(head)]
    for variant, name in WHY.items():
        cats = _cats(
            *((results.first("nlnl", ASYMM40), "nl") if variant == "nl" else (results.first(variant, ASYMM40), None))
        )
        lines.append([name, *(_short(results.first(variant, setting)) for setting in FIGURE2), cats])
    return tables.as_markdown(lines)


def first_sided(results: Results) -> str:
    """What Figure 1's rule would have judged of JNPL's first seed alone."""
    found = results.first("jnpl", SYMM60)
    return "(not run)" if found is None else f"{sum(sides(found.stage())) / 2:.1%}"


def later(results: Results) -> str:
    """What PL+ adds to NL that has become NL+."""
    found = results.together(("nl-plus-late", "jnpl-late"), SYMM60)
    if not all(found):
        return "(not run)"
    start = found[1][0].pl_begins()
    without, beside = (statistics.fmean(mean_curve(own)[start:]) for own in found)
    return f"from epoch {start + 1} on {beside:.1%} with it and {without:.1%} without (symm 60, {len(found[0])} seeds)"


def elsewhere(folder: Path = BREADTH) -> str:
    """AP of JNPL, as the paper has it with its schedule scaled, and of NLNL on small sets, the mean over seeds."""
    known: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        told = json.loads(path.read_text("utf-8"))
        cell = told["cell"]
        known[cell["row"], cell["data"], f"{cell['noise']} {percent(cell['rate'])}"].append(told["results"]["ap"])
    settings = ("symm 20", "symm 40", "asymm 20", "asymm 40")
    lines = [["AP of JNPL / NLNL", *settings], ["---"] * (1 + len(settings))]
    for data, name in ELSEWHERE.items():
        both = ([known[row, data, setting] for row in ("jnpl-paper", "nlnl")] for setting in settings)
        lines.append([name, *(" / ".join(f"{statistics.fmean(own):.3f}" for own in pair) for pair in both)])
    return tables.as_markdown(lines)


def draw_why(results: Results, out: Path) -> Path:
    """AP, and p_y of right and wrong labels, after every epoch of the three at 60 %."""
    figure = style.new(8.4, 3.4)
    left, right = style.panels(figure, 1, 2)
    for number, (variant, name) in enumerate(WHY.items()):
        found = results.first(variant, SYMM60)
        if found is None:
            continue
        told, look = found.told["results"], {"color": style.LINES[number], "linewidth": 1.6}
        epochs = range(1, len(told["ap_curve"]) + 1)
        left.plot(epochs, told["ap_curve"], label=name, **look)
        right.plot(epochs, told["right_curve"], label=f"{name}: right", **look)
        right.plot(epochs, told["wrong_curve"], label="wrong", linestyle="--", **look)
    style.tidy(left, "epoch", "average precision, wrong labels positive", "", "(a)")
    style.tidy(right, "epoch", r"mean $p_y$", "", "(b)")
    for axis in (left, right):
        if axis.lines:
            axis.legend(fontsize=7, frameon=False)
    png, svg = style.save(figure, out, "reproduce-why")
    svg.unlink()
    return png


def _short(found: Result | None) -> str:
    if found is None:
        return "not run"
    facts = found.stage()
    right, wrong = (facts[name]["mean"] for name in ("clean", "noisy"))
    return f"AP {facts['ap']:.3f}, accuracy {facts['test_accuracy']:.3f}, p_y {right:.2f} / {wrong:.2f}"


def _cats(found: Result | None, stage: str | None) -> str:
    if found is None:
        return "not run"
    cat = found.stage(stage)["cat"]
    return f"AUC {cat['auc']:.2f}, p_y {cat['clean']['mean']:.2f} / {cat['noisy']['mean']:.2f}"


@cache
def paper_hours() -> dict[str, str]:
    """What the paper's scale costs, by estimate."""
    plans = {item: plan(names_of(item), SCALES["paper"], None, ["cifar10", "cifar100"]) for item in GROUPS}
    told = {f"hours_{item}": f"{gpu_hours(cells):,.0f}" for item, cells in plans.items()}
    return {**told, "tera": f"{TERA / 1e12:.0f}"}


def image(item: str) -> str:
    """Its file in docs/images."""
    return f"reproduce-{item}.png"


def verdict_table(results: Results) -> str:
    """All claims, a line each."""
    rows = (
        f"| {each.claim} ({each.item}) *{each.rule}* | **{each.status}** | {each.figures} |"
        for each in verdicts(results)
    )
    return "\n".join(["| claim | here | figures |", "| --- | --- | --- |", *rows])


def time_told(results: Results) -> str:
    """What the runs took, each on one thread."""
    if not results.every:
        return "Not run."
    every = hours(results.every)
    return (
        f"{len(results.every)} runs of one thread took {every:.1f} CPU hours, {every / 2:.1f} of two cores; for the "
        f"figures alone it would be {figures_hours(results):.1f} (of NLNL and JNPL the filter only), for Table 1 alone "
        f"{table_hours(results):.1f}. The start of each process, some seconds, is not in it."
    )


def hours(of: Sequence[Result]) -> float:
    """Of the processor, in training."""
    return sum(each.get("cpu_seconds") or 0.0 for each in of) / 3600


def figures_hours(results: Results) -> float:
    """Of two cores: the runs that figures are drawn from, without the classifiers that some went on to."""
    used = {cell.name for cell in plan(names_of("figures"), results.scale, None, ["cifar10"])}
    own = [each for each in results.every if each.cell.model_copy(update={"classify": False}).name in used]
    return sum(hours([each]) * len(each.curve()) / len(each.told["results"]["curve"]) for each in own) / 2


def table_hours(results: Results) -> float:
    """Of two cores: Table 1."""
    return hours([each for each in results.every if each.cell.classify]) / 2


def main() -> None:
    """Write the page and its pictures."""
    results = results_of()
    for item in FIGURES:
        png, svg = draw.figure(results, item, IMAGES, image(item).removesuffix(".png"))
        svg.unlink()  # the pages show PNG
        print(png)
    print(draw_why(results, IMAGES))
    PAGE.write_text(page(results), "utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
