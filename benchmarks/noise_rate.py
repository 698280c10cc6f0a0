"""Does the printed 90 % interval of the noise rate hold the truth: the estimate of the model, and 50 random checks?

    python benchmarks/noise_rate.py run --data DIR [--sets flowers ...] [--seeds 3]    # resumable: done cells are kept
    python benchmarks/noise_rate.py page                                               # docs/results/noise-rate.md

Cells are those of owners.py and owners_tables.py (DIR is the same), and sets that are clean, labelled by rules, or
small.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.tree import DecisionTreeClassifier

import owners
import owners_tables
from jnpl import metrics, noise
from jnpl.data import split
from jnpl.data.source import Source
from jnpl.experiments import results
from jnpl.experiments.result_tables import markdown_table
from jnpl.internal.files import write_text
from jnpl.judging import audit
from jnpl.judging.caveats import stated
from jnpl.judging.findings import Findings
from jnpl.judging.noise_model import NoiseEstimate
from jnpl.pipeline import run_recipe
from jnpl.recipes.automatic import adapt_recipe
from jnpl.training.reporting import Reporter

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs/results/noise-rate.md"
FILE = "noise-rate.jsonl"
CHECKS, AUDITS = 50, 100
FEW = {"flowers": (100, 400), "agnews-minilm": (200, 500), "trec6-tfidf": (200, 500), "cifar100": (600, 2000)}
FEW |= {"digits": (150, 500), "letter": (300, 1000)}
ONE_FEATURE = ("breast-cancer", "digits", "satimage", "magic")  # tables that are also labelled by one of their columns
CLEAN = ("agnews-tfidf", "yelp-tfidf", "trec6-tfidf", "breast-cancer", "digits", "satimage")
# Words of a question, the first that occur decide: as somebody who labels without reading would write them.
QUESTION_RULES = {
    "HUM": r"^who|name of the (man|woman|person)|what (president|actor|actress|author)",
    "LOC": r"^where|what (country|city|state)",
    "NUM": r"how (many|much|long|far|old|tall)|^when|what (year|date)",
    "ABBR": r"stand for|abbreviation|acronym",
    "DESC": r"^why|^how|^what (is|are|does)|mean",
    "ENTY": r"",
}
KINDS = {"labels by rules": ("weak", "rules", "rule"), "no wrong labels": ("clean",), "few samples": ("symm20-",)}


def columns(name: str) -> list[str]:
    """Return the columns of a set."""
    if name in owners.SETS:
        named = [column for column in owners.SETS[name].columns if column != "checked"]  # whose truth is known in part
        named += ["rules"] * name.startswith("trec6")
    else:
        named = [*owners_tables.COLUMNS, *["rule"] * (name in ONE_FEATURE)]
    return [*named, *["clean"] * (name in CLEAN), *(f"symm20-{few}" for few in FEW.get(name, ()))]


def cell(name: str, column: str, seed: int, data: Path) -> Source:
    """Return a set with the labels of a column and its true labels."""
    if column not in ("rule", "rules", "clean") and not column.startswith("symm20-"):
        return (
            owners.cell(name, column, seed, data)
            if name in owners.SETS
            else owners_tables.cell(name, column, seed, data)
        )
    whole = cell(name, columns(name)[0], seed, data)
    true, size = whole.true_labels, len(whole.class_names)
    if true is None:
        raise RuntimeError(f"{name} has no true labels")
    if column == "clean":
        return replace(whole, labels=true)
    if column in ("rule", "rules"):
        return replace(whole, labels=by_one_feature(whole, true) if column == "rule" else by_words(whole))
    few = np.sort(np.random.default_rng(seed).choice(len(whole), int(column.partition("-")[2]), replace=False))
    return split.part(replace(whole, labels=noise.symmetric(true, 0.2, size, seed=seed), test=None), few)


def by_words(source: Source) -> Any:
    """Return the class (N,) of each question by `QUESTION_RULES`."""
    number = {str(name): at for at, name in enumerate(source.class_names)}
    rules = [(re.compile(rule), number[name]) for name, rule in QUESTION_RULES.items()]
    texts = () if source.texts is None else source.texts
    return np.array([next(label for rule, label in rules if rule.search(str(text))) for text in texts], np.int64)


def by_one_feature(source: Source, true: Any) -> Any:
    """Return labels (N,) by thresholds on the one column that tells most, a leaf per class."""
    x = np.stack([source.inputs.read(at) for at in range(len(source))])
    trees = [
        DecisionTreeClassifier(max_leaf_nodes=len(source.class_names), random_state=0).fit(x[:, [at]], true)
        for at in range(x.shape[1])
    ]
    best = max(range(x.shape[1]), key=lambda at: float(trees[at].score(x[:, [at]], true)))
    return trees[best].predict(x[:, [best]]).astype(np.int64)


def judged(source: Source, seed: int) -> dict[str, Any]:
    """Run `jnpl find` with default settings, and 50 random checks 100 times, beside the true labels."""
    findings = _findings(source, seed, {})
    wrong = np.asarray(source.labels != source.true_labels)
    if findings.noise is None:
        raise RuntimeError("no calibrated findings")
    facts = {
        "samples": len(source),
        "classes": len(source.class_names),
        "wrong": float(wrong.mean()),
        "noise": findings.noise._asdict(),
        "audit": audited(findings, wrong),
    }
    if 0 < wrong.mean() < 1 and findings.noise.caveat is not None:  # the ranking beside that without the caveat
        blend = _findings(source, seed, {"verdict.calibrate": False, "verdict.threshold": 0.5})
        facts |= {"ap": metrics.average_precision(findings.label_quality, wrong)}
        facts |= {"ap_blend": metrics.average_precision(blend.label_quality, wrong)}
    return facts


def _findings(source: Source, seed: int, changes: dict[str, Any]) -> Findings:
    report = Reporter()
    report.quiet(True)
    result = run_recipe(source, adapt_recipe(source, None, None, changes).recipe, seed=seed, report=report)
    if result is None:
        raise RuntimeError("no result in this process")
    return result.findings


def audited(findings: Findings, wrong: Any) -> dict[str, float]:
    """Return mean rate and width of audits of 50 labels, and the share of those whose interval holds the truth."""
    rates, seen = np.empty((AUDITS, 3)), dict[bytes, Any]()
    for seed in range(AUDITS):
        sample = audit.draw(findings.label_quality, CHECKS, seed)
        answers = np.where(wrong[sample.positions], audit.WRONG, audit.RIGHT)
        counts = np.bincount(2 * sample.part + answers, minlength=4).tobytes()
        if counts not in seen:  # the interval follows from them
            seen[counts] = audit.estimate(sample, answers)[:3]
        rates[seed] = seen[counts]
    truth = wrong[~np.isnan(findings.label_quality)].mean()
    holds = (rates[:, 1] <= truth) & (truth <= rates[:, 2])
    rate, low, high = rates.mean(0).tolist()
    return {"rate": rate, "width": high - low, "holds": float(holds.mean())}


def run(args: argparse.Namespace) -> None:
    """Run the cells that are not done."""
    path = args.out / FILE
    for seed in range(args.seeds):
        for name in args.sets or (*owners.SETS, *owners_tables.TABLES):
            file = owners.FILES.get(name, f"{name}.csv.gz")
            if name not in owners_tables.BUNDLED and not (args.data / file).exists():
                print(f"{name}: left out, {file} is not in {args.data}")
                continue
            for column in columns(name):
                key = f"{name}/{column}/{seed}"
                if key not in results.read(path):
                    results.add(path, {"name": key, "results": judged(cell(name, column, seed, args.data), seed)})
                    print(key, json.dumps(results.read(path)[key]["results"]), flush=True)


INTRODUCTION = """\
`jnpl find` prints the share of wrong labels with a 90 % interval, and withholds it where labels seem to follow a rule
or classes have too few samples ([Read your results](../read-results.md#when-no-share-is-given)). Does the interval hold
the truth? "In": seeds whose interval does; a withheld one has no upper end. "Width": mean width of the intervals that
are not withheld. The last columns are about `jnpl audit -n 50`: the share of 100 random audits whose interval holds the
truth, and its mean width. The limits in `src/jnpl/judging/caveats.py` were chosen on seed 0 of these sets.
`python benchmarks/noise_rate.py page` writes this page from `benchmarks/results/noise-rate.jsonl`."""


RANKING = """\
A network learns a rule, mistakes included. Where labels seem to follow one and some class has twice as many as another,
labels are ranked by the posterior alone, which corrects for the confusion of the classes, in place of its mean with the
network. AP is the average precision with wrong labels positive."""


def page(folder: Path) -> str:
    """docs/results/noise-rate.md."""
    found = {name: line["results"] for name, line in results.read(folder / FILE).items()}
    cells = [{**each, **each["noise"], "name": name} for name, each in found.items()]
    for each in cells:
        each["in"] = round(each["low"], 3) <= each["wrong"] <= round(each["high"], 3)  # as it is printed
        each["kind"] = next(
            (kind for kind, starts in KINDS.items() if each["name"].split("/")[1].startswith(starts)), "noise put in"
        )
    rows = [["labels", "samples", "wrong", "stated (first seed)", "in", "width", "audits in", "their width"]]
    for prefix in dict.fromkeys(each["name"].rpartition("/")[0] for each in cells):
        own = [each for each in cells if each["name"].rpartition("/")[0] == prefix]
        open_ends = [each["high"] - each["low"] for each in own if each["high"] < 1]
        first = NoiseEstimate(**own[0]["noise"])
        rows.append(
            [
                *(prefix, f"{own[0]['samples']:,}", f"{np.mean([each['wrong'] for each in own]):.1%}"),
                stated(first) + ("" if first.caveat else f" ({first.low:.1%} to {first.high:.1%})"),
                f"{sum(each['in'] for each in own)}/{len(own)}",
                f"{np.mean(open_ends):.1%}" if open_ends else "withheld",
                f"{np.mean([each['audit']['holds'] for each in own]):.1%}",
                f"{np.mean([each['audit']['width'] for each in own]):.1%}",
            ]
        )
    return (
        "\n\n".join(
            [
                "# How far to trust the estimated noise rate",
                INTRODUCTION,
                *_sums(cells),
                markdown_table(rows),
                *_rankings(cells),
                "    python benchmarks/noise_rate.py run --data DIR",
            ]
        )
        + "\n"
    )


def _rankings(cells: list[dict[str, Any]]) -> list[str]:
    """Return the section on the ranking of labels by rules."""
    rows = [["labels", "seeds", "AP of the mean", "AP as judged"]]
    ruled = [each for each in cells if "ap" in each and each["high"] >= 1]
    for prefix in dict.fromkeys(each["name"].rpartition("/")[0] for each in ruled):
        own = [each for each in ruled if each["name"].rpartition("/")[0] == prefix]
        means = [f"{np.mean([each[key] for each in own]):.3f}" for key in ("ap_blend", "ap")]
        rows.append([prefix, str(len(own)), *means])
    return ["## Ranking of labels by rules", RANKING, markdown_table(rows)] if len(rows) > 1 else []


def _sums(cells: list[dict[str, Any]]) -> list[str]:
    """Return how many cells hold the truth, in all and by kind, and where they do not."""
    lines = []
    for kind in ("noise put in", *KINDS):
        own = [each for each in cells if each["kind"] == kind]
        withheld = sum(each["caveat"] is not None and each["high"] >= 1 for each in own)
        if own:
            lines.append(
                f"- {kind}: the interval holds the truth in {sum(each['in'] for each in own)} of {len(own)} cells; "
                f"withheld in {withheld}"
            )
    missed = [each["name"] for each in cells if not each["in"]]
    held = [each["high"] - each["low"] for each in cells if each["in"] and each["high"] < 1]
    audits = [each["audit"]["holds"] for each in cells]
    lines.append(
        f"- in all: {sum(each['in'] for each in cells)} of {len(cells)} cells (column and seed); median width "
        f"{np.median(held) if held else 0:.1%} where it holds and is not withheld"
        + (f". Missed: {', '.join(missed)}" if missed else "")
    )
    lines.append(
        f"- audits of {CHECKS} labels: the interval holds the truth in {np.mean(audits):.1%} of them, in "
        f"{min(audits):.1%} in the worst cell"
    )
    return ["\n".join(lines)]


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["run", "page"])
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", choices=[*owners.SETS, *owners_tables.TABLES])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.part == "page":
        write_text(PAGE, page(args.out))
        return 0
    if args.data is None:
        parser.error("--data DIR is needed")
    args.data = args.data.resolve()
    torch.set_num_threads(1)
    run(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
