"""`jnpl demo`: handwritten digits with 40 % wrong labels, cross-entropy beside JNPL, in about a minute."""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from lightning_fabric import Fabric
from rich.table import Table

from jnpl import __version__
from jnpl.data.loading.augment import Standardize
from jnpl.data.loading.feed import Feed
from jnpl.data.loading.prepare import Prepared
from jnpl.data.source import InMemory
from jnpl.data.sources.bundled import load_arrays
from jnpl.experiments import demo_figures
from jnpl.findings import metrics
from jnpl.findings.findings import Findings
from jnpl.findings.ledger import Ledger
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, write_text
from jnpl.methods import registry
from jnpl.methods.base import Task
from jnpl.methods.ce import CE
from jnpl.methods.jnpl import JNPL
from jnpl.models.mlp import mlp
from jnpl.noise import generate as noise
from jnpl.recipes.schema import Training
from jnpl.training.evaluation import accuracy
from jnpl.training.learner import make_optimizer
from jnpl.training.loop import LoopCallback, Position, train
from jnpl.training.records import SampleRecords

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt
    from rich.console import Console
    from torch import nn

    from jnpl.methods.base import Method
    from jnpl.noise.noisy_labels import NoisyLabels

_FORMAT = "jnpl demo 1"
METHODS = ("ce", "jnpl")
TITLES = {"ce": "cross-entropy", "jnpl": "JNPL"}


@dataclass(frozen=True)
class DemoSettings:
    """The same network, optimiser and epochs for both methods; neither is given the noise rate."""

    noise_rate: float = 0.4
    test_samples: int = 397
    hidden: tuple[int, ...] = (256, 256)
    epochs: int = 150
    batch_size: int = 128
    learning_rate: float = 1e-3  # Adam
    history: int = 10
    pl_weight: float = 0.01  # the paper's lambda
    n: int = 3  # the paper's N


@dataclass(frozen=True)
class DemoData:
    """Scikit-learn's digits, split and corrupted."""

    train: npt.NDArray[np.float32]  # (N, 64) in 0..1
    test: npt.NDArray[np.float32]
    true_labels: npt.NDArray[np.int64]
    test_labels: npt.NDArray[np.int64]
    noisy: NoisyLabels


@dataclass(frozen=True)
class DemoResult:
    """The outcome of one method on one seed."""

    findings: Findings
    curve: list[float]  # test accuracy after every epoch
    scores: dict[str, float]


def load_digits(settings: DemoSettings, seed: int) -> DemoData:
    """Split the digits by class and give a share of the training labels another class."""
    (train, labels), (test, test_labels), _ = load_arrays("digits", seed=seed, test_size=settings.test_samples)
    noisy = noise.corrupt(labels, "symm", settings.noise_rate, num_classes=10, seed=seed)
    return DemoData(train, test, labels, test_labels, noisy)


def run_method(
    name: str, data: DemoData, settings: DemoSettings, seed: int, log: Callable[[dict[str, Any]], None]
) -> DemoResult:
    """Train one method, collect its predictions of every label, and score it.

    The training loop is called directly, not through `jnpl.training.run.find`: the demo needs no recipe, run folder or
    checkpoints, and its figures are pinned to this loop.
    """
    start = time.perf_counter()
    fabric = Fabric(accelerator="cpu", devices=1)
    method = _build(name, data, settings, seed)
    plan = Training(
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        optimizer="adam",
        lr=settings.learning_rate,
        weight_decay=0.0,
    )
    setup, optimizer = fabric.setup(method, make_optimizer(method, plan))
    transform = Standardize(tuple(data.train.mean(0).tolist()), (1.0,) * data.train.shape[1])
    feeds = [
        Feed(Prepared(inputs, None, inputs.values, {}), labels, transform, plan.batch_size, seed, fabric.device)
        for inputs, labels in (
            (InMemory(data.train), data.noisy.labels.copy()),
            (InMemory(data.test), data.test_labels),
        )
    ]
    records = SampleRecords.make(Ledger(len(data.train), 10, history=settings.history))
    progress, curve = Position(), list[float]()

    class Curve(LoopCallback):
        def after_epoch(self) -> None:
            curve.append(accuracy(method, feeds[1], fabric)["model"])
            log({"seed": seed, "method": name, "epoch": progress.epoch, **progress.means(), "test_accuracy": curve[-1]})

    train(setup, optimizer, feeds[0], records, plan, fabric, progress, Curve())
    findings = Findings.from_ledger(records.ledger, data.noisy.labels)
    scores = {
        "test_accuracy": curve[-1],
        "best_test_accuracy": max(curve),
        **metrics.evaluate(findings, data.true_labels),
        "seconds": time.perf_counter() - start,
    }
    return DemoResult(findings, curve, scores)


def run(out: Path, seeds: list[int], settings: DemoSettings, on_epoch: Callable[[str, int], None]) -> dict[str, Any]:
    """Run both methods on every seed, write the run folder and return what `jnpl demo --json` prints."""
    torch.set_num_threads(1)  # quickest for a net this small, and the same sums on every machine
    results: dict[str, list[DemoResult]] = {name: [] for name in METHODS}
    lines: list[str] = []
    for seed in seeds:
        data = load_digits(settings, seed)
        for name in METHODS:

            def log(line: dict[str, Any], name: str = name, seed: int = seed) -> None:
                lines.append(json.dumps(line))
                on_epoch(name, seed)

            results[name].append(run_method(name, data, settings, seed, log))
        folder = out if seed == seeds[0] else out / f"seed-{seed}"
        _write_seed(folder, data, {name: results[name][-1] for name in METHODS})
    write_text(out / "metrics.jsonl", "\n".join(lines) + "\n")
    summary = {
        "seeds": seeds,
        "methods": {name: _mean([result.scores for result in results[name]]) for name in METHODS},
        "run": str(out),
    }
    versions = {"jnpl": __version__, "torch": torch.__version__, "python": platform.python_version()}
    facts = {
        "format": _FORMAT,
        "settings": asdict(settings),
        "versions": versions,
        "threads": torch.get_num_threads(),
        **summary,
    }
    write_text(out / "run.json", json.dumps(facts, indent=2) + "\n")
    return summary


def show(result: dict[str, Any], console: Console) -> None:
    """Print the table, the ten worst label issues and the files that were written."""
    settings, out = DemoSettings(), Path(result["run"])
    given = f"{settings.noise_rate:.0%} of the training labels are wrong; {settings.epochs} epochs"
    runs = f"mean of seeds {result['seeds']}" if len(result["seeds"]) > 1 else f"seed {result['seeds'][0]}"
    table = Table(title=f"1,400 handwritten digits, {given}, {runs}", title_justify="left", box=None)
    table.add_column("")
    for column in ("test accuracy", "(best epoch)", "AP", "precision", "recall", "seconds"):
        table.add_column(column, justify="right")
    for name, scores in result["methods"].items():
        cells = [scores[key] for key in ("test_accuracy", "best_test_accuracy", "ap", "precision", "recall")]
        table.add_row(TITLES[name], *(f"{cell:.3f}" for cell in cells), f"{scores['seconds']:.1f}")
    console.print(table)
    console.print(
        "[dim]AP: how well label quality ranks wrong before right labels. Best epoch: chosen on the test data.[/dim]\n"
    )
    worst = Findings.load(out).worst(10)
    suspects = Table(title="the ten worst label issues", title_justify="left", box=None)
    for column in ("sample", "given", "suggested", "label quality", "confidence"):
        suspects.add_column(column, justify="right")
    for row in worst.itertuples():
        numbers = (f"{row.label_quality:.1e}", f"{row.suggested_confidence:.4f}")
        suspects.add_row(str(row.id), str(row.given_label), str(row.suggested_label), *numbers)
    console.print(suspects)
    console.print(f"\nin {out}{os.sep}: findings.csv (also .parquet, .json), metrics.jsonl, run.json, labels.npz,")
    console.print(
        "  histograms.png (label quality of right and wrong labels), accuracy.png, suspects.png (the worst images)"
    )


def prepare_folder(out: Path) -> None:
    """Prepare the output folder: new, empty, or of an earlier demo, whose files go. Any other folder is refused."""
    file = out / "run.json"
    if out.exists() and not out.is_dir():
        raise InputError(f"the run folder {str(out)!r} is a file; name a folder with --out")
    if out.is_dir() and any(out.iterdir()):
        try:
            ours = json.loads(file.read_text("utf-8"))["format"] == _FORMAT
        except (OSError, ValueError, LookupError, TypeError):
            ours = False
        if not ours:
            raise InputError(f"{str(out)!r} holds something else than an earlier demo; name another folder with --out")
        for old in out.glob("seed-*"):
            shutil.rmtree(old)
    make_folder(out)
    write_text(file, json.dumps({"format": _FORMAT, "status": "running"}) + "\n")


def _build(name: str, data: DemoData, settings: DemoSettings, seed: int) -> Method:
    def network(_number: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):  # layers draw their first weights from the global generator
            torch.manual_seed(seed)
            return mlp(64, 10, settings.hidden)

    task = Task(network, torch.from_numpy(data.noisy.labels.copy()), 10)
    if name == "ce":
        return registry.make(task, CE.Settings())
    # All nine complements at once, the expectation of the paper's sampled loss times nine: epochs instead of hours.
    return registry.make(task, JNPL.Settings(pl_weight=settings.pl_weight, n=settings.n, complements="exhaustive"))


def _write_seed(folder: Path, data: DemoData, results: dict[str, DemoResult]) -> None:
    make_folder(folder)
    found = results["jnpl"].findings
    found.save(folder)
    data.noisy.save(folder / "labels.npz")
    qualities = {TITLES[name]: result.findings.label_quality for name, result in results.items()}
    curves = {TITLES[name]: result.curve for name, result in results.items()}
    demo_figures.confidence_histograms(folder / "histograms.png", qualities, data.noisy.is_noisy, found.threshold)
    demo_figures.accuracy_curves(folder / "accuracy.png", curves)
    demo_figures.suspect_sheet(folder / "suspects.png", found.worst(24), data.train.reshape(-1, 8, 8))


def _mean(scores: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}
