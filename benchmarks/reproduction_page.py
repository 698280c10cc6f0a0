"""docs/reproduction.md and its pictures from the JSON in results/reproduce/small.

python benchmarks/reproduction_page.py                                 # after
jnpl reproduce all --scale small --data-root DIR --out runs/small      # some hours of two cores, resumable
cp runs/small/results/*.json benchmarks/results/reproduce/small/
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jnpl.reproduce import draw, tables
from jnpl.reproduce.captions import caption, used
from jnpl.reproduce.claims import verdicts
from jnpl.reproduce.cost import TERA, gpu_hours
from jnpl.reproduce.data import how_to_get
from jnpl.reproduce.items import FIGURE2, FIGURES, GROUPS, ITEMS, names_of, plan
from jnpl.reproduce.paper import percent
from jnpl.reproduce.results import load
from jnpl.reproduce.scales import SCALES
from jnpl.reproduce.variants import SMALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.reproduce.results import Result, Results

HERE = Path(__file__).parent
RESULTS, TEMPLATE = HERE / "results" / "reproduce" / "small", HERE / "reproduction.md.in"
PAGE, IMAGES = HERE.parent / "docs/reproduction.md", HERE.parent / "docs/images"
SCALE = "small"


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
        **paper_hours(), "scale": results.scale.what, "verdicts": verdict_table(results), "time": time_told(results),
        "why": why(results), "nl_epochs": SMALL.filter_epochs, "stage_epochs": SMALL.filter_epochs // 3,
        "classify_epochs": SMALL.classify_epochs,
    }  # fmt: skip
    for item in ITEMS:
        told = caption(results, item)
        shown = f"![{told.title}](images/{image(item)})" if item in FIGURES else tables.MARKDOWN[item](results).strip()
        run = "" if used(results, item) else "**Not run.** "
        paragraph = f"{run}**The paper:** {told.claim} **Here:** {told.seen} **{told.agrees}**"
        parts[item] = f"## {told.title}\n\n{paragraph}\n\n{shown}\n\n{told.scale} `{told.command}`"
    return TEMPLATE.read_text("utf-8").format(**parts)


def why(results: Results) -> str:
    """NL, NL+, and NL that becomes NL+, by the first seed of each."""
    rows = {"nl": "NL", "nl-plus": "NL+", "nl-plus-late": "NL, then NL+ (not the paper's)"}
    head = ["", *(f"symm {percent(rate)}" for _, rate in FIGURE2)]
    lines = [head, ["---"] * len(head)]
    for variant, name in rows.items():
        lines.append([name, *(_short(results.first(variant, setting)) for setting in FIGURE2)])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _short(found: Result | None) -> str:
    if found is None:
        return "not run"
    facts = found.stage()
    right, wrong = (facts[name]["mean"] for name in ("clean", "noisy"))
    return f"AP {facts['ap']:.3f}, accuracy {facts['test_accuracy']:.3f}, p_y {right:.2f} / {wrong:.2f}"


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
    rows = (f"| {each.claim} ({each.item}) *{each.rule}* | **{each.status}** | {each.figures} |"
            for each in verdicts(results))  # fmt: skip
    return "\n".join(["| claim | here | figures |", "| --- | --- | --- |", *rows])


def time_told(results: Results) -> str:
    """What the runs took, each on one thread."""
    if not results.every:
        return "Not run."
    filters = [each for each in results.every if not each.cell.classify or each.cell.variant in ("nlnl", "jnpl")]
    whole = [each for each in results.every if each.cell.classify]
    known = all(each.get("cpu_seconds") is not None for each in results.every)
    unit = "CPU hours" if known else "hours one after the other"
    return (
        f"{len(results.every)} runs of one thread took {hours(results.every)} {unit} (two ran at a "
        f"time): the {len(whole)} of Table 1 {hours(whole)}, and the {len(filters)} that figures are drawn from "
        f"{hours(filters)}, with the classifiers that followed."
    )


def hours(of: Sequence[Result]) -> str:
    """Of training: of the processor, where a run has noted it."""
    seconds = (own if (own := each.get("cpu_seconds")) is not None else each.get("seconds") for each in of)
    return f"{sum(each or 0.0 for each in seconds) / 3600:.1f}"


def main() -> None:
    """Write the page and its pictures."""
    results = results_of()
    for item in FIGURES:
        png, svg = draw.figure(results, item, IMAGES, image(item).removesuffix(".png"))
        svg.unlink()  # the pages show PNG
        print(png)
    PAGE.write_text(page(results), "utf-8")
    print(PAGE)


if __name__ == "__main__":
    main()
