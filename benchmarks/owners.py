"""What `jnpl find` achieves with default settings: on an image folder, on labels by people, on tables.

    python benchmarks/owners.py folder --data DIR    # 10,000 files, 40 % wrong labels: find, train, cross-entropy
    python benchmarks/owners.py human --data DIR     # CIFAR-10N, compared with cleanlab and the same network
    python benchmarks/owners.py tables               # wine, breast cancer, digits, compared with cross-validation
    python benchmarks/owners.py page                 # docs/owners.md from the results

DIR holds CIFAR-10's binary version and CIFAR-10N's labels. `--images`, `--epochs` and `--out` are for a quick test.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from sklearn import datasets

from jnpl import Findings, find_label_issues, metrics, noise
from jnpl.data import split
from jnpl.data.downsample import downsample
from jnpl.data.opening import open_source
from jnpl.data.sources.arrays import from_arrays
from jnpl.experiments import results
from jnpl.experiments.cell_data import values_of
from jnpl.experiments.cross_validation import held_out_probabilities
from jnpl.experiments.result_tables import markdown_table, spread
from jnpl.internal.errors import InputError
from jnpl.internal.files import write_text
from jnpl.internal.importing import require
from jnpl.recipes.load import load_recipe
from jnpl.recipes.schema import parse_recipe

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "owners.md"
SEED, RATE, TESTED, FEW = 0, 0.4, 2_000, 2  # FEW: epochs in which four forms of one set must find the same
FILE = "owners.jsonl"
TABLES = ("wine", "breast_cancer", "digits")
TABLE_SEEDS = range(5)


def folder(args: argparse.Namespace) -> dict[str, Any]:
    """Run `jnpl find` on files, `jnpl train` in its folder, cross-entropy, and the same data in other formats."""
    whole = open_source("cifar10", root=args.data)
    images, true = values_of(whole)[: args.images], whole.labels[: args.images]
    given, names = noise.symmetric(true, RATE, 10, seed=SEED), np.array(whole.class_names)
    with TemporaryDirectory() as place:
        here = Path(place)
        truth = _write(here / "photos", images, names[given], names[true])
        test = split.part(whole.test or whole, np.arange(TESTED))
        _write(here / "test", values_of(test), names[test.labels])
        plan = ["--test", here / "test", "--seed", SEED, *args.changes]
        found = {
            "images": len(images),
            "rate": RATE,
            "test_images": TESTED,
            "epochs": args.epochs,
            "torch": torch.__version__,
            "find": _scored(here, "run", truth, "find", "photos", *plan),
            "train": _scored(here, "run", truth, "train", "photos", *plan),  # goes on from what was found
            "ce": _scored(here, "ce", truth, "find", "photos", "--method", "ce", *plan),
        }
        found["same"] = _same_in_all_forms(here, truth)
    return found


def _write(root: Path, images: Any, labels: Any, true: Any = None) -> pd.DataFrame:
    """Write an image folder; returns path, label and true label in the order of the folder."""
    rows = []
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        path = root / label / f"{number:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
        rows.append((path.relative_to(root).as_posix(), label, None if true is None else true[number]))
    return pd.DataFrame(rows, columns=["path", "label", "true"]).sort_values("path", ignore_index=True)


def _jnpl(*args: object, cwd: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "jnpl", *map(str, args), "--accelerator", "cpu", "--json"]
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, check=True, text=True)
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def _scored(here: Path, run: str, truth: pd.DataFrame, *args: object) -> dict[str, Any]:
    """Run a command; returns its results, and the AP of its findings by the true labels, which it never sees."""
    began = time.perf_counter()
    found = _jnpl(*args, "-o", run, cwd=here)
    findings = Findings.load(here / run)
    at = dict(zip(findings.ids.tolist(), findings.label_quality.tolist(), strict=True))
    quality, wrong = truth["path"].map(at).to_numpy(float), (truth["label"] != truth["true"]).to_numpy()
    kept = ("epochs", "issues", "noise_rate", "noise_interval", "test_accuracy", "best_test_accuracy")
    return {
        **_ranked(quality, wrong),
        "seconds": time.perf_counter() - began,
        **{name: found[name] for name in kept if name in found},
    }


def _same_in_all_forms(here: Path, truth: pd.DataFrame) -> dict[str, float]:
    """Largest difference in label quality between folder, CSV, .npz and library, after a few epochs each."""
    photos, few = here / "photos", ["--set", f"train.epochs={FEW}"]
    truth[["path", "label"]].to_csv(photos / "labels.csv", index=False)
    images = np.stack([np.asarray(Image.open(photos / path)) for path in truth["path"]])
    np.savez(here / "photos.npz", x=images, y=truth["label"].to_numpy(str))
    _jnpl("find", "photos", "-o", "as-folder", *few, cwd=here)
    _jnpl("find", "photos/labels.csv", "--image-column", "path", "-o", "as-table", *few, cwd=here)
    _jnpl("find", "photos.npz", "-o", "as-arrays", *few, cwd=here)
    settings = [f"train.epochs={FEW}", "engine.accelerator=cpu"]
    library = find_label_issues(images, truth["label"].tolist(), settings=settings)
    wanted = Findings.load(here / "as-folder").label_quality
    found = {form: Findings.load(here / form).label_quality for form in ("as-table", "as-arrays")}
    found["library"] = library.label_quality
    return {form: float(np.abs(quality - wanted).max()) for form, quality in found.items()}


def human(args: argparse.Namespace) -> dict[str, Any]:
    """Labels by people, "worse" and "aggre"; cleanlab uses five folds of cross-entropy with the same network."""
    found: dict[str, Any] = {"images": args.images, "pixels": 16, "epochs": args.epochs}
    for kind in ("worse", "aggre"):
        whole = open_source("cifar10n", root=args.data, noise=kind)
        source = downsample(split.part(whole, np.arange(args.images)), 16)
        wrong = source.labels != source.true_labels
        epochs = [] if args.epochs is None else [f"train.epochs={args.epochs}"]
        began = time.process_time()
        ours = find_label_issues(values_of(source), source.labels, settings=["engine.accelerator=cpu", *epochs])
        seconds = time.process_time() - began
        with TemporaryDirectory() as place:
            probs = held_out_probabilities(source, _cross_entropy(args.epochs or 30, "resnet8"), Path(place), SEED)
        theirs = Findings.from_probs(probs, source.labels)
        found[kind] = {
            "wrong": float(wrong.mean()),
            "jnpl": {**_ranked(ours.label_quality, wrong), "cpu_seconds": seconds},
            "cleanlab": {
                **_ranked(_cleanlab(source.labels, probs), wrong),
                "cpu_seconds": time.process_time() - began - seconds,
            },
            "cross-validated p_y": _ranked(theirs.label_quality, wrong),
        }
    return found


def _cleanlab(labels: Any, probs: Any) -> Any:
    return require("cleanlab.rank", "bench").get_label_quality_scores(labels, probs)


def _ranked(quality: Any, wrong: Any) -> dict[str, float]:
    at = {f"precision_at_{k}": metrics.precision_at_k(quality, wrong, k) for k in (100, 1000) if k <= len(wrong)}
    return {"ap": metrics.average_precision(quality, wrong), **at}


def _cross_entropy(epochs: int, model: str) -> Any:
    return parse_recipe(
        {
            "model": model,
            "method": {"name": "ce"},
            "data": {"std": "data"},
            "train": {"epochs": epochs, "batch_size": 64, "optimizer": "sgd", "lr": 0.1, "schedule": "cosine"},
            "engine": {"accelerator": "cpu", "workers": 0},
        }
    )


def tables(_args: argparse.Namespace) -> dict[str, Any]:
    """20 % wrong labels; compared with five folds of cross-entropy with the same MLP, ranked by p_y."""
    figures: dict[str, Any] = {"rate": 0.2, "seeds": list(TABLE_SEEDS)}
    for name in TABLES:
        bunch: Any = getattr(datasets, f"load_{name}")()
        x, true, classes = bunch.data.astype(np.float32), bunch.target, len(bunch.target_names)
        ours, theirs = [], []
        for seed in TABLE_SEEDS:
            given = noise.symmetric(true, 0.2, classes, seed=seed)
            wrong = given != true
            found = find_label_issues(x, given, settings=["engine.accelerator=cpu"], seed=seed)
            with TemporaryDirectory() as place:
                source = from_arrays(x, given)
                probs = held_out_probabilities(source, _cross_entropy(30, "mlp"), Path(place), seed)
            ours.append(metrics.average_precision(found.label_quality, wrong))
            theirs.append(metrics.average_precision(probs[np.arange(len(given)), given], wrong))
        figures[name] = {"samples": len(x), "jnpl": ours, "cross-validated ce": theirs}
    return figures


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["folder", "human", "tables", "page"])
    parser.add_argument("--data", type=Path, help="folder with CIFAR-10's binary version and CIFAR-10N's labels")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, help="for a quick test; default: what jnpl chooses (cross-entropy: 30)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.part == "page":
        write_text(PAGE, page(args.out))
        return 0
    if args.data is None and args.part != "tables":
        parser.error("--data DIR is needed: CIFAR-10's binary version and CIFAR-10N's labels")
    args.data = None if args.data is None else args.data.resolve()
    args.changes = [] if args.epochs is None else ["--set", f"train.epochs={args.epochs}"]
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    try:
        found = {"folder": folder, "human": human, "tables": tables}[args.part](args)
    except InputError as error:
        parser.error(str(error))
    results.add(args.out / FILE, {"name": args.part, "results": found})
    print(json.dumps(found, indent=1))
    return 0


INTRODUCTION = """\
Measured with default settings, one thread on a machine with two cores. `python benchmarks/owners.py page` writes
this page from `benchmarks/results/owners.jsonl`."""


def page(folder: Path) -> str:
    """docs/owners.md."""
    found = results.read(folder / FILE)
    parts = [
        "# What to expect of `jnpl find`",
        INTRODUCTION,
    ]
    for part, title, lines in (
        ("folder", "A folder of images", _folder_lines),
        ("human", "Labels by people", _human_lines),
        ("tables", "Tables of numbers", _table_lines),
    ):
        data = "" if part == "tables" else " --data DIR"
        text = "\n".join(lines(found[part]["results"])) if part in found else "Not run."
        parts += [f"## {title}", text, f"    python benchmarks/owners.py {part}{data}"]
    return "\n\n".join(parts) + "\n"


def _folder_lines(found: dict[str, Any]) -> list[str]:
    rows = [
        ("`jnpl find photos/`", found["find"]),
        ("`jnpl train photos/`, in the same run folder", found["train"]),
        ("`jnpl find photos/ --method ce`: cross-entropy, the same network", found["ce"]),
    ]
    columns = {
        "AP": "{ap:.3f}",
        "share of wrong labels among the 1,000 worst": "{precision_at_1000:.3f}",
        "estimated noise rate": "{noise_rate:.3f}",
        "accuracy": "{test_accuracy:.3f}",
        "best epoch": "{best_test_accuracy:.3f}",
        "epochs": "{epochs}",
        "minutes": "{minutes:.0f}",
    }
    lines = [
        [name, *(text.format(minutes=row["seconds"] / 60, **row) for text in columns.values())] for name, row in rows
    ]
    error = 2 * (0.25 / found["test_images"]) ** 0.5
    same = ", ".join(f"{form} {value:.1g}" for form, value in found["same"].items())
    return [
        f"The first {found['images']:,} images of CIFAR-10 as PNG files in folders by class, {found['rate']:.0%} of",
        f"them in a wrong one (symmetric noise, seed {SEED}). Accuracy is that of the saved network on",
        f"{found['test_images']:,} test images (two standard errors are at most {error:.3f}). The best epoch is an",
        "oracle: it is chosen by the test images.",
        "",
        markdown_table([["command", *columns], *lines]),
        "",
        f"The same images as a CSV of paths, as an .npz and through `jnpl.find_label_issues`, {FEW} epochs each: the",
        f"largest difference in label quality from the folder is {same}.",
        *_older(found["train"]["epochs"]),
    ]


def _older(epochs: int) -> list[str]:
    """A sentence if the recipe has another length than the one that was measured."""
    recipe = load_recipe("fast")
    now = round(recipe.train.epochs * (1 + (0.0 if recipe.pseudo is None else recipe.pseudo.stretch)))
    note = f"`jnpl train` was measured with {epochs} epochs in all; the recipe now has {now} ([fast.md](fast.md))."
    return [] if epochs == now else ["", note]


def _human_lines(found: dict[str, Any]) -> list[str]:
    columns = {
        "AP": "{ap:.3f}",
        "share wrong among the 100 worst": "{precision_at_100:.2f}",
        "among 1,000": "{precision_at_1000:.3f}",
        "CPU minutes": "{minutes:.0f}",
    }
    lines = [
        [
            kind,
            f"{found[kind]['wrong']:.1%}",
            name,
            *(text.format(minutes=row["cpu_seconds"] / 60, **row) for text in columns.values()),
        ]
        for kind in ("worse", "aggre")
        for name in ("jnpl", "cleanlab")
        for row in [found[kind][name]]
    ]
    return [
        f"CIFAR-10N, the first {found['images']:,} images at {found['pixels']} pixels. `cleanlab` ranks the",
        "probabilities of five-fold cross-validated cross-entropy, 30 epochs, with the same network and crops.",
        "",
        markdown_table([["labels", "wrong", "ranking", *columns], *lines]),
    ]


def _table_lines(found: dict[str, Any]) -> list[str]:
    lines = [
        [
            name.replace("_", " "),
            f"{found[name]['samples']:,}",
            spread(found[name]["jnpl"]),
            spread(found[name]["cross-validated ce"]),
        ]
        for name in TABLES
    ]
    seeds = len(found["seeds"])
    return [
        f"Scikit-learn's data sets with {found['rate']:.0%} symmetric noise, AP over {seeds} seeds (mean ±",
        "standard deviation), compared with five-fold cross-validated cross-entropy, 30 epochs with the same MLP,",
        "ranked by the probability of the given label.",
        "",
        markdown_table([["data set", "samples", "`jnpl.find_label_issues`", "cross-validated cross-entropy"], *lines]),
    ]


if __name__ == "__main__":
    sys.exit(main())
