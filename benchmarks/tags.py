"""Several tags per sample: what `jnpl find` achieves beside cleanlab's functions for them, on the same vectors.

    python benchmarks/tags.py run --data DIR [--sets grids] [--methods jnpl] [--seeds 3]   # resumable
    python benchmarks/tags.py table   # the table of docs/results/tags.md

DIR holds cifar-10-batches-bin, cifar-100-part.parquet and trec6.csv.gz. Truth is known because the sets are made: grids
of 2 x 2 photos of CIFAR-10 have their classes as tags, photos of CIFAR-100 their class and its group (both at 96
pixels, without the mirror image), and two questions of TREC-6 joined into one text the topics of both (TF-IDF). Of the
true tags 10 or 30 % are removed, and 2 or 5 % as many wrong ones added. Where a column ends in "absent", that share of
the absent tags is added, which are many more.

The rival is five-fold logistic regression of each tag against the rest on the same standardised vectors (mean of the
views), its C by the log loss on the given tags of seed 0, and `cleanlab.multilabel_classification`.
"""

from __future__ import annotations

import argparse
import io
import re
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, log_loss
from sklearn.model_selection import KFold

from jnpl import embed
from jnpl.analysis.short_vectors import mean_views
from jnpl.data.opening import open_source
from jnpl.data.source import Source
from jnpl.data.sources.arrays import from_arrays
from jnpl.data.tags import Tags, with_tags
from jnpl.experiments import results
from jnpl.experiments.result_tables import markdown_table, spread
from jnpl.internal.files import write_text
from jnpl.internal.importing import require
from jnpl.internal.tables import load_parquet
from jnpl.pipeline import OpenedData, RunOptions, run_tags
from jnpl.training.reporting import Reporter

FILE = Path(__file__).parent / "results" / "tags.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "results" / "tags.md"
BLOCK = re.compile(r"(<!-- tags: generated -->\n).*?(<!-- end -->)", re.DOTALL)
SAMPLES = 2_000
GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of C
CELLS = ((0.1, 0.02), (0.1, 0.05), (0.3, 0.02), (0.3, 0.05))  # missing and extra
# The groups of CIFAR-100's classes, in the order of their numbers.
GROUPS = (
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1),
    *(10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12),
    *(12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0),
    *(17, 8, 14, 13),
)
KINDS = ("missing", "extra", "samples")


class Tagged(NamedTuple):
    """Embedded samples and their true tags (N, T)."""

    source: Source
    true: np.ndarray

    @property
    def vectors(self) -> np.ndarray:
        """The standardised mean embeddings (N, F)."""
        vectors = mean_views(np.asarray(self.source.inputs.array()), slice(None))
        return np.asarray((vectors - vectors.mean(axis=0)) / np.maximum(vectors.std(axis=0), 1e-6))


def grids(data: Path) -> tuple[Source, np.ndarray]:
    """2 x 2 photos of CIFAR-10 in one, 64 pixels wide."""
    photos, rng = open_source("cifar10", root=data), np.random.default_rng(0)
    chosen = rng.permutation(len(photos))[: 4 * SAMPLES].reshape(SAMPLES, 2, 2)
    pixels = np.stack([photos.inputs.read(at) for at in chosen.ravel().tolist()]).reshape(SAMPLES, 2, 2, 32, 32, 3)
    images = pixels.transpose(0, 1, 3, 2, 4, 5).reshape(SAMPLES, 64, 64, 3)
    true = (photos.labels[chosen.reshape(SAMPLES, 4)][:, :, None] == np.arange(10)).any(axis=1)
    return from_arrays(images, np.arange(SAMPLES) % 2, name="grids"), true


def groups(data: Path) -> tuple[Source, np.ndarray]:
    """Photos of the first six groups of CIFAR-100, each with its class and its group as tags: 36 of them."""
    table = load_parquet(data / "cifar-100-part.parquet", columns=["image", "fine_label"]).to_pandas()
    table = table[np.array(GROUPS)[table["fine_label"]] < 6][:SAMPLES]
    images = np.stack([np.asarray(Image.open(io.BytesIO(each["bytes"])).convert("RGB")) for each in table["image"]])
    labels = table["fine_label"].to_numpy()
    of_class, of_group = np.eye(100, dtype=bool)[labels], np.eye(6, dtype=bool)[np.array(GROUPS)[labels]]
    true = np.hstack([of_class[:, of_class.any(axis=0)], of_group])
    return from_arrays(images, np.arange(SAMPLES) % 2, name="groups"), true


def topics(data: Path) -> tuple[Source, np.ndarray]:
    """Two questions of TREC-6 as one text, with the topics of both."""
    table, rng = pd.read_csv(data / "trec6.csv.gz"), np.random.default_rng(0)
    pairs = rng.integers(0, len(table), (SAMPLES, 2))
    texts, labels = table["text"].to_numpy(), pd.factorize(table["label"], sort=True)[0]
    joined = [" ".join(texts[pair]) for pair in pairs]
    true = (labels[pairs][:, :, None] == np.arange(labels.max() + 1)).any(axis=1)
    return from_arrays(joined, np.arange(SAMPLES) % 2, name="topics"), true


SETS = {"grids": grids, "groups": groups, "topics": topics}
TITLES = {"grids": "grids of photos, 10 tags", "groups": "class and group, 36 tags", "topics": "two questions, 6 tags"}


@lru_cache(maxsize=1)
def tagged(name: str, data: Path) -> Tagged:
    """Return a set, embedded once (the cache of jnpl keeps it)."""
    source, true = SETS[name](data)
    if name == "topics":
        return Tagged(embed(source, backbone="tfidf").source, true)
    return Tagged(embed(source, size=96, views=1, note=print).source, true)


def columns(name: str) -> list[str]:
    """Return the columns of a set."""
    main = [f"{missing} {extra}" for missing, extra in CELLS]
    return main if name == "groups" else [*main, "0.1 0.05 absent"]


def given_tags(true: np.ndarray, column: str, seed: int) -> np.ndarray:
    """Return the true tags (N, T) with the wrong ones of a column."""
    missing, extra = map(float, column.split()[:2])
    rng = np.random.default_rng([seed, 7])
    share = extra if column.endswith("absent") else extra * true.sum() / (~true).sum()
    return np.where(true, rng.random(true.shape) >= missing, rng.random(true.shape) < share)


def scores(quality: np.ndarray, of_samples: np.ndarray, given: np.ndarray, true: np.ndarray) -> dict[str, float]:
    """Return the AP of missing tags, of extra tags and of samples, by quality (N, T) and (N,)."""
    wrong = given != true
    return {
        "missing": average_precision_score(wrong[~given], 1 - quality[~given]),
        "extra": average_precision_score(wrong[given], 1 - quality[given]),
        "samples": average_precision_score(wrong.any(axis=1), 1 - of_samples),
    }


def ours(name: str, data: Path, given: np.ndarray, seed: int) -> dict[str, Any]:
    """Judge by `jnpl find` with default settings."""
    source, true = tagged(name, data)
    source = with_tags(source, Tags(given, tuple(map(str, range(given.shape[1])))))
    report = Reporter(verbose=False)
    report.quiet(True)
    begun = time.process_time()
    findings = run_tags(OpenedData(source), RunOptions(seed=seed), report=report).findings
    seconds, noise = time.process_time() - begun, findings.noise
    if noise is None:
        raise RuntimeError("the run has no rates")
    judged = ~np.isnan(findings.quality).any(axis=0)
    quality = np.where(judged, findings.quality, 1.0)
    given, true = given[:, judged], true[:, judged]
    rates = {
        "missing": (list(noise.missing), float((true & ~given).sum() / true.sum())),
        "extra": (list(noise.extra), float((given & ~true).sum() / given.sum())),
    }
    return {**scores(quality[:, judged], findings.sample_quality, given, true), "rates": rates, "seconds": seconds}


def rival(name: str, data: Path, given: np.ndarray, strength: float) -> dict[str, Any]:
    """Judge by cleanlab around out-of-fold logistic regression."""
    cleanlab = require("cleanlab.multilabel_classification", "bench")
    vectors, true = tagged(name, data).vectors, tagged(name, data).true
    begun = time.process_time()
    probs = np.stack([out_of_fold(vectors, tag, strength) for tag in given.T], axis=1)
    labels = [np.flatnonzero(row).tolist() for row in given]
    of_samples = cleanlab.get_label_quality_scores(labels, probs)
    of_tags = np.where(given, probs, 1 - probs)  # cleanlab's self-confidence of every tag
    return {**scores(of_tags, of_samples, given, true), "seconds": time.process_time() - begun}


def out_of_fold(vectors: np.ndarray, tag: np.ndarray, strength: float) -> np.ndarray:
    """Return the probabilities (N,) of a tag by models that have not seen the sample."""
    probs = np.empty(len(tag))
    for fitted, other in KFold(5, shuffle=True, random_state=0).split(vectors):
        if tag[fitted].any():
            model = LogisticRegression(C=strength, max_iter=200).fit(vectors[fitted], tag[fitted])
            probs[other] = model.predict_proba(vectors[other])[:, 1]
        else:
            probs[other] = 0.0
    return probs


@lru_cache(maxsize=1)
def best_strength(name: str, data: Path) -> float:
    """Return the C with the smallest log loss on the given tags, over the ten most frequent tags."""
    vectors, true = tagged(name, data).vectors, tagged(name, data).true
    given = given_tags(true, columns(name)[0], 0)[:, np.argsort(-true.sum(axis=0), kind="stable")[:10]]
    losses = []
    for strength in GRID:
        losses.append(np.mean([log_loss(tag, out_of_fold(vectors, tag, strength)) for tag in given.T]))
        if losses[-1] > min(losses):
            break
    return GRID[int(np.argmin(losses))]


def page_text(file: Path) -> str:
    """Return the page with its table."""
    stored = [line["results"] for line in results.read(file).values()]

    def of(name: str, column: str, method: str, figure: str) -> list[Any]:
        return [row[figure] for row in stored if (row["set"], row["column"], row["method"]) == (name, column, method)]

    rates = [f"{kind} tags, estimated / true" for kind in KINDS[:2]]
    rows = [["data", "missing", "extra", *(f"AP of {kind}" for kind in KINDS), *rates, "CPU s"]]
    for name, title in TITLES.items():
        for column in columns(name):
            missing, extra = (f"{float(share):.0%}" for share in column.split()[:2])
            both = [
                f"{spread(of(name, column, 'jnpl', kind), 3)} / {spread(of(name, column, 'cleanlab', kind), 3)}"
                for kind in KINDS
            ]
            stored_rates = of(name, column, "jnpl", "rates")
            told = [
                f"{np.mean([row[kind][0][0] for row in stored_rates]):.1%} / "
                f"{np.mean([row[kind][1] for row in stored_rates]):.1%}"
                for kind in KINDS[:2]
            ]
            seconds = " / ".join(f"{np.mean(of(name, column, each, 'seconds')):.1f}" for each in ("jnpl", "cleanlab"))
            added = f"{extra} of the absent" if column.endswith("absent") else extra
            rows.append([title, missing, added, *both, *told, seconds])
    made = markdown_table(rows)
    return BLOCK.sub(lambda match: f"{match[1]}{made}\n{match[2]}", PAGE.read_text("utf-8"))


def main() -> None:
    """Run the cells that are missing, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=("jnpl", "cleanlab"), default=["jnpl", "cleanlab"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=FILE)
    options = parser.parse_args()
    if options.action == "table":
        write_text(PAGE, page_text(options.results))
        return
    for seed in range(options.seeds):
        for name in options.sets:
            for column in columns(name):
                for method in options.methods:
                    key = f"{name}/{column}/{method}/{seed}"
                    if results.contains(options.results, key):
                        continue
                    given = given_tags(tagged(name, options.data).true, column, seed)
                    if method == "jnpl":
                        row = ours(name, options.data, given, seed)
                    else:
                        row = rival(name, options.data, given, best_strength(name, options.data))
                    facts = {"set": name, "column": column, "method": method, "seed": seed, **row}
                    results.add(options.results, {"name": key, "results": facts})
                    print(key, {kind: round(row[kind], 4) for kind in KINDS}, row.get("rates"), flush=True)


if __name__ == "__main__":
    main()
