"""New batches, groups and annotators: what `jnpl check`, `Findings.by_group` and the consensus achieve.

    python benchmarks/beyond.py run --data DIR [--parts check unknown gate groups consensus] [--seeds 3]   # resumable
    python benchmarks/beyond.py table                                        # the tables of docs/checks.md

DIR holds cifar-10-batches-bin and cifar-10n.npz. The first 12,000 training photos of CIFAR-10 are embedded once by
efficientnet-lite0 at 128 pixels; 2,000 of them, drawn by the seed, are the new samples.
"""

from __future__ import annotations

import argparse
import re
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

from jnpl import embed, noise
from jnpl.analysis.reference import Reference, compare
from jnpl.analysis.short_vectors import mean_views
from jnpl.data.opening import open_source
from jnpl.data.source import Source
from jnpl.data.split import part
from jnpl.embedding.compute import EmbeddingOptions
from jnpl.experiments import results
from jnpl.experiments.result_tables import markdown_table, spread
from jnpl.internal.files import write_text
from jnpl.internal.importing import require
from jnpl.judging.consensus import consensus, majority
from jnpl.judging.out_of_fold import expected_scale, out_of_fold
from jnpl.outputs.checking import check_samples
from jnpl.outputs.gate import reasons
from jnpl.pipeline import OpenedData, RunOptions, run
from jnpl.run_folder import RunFolder
from jnpl.training.reporting import Reporter

FILE = Path(__file__).parent / "results" / "beyond.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "checks.md"
PHOTOS, NEW = 12_000, 2_000
COLUMNS = ("worse", "aggre", "random1", "symm20", "asymm40")
BATCH = 200  # of the gate
BLOCK = re.compile(r"(<!-- (check|rest|consensus): generated -->\n).*?(<!-- end -->)", re.DOTALL)


@lru_cache(maxsize=1)
def photos(data: Path) -> Source:
    """Return the embedded photos with clean labels."""
    whole = open_source("cifar10", root=data)
    return embed(part(whole, np.arange(PHOTOS)), size=128, note=print).source


def unit_vectors(data: Path) -> np.ndarray:
    """Return the mean embeddings (N, F) of the photos, of length 1."""
    vectors = mean_views(np.asarray(photos(data).inputs.array()), slice(None))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@lru_cache(maxsize=1)
def human(data: Path) -> dict[str, np.ndarray]:
    """Return the human labels of the photos."""
    with np.load(data / "cifar-10n.npz") as stored:
        return {name: stored[name][:PHOTOS].astype(np.int64) for name in stored.files}


def labelled(data: Path, column: str, seed: int) -> Source:
    """Return the photos with the labels of a column."""
    source = photos(data)
    if column.startswith("symm"):
        given = noise.symmetric(source.labels, int(column[4:]) / 100, 10, seed=seed)
    elif column.startswith("asymm"):
        given = noise.asymmetric(source.labels, int(column[5:]) / 100, "cifar10", seed=seed)
    elif column == "clean":
        given = source.labels
    else:
        given = human(data)[{"random1": "random_label1"}.get(column, f"{column}_label")]
    return replace(source, labels=np.asarray(given, np.int64), true_labels=source.labels)


def divided(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of the samples of the run and of the new ones."""
    order = np.random.default_rng(seed).permutation(PHOTOS)
    return np.sort(order[NEW:]), np.sort(order[:NEW])


def train(source: Source, seed: int, folder: RunFolder | None = None) -> Any:
    """Run `jnpl find` on embedded photos, quietly."""
    report = Reporter(verbose=False)
    report.quiet(True)
    return run(OpenedData(source), RunOptions(seed=seed), folder, report=report)


def check(data: Path, seed: int) -> list[dict[str, Any]]:
    """AP of `check` on new photos, and of `find` on the same photos trained together with the others."""
    rows = []
    for column in COLUMNS:
        source, (old, new) = labelled(data, column, seed), divided(seed)
        wrong = source.labels[new] != photos(data).labels[new]
        with TemporaryDirectory() as place:
            train(part(source, old), seed, RunFolder(f"{place}/run"))
            begun = time.process_time()
            batch = check_samples(RunFolder(f"{place}/run"), part(source, new), EmbeddingOptions())
            seconds = time.process_time() - begun
        together = train(source, seed).findings.part(new)
        scores = [average_precision_score(wrong, 1 - each.label_quality) for each in (batch.findings, together)]
        rows.append(
            {
                "column": column,
                "ap_check": scores[0],
                "ap_find": scores[1],
                "noise_rate": float(wrong.mean()),
                "estimate": batch.findings.noise_rate,
                "interval": list(batch.findings.noise_interval or ()),
                "cpu_seconds": seconds,
            }
        )
    return rows


def unknown(data: Path, seed: int) -> list[dict[str, Any]]:
    """AUROC of the photos of a class that the run has not, beside the mean distance to ten neighbours."""
    source, (old, new), rows = photos(data), divided(seed), []
    vectors = unit_vectors(data)
    for label in range(10):
        kept = old[source.labels[old] != label]
        is_unknown = source.labels[new] == label
        reference = Reference.of(part(source, kept))
        if reference is None:
            raise RuntimeError("embedded photos have a reference")
        compared = compare(reference, part(source, new), seed)
        nearest = -np.sort(-(vectors[new] @ vectors[kept].T), axis=1)[:, :10].mean(axis=1)
        rows.append(
            {
                "column": str(source.class_names[label]),
                "auroc": roc_auc_score(is_unknown, -compared.far),
                "auroc_knn": roc_auc_score(is_unknown, -nearest),
                "extra_far": compared.extra_far,
                "extra_far_p": compared.extra_far_p,
                "unknown": int(is_unknown.sum()),
            }
        )
    return rows


def gate(data: Path, seed: int) -> list[dict[str, Any]]:
    """How many batches of 200 photos with clean labels fail, and how many with some wrong labels, by column of the run.

    A batch is clean of leaks if no copy that is told is one by its pixels (`is_copy`).
    """
    (old, new), rows = divided(seed), []
    clean = labelled(data, "clean", seed)
    batches = np.random.default_rng(seed).permutation(new).reshape(-1, BATCH)
    for column in ("clean", "random1"):
        with TemporaryDirectory() as place:
            folder = RunFolder(f"{place}/run")
            train(part(labelled(data, column, seed), old), seed, folder)
            for wrong in (0, 10):
                random = np.random.default_rng([seed, wrong])
                failed = dict.fromkeys(("fail-above 2%", "unknown-classes", "shift", "new-issues", "leaks"), 0)
                counts = {"told": 0, "told_wrong": 0, "copies": 0, "copies_by_pixels": 0, "no_copy_but_leaks": 0}
                for positions in batches:
                    batch = part(clean, np.sort(positions))
                    changed = np.isin(np.arange(BATCH), random.permutation(BATCH)[:wrong])
                    labels = np.where(changed, (batch.labels + random.integers(1, 10, BATCH)) % 10, batch.labels)
                    checked = check_samples(folder, replace(batch, labels=labels), EmbeddingOptions())
                    failed["fail-above 2%"] += bool(reasons(checked, 0.02, ()))
                    for name in list(failed)[1:]:
                        failed[name] += bool(reasons(checked, None, (name,)))
                    told = np.isin(checked.findings.ids, checked.facts["alarming"])
                    are_copies = [is_copy(clean, each["id"], each["run_id"]) for each in checked.facts["copies"]]
                    counts["told"] += int(told.sum())
                    counts["told_wrong"] += int((told & changed).sum())
                    counts["copies"] += len(are_copies)
                    counts["copies_by_pixels"] += sum(are_copies)
                    counts["no_copy_but_leaks"] += bool(are_copies) and not any(are_copies)
                rows.append({"column": column, "wrong": wrong, "batches": len(batches), "failed": failed, **counts})
    return rows


def is_copy(source: Source, first: int, second: int) -> bool:
    """Whether two photos correlate by 0.8 or more in grey, mirrored or not, shifted by at most 4 pixels or not."""
    if source.pictures is None:
        raise RuntimeError("the photos keep their pixels")
    one, other = (source.pictures.read(at).mean(axis=2) for at in (first, second))
    best = 0.0
    for picture in (other, other[:, ::-1]):
        for down in range(-4, 5):
            for right in range(-4, 5):
                parts = [
                    one[max(down, 0) : 32 + min(down, 0), max(right, 0) : 32 + min(right, 0)],
                    picture[max(-down, 0) : 32 + min(-down, 0), max(-right, 0) : 32 + min(-right, 0)],
                ]
                best = max(best, float(np.corrcoef(parts[0].ravel(), parts[1].ravel())[0, 1]))
    return best >= 0.8


def groups(data: Path, seed: int) -> list[dict[str, Any]]:
    """Whether the intervals of 20 groups of uneven size and noise hold their true share of wrong labels."""
    random = np.random.default_rng(seed)
    source = photos(data)
    size = random.integers(50, 900, 20)
    group = random.permutation(np.repeat(np.arange(20), np.ceil(size * PHOTOS / size.sum()).astype(int))[:PHOTOS])
    rates = random.beta(2, 12, 20)
    wrong = random.random(PHOTOS) < rates[group]
    given = np.where(wrong, (source.labels + random.integers(1, 10, PHOTOS)) % 10, source.labels)
    table = train(replace(source, labels=given), seed).findings.by_group(group.astype(str)).set_index("group")
    true = np.array([wrong[group == int(name)].mean() for name in table.index])
    held = (table["low"] <= true) & (true <= table["high"])
    errors = np.abs(table["noise_rate"] - true)
    return [{"column": "20 groups", "held": int(held.sum()), "groups": len(table), "error": float(errors.mean())}]


def dawid_skene(votes: np.ndarray, classes: int) -> np.ndarray:
    """Return the probabilities (N, C) of the model of Dawid and Skene (1979) alone."""
    q = np.stack([(votes == label).sum(axis=1) for label in range(classes)], axis=1) + 1e-3
    for _ in range(50):
        q = q / q.sum(axis=1, keepdims=True)
        logs = np.tile(np.log(q.mean(axis=0)), (len(q), 1))
        for column in votes.T:
            table = np.stack([q[column == label].sum(axis=0) for label in range(classes)], axis=1) + 0.01
            logs += np.log(table / table.sum(axis=1, keepdims=True))[:, column].T
        q = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(q / q.sum(axis=1, keepdims=True))


def annotators(data: Path, seed: int) -> list[dict[str, Any]]:
    """Consensus of CIFAR-10N's three annotators by four methods, with the same predictions, out of fold."""
    rivals = require("cleanlab.multiannotator", "bench")
    rows = np.sort(np.random.default_rng(seed).permutation(PHOTOS)[:10_000])
    clean = photos(data).labels[rows]
    votes = {f"random{number}": human(data)[f"random_label{number}"][rows] for number in (1, 2, 3)}
    table, most = np.stack(list(votes.values()), axis=1), majority(votes, 10)
    vectors = unit_vectors(data)[rows]
    probs = out_of_fold((vectors - vectors.mean(axis=0)) / np.maximum(vectors.std(axis=0), 1e-6), most, 10, seed=seed)
    ours, alone = consensus(votes, probs, expected_scale(10)), dawid_skene(table, 10)
    rival = rivals.get_label_quality_multiannotator(pd.DataFrame(table), probs.astype(np.float64), verbose=False)
    crowdlab = rival["label_quality"]
    methods = {
        "majority vote": (most, (table == most[:, None]).mean(axis=1)),
        "Dawid-Skene": (alone.argmax(axis=1), alone.max(axis=1)),
        "CROWDLAB": (crowdlab["consensus_label"].to_numpy(), crowdlab["consensus_quality_score"].to_numpy()),
        "jnpl": (ours.labels, ours.quality),
    }
    return [
        {"column": name, "accuracy": float((label == clean).mean()), "auroc": roc_auc_score(label == clean, quality)}
        for name, (label, quality) in methods.items()
    ]


PARTS = {"check": check, "unknown": unknown, "gate": gate, "groups": groups, "consensus": annotators}


def tables(file: Path) -> dict[str, str]:
    """Return the generated blocks of the page."""
    stored: dict[str, list[dict[str, Any]]] = {}
    for result in results.read(file).values():
        facts = result["results"]
        for row in facts["rows"]:
            stored.setdefault(f"{facts['part']}/{row['column']}", []).append(row)

    def of(name: str, figure: str, digits: int = 3) -> str:
        return spread([row[figure] for row in stored.get(name, [])], digits)

    checked = [["labels", "AP of `check`", "AP of `find`, trained together", "wrong", "estimate of `check`"]]
    for column in COLUMNS:
        figures = ("ap_check", "ap_find", "noise_rate", "estimate")
        checked.append([column, *(of(f"check/{column}", figure) for figure in figures)])
    head = ["method", "accuracy of the consensus", "AUROC of its quality"]
    votes = [
        [name, of(f"consensus/{name}", "accuracy", 4), of(f"consensus/{name}", "auroc", 4)]
        for name in ("majority vote", "Dawid-Skene", "CROWDLAB", "jnpl")
    ]
    made = {"check": checked, "rest": answers(stored), "consensus": [head, *votes]}
    return {name: markdown_table(rows) for name, rows in made.items()}


def answers(stored: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    """Return the rows of the table of questions and answers."""

    def rows_of(name: str) -> list[dict[str, Any]]:
        return [row for key, rows in stored.items() if key.startswith(f"{name}/") for row in rows]

    strange, alarms, group_rows = rows_of("unknown"), rows_of("gate"), rows_of("groups")
    mean, knn = (np.mean([row[name] for row in strange]) for name in ("auroc", "auroc_knn"))
    worst = min(strange, key=lambda row: row["auroc"] / row["auroc_knn"])
    noticed = sum(row["extra_far_p"] < 0.05 for row in strange)
    rows = [
        ["question", "answer"],
        ["AUROC of a class left out, mean", f"{mean:.3f}; ten nearest neighbours on all numbers: {knn:.3f}"],
        ["... smallest part of that", f"{worst['auroc'] / worst['auroc_knn']:.3f} ({worst['column']})"],
        [f"... batches of {NEW:,} in which it is noticed", f"{noticed} of {len(strange)}"],
    ]
    clean = [row for row in alarms if not row["wrong"]]
    total = sum(row["batches"] for row in clean)
    for name in clean[0]["failed"]:
        if name == "shift":  # to a run on labels that are often wrong, clean ones are a shift
            alike = [row for row in clean if row["column"] == "clean"]
            failed, count = (
                sum(each) for each in zip(*((row["failed"][name], row["batches"]) for row in alike), strict=True)
            )
            rows.append([f"clean batches of {BATCH} that fail `shift`, beside clean labels", f"{failed} of {count}"])
        elif name != "leaks":
            failed = sum(row["failed"][name] for row in clean)
            rows.append([f"clean batches of {BATCH} that fail `{name}`", f"{failed} of {total}"])
    copies, by_pixels, false = (
        sum(row[name] for row in clean if row["column"] == "clean")
        for name in ("copies", "copies_by_pixels", "no_copy_but_leaks")
    )
    told = f"{copies}, of which {by_pixels} correlate by 0.8 or more in their pixels"
    rows.append(["copies of photos of the run that are told in them", told])
    without = f"{false} of {sum(row['batches'] for row in clean if row['column'] == 'clean')}"
    rows.append(["... batches that fail `leaks` without such a copy", without])
    for wrong in sorted({row["wrong"] for row in alarms} - {0}):
        some = [row for row in alarms if row["wrong"] == wrong]
        failed, total, told, right = (
            sum(row["failed"]["new-issues"] for row in some),
            sum(row["batches"] for row in some),
            sum(row["told"] for row in some),
            sum(row["told_wrong"] for row in some),
        )
        what = f"batches with {wrong / BATCH:.0%} wrong labels that fail `new-issues`"
        rows.append([what, f"{failed} of {total}; {right} of the {told} labels told are wrong"])
    held, total = (sum(row[figure] for row in group_rows) for figure in ("held", "groups"))
    error = np.mean([row["error"] for row in group_rows])
    seconds = spread([row["cpu_seconds"] for row in rows_of("check")], 1)
    rows.append(["groups whose interval holds the truth", f"{held} of {total}; mean error {error:.3f}"])
    return [*rows, [f"CPU seconds of a check of {NEW:,} embedded samples", seconds]]


def page_text(file: Path) -> str:
    """Return the page with its tables."""
    made = tables(file)
    return BLOCK.sub(lambda match: f"{match[1]}{made[match[2]]}\n{match[3]}", PAGE.read_text("utf-8"))


def main() -> None:
    """Run the parts that are missing, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=FILE)
    options = parser.parse_args()
    if options.action == "table":
        write_text(PAGE, page_text(options.results))
        return
    for seed in range(options.seeds):
        for name in options.parts:
            if not results.contains(options.results, f"{name}/{seed}"):
                rows = PARTS[name](options.data, seed)
                facts = {"part": name, "seed": seed, "rows": rows}
                results.add(options.results, {"name": f"{name}/{seed}", "results": facts})
                print(name, seed, rows, flush=True)


if __name__ == "__main__":
    main()
