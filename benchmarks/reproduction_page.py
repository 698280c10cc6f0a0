"""Write docs/reproduction.md, two pages of docs/results and their figures from the committed results.

    jnpl reproduce all --scale features --data-root DIR --out runs/features    # some hours on two cores, resumable
    cp runs/features/results.jsonl benchmarks/results/reproduce-features.jsonl
    jnpl reproduce table1 --scale features-full --data-root DIR --out runs/full    # the same runs draw fig4
    cp runs/full/results.jsonl benchmarks/results/reproduce-features-full.jsonl
    jnpl reproduce all --scale small --data-root DIR --out runs/small
    cp runs/small/results.jsonl benchmarks/results/reproduce-small.jsonl
    python benchmarks/pl_plus.py --data DIR
    python benchmarks/slim.py benchmarks/results/reproduce-*.jsonl
    python benchmarks/reproduction_page.py

The texts are in docs/templates.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jnpl.experiments import style
from jnpl.experiments.features import PART
from jnpl.experiments.paper import DATA_NAMES, percent, printed
from jnpl.experiments.paper_variants import FACTORS, SMALL, STABLE
from jnpl.experiments.reproduce import beyond, output, table1
from jnpl.experiments.reproduce.catalogue import (
    EXPERIMENTS,
    FIGURES,
    GROUPS,
    ClaimVerdict,
    names_of,
    specs_of,
    verdicts,
)
from jnpl.experiments.reproduce.cost import TERA, gpu_hours
from jnpl.experiments.reproduce.experiment import ASYMM40, SYMM60
from jnpl.experiments.reproduce.fig1 import sides
from jnpl.experiments.reproduce.fig2 import SETTINGS as FIGURE2
from jnpl.experiments.reproduce.output import caption, used
from jnpl.experiments.reproduce.paper_runs import PaperRun, PaperRuns, load, mean_curve
from jnpl.experiments.reproduce.table1 import accuracies
from jnpl.experiments.result_tables import markdown_table
from jnpl.experiments.results import read
from jnpl.experiments.scales import SCALES, how_to_get

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/reproduce-small.jsonl"
FEATURES = ROOT / "benchmarks/results/reproduce-features.jsonl"
FULL = ROOT / "benchmarks/results/reproduce-features-full.jsonl"
PL_PLUS = ROOT / "benchmarks/results/pl-plus.jsonl"
DOCS, IMAGES = ROOT / "docs", ROOT / "docs/images"
SCALE = "small"
NOT_KNOWN = "not enough data"
WRITTEN = "JNPL as written"
OF_NL_PLUS, OF_PL_PLUS = ("converges", "reaches", "cats-part"), ("larger-n", "speeds-up")  # claims of one loss alone
SIZES = ("10,000 images, epochs / 8", "50,000 images, all epochs")
CANDIDATES = {
    "nl-plus": "NL+ alone",
    "jnpl": "JNPL as written",
    "jnpl-batch": "PL+ as a mean over the batch",
    "jnpl-pl30": "PL+ from 30 % of the epochs on",
}
PANELS = {
    "accuracy": ("test accuracy", "%"),
    "candidates": ("candidates of PL+", "% of the samples"),
    "right": ("candidates that are predicted rightly", "% of the candidates"),
    "largest": ("candidates of the largest class", "% of the candidates"),
}
PAPER_ITEMS = [item for item in EXPERIMENTS if EXPERIMENTS[item] not in beyond.EXPERIMENTS]
WHY = {"nl": "NL", "nl-plus": "NL+", "nl-plus-late": "NL, then NL+ (not in the paper)"}


def results_of(path: Path = RESULTS, scale: str = SCALE) -> PaperRuns:
    """Stored results of a scale; data sets without any are listed as missing."""
    found = load(path, scale)
    here = {each.spec.data for each in found.every}
    parts = ["cifar100", "clothing1m", *(part for part in ("cifar10n", "cifar100n") if SCALES[scale].features)]
    return load(path, scale, {name: how_to_get(name, SCALES[scale]) for name in parts if name not in here})


def features_of(path: Path = FEATURES) -> PaperRuns:
    """Stored results of scale features. What was not run yet is not missing: only Clothing1M is."""
    found = results_of(path, "features")
    return replace(found, missing={name: why for name, why in found.missing.items() if name == "clothing1m"})


def full_of(path: Path = FULL) -> PaperRuns:
    """Stored results of scale features-full."""
    return results_of(path, "features-full")


def pages(small: PaperRuns, features: PaperRuns, full: PaperRuns) -> dict[Path, str]:
    """All pages: path -> text."""
    texts = {
        "reproduction.md": page(small, features, full),
        "results/reproduction-features.md": tables_page(features, full),
        "results/reproduction.md": results_page(small),
    }
    return {DOCS / name: text for name, text in texts.items()}


def page(small: PaperRuns, features: PaperRuns, full: PaperRuns) -> str:
    """The text of docs/reproduction.md."""
    return _fill(
        "reproduction.md",
        **paper_hours(),
        part=PART,
        factor=str(FACTORS["features"]),
        features_hours=f"{hours(features.every):.1f}",
        full_hours=f"{hours(full.every):.1f}",
        full_stored=str(len(full.every)),
        stored=str(len(features.every)),
        fig4_minutes=fig4_minutes(features),
        full=full_column(features, full),
        state=state(features),
        claims=claims_table(features),
        small_verdicts=small_verdicts(small),
        two_cores=f"{hours(small.every) / 2:.1f}",
    )


def readings(runs: PaperRuns) -> dict[str, dict[str, ClaimVerdict | None]]:
    """What stands in the place of JNPL -> claim -> its verdict; None where the claim is not about it."""
    written = {each.name: each for each in verdicts(runs)}
    columns: dict[str, dict[str, ClaimVerdict | None]] = {
        WRITTEN: {name: None if name in OF_NL_PLUS else each for name, each in written.items()}
    }
    for variant, title in SCALES["features"].beside.items():
        read = {each.name: each for each in verdicts(runs.reading(variant))}
        if variant == STABLE:  # in the place of NL+ where the claim is about NL+
            read |= {each.name: each for each in verdicts(runs.reading(variant, "nl-plus")) if each.name in OF_NL_PLUS}
        left_out = () if variant == STABLE else OF_PL_PLUS
        columns[title] = {name: None if name in left_out else each for name, each in read.items()}
    return columns


def claims_table(features: PaperRuns) -> str:
    """Claims of the paper, and in short whether each form of JNPL agrees."""
    columns = readings(features)
    on_cifar10 = readings(replace(features, every=[run for run in features.every if run.spec.data == "cifar10"]))
    rows = [["claim of the paper", *columns]]
    for each in verdicts(features):
        cells = [_status(column[each.name], on_cifar10[title][each.name]) for title, column in columns.items()]
        rows.append([f"{each.claim} ({each.item})", *cells])
    return markdown_table(rows)


def _status(both: ClaimVerdict | None, on_cifar10: ClaimVerdict | None) -> str:
    """The verdict on all data, and the one on CIFAR-10 alone where that is another."""
    if both is None or on_cifar10 is None:
        return "-"
    other = "" if both.status == on_cifar10.status else f", on CIFAR-10 alone **{on_cifar10.status}**"
    return f"**{both.status}**{other}"


def claims_in_full(runs: PaperRuns) -> str:
    """The rule of each claim, and the figures of each form of JNPL that was run."""
    columns, parts = readings(runs), []
    for each in verdicts(runs):
        every = {title: column[each.name] for title, column in columns.items()}
        shown = {title: one for title, one in every.items() if one and one.status != NOT_KNOWN}
        lines = [f"- {title}: **{one.status}**. {one.figures}" for title, one in shown.items()] or ["Not run."]
        parts.append(f"**{each.claim}** ({each.item})\n\nThe rule: {each.rule}\n\n" + "\n".join(lines))
    return "\n\n".join(parts)


def tables_page(features: PaperRuns, full: PaperRuns) -> str:
    """The text of docs/results/reproduction-features.md: claims in full, figures, tables, and why they are so."""
    return _fill(
        "results/reproduction-features.md",
        scale=features.scale.what,
        factor=str(FACTORS["features"]),
        claims=claims_in_full(features),
        full=full_schedule(features, full),
        figures="\n\n".join(figure_section(features, item) for item in FIGURES),
        table1=output.markdown(features, "table1"),
        budget=budget(features),
        memorised=memorised(features),
        reasons=reasons(),
        classes=classes_kept(),
        **{item: table_section(features, item) for item in ("human", "heads", "starts", "weights", "steps", "stable")},
    )


def state(features: PaperRuns) -> str:
    """How many runs there are, of how many, and with which seeds."""
    wanted = specs_of(names_of("all"), features.scale, None, list(features.scale.stands_for))
    done = {each.spec.name for each in features.every}
    left = [spec for spec in wanted if spec.name not in done]
    if not left:
        return f"All {len(wanted)} runs of `jnpl reproduce all --scale features` are stored."
    count = len(wanted) - len(left)
    sentence = f"{count} of the {len(wanted)} runs of `jnpl reproduce all --scale features` are stored."
    kinds = dict.fromkeys((DATA_NAMES[spec.data], spec.seed) for spec in left)
    counts = {kind: sum((DATA_NAMES[spec.data], spec.seed) == kind for spec in left) for kind in kinds}
    names = ", ".join(f"{count} of {data} with seed {seed}" for (data, seed), count in counts.items())
    return f"**{sentence}** Missing: {names}; the same command trains them."


def candidates(path: Path = PL_PLUS, data: str = "cifar10") -> dict[str, dict[str, Any]]:
    """Variant -> curves of what PL+ learns from."""
    lines = (line for line in read(path).values() if line["cell"]["data"] == data)
    return {line["cell"]["variant"]: line["results"] for line in lines}


def reasons(path: Path = PL_PLUS) -> str:
    """Why PL+ fails, from the curves of its candidates."""
    found = candidates(path)
    if not set(CANDIDATES) <= set(found):
        return "Not run: `python benchmarks/pl_plus.py --data DIR`."
    plus, jnpl, later = (found[name] for name in ("nl-plus", "jnpl", "jnpl-pl30"))
    sure = jnpl["candidates"]
    epoch = next(at for at, share in enumerate(sure) if share > 0.1)  # the first in which PL+ has taken over
    whole = next(at for at, share in enumerate(sure) if share > 0.9)
    start = math.ceil(0.3 * len(later["right"]))
    worst = min(range(start, len(later["right"])), key=lambda at: later["right"][at])
    wrong = [at + 1 for at in range(epoch) if sure[at] and jnpl["right"][at] == 0 and jnpl["largest"][at] == 1]
    first = (
        f"The first candidates, in epochs {wrong[0]} to {wrong[-1]}, are all wrong and of one class. " if wrong else ""
    )
    return (
        f"{first}In epoch {epoch + 1} only {plus['candidates'][epoch]:.1%} of the samples would be candidates under "
        f"NL+; {plus['right'][epoch]:.0%} of them are predicted rightly, but {plus['largest'][epoch]:.0%} are of one "
        "class. "
        f"With PL+ beside it there are {sure[epoch]:.0%} in the same epoch, {jnpl['right'][epoch]:.0%} of them right "
        f"and {jnpl['largest'][epoch]:.0%} of one class, and {sure[whole]:.0%} in epoch {whole + 1}: the network "
        "predicts that class for everything, and NL+, whose gradient vanishes where the network is sure, does not "
        f"undo it. PL+ from 30 % of the epochs on begins with {later['right'][start - 1]:.0%} right candidates in many "
        f"classes, and still enlarges the surest: in epoch {worst + 1} {later['right'][worst]:.0%} are right and "
        f"{later['largest'][worst]:.0%} of one class. It does not raise wrong labels: their mean p_y ends at "
        f"{later['p_wrong'][-1]:.2f}, with NL+ alone at {plus['p_wrong'][-1]:.2f}. It lowers that of right labels "
        f"({later['p_right'][-1]:.2f} against {plus['p_right'][-1]:.2f})."
    )


def classes_kept(path: Path = PL_PLUS) -> str:
    """How many classes NL+ and NL predict on CIFAR-100."""
    found = candidates(path, "cifar100")
    if not {"nl-plus", "nl"} <= set(found):
        return "Not run: `python benchmarks/pl_plus.py --data DIR`."
    plus, nl = (found[name]["classes"] for name in ("nl-plus", "nl"))
    least = min(range(len(plus)), key=lambda at: plus[at])
    return (
        f"Of the 100 classes NL+ predicts {plus[0]:.0f} for at least one training image in the first epoch, "
        f"{plus[least]:.0f} in epoch {least + 1} and {plus[-1]:.0f} in the last; NL {nl[0]:.0f}, {nl[least]:.0f} and "
        f"{nl[-1]:.0f}."
    )


def draw_pl_plus(path: Path, out: Path) -> Path:
    """Draw accuracy, and how many samples are candidates of PL+, right, and of one class, after every epoch."""
    figure = style.new(8.4, 5.4)
    panels, found = style.panels(figure, 2, 2), candidates(path)
    for axis, tag, (curve, (title, unit)) in zip(panels, ("(a)", "(b)", "(c)", "(d)"), PANELS.items(), strict=True):
        for number, (variant, label) in enumerate(CANDIDATES.items()):
            values = [math.nan if value is None else 100 * value for value in found.get(variant, {}).get(curve, [])]
            line = {"color": style.LINES[number], "linestyle": style.DASHES[number], "linewidth": 1.6}
            axis.plot(range(1, len(values) + 1), values, label=label, **line)
        style.tidy(axis, "epoch", unit, title, tag)
        axis.set(xlim=(0, 127), ylim=(-3, 103))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, fontsize=8, frameon=False)
    return style.save(figure, out / "reproduce-features-pl-plus.png")


def full_schedule(features: PaperRuns, full: PaperRuns) -> str:
    """Claims and the filters at 60 % symmetric noise, with all images and epochs."""
    if not full.every:
        return "Not run: `jnpl reproduce table1 --scale features-full --data-root DIR`."
    columns = readings(full)
    claims = "\n".join(
        f"- {each.claim} {title}: **{one.status}**. {one.figures}"
        for each in verdicts(full)
        for title, column in columns.items()
        if each.item in ("fig1", "fig4") and (one := column[each.name]) and one.status != NOT_KNOWN
    )
    return f"{claims}\n\n{full_filters(features, full)}"


def full_filters(features: PaperRuns, full: PaperRuns) -> str:
    """Accuracy and AP of the filters at both scales, and how far the two orders agree."""
    lines = [["filter", *(f"{name}: {figure}" for name in SIZES for figure in ("accuracy", "AP"))]]
    tests, aps = [], []
    for variant, name in beyond.HEADS.items():
        both = [runs.first(variant, SYMM60) for runs in (features, full)]
        facts = [run.stage() for run in both if run is not None]
        if len(facts) < len(both):
            continue
        lines.append([name, *(shown for own in facts for shown in (f"{own['test_accuracy']:.1%}", f"{own['ap']:.3f}"))])
        tests.append((facts[0]["test_accuracy"], facts[1]["test_accuracy"]))
        aps.append((facts[0]["ap"], facts[1]["ap"]))
    return (
        f"{markdown_table(lines)}\n\nSeed 1, filters without classifiers. Kendall's tau of the two orders: "
        f"{table1.tau(tests)} by accuracy, {table1.tau(aps)} by AP."
    )


def full_column(features: PaperRuns, full: PaperRuns) -> str:
    """The classifiers of Table 1 at both scales, the paper's numbers, and how far the orders agree."""
    if not full.every:
        return "Not run: `jnpl reproduce table1 --scale features-full --data-root DIR`."
    lines, pairs, ends = [["Table 1, symm 60", *SIZES, "paper"]], [], []
    for variant, name in table1.methods(features.scale).items():
        paper = printed("cifar10", variant, SYMM60)
        part, whole = (accuracies(runs.of(variant, SYMM60, classify=True), paper) for runs in (features, full))
        lines.append([name, part.text, whole.text, "-" if paper is None else f"{paper:.2f}"])
        if part.mean is not None and whole.mean is not None:
            pairs.append((part.mean, whole.mean))
            ends.append((whole.mean, name))
    first, second = sorted(ends, reverse=True)[:2]
    return (
        f"{markdown_table(lines)}\n\nKendall's tau of the orders of the {len(pairs)} rows at both scales: "
        f"{table1.tau(pairs)}. With all images and epochs {first[1]} is first with {first[0]:.1f} %, before "
        f"{second[1]} with {second[0]:.1f} %. There is one seed; the {len(full.every)} runs took "
        f"{hours(full.every):.1f} hours of one core."
    )


def figure_section(features: PaperRuns, item: str) -> str:
    """A figure with its paragraph."""
    shown = f"![{EXPERIMENTS[item].title}](../images/{image(item, 'features')})"
    return f"### {EXPERIMENTS[item].title}\n\n{shown}\n\n{paragraph(features, item)}"


def paragraph(features: PaperRuns, item: str) -> str:
    """What the paper says, whether it is seen here with JNPL as written, and notes."""
    text = caption(features, item)
    return f"**The paper:** {text.claim} **Here**, JNPL as written: {text.agrees} {text.scale}"


def table_section(features: PaperRuns, item: str) -> str:
    """A table beyond the paper, and what it was made from."""
    if not used(features, item):
        return f"Not run yet: `jnpl reproduce {item} --scale features --data-root DIR`."
    return f"{output.markdown(features, item)}\n\n{caption(features, item).scale}"


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
    """CPU time of each item, and of all: many share runs."""
    lines = [["item", "runs", "minutes of one core"]]
    for item in EXPERIMENTS:
        if own := used(features, item):
            spent = sum(minutes_of(each, classify=EXPERIMENTS[item].classify) for each in own)
            lines.append([item, str(len(own)), f"{spent:.1f}"])
    lines.append(["all, each run once", str(len(features.every)), f"{60 * hours(features.every):.1f}"])
    return markdown_table(lines)


def minutes_of(run: PaperRun, *, classify: bool) -> float:
    """CPU minutes of a run, with the classifier that it may continue to or without."""
    whole = 60 * hours([run])
    return whole if classify else whole * len(run.curve()) / len(run.line["results"]["curve"])


def fig4_minutes(features: PaperRuns) -> str:
    """CPU minutes of Figure 4."""
    return f"{sum(minutes_of(each, classify=False) for each in used(features, 'fig4')):.0f}"


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
        shown = f"![{text.title}](../images/{image(item)})" if drawn else output.markdown(results, item)
        run = "" if used(results, item) else "**Not run.** "
        told = f"{run}**The paper:** {text.claim} **Here:** {text.seen} **{text.agrees}**"
        items.append(f"## {text.title}\n\n{told}\n\n{shown}\n\n{text.scale} `{text.command}`")
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
        later=pl_plus_after_nl(results),
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


def pl_plus_after_nl(results: PaperRuns) -> str:
    """Mean accuracy with and without PL+, after NL has changed to NL+."""
    found = results.together(("nl-plus-late", "jnpl-late"), SYMM60)
    if not all(found):
        return "(not run)"
    start = found[1][0].pl_begins()
    without, beside = (statistics.fmean(mean_curve(own)[start:]) for own in found)
    return (
        f"from epoch {start + 1} on is {beside:.1%} with it and {without:.1%} without (symm 60, {len(found[0])} seeds)"
    )


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
    plans = {item: specs_of(names_of(item), SCALES["paper"], None, ["cifar10", "cifar100"]) for item in GROUPS}
    estimates = {f"hours_{item}": f"{gpu_hours(specs):,.0f}" for item, specs in plans.items()}
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
    wanted = {spec.name for spec in specs_of(names_of("figures"), results.scale, None, ["cifar10"])}
    own = [each for each in results.every if each.spec.model_copy(update={"classify": False}).name in wanted]
    return sum(minutes_of(each, classify=False) for each in own) / 60 / 2


def table_hours(results: PaperRuns) -> float:
    """Hours on two cores for Table 1."""
    return hours([each for each in results.every if each.spec.classify]) / 2


def main() -> None:
    """Write the pages and the figures."""
    results, features, full = results_of(), features_of(), full_of()
    for item in FIGURES:
        print(style.save(output.figure(results, item), IMAGES / image(item)))
        print(style.save(output.figure(features, item), IMAGES / image(item, "features")))
    print(style.save(output.figure(full, "fig4"), IMAGES / image("fig4", "features-full")))
    print(draw_why(results, IMAGES))
    print(draw_pl_plus(PL_PLUS, IMAGES))
    for path, text in pages(results, features, full).items():
        path.write_text(text, "utf-8")
        print(path)


if __name__ == "__main__":
    main()
