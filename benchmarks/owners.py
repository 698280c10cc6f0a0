"""What `jnpl find` achieves with default settings on photographs and texts, beside cleanlab on the same embeddings.

    python benchmarks/owners.py run --data DIR [--sets cifar10 ...] [--seeds 3]   # resumable: done cells are kept;
                                                   # --rows jnpl --again: first drop ours, and keep the rival's
    python benchmarks/owners.py time --data DIR    # jnpl find on a folder of photographs, beside jnpl embed alone
    python benchmarks/owners.py finetune --data DIR    # --finetune on flowers at 96 pixels, beside the head alone
    python benchmarks/owners.py ablation --data DIR    # the default recipe with one part changed, a part of the columns
    python benchmarks/owners.py tables --data DIR  # tables, beside gradient boosting (owners_tables.py)
    python benchmarks/owners.py page               # docs/owners.md from the results
    python benchmarks/owners.py tables-page        # docs/results/tables.md from the results

DIR holds cifar-10-batches-bin, cifar-10n.npz, cifar-100-part.parquet, flowers.tar, agnews-weak.csv.gz,
yelp-weak.csv.gz, imdb-checked.csv.gz and trec6.csv.gz; sets whose file is missing are left out. The rival is what users
of cleanlab run: five-fold logistic regression on the same standardised embeddings (mean of the views), its C by
cross-validated accuracy on the given labels (of the first seed), cleanlab's ranking and `find_label_issues`.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
import torch
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

import owners_tables
from jnpl import Findings, embed, metrics, noise
from jnpl.data import split
from jnpl.data.opening import open_source
from jnpl.data.source import EmbeddedInputs, Source
from jnpl.data.sources.arrays import from_arrays
from jnpl.experiments import results, style
from jnpl.experiments.result_tables import markdown_table, spread
from jnpl.internal.files import write_text
from jnpl.internal.importing import require
from jnpl.internal.tables import load_parquet
from jnpl.pipeline import run_recipe
from jnpl.recipes.automatic import adapt_recipe
from jnpl.training.reporting import Reporter
from owners_tables import BINS, LISTS, allowed

RESULTS = Path(__file__).parent / "results"
PAGE, TABLES_PAGE = (Path(__file__).parents[1] / "docs" / name for name in ("owners.md", "results/tables.md"))
DIAGRAM = PAGE.parent / "images" / "reliability.png"
FILE = "owners.jsonl"
# Without the noise rate, and without what follows from it: labels by a rule are not ranked by the posterior alone.
RANKING = {"verdict.calibrate": False, "verdict.threshold": 0.5}
GRID = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of C, in rising order, until the cross-validated accuracy falls
FOLDS = 5
TEST_SHARE = 0.2  # of sets without test data


class Set(NamedTuple):
    """A data set of the benchmark: how it is opened and embedded, and its columns."""

    title: str
    load: Callable[[Path], Source]  # clean labels as `labels`, human or weak ones in `columns`
    columns: tuple[str, ...]
    mapping: str = "pairflip"  # of asymmetric noise
    size: int | None = None  # pixels at which images are embedded; None: as the default is


def cifar10(data: Path) -> Source:
    return open_source("cifar10", root=data)


def cifar100(data: Path) -> Source:
    table = load_parquet(data / "cifar-100-part.parquet", columns=["image", "fine_label", "split"]).to_pandas()
    train = (table["split"] == "train").to_numpy()
    images = np.stack([np.asarray(Image.open(io.BytesIO(each["bytes"])).convert("RGB")) for each in table["image"]])
    labels = table["fine_label"].to_numpy()
    parts = {"x_test": images[~train], "y_test": labels[~train]}
    return from_arrays(images[train], labels[train], **parts, class_names=list(range(100)), name="cifar100")


def flowers(data: Path) -> Source:
    with TemporaryDirectory() as place, tarfile.open(data / "flowers.tar") as archive:
        archive.extractall(place, filter="data")
        source = open_source(Path(place) / "flowers")
        images = [source.inputs.read(at, 128) for at in range(len(source))]
    return from_arrays(np.stack(images), np.array(source.class_names)[source.labels].tolist(), name="flowers")


def agnews(data: Path) -> Source:
    table = pd.read_csv(data / "agnews-weak.csv.gz")
    return from_arrays(table["text"].tolist(), table["truth"].tolist(), name="agnews")


def yelp(data: Path) -> Source:
    table = pd.read_csv(data / "yelp-weak.csv.gz")
    return from_arrays(table["text"].tolist(), table["truth"].tolist(), name="yelp")


def imdb(data: Path) -> Source:
    table = pd.read_csv(data / "imdb-checked.csv.gz")
    return from_arrays(table["text"].tolist(), table["label"].tolist(), name="imdb")


def trec6(data: Path) -> Source:
    table = pd.read_csv(data / "trec6.csv.gz")
    train = (table["split"] == "train").to_numpy()
    whole = from_arrays(table["text"].tolist(), table["label"].tolist(), name="trec6")
    return split.hold_out(whole, np.flatnonzero(~train))


HUMAN = {"aggre": "aggre_label", "worse": "worse_label", "random1": "random_label1"}
SETS = {
    "cifar10": Set(
        "CIFAR-10, 50,000 photographs",
        cifar10,
        ("symm20", "symm40", "symm60", "symm80", "asymm20", "asymm40", *HUMAN),
        "cifar10",
    ),
    "cifar100": Set(
        "CIFAR-100, 20,000 photographs at 128 pixels", cifar100, ("symm40", "asymm40", "human"), "cifar100", 128
    ),
    "flowers": Set("flowers, 2,000 photographs at 128 pixels", flowers, ("symm5", "symm20", "asymm20"), size=128),
    "flowers-160": Set("flowers at 160 pixels, the default for them", flowers, ("symm5", "symm20", "asymm20")),
    "agnews-tfidf": Set("AG News, TF-IDF", agnews, ("weak",)),
    "agnews-minilm": Set("AG News, MiniLM", agnews, ("weak",)),
    "yelp-tfidf": Set("Yelp, TF-IDF", yelp, ("weak",)),
    "yelp-minilm": Set("Yelp, MiniLM", yelp, ("weak",)),
    "imdb-tfidf": Set("IMDB, TF-IDF", imdb, ("symm20", "checked")),
    "imdb-minilm": Set("IMDB, MiniLM", imdb, ("symm20", "checked")),
    "trec6-tfidf": Set("TREC-6, TF-IDF", trec6, ("symm20",)),
    "trec6-minilm": Set("TREC-6, MiniLM", trec6, ("symm20",)),
}
FILES = {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-part.parquet"}
FILES |= dict.fromkeys(("flowers", "flowers-160"), "flowers.tar")
FILES |= {
    f"{name}-{kind}": file
    for name, file in (
        *(("agnews", "agnews-weak.csv.gz"), ("trec6", "trec6.csv.gz")),
        *(("yelp", "yelp-weak.csv.gz"), ("imdb", "imdb-checked.csv.gz")),
    )
    for kind in ("tfidf", "minilm")
}


@lru_cache(maxsize=1)
def embedded(name: str, data: Path) -> Source:
    """Return a set with clean labels, embedded once (the cache of jnpl keeps it)."""
    kind, size = name.rpartition("-")[2], SETS[name].size
    backbone = kind if kind in ("tfidf", "minilm") else "auto"
    return embed(SETS[name].load(data), backbone=backbone, size=size, note=print, progress=show_progress).source


def show_progress(done: int, total: int) -> None:
    """Print how many samples are embedded."""
    if done % 5120 < 512:
        print(f"embedded {done:,} of {total:,}", flush=True)


def cell(name: str, column: str, seed: int, data: Path) -> Source:
    """Return the set with the labels of a column, its true labels, and clean test data."""
    clean = embedded(name, data)
    given = labels_of(name, column, seed, data, clean)
    noisy = replace(clean, labels=given, true_labels=clean.labels)
    if column == "checked":
        noisy = checked_by_people(noisy, pd.read_csv(data / FILES[name]))
    if noisy.test is None:
        noisy = split.hold_out(noisy, split.to_hold_out(noisy, TEST_SHARE, seed))
    return noisy


def checked_by_people(source: Source, table: pd.DataFrame) -> Source:
    """Return a source of two classes whose true label is the other one where three of five people said so.

    Only the samples that were shown to people are judged (`owners_tables.rows_to_judge`).
    """
    other = (table["votes_other"] >= 3).to_numpy()
    cells = pd.DataFrame({"judged": table["votes_given"].notna().to_numpy()})
    return replace(source, true_labels=np.where(other, 1 - source.labels, source.labels), cells=cells)


def labels_of(name: str, column: str, seed: int, data: Path, clean: Source) -> Any:
    """Return the given labels (N,) of a column."""
    kind, rate = column.rstrip("0123456789"), column.lstrip("abcdefghijklmnopqrstuvwxyz")
    true, classes = clean.labels, len(clean.class_names)
    if kind == "symm":
        return noise.symmetric(true, int(rate) / 100, classes, seed=seed)
    if kind == "asymm":
        return noise.asymmetric(true, int(rate) / 100, SETS[name].mapping, seed=seed, num_classes=classes)
    if name == "cifar10":
        return np.load(data / "cifar-10n.npz")[HUMAN[column]].astype(np.int64)
    if name == "cifar100":
        return np.load(data / "cifar-100n.npz")["noisy_label"][: len(true)].astype(np.int64)
    if column == "checked":
        return clean.labels
    weak = pd.read_csv(data / FILES[name])["label"].tolist()
    number = {str(each): at for at, each in enumerate(clean.class_names)}
    return np.array([number[str(each)] for each in weak])


def ours(source: Source, seed: int, changes: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Run `jnpl train` on the embeddings, with default settings or some changes of them: ranking, accuracy and seconds,
    and the verdict beside the true labels, if all are known."""
    report = Reporter()
    report.quiet(True)
    began, cpu = time.perf_counter(), time.process_time()
    recipe = adapt_recipe(source, None, None, changes or {}).recipe
    with mock.patch.object(Findings, "from_probs", wraps=Findings.from_probs) as made:
        result = run_recipe(source, recipe, seed=seed, report=report, classify=True)
    if result is None:
        raise RuntimeError("no result in this process")
    seconds = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    findings = result.findings
    rate = 0.0 if findings.noise is None else findings.noise.rate
    ranking = owners_tables.judged(findings.label_quality, findings.is_label_issue, rate, source)
    row = {"jnpl": {**ranking, "accuracy": result.results["test_accuracy"], **seconds}}
    if findings.noise is None or not owners_tables.rows_to_judge(source).all():
        return row
    probs, unseen = made.call_args.args[0], made.call_args.kwargs["unseen_probs"]
    wrong, p_y = source.labels != source.true_labels, probs[np.arange(len(probs)), source.labels]
    repeated = float((unseen.argmax(1) == source.labels)[wrong].mean()) if wrong.any() else 0.0
    plain = owners_tables.judged(p_y, p_y < 0.5, 0.0, source)["f1"]
    return row | {"verdict": {**owners_tables.checked(findings, source), "f1_plain": plain, "repeated": repeated}}


def rival(source: Source, seed: int, c: float | None) -> dict[str, Any]:
    """Five-fold logistic regression and cleanlab on the same embeddings; `c` None: chosen by cross-validation."""
    x, test = _vectors(source, source), _vectors(source.test or source, source)
    began, cpu = time.perf_counter(), time.process_time()
    best: tuple[float, float, Any] = (-1.0, 0.0, None)
    for strength in GRID if c is None else (c,):
        probs = np.zeros((len(x), len(source.class_names)))
        for train, held in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, source.labels):
            model = LogisticRegression(C=strength, max_iter=200).fit(x[train], source.labels[train])
            probs[np.ix_(held, model.classes_)] = model.predict_proba(x[held])
        accuracy = float((probs.argmax(1) == source.labels).mean())
        if accuracy < best[0]:
            break
        best = (accuracy, strength, probs)
    _, c, probs = best
    seconds = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu}
    cleanlab = {name: require(f"cleanlab.{name}", "bench") for name in ("rank", "filter", "count")}
    flagged = cleanlab["filter"].find_label_issues(source.labels, probs)
    joint = cleanlab["count"].estimate_joint(source.labels, probs)
    all_labels = LogisticRegression(C=c, max_iter=200).fit(x, source.labels)
    kept = LogisticRegression(C=c, max_iter=200).fit(x[~flagged], source.labels[~flagged])
    truth = (source.test or source).labels
    quality = cleanlab["rank"].get_label_quality_scores(source.labels, probs)
    margin = cleanlab["rank"].get_label_quality_scores(source.labels, probs, method="normalized_margin")
    rows = owners_tables.rows_to_judge(source)
    wrong = source.labels != source.true_labels
    return {
        "c": c,
        **owners_tables.judged(quality, flagged, float(1 - np.trace(joint)), source),
        "ap_margin": metrics.average_precision(margin[rows], wrong[rows]),
        "accuracy_all": float((all_labels.predict(test) == truth).mean()),
        "accuracy_kept": float((kept.predict(test) == truth).mean()),
        **seconds,
    }


def _vectors(source: Source, reference: Source) -> Any:
    """Return mean embeddings (N, F) of the views, standardised by those of `reference`."""
    values, other = (_means(each) for each in (source, reference))
    deviation = other.std(0)
    return (values - other.mean(0)) / np.where(deviation > 1e-6, deviation, 1)


def _means(source: Source) -> Any:
    if not isinstance(source.inputs, EmbeddedInputs):
        raise TypeError(f"{source.name} is not embedded")
    return source.inputs.values.mean(axis=1, dtype=np.float32)


def run(args: argparse.Namespace) -> None:
    """Run the cells that are not done; with `--again` all those of the chosen rows, sets and seeds."""
    if args.again:
        _forget(args)
    for name in args.sets or SETS:
        if not (args.data / FILES[name]).exists():
            print(f"{name}: left out, {FILES[name]} is not in {args.data}")
            continue
        for seed in range(args.seeds):
            for column in SETS[name].columns:
                _run_cell(args, name, column, seed)


def _forget(args: argparse.Namespace) -> None:
    """Drop the stored results of the chosen rows, sets and seeds."""
    done = results.read(args.out / FILE)
    for name in args.sets or SETS:
        for key in (f"{name}/{column}/{seed}" for column in SETS[name].columns for seed in range(args.seeds)):
            if key in done and not done[key]["results"].keys().isdisjoint(args.rows):
                dropped = {*args.rows, *(["verdict"] if "jnpl" in args.rows else [])}
                kept = {who: value for who, value in done[key]["results"].items() if who not in dropped}
                results.add(args.out / FILE, {"name": key, "results": kept})


def _run_cell(args: argparse.Namespace, name: str, column: str, seed: int) -> None:
    path, done = args.out / FILE, results.read(args.out / FILE)
    key = f"{name}/{column}/{seed}"
    line = done.get(key, {"name": key, "results": {}})
    missing = [who for who in args.rows if who not in line["results"]]
    if not missing:
        return
    source = cell(name, column, seed, args.data)
    for who in missing:
        if who == "jnpl":
            line["results"] |= ours(source, seed)
        else:
            first = done.get(f"{name}/{column}/0", {}).get("results", {}).get("cleanlab", {})
            line["results"][who] = rival(source, seed, first.get("c"))
        wrong = source.labels != source.true_labels
        line["results"]["noise_rate"] = float(wrong[owners_tables.rows_to_judge(source)].mean())
        line["results"]["samples"] = len(source)
        results.add(path, line)
        shown = {k: round(v, 4) for k, v in line["results"][who].items()}
        print(key, who, json.dumps(shown), flush=True)


def timing(args: argparse.Namespace) -> None:
    """Time `jnpl find` on a folder of flowers with wrong labels, from decoding to report, and `jnpl embed` alone."""
    found: dict[str, list[float]] = {"embed": [], "find": []}
    with TemporaryDirectory() as place, tarfile.open(args.data / "flowers.tar") as archive:
        archive.extractall(place, filter="data")
        for number in range(args.seeds):
            for what, rest in (("embed", []), ("find", ["-o", f"run{number}"])):
                command = [sys.executable, "-m", "jnpl", what, "flowers", *rest, "--cache", f"cache-{what}-{number}"]
                began = time.perf_counter()
                subprocess.run([*command, "--json"], cwd=place, check=True, capture_output=True)
                found[what].append(time.perf_counter() - began)
    results.add(args.out / FILE, {"name": "time", "results": found})
    print(json.dumps(found))


ABLATION: dict[str, dict[str, Any]] = {
    "the default": {},
    "one stage (no `refine`)": {"method.refine": False},
    "no class weights": {"method.class_weight": "none"},
    "no cross-entropy at the start": {"method.ce_start": False},
    "NL instead of NL+ (gamma 0)": {"method.gamma": 0.0},
    "half-way to NL (gamma 0.5)": {"method.gamma": 0.5},
    "PL+ from 30 % of the epochs": {
        # refined-nl has no PL+: the same as jnpl, whose name drops the stages, the score and `pseudo` of the recipe
        "method.name": "jnpl",
        "method.complements": "exhaustive",
        "method.class_weight": "mean",
        "method.ce_start": True,
        "method.refine": True,
        "method.pl_weight": 0.09,
        "method.pl_start": 0.3,
        "stages.refine.epochs": 10,
        "stages.refine.lr": 0.02,
        "verdict.score": "blend",
        "pseudo.mode": "none",
    },
    "every feature standardised": {"data.vectors": "standard"},
    "weight decay 0.03 everywhere": {"train.weight_decay": 0.03, "stages.refine.weight_decay": 0.03},
    "twice the epochs": {"train.epochs": 40, "stages.refine.epochs": 20},
    "MLP of 256, 256": {"model": "mlp", "train.weight_decay": 1e-3, "stages.refine.weight_decay": 1e-3},
    "ranked by p alone": {"verdict.score": "network"},
    "ranked by the posterior alone": {"verdict.score": "posterior"},
}
ABLATED = ("cifar10/symm80", "cifar10/asymm40", "cifar10/worse", "cifar10/aggre", "cifar100/human", "flowers/symm20")
ABLATED_SAMPLES = 10_000
ABLATION_TEXT = """\
AP / accuracy of the default recipe with one part changed: the first 10,000 samples (of flowers all), one seed. The
constants of the recipe were chosen on seed 0 of columns like these."""


def ablation(args: argparse.Namespace) -> None:
    """Run the default recipe with one part changed, on the first 10,000 samples of some columns, one seed."""
    done = results.read(args.out / FILE)
    for column in ABLATED:
        for variant, changes in ABLATION.items():
            key = f"ablation/{column}/{variant}"
            if key in done:
                continue
            name, _, labels = column.partition("/")
            whole = cell(name, labels, 0, args.data)
            first = np.arange(min(len(whole), ABLATED_SAMPLES))
            source = replace(split.part(whole, first), test=whole.test)
            found = ours(source, 0, {**RANKING, **changes})["jnpl"]
            results.add(args.out / FILE, {"name": key, "results": found})
            print(key, round(found["ap"], 4), round(found["accuracy"], 4), flush=True)


def finetune(args: argparse.Namespace) -> None:
    """Fine-tune the backbone on 1,600 flowers at 96 pixels, a fifth of the labels wrong; 400 clean ones test it."""
    found: dict[str, Any] = {}
    with TemporaryDirectory() as place, tarfile.open(args.data / "flowers.tar") as archive:
        archive.extractall(place, filter="data")
        source = open_source(Path(place) / "flowers")
        held = split.to_hold_out(source, TEST_SHARE, 0)
        kept = np.setdiff1d(np.arange(len(source)), held)
        given = source.labels.copy()
        given[kept] = noise.symmetric(source.labels[kept], 0.2, len(source.class_names), seed=0)
        for folder, rows in (("photos", kept), ("test", held)):
            for at in rows.tolist():
                target = Path(place, folder, str(source.class_names[given[at]]), str(source.ids[at]).replace("/", "-"))
                target.parent.mkdir(parents=True, exist_ok=True)
                (Path(place) / "flowers" / str(source.ids[at])).rename(target)
        for what, more in (("head", []), ("finetune", ["--finetune"])):
            command = [sys.executable, "-m", "jnpl", "find", "photos", "-o", what, "--size", "96", "--cache", "cache"]
            began = time.perf_counter()
            done = subprocess.run(
                [*command, "--test", "test", "--json", *more], cwd=place, check=True, stdout=subprocess.PIPE, text=True
            )
            findings = Findings.load(Path(place) / what)
            wrong = np.array([name.split("/")[0] != name.split("/")[1].split("-")[0] for name in findings.ids])
            found[what] = {
                "ap": metrics.average_precision(findings.label_quality, wrong),
                "accuracy": json.loads(done.stdout)["test_accuracy"],
                "seconds": time.perf_counter() - began,
            }
    results.add(args.out / FILE, {"name": "finetune", "results": found})
    print(json.dumps(found))


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["run", "time", "finetune", "ablation", "tables", "page", "tables-page"]
    parser.add_argument("part", choices=parts)
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", choices=[*SETS, *owners_tables.TABLES])
    parser.add_argument("--rows", nargs="+", choices=["jnpl", "cleanlab"], default=["jnpl", "cleanlab"])
    parser.add_argument("--again", action="store_true", help="run: measure the chosen rows again; without it, go on")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.part in ("page", "tables-page"):
        whole = args.part == "page"
        write_text(PAGE if whole else TABLES_PAGE, (page if whole else owners_tables.page)(args.out))
        if whole:
            draw_reliability(args.out)
        return 0
    if args.data is None:
        parser.error("--data DIR is needed")
    args.data = args.data.resolve()
    if args.part in ("time", "finetune"):
        {"time": timing, "finetune": finetune}[args.part](args)
        return 0
    torch.set_num_threads(1)
    commands = {"ablation": ablation, "tables": owners_tables.run, "run": run}
    commands[args.part](args)
    return 0


INTRODUCTION = """\
Photographs and texts with wrong labels, whose true labels are known: how well does `jnpl find` with default settings
rank the wrong ones, and how accurate is the classifier of `jnpl train`? Beside it, what a user of cleanlab runs on
**the same embeddings**: five-fold logistic regression, with C chosen by cross-validated accuracy on the given labels of
the first seed (its seconds are a mean over seeds with and without that search).
AP is the average precision of the ranking, wrong labels positive; for cleanlab the better of its rankings by
self-confidence and by normalised margin. Accuracy is that on clean test data; for logistic regression trained on all
given labels, and on those that cleanlab keeps. Mean ± standard deviation over {seeds} (of noise, folds and
heads), CPU seconds of one thread.
The column "checked" of IMDB ranks the published labels of all reviews and judges that ranking among the 1,310 that were
shown to five people, because a network had doubted them: a label is wrong where three of the five say so.
`python benchmarks/owners.py page` writes this page from
`benchmarks/results/owners.jsonl`."""


def page(folder: Path) -> str:
    """docs/owners.md."""
    found = {name: line["results"] for name, line in results.read(folder / FILE).items()}
    times, tuned = (found.pop(name, None) for name in ("time", "finetune"))
    parts_of = {name: found.pop(name) for name in list(found) if name.startswith("ablation/")}
    cells = {name: each for name, each in found.items() if "jnpl" in each and "cleanlab" in each}
    seeds = {name: len({key.rpartition("/")[2] for key in cells if key.startswith(f"{name}/")}) for name in SETS}
    most = max(seeds.values(), default=0)
    fewer = [f"{name} {count}" for name, count in seeds.items() if 0 < count < most]
    counted = f"{most} seeds" + (f" ({', '.join(fewer)})" if fewer else "")
    parts = ["# What to expect of `jnpl find`", INTRODUCTION.format(seeds=counted), *_verdicts(cells)]
    for name, each in SETS.items():
        rows = [_row(column, cells, name) for column in each.columns if f"{name}/{column}/0" in cells]
        if rows:
            head = [
                "labels",
                "wrong",
                "AP jnpl",
                "AP cleanlab",
                "accuracy jnpl",
                "all labels",
                "cleanlab's",
                "s jnpl",
                "s cleanlab",
            ]
            parts += [f"## {each.title}", markdown_table([head, *rows])]
    parts += ["    python benchmarks/owners.py run --data DIR", *_judgements(cells)]
    if parts_of:
        rows = [[variant, *(_ablated(parts_of, column, variant) for column in ABLATED)] for variant in ABLATION]
        parts += [
            "## What each part is worth",
            ABLATION_TEXT,
            markdown_table([["recipe", *ABLATED], *rows]),
            "    python benchmarks/owners.py ablation --data DIR",
        ]
    if tuned is not None:
        parts += [
            "## Fine-tuning",
            "1,600 flowers in a folder, at 96 pixels, 20 % symmetric noise, tested on 400 clean ones (one run).",
            markdown_table(
                [
                    ["command", "AP", "accuracy", "seconds"],
                    *(
                        [title, *(text.format(tuned[what][name]) for name, text in FIGURES.items())]
                        for what, title in (
                            ("head", "`jnpl find photos`"),
                            ("finetune", "`jnpl find photos --finetune`"),
                        )
                    ),
                ]
            ),
            "    python benchmarks/owners.py finetune --data DIR",
        ]
    if times is not None:
        whole, alone = (np.array(times[what]) for what in ("find", "embed"))
        text = (
            "`jnpl find` on the 2,000 flowers as a folder, from decoding to the report, takes "
            f"{np.median(whole):.0f} s, {np.median(whole / alone):.2f} times `jnpl embed` alone "
            f"({np.median(alone):.0f} s; medians of {len(whole)} runs on two cores)."
        )
        parts += ["## Time", text, "    python benchmarks/owners.py time --data DIR"]
    return "\n\n".join(parts) + "\n"


VERDICT_TEXT = """\
Beside the ranking, `jnpl find` estimates the share of wrong labels with a 90 % interval, a calibrated quality of every
label, and which labels are issues; `jnpl apply` corrects those where that is expected to help. Here against the true
labels, with default settings. "off": estimate minus true share, in points. "in": seeds whose interval holds the true
share. ECE: expected calibration error of label quality, ten bins. F1 of the label issues, beside that of a plain
threshold (the labels to which the network gives a probability below 0.5) and of cleanlab's `find_label_issues`;
"cleanlab's" estimate is that of its joint. "before -> after": wrong labels before and after `jnpl apply` without
options. "repeated": share of the wrong labels that the out-of-fold heads predict as well, without having seen them.
The constants of the noise model (the expected temperature of the heads, the exponent of instance-dependent noise) were
chosen on seed 0 of these columns, CIFAR-10N among them: other labels by people may be farther off."""

GOALS = """\
Goals: the noise rate within 0.03 (within 0.06 at 80 % noise and where the overlap is 20 % or more), the true share in
the interval in 9 of 10, ECE at most 0.05, F1 above cleanlab's and not below the plain threshold's, never more wrong
labels after `jnpl apply` than before."""

UNSEEN_TEXT = """\
**Labels by rules.** In AG News and Yelp the labels come from keyword rules. Heads that never saw a wrong label repeat
it in {repeated:.0%} of cases ({least:.0%} to {most:.0%} in other columns): the features predict the rule, and its
mistakes. Such a label looks like a right one to every method that has only features and given labels, and an
estimate would be far too low, as cleanlab's is. So none is given ("withheld"): label quality is then the probability
that heads which have not seen a label give it. Only labels that somebody checks tell how many are wrong: `jnpl audit`
draws them at random."""

CHECKS: dict[str, Callable[[dict[str, Any], float], bool]] = {
    "noise rate": lambda each, _: abs(each["noise_rate"] - each["wrong"]) <= allowed(each),
    "true share in the interval": lambda each, _: each["low"] <= each["wrong"] <= each["high"],
    "ECE": lambda each, _: each["ece"] <= 0.05,
    "F1 above cleanlab's": lambda each, f1: each["f1"] > f1,
    "F1 not below a plain threshold's": lambda each, _: each["f1"] >= each["f1_plain"],
    "apply: after <= before": lambda each, _: each["after"] <= each["wrong"],
}
OF_RATE = ("noise rate", "true share in the interval")  # which some cells withhold
RELIABILITY_TEXT = """\
Reliability of label quality: of the labels with a stated quality, the share that is right. On the diagonal both are
equal; the size of a dot is the number of labels. `python benchmarks/owners.py page` draws the picture."""
REPEATED = ("agnews-tfidf/weak", "agnews-minilm/weak", "yelp-tfidf/weak", "yelp-minilm/weak")


def _judgements(cells: dict[str, Any]) -> list[str]:
    """Return the section on noise rate, calibration, label issues and corrections."""
    found = {name: each["verdict"] for name, each in cells.items() if "verdict" in each}
    if not found:
        return []
    prefixes = [f"{name}/{column}" for name, each in SETS.items() for column in each.columns]
    head = [
        "labels",
        "seeds",
        "wrong",
        "estimate",
        "off",
        "in",
        "cleanlab's",
        "overlap",
        "ECE",
        "F1",
        "plain F1",
        "cleanlab's F1",
    ]
    rows, missed = [[*head, "before -> after", "repeated"]], []
    met, asked = dict.fromkeys(CHECKS, 0), dict.fromkeys(CHECKS, 0)
    for prefix in prefixes:
        own = {name: each for name, each in found.items() if name.rpartition("/")[0] == prefix}
        if not own:
            continue
        ours = list(own.values())
        mean = {name: float(np.mean([each[name] for each in ours])) for name in ours[0] if name not in LISTS}
        theirs = {name: cells[name]["cleanlab"] for name in own}  # the same seeds
        rate, f1 = (float(np.mean([each[name] for each in theirs.values()])) for name in ("noise_rate", "f1"))
        given = [each for each in ours if each["high"] < 1]  # not withheld
        inside = sum(each["low"] <= each["wrong"] <= each["high"] for each in given)
        stated = float(np.mean([each["noise_rate"] for each in given])) if given else None
        off = "" if stated is None else f"{100 * (stated - np.mean([each['wrong'] for each in given])):+.1f}"
        rows.append(
            [
                *(prefix, str(len(ours)), f"{mean['wrong']:.1%}", "withheld" if stated is None else f"{stated:.1%}"),
                *(off, f"{inside}/{len(given)}" if given else "", f"{rate:.1%}"),
                *(
                    f"{mean['overlap']:.0%}",
                    f"{mean['ece']:.3f}",
                    f"{mean['f1']:.3f}",
                    f"{mean['f1_plain']:.3f}",
                    f"{f1:.3f}",
                ),
                *(f"{mean['wrong']:.1%} -> {mean['after']:.1%}", f"{mean['repeated']:.0%}"),
            ]
        )
        for check, holds in CHECKS.items():
            of = {name: each for name, each in own.items() if check not in OF_RATE or each["high"] < 1}
            bad = [name for name, each in of.items() if not holds(each, theirs[name]["f1"])]
            met[check], asked[check] = met[check] + len(of) - len(bad), asked[check] + len(of)
            missed += [f"{prefix}: {check}, in {len(bad)} of {len(of)}"] if bad else []
    counts = "; ".join(f"{check} in {number} of {asked[check]}" for check, number in met.items())
    open_ended = [each for each in found.values() if each["high"] >= 1]
    bounds = sum(each["low"] <= each["wrong"] for each in open_ended)
    counts += f"; withheld in {len(open_ended)}, where the lower end is below the truth in {bounds}"
    apart = [each for each in found.values() if each["overlap"] < 0.2]
    number = sum(each["after"] <= each["wrong"] / 3 for each in apart)
    third = f"apply: at most a third of the wrong labels left in {number} of {len(apart)} with an overlap below 20 %"
    rules, others = (
        [each["repeated"] for name, each in found.items() if (name.rpartition("/")[0] in REPEATED) == by_rules]
        for by_rules in (True, False)
    )
    unseen = (
        UNSEEN_TEXT.format(repeated=np.mean(rules), least=min(others), most=max(others)) if rules and others else ""
    )
    return [
        "## Noise rate, calibration, corrections",
        VERDICT_TEXT,
        markdown_table(rows),
        f"{len(rows) - 1} of {len(prefixes)} columns are measured, {len(found)} cells (column and seed). {GOALS}",
        f"Met: {counts}; {third}. Missed:",
        "\n".join(f"- {line}" for line in missed) or "- none",
        *([unseen] if unseen else []),
        RELIABILITY_TEXT,
        f"![Reliability diagram: stated quality and share of right labels, by kind of noise](images/{DIAGRAM.name})",
    ]


KINDS = {"noise put in": "", "labels by people": ("aggre", "worse", "random1", "human"), "labels by rules": ("weak",)}


def draw_reliability(folder: Path) -> None:
    """Draw docs/images/reliability.png: stated quality and share of right labels, by kind of noise."""
    lines = {name: line["results"] for name, line in results.read(folder / FILE).items()}
    found = {name: each["verdict"] for name, each in lines.items() if "verdict" in each}
    people_and_rules = [column for columns in KINDS.values() for column in columns]
    figure = style.new(9, 3.2)
    for panel, (title, columns) in zip(style.panels(figure, 1, len(KINDS)), KINDS.items(), strict=True):
        count, stated, true = np.zeros(BINS), np.zeros(BINS), np.zeros(BINS)
        for name, each in found.items():
            column = name.split("/")[1]
            if column in columns if columns else column not in people_and_rules:
                sizes = np.array(each["count"])
                count, stated, true = count + sizes, stated + sizes * each["stated"], true + sizes * each["true"]
        used = count > 0
        x, y = stated[used] / count[used], true[used] / count[used]
        panel.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--")
        panel.plot(x, y, color=style.LINES[0], linewidth=1.5)
        panel.scatter(x, y, s=10 + 250 * count[used] / count.sum(), color=style.LINES[0], alpha=0.7)
        panel.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        style.tidy(panel, "stated label quality", "share of right labels", f"{title} ({count.sum():,.0f} labels)")
    style.save(figure, DIAGRAM)


def _ablated(found: dict[str, Any], column: str, variant: str) -> str:
    row = found.get(f"ablation/{column}/{variant}")
    return "" if row is None else f"{row['ap']:.3f} / {row['accuracy']:.3f}"


FIGURES = {"ap": "{:.3f}", "accuracy": "{:.3f}", "seconds": "{:.0f}"}


def _values(cells: dict[str, Any], prefix: str, who: str, figure: Callable[[dict[str, Any]], float]) -> list[float]:
    return [figure(each[who]) for name, each in cells.items() if name.rpartition("/")[0] == prefix]


def _rival_ap(row: dict[str, Any]) -> float:
    return float(max(row["ap"], row["ap_margin"]))


def _row(column: str, cells: dict[str, Any], name: str) -> list[str]:
    prefix = f"{name}/{column}"
    figures = [
        spread(_values(cells, prefix, "jnpl", lambda row: row["ap"])),
        spread(_values(cells, prefix, "cleanlab", _rival_ap)),
        spread(_values(cells, prefix, "jnpl", lambda row: row["accuracy"])),
        spread(_values(cells, prefix, "cleanlab", lambda row: row["accuracy_all"])),
        spread(_values(cells, prefix, "cleanlab", lambda row: row["accuracy_kept"])),
    ]
    times = [np.mean(_values(cells, prefix, who, lambda row: row["cpu_seconds"])) for who in ("jnpl", "cleanlab")]
    return [column, f"{cells[f'{prefix}/0']['noise_rate']:.1%}", *figures, *(f"{each:.0f}" for each in times)]


def _verdicts(cells: dict[str, Any]) -> list[str]:
    """Return the lines that say in how many columns `jnpl find` is ahead, and where it is not."""
    columns = list(dict.fromkeys(name.rpartition("/")[0] for name in cells))
    leads, gains = {}, {}
    for prefix in columns:
        theirs = np.mean(_values(cells, prefix, "cleanlab", _rival_ap))
        leads[prefix] = (np.mean(_values(cells, prefix, "jnpl", lambda row: row["ap"])) - theirs, theirs)
        best = np.mean(_values(cells, prefix, "cleanlab", lambda row: max(row["accuracy_all"], row["accuracy_kept"])))
        gains[prefix] = np.mean(_values(cells, prefix, "jnpl", lambda row: row["accuracy"])) - best
    if not columns:
        return []
    hard = {prefix: lead for prefix, (lead, theirs) in leads.items() if theirs < 0.95}
    ahead = sum(lead > 0 for lead, _ in leads.values())
    behind = [f"{name} ({value:+.3f})" for name, (value, _) in leads.items() if value <= 0]
    small = [f"{name} ({value:+.3f})" for name, value in hard.items() if value < 0.02]
    lost = [f"{name} ({value:+.3f})" for name, value in gains.items() if value <= 0]
    lines = [
        f"- AP: ahead in {ahead} of {len(columns)} columns, by {min(v for v, _ in leads.values()):+.3f} to "
        f"{max(v for v, _ in leads.values()):+.3f}." + (f" Behind: {', '.join(behind)}." if behind else ""),
        f"- Where the rival's AP is below 0.95 ({len(hard)} columns), the lead is 0.02 or more in "
        f"{len(hard) - len(small)}." + (f" Less: {', '.join(small)}." if small else ""),
        f"- Accuracy: above both logistic regressions in {len(columns) - len(lost)} of {len(columns)} columns."
        + (f" Not in: {', '.join(lost)}." if lost else ""),
    ]
    return ["\n".join(lines)]


if __name__ == "__main__":
    sys.exit(main())
