"""`jnpl find` with default settings on tables, beside cleanlab around gradient boosting (`owners.py tables`).

The tables are letter, satimage and magic of DIR (files name.csv.gz with a column `label`), and wine, breast cancer and
digits of scikit-learn. The rival is what users of cleanlab run on tables: `HistGradientBoostingClassifier` in five
folds, cleanlab's rankings and `find_label_issues`.
"""

from __future__ import annotations

import json
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold

from jnpl import metrics, noise
from jnpl.data.opening import open_source
from jnpl.experiments import results
from jnpl.experiments.result_tables import markdown_table, spread
from jnpl.internal.importing import require
from jnpl.outputs.corrections import correct
from jnpl.recipes.automatic import adapt_recipe
from jnpl.training.reporting import Reporter
from jnpl.training.run import find

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from jnpl import Findings
    from jnpl.data.source import Source

FILE = "owners-tables.jsonl"
LISTS = ("count", "stated", "true")  # of a verdict, one number per bin
BINS = 10  # of label quality, for the expected calibration error
FOLDS = 5
BUNDLED = {"wine": datasets.load_wine, "breast-cancer": datasets.load_breast_cancer, "digits": datasets.load_digits}
TABLES = (*BUNDLED, "satimage", "magic", "letter")
COLUMNS = {"symm10": 0.1, "symm20": 0.2, "symm40": 0.4, "pair20": 0.2}


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
    missing = [who for who in args.rows if who not in line["results"]]
    if not missing:
        return
    source = cell(name, column, seed, args.data)
    for who in missing:
        line["results"][who] = (ours if who == "jnpl" else rival)(source, seed)
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
    """Run `jnpl find` with default settings."""
    report = Reporter()
    report.quiet(True)
    began, cpu = time.perf_counter(), time.process_time()
    result = find(source, adapt_recipe(source, None, None, {}).recipe, seed=seed, report=report)
    if result is None:
        raise RuntimeError("no result in this process")
    return {
        **checked(result.findings, source),
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "judged_by": next(
            (note for note in result.results.get("notes", ()) if note.startswith("judged by")), "network"
        ),
    }


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
        **judged(scores["self_confidence"], flagged, rate, source),
        "ap_margin": metrics.average_precision(scores["normalized_margin"], given != source.true_labels),
        **seconds,
    }


def judged(quality: Any, flagged: Any, rate: float, source: Source) -> dict[str, float]:
    """Return AP, F1 and the estimated noise rate of a verdict on labels whose true ones are known."""
    wrong = source.labels != source.true_labels
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


INTRODUCTION = """\
Tables whose labels are made wrong on purpose: how well does `jnpl find` with default settings rank the wrong ones?
Beside it cleanlab around five-fold `HistGradientBoostingClassifier` with its default settings, the better of its
rankings by self-confidence and by normalised margin. `symm` moves a label to any other class, `pair` to the next class.
AP is the average precision of the ranking, wrong labels positive. Mean ± standard deviation over {seeds} seeds (of
noise, folds, network and trees), CPU seconds of one thread. `python benchmarks/owners.py tables-page` writes this page
from `benchmarks/results/owners-tables.jsonl`.

On tables `jnpl find` trains a network with the paper's losses and grows decision trees (`src/jnpl/training/trees.py`):
a forest of extremely randomised trees, which predicts every row with the trees that were not grown on it; gradient
boosting in five folds, where it raises the agreement with the given labels; and a second forest in which a row counts
with p_y, the probability that the first trees give its label. This is NL+ for trees: the gradient of exhaustive NL+ is
that of cross-entropy times p_y. The verdict is the mean of network and trees. If the trees agree with the given labels,
which they have not seen, more often than the network, which was trained on them, the trees judge alone; if the network
is more than 0.1 ahead, it judges alone. The summary says which. These rules were chosen on seed 0 of these columns."""


def page(folder: Path) -> str:
    """docs/tables.md."""
    found = {name: line["results"] for name, line in results.read(folder / FILE).items()}
    cells = {name: each for name, each in found.items() if "jnpl" in each and "cleanlab" in each}
    seeds = 1 + max((int(name.rpartition("/")[2]) for name in cells), default=0)
    head = ["table", "labels", "wrong", "AP jnpl", "AP cleanlab", "lead", "judged by", "s jnpl", "s cleanlab"]
    rows, leads = [], {}
    for name in TABLES:
        for column in COLUMNS:
            own = [each for key, each in cells.items() if key.rpartition("/")[0] == f"{name}/{column}"]
            if not own:
                continue
            figures = {who: [_ap(each[who]) for each in own] for who in ("jnpl", "cleanlab")}
            lead = leads[f"{name}/{column}"] = float(np.mean(figures["jnpl"]) - np.mean(figures["cleanlab"]))
            times = [float(np.mean([each[who]["cpu_seconds"] for each in own])) for who in ("jnpl", "cleanlab")]
            rows.append(
                [
                    name,
                    column,
                    f"{_mean(own, lambda each: each['noise_rate']):.1%}",
                    *(spread(figures[who]) for who in ("jnpl", "cleanlab")),
                    f"{lead:+.3f}",
                    _judges(own),
                    *(f"{each:.1f}" for each in times),
                ]
            )
    parts = ["# Tables: `jnpl find` beside gradient boosting", INTRODUCTION.format(seeds=seeds)]
    if leads:
        behind = [f"{name} ({lead:+.3f})" for name, lead in leads.items() if lead <= 0]
        line = f"AP: ahead in {len(leads) - len(behind)} of {len(leads)} columns, by {min(leads.values()):+.3f} to "
        parts.append(line + f"{max(leads.values()):+.3f}." + (f" Not ahead: {', '.join(behind)}." if behind else ""))
    parts += [markdown_table([head, *rows]), "    python benchmarks/owners.py tables --data DIR"]
    return "\n\n".join(parts) + "\n"


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
