"""`jnpl find` with default settings on tables, beside cleanlab around gradient boosting (`owners.py tables`).

The tables are letter, satimage and magic of DIR (files name.csv.gz with a column `label`), and wine, breast cancer and
digits of scikit-learn. The rival is what users of cleanlab run on tables: `HistGradientBoostingClassifier` in five
folds, cleanlab's rankings and `find_label_issues`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold

from jnpl import Findings, metrics, noise
from jnpl.data.opening import open_source
from jnpl.data.source import Source
from jnpl.experiments import results
from jnpl.experiments.result_tables import markdown_table, spread
from jnpl.internal.importing import require
from jnpl.outputs.corrections import correct
from jnpl.pipeline import run_recipe
from jnpl.recipes.automatic import adapt_recipe
from jnpl.training.reporting import Reporter

FILE = "owners-tables.jsonl"
LISTS = ("count", "stated", "true")  # of a verdict, one number per bin
BINS = 10  # of label quality, for the expected calibration error
FOLDS = 5
BUNDLED = {"wine": datasets.load_wine, "breast-cancer": datasets.load_breast_cancer, "digits": datasets.load_digits}
TABLES = (*BUNDLED, "satimage", "magic", "letter")
COLUMNS = {"symm10": 0.1, "symm20": 0.2, "symm40": 0.4, "pair20": 0.2}
PLANNED = 3 * len(TABLES) * len(COLUMNS)  # cells of three seeds


def run(args: argparse.Namespace) -> None:
    """Run the cells that are not done."""
    for seed in range(args.seeds):
        for name in args.sets or TABLES:
            if name not in BUNDLED and not (args.data / f"{name}.csv.gz").exists():
                print(f"{name}: left out, {name}.csv.gz is not in {args.data}")
                continue
            for column in COLUMNS:
                _run_cell(args, name, column, seed)


def _run_cell(args: argparse.Namespace, name: str, column: str, seed: int) -> None:
    key, path = f"{name}/{column}/{seed}", args.out / FILE
    line = results.read(path).get(key, {"name": key, "results": {}})
    kept = {who: {who, "verdict"} if who == "jnpl" else {who} for who in args.rows}
    missing = [who for who, names in kept.items() if not names <= set(line["results"])]
    if not missing:
        return
    source = cell(name, column, seed, args.data)
    for who in missing:
        line["results"] |= (ours if who == "jnpl" else rival)(source, seed)
        line["results"] |= {"noise_rate": float((source.labels != source.true_labels).mean()), "samples": len(source)}
        results.add(path, line)
        print(key, who, json.dumps(line["results"][who]), flush=True)


@lru_cache(maxsize=1)
def table(name: str, data: Path) -> pd.DataFrame:
    """Return a table with clean labels in the column `label`."""
    if name not in BUNDLED:
        return pd.read_csv(data / f"{name}.csv.gz")
    bundled = BUNDLED[name](as_frame=True)
    frame: pd.DataFrame = bundled.data.assign(label=np.asarray(bundled.target_names)[bundled.target].astype(str))
    return frame


def cell(name: str, column: str, seed: int, data: Path) -> Source:
    """Return a table with noisy labels in the column `label` and the clean ones in `truth`."""
    clean = table(name, data)
    classes, true = np.unique(clean["label"].astype(str), return_inverse=True)
    if column.startswith("pair"):
        given = noise.asymmetric(true, COLUMNS[column], "pairflip", seed=seed, num_classes=len(classes))
    else:
        given = noise.symmetric(true, COLUMNS[column], len(classes), seed=seed)
    frame = clean.assign(label=classes[np.asarray(given)], truth=classes[true])
    return open_source(frame, true_label_column="truth")


def ours(source: Source, seed: int) -> dict[str, Any]:
    """Run `jnpl find` with default settings: its ranking, and what its verdict is worth."""
    report = Reporter()
    report.quiet(True)
    began, cpu = time.perf_counter(), time.process_time()
    result = run_recipe(source, adapt_recipe(source, None, None, {}).recipe, seed=seed, report=report)
    if result is None:
        raise RuntimeError("no result in this process")
    verdict = checked(result.findings, source)
    ranking = {
        "ap": verdict["ap"],
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "judged_by": result.results.get("judged_by", "network"),
    }
    return {"jnpl": ranking, "verdict": verdict}


def rival(source: Source, seed: int) -> dict[str, Any]:
    """Five-fold gradient boosting with its default settings, and cleanlab."""
    x, given = np.stack([source.inputs.read(at) for at in range(len(source))]), source.labels
    began, cpu = time.perf_counter(), time.process_time()
    probs = np.zeros((len(x), len(source.class_names)))
    for train, held in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, given):
        model = HistGradientBoostingClassifier(random_state=seed).fit(x[train], given[train])
        probs[np.ix_(held, model.classes_)] = model.predict_proba(x[held])
    seconds = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    cleanlab = {name: require(f"cleanlab.{name}", "bench") for name in ("rank", "filter", "count")}
    flagged = cleanlab["filter"].find_label_issues(given, probs)
    rate = float(1 - np.trace(cleanlab["count"].estimate_joint(given, probs)))
    scores = {
        method: cleanlab["rank"].get_label_quality_scores(given, probs, method=method)
        for method in ("self_confidence", "normalized_margin")
    }
    return {
        "cleanlab": {
            **judged(scores["self_confidence"], flagged, rate, source),
            "ap_margin": metrics.average_precision(scores["normalized_margin"], given != source.true_labels),
            **seconds,
        }
    }


def rows_to_judge(source: Source) -> Any:
    """Return the samples (N,) whose true label is known; all, unless the cells of the source say which."""
    cells = source.cells
    return (
        np.ones(len(source), bool) if cells is None or "judged" not in cells else cells["judged"].to_numpy()[source.ids]
    )


def judged(quality: Any, flagged: Any, rate: float, source: Source) -> dict[str, float]:
    """Return AP, F1 and the estimated noise rate of a verdict on labels whose true ones are known."""
    rows = rows_to_judge(source)
    quality, flagged, wrong = quality[rows], flagged[rows], (source.labels != source.true_labels)[rows]
    found = int((flagged & wrong).sum())
    return {
        "ap": metrics.average_precision(quality, wrong),
        "f1": 2 * found / max(int(flagged.sum() + wrong.sum()), 1),
        "noise_rate": rate,
    }


def checked(findings: Findings, source: Source) -> dict[str, Any]:
    """Return what findings say beside the true labels: noise rate, calibration, label issues, corrections."""
    if findings.noise is None or source.true_labels is None:
        raise RuntimeError("no calibrated findings")
    noise, right = findings.noise, source.labels == source.true_labels
    issues, quality = findings.is_label_issue, findings.label_quality
    corrected = correct(findings)
    expected = corrected.expected_wrong()
    bins = np.minimum((quality * BINS).astype(int), BINS - 1)
    count = np.bincount(bins, minlength=BINS)
    stated, true = (np.bincount(bins, values, BINS) / np.maximum(count, 1) for values in (quality, right.astype(float)))
    suggested = findings.suggested_labels == source.true_labels
    return {
        "wrong": float((~right).mean()),
        **judged(quality, issues, noise.rate, source),
        "low": noise.low,
        "high": noise.high,
        "overlap": noise.overlap,
        "precision": float((~right)[issues].mean()) if issues.any() else 1.0,
        "issues": float(issues.mean()),
        "ece": float((count * np.abs(stated - true)).sum() / count.sum()),
        "confidence": float(findings.suggested_confidence[issues].mean()) if issues.any() else 1.0,
        "confidence_true": float(suggested[issues].mean()) if issues.any() else 1.0,
        "after": float((corrected.labels != source.true_labels).mean()),
        "expected_after": 0.0 if expected is None else expected.after / len(right),
        "count": count.tolist(),
        "stated": stated.round(4).tolist(),
        "true": true.round(4).tolist(),
    }


def allowed(mean: dict[str, float]) -> float:
    """Return the error of the estimated noise rate that the goals allow."""
    return 0.06 if mean["wrong"] > 0.7 or mean["overlap"] >= 0.2 else 0.03


INTRODUCTION = """\
Tables whose labels are made wrong on purpose: how well does `jnpl find` with default settings find the wrong ones?
Beside it cleanlab around five-fold `HistGradientBoostingClassifier` with its default settings, the better of its
rankings by self-confidence and by normalised margin. `symm` moves a label to any other class, `pair` to the next class.
Mean ± standard deviation over {seeds} seeds (of noise, folds, network and trees).
`python benchmarks/owners.py tables-page` writes this page from `benchmarks/results/owners-tables.jsonl`.

On tables `jnpl find` trains a network with the paper's losses and grows decision trees (`src/jnpl/judging/trees.py`):
a forest of extremely randomised trees, which predicts every row with the trees that were not grown on it; gradient
boosting in five folds, where it raises the agreement with the given labels; and a second forest in which a row counts
with p_y, the probability that the first trees give its label. This is NL+ for trees: the gradient of exhaustive NL+ is
that of cross-entropy times p_y. The verdict is the mean of network and trees. If the trees agree with the given labels,
which they have not seen, more often than the network, which was trained on them, the trees judge alone; if the network
is more than 0.1 ahead, it judges alone. The summary says which."""
RANKING = "AP is the average precision of the ranking, wrong labels positive. CPU seconds of one thread."
VERDICTS = """\
"estimate": share of wrong labels by `jnpl find`, with the seeds whose 90 % interval holds the true share, and by
cleanlab's joint. ECE: expected calibration error of label quality, ten bins. F1 of the label issues; "its F1": of
cleanlab's `find_label_issues`. "after": share of wrong labels after `jnpl apply` without options.
With two classes and 40 % wrong labels (breast cancer, magic), wrong labels and overlap of the classes are hard to tell
apart: the estimate can be far too low, and its interval too narrow."""


def page(folder: Path) -> str:
    """docs/results/tables.md."""
    found = {name: line["results"] for name, line in results.read(folder / FILE).items()}
    cells = {name: each for name, each in found.items() if "jnpl" in each and "cleanlab" in each}
    columns = {
        prefix: [each for name, each in cells.items() if name.rpartition("/")[0] == prefix]
        for prefix in (f"{name}/{column}" for name in TABLES for column in COLUMNS)
    }
    columns = {prefix: own for prefix, own in columns.items() if own}
    seeds = 1 + max((int(name.rpartition("/")[2]) for name in cells), default=0)
    parts = ["# Tables: `jnpl find` beside gradient boosting", INTRODUCTION.format(seeds=seeds)]
    if columns:
        parts += ["## Ranking", RANKING, _leads(columns, cells), _ranking(columns)]
        parts += ["## Noise rate, calibration, corrections", VERDICTS, _verdicts(columns), _missed(cells)]
    return "\n\n".join([*parts, "    python benchmarks/owners.py tables --data DIR"]) + "\n"


def _leads(columns: dict[str, list[dict[str, Any]]], cells: dict[str, dict[str, Any]]) -> str:
    """Return in how many columns `jnpl find` ranks better, on all seeds and on those that the rules have not seen."""
    leads = {prefix: _mean(own, _lead) for prefix, own in columns.items()}
    behind = [f"{name} ({lead:+.3f})" for name, lead in leads.items() if lead <= 0]
    line = f"AP: ahead in {len(leads) - len(behind)} of {len(leads)} columns, by {min(leads.values()):+.3f} to "
    line += f"{max(leads.values()):+.3f}." + (f" Not ahead: {', '.join(behind)}." if behind else "")
    if len(cells) < PLANNED:
        line += f" {len(cells)} of {PLANNED} cells are measured."
    later = [_lead(each) for name, each in cells.items() if not name.endswith("/0")]
    if later:
        ahead = f"{sum(lead > 0 for lead in later)} of {len(later)} single cells, {min(later):+.3f} in the worst"
        line += f" The rules above were chosen on seed 0. On the other seeds, `jnpl find` is ahead in {ahead}."
    return line


def _ranking(columns: dict[str, list[dict[str, Any]]]) -> str:
    rows = [["table", "labels", "wrong", "AP jnpl", "AP cleanlab", "lead", "judged by", "s jnpl", "s cleanlab"]]
    for prefix, own in columns.items():
        figures = [spread([_ap(each[who]) for each in own]) for who in ("jnpl", "cleanlab")]
        times = [f"{np.mean([each[who]['cpu_seconds'] for each in own]):.1f}" for who in ("jnpl", "cleanlab")]
        wrong = f"{_mean(own, lambda each: each['noise_rate']):.1%}"
        rows.append([*prefix.split("/"), wrong, *figures, f"{_mean(own, _lead):+.3f}", _judges(own), *times])
    return markdown_table(rows)


def _verdicts(columns: dict[str, list[dict[str, Any]]]) -> str:
    rows = [["table", "labels", "wrong", "estimate", "in", "cleanlab's", "overlap", "ECE", "F1", "its F1", "after"]]
    for prefix, every in columns.items():
        own = [each for each in every if "verdict" in each]
        if not own:
            continue
        mean = {
            who: {key: float(np.mean([each[who][key] for each in own])) for key in keys}
            for who, keys in (
                ("verdict", ("wrong", "noise_rate", "overlap", "ece", "f1", "after")),
                ("cleanlab", ("noise_rate", "f1")),
            )
        }
        ours, theirs = mean["verdict"], mean["cleanlab"]
        inside = sum(each["verdict"]["low"] <= each["verdict"]["wrong"] <= each["verdict"]["high"] for each in own)
        rows.append(
            [
                *(*prefix.split("/"), f"{ours['wrong']:.1%}", f"{ours['noise_rate']:.1%}", f"{inside}/{len(own)}"),
                *(f"{theirs['noise_rate']:.1%}", f"{ours['overlap']:.0%}", f"{ours['ece']:.3f}", f"{ours['f1']:.3f}"),
                *(f"{theirs['f1']:.3f}", f"{ours['after']:.1%}"),
            ]
        )
    return markdown_table(rows)


def _missed(cells: dict[str, dict[str, Any]]) -> str:
    """Return how many single cells miss each goal, and which."""
    missed: dict[str, list[str]] = {}
    judged_cells = {name: each for name, each in cells.items() if "verdict" in each}
    for name, each in judged_cells.items():
        own, theirs = each["verdict"], each["cleanlab"]
        after = "wrong labels after apply, at most a third of before where the overlap is below 10 %"
        checks = {
            "noise rate within 0.03 (0.06 where the overlap is 20 % or more)": abs(own["noise_rate"] - own["wrong"])
            <= allowed(own),
            "true share in the interval": own["low"] <= own["wrong"] <= own["high"],
            "ECE at most 0.05": own["ece"] <= 0.05,
            "F1 above cleanlab's": own["f1"] > theirs["f1"],
            "wrong labels after apply, not more than before": own["after"] <= own["wrong"],
            after: own["overlap"] >= 0.1 or own["after"] <= own["wrong"] / 3,
        }
        for goal, reached in checks.items():
            missed.setdefault(goal, []).extend([] if reached else [name])
    known = f"Verdicts of {len(judged_cells)} of {PLANNED} cells are measured. " if len(judged_cells) < PLANNED else ""
    lines = [
        f"- {goal}: {len(judged_cells) - len(names)} of {len(judged_cells)}"
        + (f", not {', '.join(names)}" if names else "")
        for goal, names in missed.items()
    ]
    return f"{known}Goals, and how many single cells (table/labels/seed) reach them:\n\n" + "\n".join(lines)


def _lead(each: dict[str, Any]) -> float:
    return _ap(each["jnpl"]) - _ap(each["cleanlab"])


def _ap(row: dict[str, Any]) -> float:
    return float(max(row["ap"], row.get("ap_margin", 0.0)))


def _mean(own: list[dict[str, Any]], figure: Callable[[dict[str, Any]], float]) -> float:
    return float(np.mean([figure(each) for each in own]))


def _judges(own: list[dict[str, Any]]) -> str:
    """Say in words what judged in each seed."""
    words = {"judged by the network and": "both", "judged by decision trees": "trees"}
    kinds = [
        next((word for start, word in words.items() if each["jnpl"]["judged_by"].startswith(start)), "network")
        for each in own
    ]
    return ", ".join(dict.fromkeys(kinds))
