"""Write docs/reproduction.md, docs/results/reproduction.md and their figures from the committed results.

    jnpl reproduce all --scale small --data-root DIR --out runs/small      # some hours on two cores, resumable
    cp runs/small/results.jsonl benchmarks/results/reproduce-small.jsonl
    python benchmarks/reproduction_page.py

The texts are in docs/templates.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jnpl.experiments import style
from jnpl.experiments.reproduce import output
from jnpl.experiments.reproduce.captions import caption, used
from jnpl.experiments.reproduce.cost import TERA, gpu_hours
from jnpl.experiments.reproduce.fig1 import sides
from jnpl.experiments.reproduce.fig2 import SETTINGS as FIGURE2
from jnpl.experiments.reproduce.item import ASYMM40, SYMM60
from jnpl.experiments.reproduce.items import FIGURES, GROUPS, ITEMS, names_of, plan, verdicts
from jnpl.experiments.reproduce.paper import percent
from jnpl.experiments.reproduce.runs import load, mean_curve
from jnpl.experiments.reproduce.scales import SCALES, how_to_get
from jnpl.experiments.result_tables import markdown_table
from jnpl.experiments.results import read
from jnpl.experiments.rows import SMALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.experiments.reproduce.runs import PaperRun, PaperRuns

ROOT = Path(__file__).parents[1]
RESULTS, BREADTH = ROOT / "benchmarks/results/reproduce-small.jsonl", ROOT / "benchmarks/results/quality-breadth.jsonl"
DOCS, IMAGES = ROOT / "docs", ROOT / "docs/images"
SCALE = "small"
ELSEWHERE = {"breast-cancer": "breast cancer (2 classes)", "wine": "wine (3)", "digits": "digits (10)"}
WHY = {"nl": "NL", "nl-plus": "NL+", "nl-plus-late": "NL, then NL+ (not in the paper)"}


def results_of(path: Path = RESULTS) -> PaperRuns:
    """The committed results; data sets without any are listed as missing."""
    scale = SCALES[SCALE]
    found = load(path, SCALE)
    here = {each.cell.data for each in found.every}
    missing = {name: how_to_get(name, scale) for name in ("cifar100", "clothing1m") if name not in here}
    return load(path, SCALE, missing)


def pages(results: PaperRuns) -> dict[Path, str]:
    """Both pages: path -> text."""
    texts = {"reproduction.md": page(results), "results/reproduction.md": results_page(results)}
    return {DOCS / name: text for name, text in texts.items()}


def page(results: PaperRuns) -> str:
    """The text of docs/reproduction.md."""
    return _fill(
        "reproduction.md",
        **paper_hours(),
        scale=results.scale.what,
        verdicts=markdown_table(
            [
                ["claim of the paper", "item", "here"],
                *([each.claim, each.item, f"**{each.status}**"] for each in verdicts(results)),
            ]
        ),
        time=time_spent(results),
        two_cores=f"{hours(results.every) / 2:.1f}",
        first_sided=first_sided(results),
        why=why(results),
        later=later(results),
        elsewhere=elsewhere(),
        nl_epochs=str(SMALL.filter_epochs),
        stage_epochs=str(SMALL.filter_epochs // 3),
        classify_epochs=str(SMALL.classify_epochs),
    )


def results_page(results: PaperRuns) -> str:
    """The text of docs/results/reproduction.md: every item with its caption, and the claims with their rules."""
    items = []
    for item in ITEMS:
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


def image(item: str) -> str:
    """File name of an item in docs/images."""
    return f"reproduce-{item}.png"


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
    results = results_of()
    for item in FIGURES:
        print(style.save(output.figure(results, item), IMAGES / image(item)))
    print(draw_why(results, IMAGES))
    for path, text in pages(results).items():
        path.write_text(text, "utf-8")
        print(path)


if __name__ == "__main__":
    main()
