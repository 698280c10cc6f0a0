"""How good is it: `jnpl find` and five other ways to find wrong labels, on the same vectors, on labels people checked.

    python benchmarks/evidence.py run --data DIR [--sets ...] [--rows jnpl ...] [--seeds 3]    # resumable
    python benchmarks/evidence.py page    # docs/quality.md and docs/results/evidence.md from results/evidence.jsonl

DIR is that of owners.py with cifar-10h-counts.npy, cifar-10-checked.json and cifar-100-checked.json. Sets whose file is
missing are left out. Every row has the same vectors or table, one thread, and seeds 1, 2, 3: settings of `jnpl find`
were chosen on seed 0. Rows:

- jnpl: `jnpl find` with default settings.
- lr: cleanlab around five folds of logistic regression, its C by cross-validated accuracy on the given labels.
- trees: cleanlab around five folds of extremely randomised trees (of tables: of gradient boosting).
- margin: the normalised margin of the same five folds of logistic regression.
- knn: the vote of the ten nearest neighbours (cosine), as SimiFeat of docta.
- logit-margin: the margin of the given label's logit, mean over 30 epochs of cross-entropy, in-sample: the best
  detector of arXiv 2510.16211. The head, learning rate and weight decay of `jnpl find`.

Of CIFAR the first 10,000 images are used. Trees on that many vectors have one seed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import owners
import owners_tables
from jnpl import embed, metrics
from jnpl.data import split
from jnpl.data.source import EmbeddedInputs, Source
from jnpl.experiments import results
from jnpl.experiments.result_tables import markdown_table, spread
from jnpl.internal.files import write_text
from jnpl.internal.importing import require
from jnpl.pipeline import run_recipe
from jnpl.recipes.automatic import adapt_recipe
from jnpl.training.reporting import Reporter

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"
FILE = "evidence.jsonl"
FOLDS, NEIGHBOURS, BLOCK, EPOCHS = 5, 10, 1024, 30
FIRST_SEED = 1
ONCE = 8_000  # samples from which trees on vectors have one seed
FIRST = 10_000  # training images of CIFAR that are used, and CIFAR-100 images with the checked ones


class Truth(NamedTuple):
    """Which labels are wrong: `wrong` (N,), known of the samples `rows` (N,)."""

    rows: Any
    wrong: Any


class Cell(NamedTuple):
    """Data with given labels; truth by name ("" where there is one)."""

    source: Source
    truths: dict[str, Truth]


COLUMNS = {  # column -> file of DIR, None: of scikit-learn
    "cifar10/worse": "cifar-10n.npz",
    "cifar10/aggre": "cifar-10n.npz",
    "cifar100/human": "cifar-100n.npz",
    "cifar10-test/published": "cifar-10h-counts.npy",
    "cifar10-test-224/published": "cifar-10h-counts.npy",
    "cifar100-all/published": "cifar-100-checked.json",
    "imdb-minilm/published": "imdb-checked.csv.gz",
    "imdb-tfidf/published": "imdb-checked.csv.gz",
    "agnews-minilm/weak": "agnews-weak.csv.gz",
    "yelp-minilm/weak": "yelp-weak.csv.gz",
    "flowers-160/symm20": "flowers.tar",
    "flowers-160/asymm20": "flowers.tar",
    "trec6-minilm/symm20": "trec6.csv.gz",
    **{
        f"{name}/{column}": f"{name}.csv.gz"
        for name in ("satimage", "magic", "letter")
        for column in ("symm20", "pair20")
    },
}


def cell(column: str, seed: int, data: Path) -> Cell:
    """Return the data of a column, without test data."""
    name, _, labels = column.partition("/")
    if name in owners_tables.TABLES:
        source = owners_tables.cell(name, labels, seed, data)
        return Cell(source, {"": everywhere(source)})
    if labels != "published":
        clean = owners.embedded(name, data)
        given = owners.labels_of(name, labels, seed, data, clean)
        source = replace(clean, labels=given, true_labels=clean.labels, test=None)
        source = split.part(source, np.arange(min(len(source), FIRST)))
        return Cell(source, {"": everywhere(source)})
    return PUBLISHED[name](data)


def everywhere(source: Source) -> Truth:
    """Return the truth where it is known of every sample."""
    return Truth(np.ones(len(source), bool), source.labels != source.true_labels)


def checked(file: Path, first: int, size: int, most: int) -> Truth:
    """Return which test images five people did not confirm (fewer than three chose the given label alone).

    Args:
        first: position of the first test image among `size` samples.
        most: test images there are here.
    """
    rows, wrong = np.zeros((2, size), bool)
    for entry in json.loads(file.read_text("utf-8")):
        if entry["id"] < most:
            rows[first + entry["id"]] = True
            wrong[first + entry["id"]] = entry["mturk"]["given"] < 3
    return Truth(rows, wrong)


def cifar10_test(data: Path, **options: Any) -> Cell:
    """CIFAR-10's test images: about 51 people labelled each; five checked 275 that a network had picked.

    Options are those of `jnpl.embed`: at another size than 128 pixels.
    """
    test = (owners.cifar10(data) if options else owners.embedded("cifar10", data)).test
    if test is None:
        raise RuntimeError("no test images")
    if options:
        test = embed(test, note=print, progress=owners.show_progress, **options).source
    counts = np.load(data / "cifar-10h-counts.npy")
    share = counts[np.arange(len(test)), test.labels] / counts.sum(1)
    raters = Truth(np.ones(len(test), bool), share < 0.5)
    pool = checked(data / "cifar-10-checked.json", 0, len(test), len(test))
    return Cell(test, {"raters": raters, "checked": pool})


def cifar100_all(data: Path) -> Cell:
    """CIFAR-100's test images at hand with as many training images; five people checked some of the test images."""
    whole = owners.embedded("cifar100", data)
    if whole.test is None:
        raise RuntimeError("no test images")
    test, whole = whole.test, split.part(whole, np.arange(FIRST - len(whole.test)))
    inputs = EmbeddedInputs(np.concatenate([whole.inputs.array(), test.inputs.array()]), "cifar100-all")
    labels = np.concatenate([whole.labels, test.labels])
    source = replace(whole, inputs=inputs, labels=labels, ids=np.arange(len(labels)), test=None, pictures=None)
    file = data / "cifar-100-checked.json"
    return Cell(source, {"checked": checked(file, len(whole), len(labels), len(test))})


def imdb(data: Path, name: str) -> Cell:
    """IMDB's reviews at hand; five people checked 1,310 that a network had picked."""
    source = owners.embedded(name, data)
    table = pd.read_csv(data / "imdb-checked.csv.gz")
    return Cell(
        source, {"checked": Truth(table["votes_given"].notna().to_numpy(), (table["votes_given"] < 3).to_numpy())}
    )


PUBLISHED: dict[str, Callable[[Path], Cell]] = {
    "cifar10-test": cifar10_test,
    "cifar10-test-224": partial(cifar10_test, size=224),
    "cifar100-all": cifar100_all,
    **{name: partial(imdb, name=name) for name in ("imdb-minilm", "imdb-tfidf")},
}


class Verdict(NamedTuple):
    """Label quality (N,), lower is worse; flagged labels (N,) and the estimated share of wrong ones, if any."""

    quality: Any
    flagged: Any = None
    rate: float | None = None
    more: dict[str, Any] = {}  # noqa: RUF012 - of a tuple


def ours(source: Source, seed: int) -> Verdict:
    """`jnpl find` with default settings."""
    findings = trained(source, seed, None, {})
    noise = {} if findings.noise is None else {"noise": findings.noise._asdict()}
    return Verdict(findings.label_quality, findings.is_label_issue, findings.noise_rate, noise)


def logit_margin(source: Source, seed: int) -> Verdict:
    """Cross-entropy, and the mean over its epochs of the logit margin of the given label."""
    plan = {"train.epochs": EPOCHS, "verdict.score": "aum", "verdict.calibrate": False, "verdict.threshold": 0.5}
    return Verdict(trained(source, seed, "ce", plan).label_quality)


def trained(source: Source, seed: int, method: str | None, changes: dict[str, Any]) -> Any:
    """Return the findings of a run in memory."""
    report = Reporter()
    report.quiet(True)
    result = run_recipe(source, adapt_recipe(source, None, method, changes).recipe, seed=seed, report=report)
    if result is None:
        raise RuntimeError("no result in this process")
    return result.findings


def lr(source: Source, seed: int, c: float | None) -> dict[str, Verdict]:
    """cleanlab around five folds of logistic regression: its verdict, and its normalised margin; `c` None: chosen."""
    x = vectors(source)
    best: tuple[float, float, Any] = (-1.0, 0.0, None)
    for strength in owners.GRID if c is None else (c,):
        probs, spent = folds(x, source, seed, partial(LogisticRegression, C=strength, max_iter=200))
        accuracy = float((probs.argmax(1) == source.labels).mean())
        if accuracy < best[0]:
            break
        best = accuracy, strength, (probs, spent)
    probs, spent = best[2] or (probs, spent)
    began = time.process_time()
    verdict = by_cleanlab(source, probs)
    cleanlab = require("cleanlab.rank", "bench")
    margin = cleanlab.get_label_quality_scores(source.labels, probs, method="normalized_margin")
    worst = np.zeros(len(margin), bool)
    worst[np.argsort(margin, kind="stable")[: int(verdict.flagged.sum())]] = True
    facts = {"c": best[1], "cpu_seconds": spent + time.process_time() - began}
    return {"lr": verdict._replace(more=facts), "margin": Verdict(margin, worst, verdict.rate, facts)}


def trees(source: Source, seed: int) -> Verdict:
    """cleanlab around five folds of trees."""
    is_table = not isinstance(source.inputs, EmbeddedInputs)
    made = HistGradientBoostingClassifier if is_table else ExtraTreesClassifier
    return by_cleanlab(source, folds(vectors(source), source, seed, lambda: made(random_state=seed))[0])


def folds(x: Any, source: Source, seed: int, made: Callable[[], Any]) -> tuple[Any, float]:
    """Return the probabilities (N, C) of a model in five folds, and its CPU seconds."""
    began, probs = time.process_time(), np.zeros((len(x), len(source.class_names)))
    for train, held in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, source.labels):
        model = made().fit(x[train], source.labels[train])
        probs[np.ix_(held, model.classes_)] = model.predict_proba(x[held])
    return probs, time.process_time() - began


def by_cleanlab(source: Source, probs: Any) -> Verdict:
    """Return what cleanlab says: self-confidence, its label issues, one minus the trace of its joint."""
    rank, issues, count = (require(f"cleanlab.{name}", "bench") for name in ("rank", "filter", "count"))
    quality = rank.get_label_quality_scores(source.labels, probs)
    joint = count.estimate_joint(source.labels, probs)
    return Verdict(quality, issues.find_label_issues(source.labels, probs), float(1 - np.trace(joint)))


def knn(source: Source, _seed: int) -> Verdict:
    """The vote of the ten nearest neighbours, each counting with its cosine similarity."""
    x = vectors(source)
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    votes = np.zeros((len(x), len(source.class_names)), np.float32)
    for start in range(0, len(x), BLOCK):
        near = x[start : start + BLOCK] @ x.T
        rows = np.arange(len(near))
        near[rows, rows + start] = -2  # itself
        nearest = np.argpartition(-near, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        weights = np.maximum(np.take_along_axis(near, nearest, axis=1), 1e-6)
        np.add.at(votes, (np.repeat(rows + start, NEIGHBOURS), source.labels[nearest].ravel()), weights.ravel())
    votes /= votes.sum(1, keepdims=True)
    flagged = votes.argmax(1) != source.labels
    return Verdict(votes[np.arange(len(x)), source.labels], flagged, float(flagged.mean()))


def vectors(source: Source) -> Any:
    """Return the vectors (N, F): of embeddings the mean of the views; standardised."""
    if isinstance(source.inputs, EmbeddedInputs):
        values = source.inputs.values.mean(axis=1, dtype=np.float32)
    else:
        values = np.stack([source.inputs.read(at) for at in range(len(source))])
    deviation = values.std(0)
    return (values - values.mean(0)) / np.where(deviation > 1e-6, deviation, 1)


def judged(verdict: Verdict, truth: Truth, seed: int) -> dict[str, float]:
    """Return AP and the false-negative rate at as many labels as are wrong; F1, precision and recall of the flagged."""
    quality, wrong = np.asarray(verdict.quality)[truth.rows], truth.wrong[truth.rows]
    count, order = int(wrong.sum()), np.random.default_rng(seed).permutation(len(wrong))  # which of equals comes first
    worst = order[np.argsort(quality[order], kind="stable")[:count]]
    facts = {"ap": metrics.average_precision(quality, wrong), "fnr": 1 - float(wrong[worst].mean())}
    facts |= {"wrong": count, "samples": len(wrong)}
    if verdict.flagged is not None:
        flagged = np.asarray(verdict.flagged)[truth.rows]
        found = int((flagged & wrong).sum())
        facts |= {"flagged": int(flagged.sum()), "f1": 2 * found / max(int(flagged.sum()) + count, 1)}
        facts |= {"precision": found / max(int(flagged.sum()), 1), "recall": found / count}
    return facts


ROWS: dict[str, Callable[[Source, int], Verdict]] = {
    "jnpl": ours,
    "trees": trees,
    "knn": knn,
    "logit-margin": logit_margin,
}
NAMES = ("jnpl", "lr", "trees", "margin", "knn", "logit-margin")


def run(args: argparse.Namespace) -> None:
    """Run the rows that are not done: one line per column, seed and row; the first seed of all columns first."""
    path = args.out / FILE
    for seed in range(FIRST_SEED, FIRST_SEED + args.seeds):
        for column in args.sets or COLUMNS:
            if (args.data / COLUMNS[column]).exists():
                fill(path, column, seed, args)
            else:
                print(f"{column}: left out, {COLUMNS[column]} is not in {args.data}")


def fill(path: Path, column: str, seed: int, args: argparse.Namespace) -> None:
    """Run the rows of a column and seed that are not done."""
    done, here = results.read(path), None
    for row in args.rows or NAMES:
        if f"{column}/{seed}/{row}" in done or row == "margin":  # which comes with lr
            continue
        here = here or cell(column, seed, args.data)
        is_wide = isinstance(here.source.inputs, EmbeddedInputs)
        if row == "trees" and seed > FIRST_SEED and is_wide and len(here.source) >= ONCE:
            continue
        began = time.process_time()
        if row == "lr":
            chosen = done.get(f"{column}/{FIRST_SEED}/lr", {}).get("results", {}).get("c")
            verdicts = lr(here.source, seed, chosen)
        else:
            verdicts = {row: ROWS[row](here.source, seed)}
        spent = time.process_time() - began
        for name, verdict in verdicts.items():
            facts = {"cpu_seconds": spent, "rate": verdict.rate, **verdict.more}
            facts["truths"] = {key: judged(verdict, truth, seed) for key, truth in here.truths.items()}
            results.add(path, {"name": f"{column}/{seed}/{name}", "results": facts})
            print(column, seed, name, json.dumps(facts), flush=True)


TITLES = {  # column, truth -> what it is
    ("cifar10-test/published", "raters"): "CIFAR-10 test, by 51 raters",
    ("cifar10-test/published", "checked"): "CIFAR-10 test, checked",
    ("cifar10-test-224/published", "raters"): "CIFAR-10 test, by 51 raters, at 224 pixels",
    ("cifar10-test-224/published", "checked"): "CIFAR-10 test, checked, at 224 pixels",
    ("cifar100-all/published", "checked"): "CIFAR-100, checked",
    ("imdb-minilm/published", "checked"): "IMDB, checked",
    ("imdb-tfidf/published", "checked"): "IMDB (TF-IDF), checked",
    ("cifar10/worse", ""): "CIFAR-10N worse, by people",
    ("cifar10/aggre", ""): "CIFAR-10N aggregate, by people",
    ("cifar100/human", ""): "CIFAR-100N, by people",
    ("agnews-minilm/weak", ""): "news, by rules",
    ("yelp-minilm/weak", ""): "restaurants, by rules",
    ("flowers-160/symm20", ""): "flowers, any class",
    ("flowers-160/asymm20", ""): "flowers, next class",
    ("trec6-minilm/symm20", ""): "questions, any class",
    ("satimage/symm20", ""): "satimage, any class",
    ("satimage/pair20", ""): "satimage, next class",
    ("letter/symm20", ""): "letter, any class",
    ("letter/pair20", ""): "letter, next class",
    ("magic/symm20", ""): "magic, other class",
}
SHOWN = {
    "jnpl": "`jnpl find`",
    "lr": "cleanlab, logistic regression",
    "trees": "cleanlab, trees",
    "margin": "margin of the regression",
    "knn": "vote of 10 neighbours",
    "logit-margin": "logit margin over epochs",
}
POOLS = ("checked",)  # of samples that somebody picked: the estimated share is not about them
SECOND_SIZE = "cifar10-test-224/published"
Runs = dict[str, list[dict[str, Any]]]  # row -> one per seed


def stored(path: Path) -> dict[tuple[str, str], Runs]:
    """Return column and truth -> row -> the facts of each seed."""
    found: dict[tuple[str, str], Runs] = {key: {} for key in TITLES}
    for name, line in results.read(path).items():
        column, _, rest = name.rpartition("/")[0].rpartition("/")
        row, facts = name.rpartition("/")[2], line["results"]
        for truth, figures in facts["truths"].items():
            if (column, truth) in found and rest.isdigit():
                found[column, truth].setdefault(row, []).append({**facts, **figures})
    return {key: runs for key, runs in found.items() if "jnpl" in runs}


def mean(runs: Runs, row: str, key: str) -> float | None:
    """Return the mean over the seeds of a figure, None where there is none."""
    values = [run[key] for run in runs.get(row, []) if run.get(key) == run.get(key) is not None]  # nan: withheld
    return float(np.mean(values)) if values else None


def table(found: dict[tuple[str, str], Runs]) -> str:
    """Return the table of docs/quality.md."""
    head = ["data", "wrong", *("jnpl", "LR", "trees", "margin", "kNN", "logit margin")]
    rows = [[*head, "F1: jnpl / LR", "share: jnpl / LR", "s: jnpl / LR"]]
    for (column, truth), runs in found.items():
        first = runs["jnpl"][0]
        aps = [mean(runs, row, "ap") for row in SHOWN]
        best = max(value for value in aps if value is not None)
        shown = ["-" if ap is None else f"**{ap:.3f}**" if ap == best else f"{ap:.3f}" for ap in aps]
        for key, form in (("f1", ".2f"), ("rate", ".1%"), ("cpu_seconds", ".1f")):
            values = [mean(runs, row, key) for row in ("jnpl", "lr")]
            texts = [("withheld" if value is None else format(value, form)) for value in values]
            shown.append("-" if key == "rate" and truth in POOLS else " / ".join(texts))
        rows.append([TITLES[column, truth], f"{first['wrong'] / first['samples']:.1%}", *shown])
    return markdown_table(rows)


def leads(found: dict[tuple[str, str], Runs]) -> str:
    """Return in how many rows of the table `jnpl find` ranks best, and where it does not."""
    behind = []
    for key, runs in found.items():
        others = {row: mean(runs, row, "ap") or 0.0 for row in SHOWN if row != "jnpl"}
        ahead = max(others, key=lambda row: others[row])
        gap = (mean(runs, "jnpl", "ap") or 0.0) - others[ahead]
        if gap < 0:
            behind.append(f"{TITLES[key]} ({gap:+.3f} to {SHOWN[ahead]})")
    first = f"`jnpl find` ranks best in {len(found) - len(behind)} of {len(found)} rows."
    return f"{first} It is behind in {'; '.join(behind)}." if behind else first


def disputed(found: dict[tuple[str, str], Runs]) -> str:
    """Return what is found of the labels that most of CIFAR-10H's raters dispute."""
    runs = found.get(("cifar10-test/published", "raters"))
    if runs is None:
        return ""
    first = runs["jnpl"][0]
    flags = [
        f"{SHOWN[row]} finds {mean(runs, row, 'recall'):.0%} among the {mean(runs, row, 'flagged'):,.0f} that it flags"
        for row in ("jnpl", "lr", "trees", "knn")
        if mean(runs, row, "flagged") is not None
    ]
    best = max(mean(runs, row, "ap") or 0 for row in SHOWN)
    lines = [
        f"About 51 people labelled each of CIFAR-10's {first['samples']:,} test images (CIFAR-10H). Of "
        f"{first['wrong']} images most of them chose another label than the published one. **Nobody finds these well "
        f"on these vectors**: the best AP is {best:.3f}. Of these labels " + "; ".join(flags) + ".",
    ]
    low, high = first["noise"]["low"], first["noise"]["high"]
    lines.append(
        f"`jnpl find` estimates that {first['rate']:.1%} ({low:.1%} to {high:.1%}) are wrong; it is "
        f"{first['wrong'] / first['samples']:.1%} by the raters. Cleanlab says {mean(runs, 'lr', 'rate'):.1%}."
    )
    large = found.get((SECOND_SIZE, "raters"))
    if large is not None:
        lines.append(
            "A better network for the images is what would help. Enlarged to 224 pixels, in place of 128, the same "
            f"network gives AP {mean(large, 'jnpl', 'ap'):.3f} (one seed; {mean(runs, 'jnpl', 'ap'):.3f} at 128). "
            "Much larger networks do not come with packages; `--backbone hf:NAME` takes any of Hugging Face's, and "
            "`--embed` one of your own ([backbones](backbones.md)). No figure for these is on this page."
        )
    return "\n\n".join(lines)


def details(found: dict[tuple[str, str], Runs]) -> str:
    """Return docs/results/evidence.md."""
    parts = []
    for key, runs in found.items():
        rows = [["", "AP", "missed", "F1", "precision", "recall", "flagged", "share", "CPU s", "seeds"]]
        for row, what in SHOWN.items():
            if row in runs:
                figures = [spread([run.get(name) for run in runs[row]]) for name in ("ap", "fnr", "f1")]
                rest = [mean(runs, row, name) for name in ("precision", "recall", "flagged", "rate", "cpu_seconds")]
                forms = (".2f", ".2f", ",.0f", ".1%", ".1f")
                texts = ["-" if value is None else format(value, form) for value, form in zip(rest, forms, strict=True)]
                rows.append([what, *figures, *texts, str(len(runs[row]))])
        first = runs["jnpl"][0]
        wrong, samples = first["wrong"], first["samples"]
        about = f"{wrong:,} of {samples:,} judged labels are wrong ({wrong / samples:.1%})."
        parts += [f"## {TITLES[key]}", about, markdown_table(rows)]
    template = (DOCS / "templates/results/evidence.md").read_text("utf-8")
    return template.replace("{tables}", "\n\n".join(parts))


def page(folder: Path) -> dict[Path, str]:
    """Return docs/quality.md from its template, and the page of details."""
    found = stored(folder / FILE)
    text = (DOCS / "templates/quality.md").read_text("utf-8")
    main = {key: runs for key, runs in found.items() if key[0] != SECOND_SIZE}
    seeds = max(len(runs["jnpl"]) for runs in main.values())
    parts = {
        "leads": leads(main),
        "table": table(main),
        "disputed": disputed(found),
        "seeds": f"{seeds} seeds" if seeds > 1 else "one seed",
    }
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return {DOCS / "quality.md": text, DOCS / "results/evidence.md": details(found)}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--data", type=Path, required=True)
    running.add_argument("--sets", nargs="*", choices=list(COLUMNS))
    running.add_argument("--rows", nargs="*", choices=NAMES)
    running.add_argument("--seeds", type=int, default=3)
    running.add_argument("--out", type=Path, default=RESULTS)
    commands.add_parser("page")
    args = parser.parse_args()
    if args.command == "page":
        for place, text in page(RESULTS).items():
            write_text(place, text)
        return 0
    torch.set_num_threads(1)
    run(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
