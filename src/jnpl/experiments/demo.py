"""`jnpl demo`: handwritten digits with 40 % wrong labels, cross-entropy beside JNPL, in about a minute."""

import os
import platform
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from jnpl import __version__
from jnpl.analysis.data_report import MAX_SUSPECTS
from jnpl.data.source import Source
from jnpl.data.sources import bundled
from jnpl.experiments import style
from jnpl.experiments.run_data import true_labels, values_of
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder
from jnpl.internal.terminal import rounded
from jnpl.judging import metrics
from jnpl.judging.findings import Findings
from jnpl.noise import generate as noise
from jnpl.noise.noisy_labels import NoisyLabels
from jnpl.outputs.report import page as report_page
from jnpl.pipeline import run_recipe
from jnpl.recipes.schema import Recipe, parse_recipe
from jnpl.run_folder import RunFolder
from jnpl.training.epoch_view import EpochView
from jnpl.training.reporting import Reporter

_FORMAT = "jnpl demo 1"
METHODS = ("ce", "jnpl")
TITLES = {"ce": "cross-entropy", "jnpl": "JNPL"}


@dataclass(frozen=True)
class DemoSettings:
    """The same network, optimiser and epochs for both methods; neither is given the noise rate."""

    noise_rate: float = 0.4
    epochs: int = 150
    batch_size: int = 128
    learning_rate: float = 1e-3  # Adam
    pl_weight: float = 0.01  # the paper's lambda
    n: int = 3  # the paper's N

    def recipe(self, name: str) -> Recipe:
        """All settings of a method's training."""
        # All nine complements at once, the expectation of the paper's sampled loss times nine: epochs instead of hours.
        jnpl = {"pl_weight": self.pl_weight, "n": self.n, "complements": "exhaustive"}
        plan = {"epochs": self.epochs, "batch_size": self.batch_size, "lr": self.learning_rate}
        return parse_recipe(
            {
                "model": "mlp",
                "data": {"vectors": "centred"},  # pixels: one scale for all of them
                "train": {**plan, "optimizer": "adam", "weight_decay": 0.0},
                "method": {"name": name, **(jnpl if name == "jnpl" else {})},
                "engine": {"accelerator": "cpu", "workers": 0},
            }
        )


@dataclass(frozen=True)
class DemoResult:
    """The outcome of one method on one seed."""

    findings: Findings
    curve: list[float]  # test accuracy after every epoch
    scores: dict[str, float]


def load_digits(settings: DemoSettings, seed: int) -> tuple[Source, NoisyLabels]:
    """Split the digits by class and give a share of the training labels another class."""
    source = bundled.load("digits", seed=seed)
    noisy = noise.corrupt(source.labels, "symm", settings.noise_rate, num_classes=10, seed=seed)
    return replace(source, labels=noisy.labels.copy()), noisy


def run_method(
    name: str, source: Source, settings: DemoSettings, seed: int, log: Callable[[dict[str, Any]], None]
) -> DemoResult:
    """Train one method in memory, judge every label, and score the result."""
    start, report = time.perf_counter(), Reporter()
    report.quiet(True)

    def observe(view: EpochView) -> None:
        log({"seed": seed, "method": name, **view.line})

    result = run_recipe(source, settings.recipe(name), seed=seed, report=report, observe=observe)
    if result is None:
        raise RuntimeError("a run in memory has one process")
    curve = [float(line["test_accuracy"]) for line in result.history]
    scores = {
        "test_accuracy": curve[-1],
        "best_test_accuracy": max(curve),
        **metrics.evaluate(result.findings, true_labels(source)),
        "seconds": time.perf_counter() - start,
    }
    return DemoResult(result.findings, curve, scores)


def run(out: Path, seeds: list[int], settings: DemoSettings, on_epoch: Callable[[str, int], None]) -> dict[str, Any]:
    """Run both methods on every seed, write the run folder and return what `jnpl demo --json` prints."""
    torch.set_num_threads(1)  # quickest for a net this small, and the same sums on every machine
    results: dict[str, list[DemoResult]] = {name: [] for name in METHODS}
    lines: list[dict[str, Any]] = []
    for seed in seeds:
        source, noisy = load_digits(settings, seed)
        for name in METHODS:

            def log(line: dict[str, Any], name: str = name, seed: int = seed) -> None:
                lines.append(line)
                on_epoch(name, seed)

            results[name].append(run_method(name, source, settings, seed, log))
        folder = out if seed == seeds[0] else out / f"seed-{seed}"
        _write_seed(folder, source, noisy, {name: results[name][-1] for name in METHODS})
        if folder == out:
            pixels = (255 * (1 - values_of(source))).astype(np.uint8).reshape(-1, 8, 8, 1)
            worst = results["jnpl"][0].findings.worst_positions(MAX_SUSPECTS)
            RunFolder(out).write_thumbnails(worst, pixels.__getitem__)
    RunFolder(out).write_log(lines)
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
    RunFolder(out).write_facts(facts)
    report_page.write(RunFolder(out))
    return summary


def show(result: dict[str, Any], console: Console) -> None:
    """Print the table, the ten worst label issues and the files that were written."""
    settings, out = DemoSettings(), Path(result["run"])
    facts = f"{settings.noise_rate:.0%} of the training labels are wrong; {settings.epochs} epochs"
    runs = f"mean of seeds {result['seeds']}" if len(result["seeds"]) > 1 else f"seed {result['seeds'][0]}"
    table = Table(title=f"1,400 handwritten digits, {facts}, {runs}", title_justify="left", box=None)
    table.add_column("")
    for column in ("test accuracy, last epoch", "best epoch", "AP", "found", "seconds"):
        table.add_column(column, justify="right")
    for name, scores in result["methods"].items():
        figures = [scores[key] for key in ("test_accuracy", "best_test_accuracy", "ap", "precision_at_k")]
        table.add_row(TITLES[name], *(f"{figure:.3f}" for figure in figures), f"{scores['seconds']:.1f}")
    console.print(table)
    console.print(
        "[dim]best epoch: only who knows the test data could stop there.\n"
        "AP: how well label quality ranks wrong before right labels.\n"
        "found: share of the wrong labels among as many labels of the lowest quality.[/dim]\n"
    )
    worst = RunFolder(out).findings.worst(10)
    suspects = Table(title="the ten worst label issues", title_justify="left", box=None)
    for column in ("sample", "given", "suggested", "label quality", "confidence"):
        suspects.add_column(column, justify="right")
    for row in worst.itertuples():
        numbers = rounded(row.label_quality), rounded(row.suggested_confidence)
        suspects.add_row(str(row.id), str(row.given_label), str(row.suggested_label), *numbers)
    console.print(suspects)
    files = Table(title=f"\nwritten to {escape(str(out))}{os.sep}", title_justify="left", box=None, show_header=False)
    files.add_row("report.html", "the suspects with their pictures: open it in a browser")
    files.add_row("findings.csv", "every label with its quality (also .parquet, .json)")
    files.add_row("histograms.png", "label quality of right and wrong labels")
    files.add_row("accuracy.png", "test accuracy after every epoch")
    files.add_row("suspects.png", "the worst images")
    files.add_row("labels.npz", "the given and the true labels")
    files.add_row("metrics.jsonl", "every epoch")
    files.add_row("run.json", "settings and scores")
    console.print(files)
    console.print("\nnext, with photos of yours, one folder per class:")
    if shutil.which("jnpl") is None and (Path(sys.prefix) / "bin/activate").is_file():
        activate = shlex.quote(os.path.relpath(Path(sys.prefix) / "bin/activate"))
        console.print(f"  source {activate}", markup=False, soft_wrap=True)
    console.print("  jnpl find photos/ -o run")


def prepare_folder(out: Path) -> None:
    """Prepare the output folder: new, empty, or of an earlier demo, whose files go. Any other folder is refused."""
    folder = RunFolder(out)
    if out.exists() and not out.is_dir():
        raise InputError(f"the run folder {str(out)!r} is a file; name a folder with --out")
    if out.is_dir() and any(out.iterdir()):
        if folder.format() != _FORMAT:
            raise InputError(f"{str(out)!r} holds something else than an earlier demo; name another folder with --out")
        for old in out.glob("seed-*"):
            shutil.rmtree(old)
    make_folder(out)
    folder.write_facts({"format": _FORMAT, "status": "running"})


def _write_seed(folder: Path, source: Source, noisy: NoisyLabels, results: dict[str, DemoResult]) -> None:
    make_folder(folder)
    findings = results["jnpl"].findings
    RunFolder(folder).save_findings(findings)
    noisy.save(folder / "labels.npz")
    qualities = {TITLES[name]: result.findings.label_quality for name, result in results.items()}
    curves = {TITLES[name]: result.curve for name, result in results.items()}
    confidence_histograms(folder / "histograms.png", qualities, noisy.is_noisy, findings.threshold)
    accuracy_curves(folder / "accuracy.png", curves)
    suspect_sheet(folder / "suspects.png", findings.worst(24), values_of(source).reshape(-1, 8, 8))


def _mean(scores: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(score[name] for score in scores) / len(scores) for name in scores[0]}


def confidence_histograms(
    path: Path, qualities: Mapping[str, npt.NDArray[np.float64]], is_noisy: npt.NDArray[np.bool_], threshold: float
) -> None:
    """The paper's Figure 1: p_y of right and wrong labels, one panel per method."""
    figure = style.new(4.6 * len(qualities), 3.4)
    axes = figure.subplots(1, len(qualities), sharey=True, squeeze=False)[0]
    for axis, (name, quality) in zip(axes, qualities.items(), strict=True):
        sides = [quality[~is_noisy], quality[is_noisy]]
        names = [f"right label ({len(sides[0]):,})", f"wrong label ({len(sides[1]):,})"]
        bins = np.linspace(0, 1, 21).tolist()
        axis.hist(sides, bins=bins, stacked=True, color=[style.CLEAN, style.NOISY], label=names)
        axis.axvline(threshold, color=style.INK, linewidth=1, linestyle="--")
        axis.set_title(name, fontsize=11)
        axis.set_xlabel("label quality: mean $p_y$ of the last epochs", fontsize=9)
    axes[0].set_ylabel("samples", fontsize=9)
    axes[-1].legend(fontsize=8, framealpha=1, edgecolor="white", loc="upper center")
    _save(figure, path)


def accuracy_curves(path: Path, curves: Mapping[str, Sequence[float]]) -> None:
    """Test accuracy over epochs, one line per method; the last epoch is written beside its end."""
    figure = style.new(6.4, 3.6)
    axis = figure.subplots()
    colors = cycle([style.NOISY, style.CLEAN, "#3a923a", "#8c564b"])
    for (name, curve), color in zip(curves.items(), colors, strict=False):
        axis.plot(range(1, len(curve) + 1), curve, color=color, label=name, linewidth=1.6)
        axis.annotate(f" {curve[-1]:.1%}", (len(curve), curve[-1]), color=color, fontsize=9, va="center")
    axis.set_xlabel("epoch", fontsize=9)
    axis.set_ylabel("test accuracy", fontsize=9)
    axis.set_ylim(0, 1.02)
    longest = max(len(curve) for curve in curves.values())
    axis.set_xlim(1, 1.1 * longest)
    axis.set_xticks([tick for tick in axis.get_xticks() if 1 <= tick <= longest])
    axis.legend(fontsize=9, frameon=False, loc="lower right")
    _save(figure, path)


def suspect_sheet(path: Path, worst: pd.DataFrame, images: npt.NDArray[Any], columns: int = 8) -> None:
    """The worst suspects as images, each with its given label -> suggested label and the quality of the given one."""
    rows = -(-len(worst) // columns)
    figure = style.new(1.25 * columns, 1.75 * rows + 0.1)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.axis("off")
    for axis, position, row in zip(axes, worst.index, worst.itertuples(), strict=False):
        axis.imshow(images[position], cmap="gray_r", interpolation="nearest")
        axis.set_title(f"{row.given_label} \N{RIGHTWARDS ARROW} {row.suggested_label}", fontsize=11, pad=3)
        axis.text(0.5, -0.04, rounded(row.label_quality), transform=axis.transAxes, ha="center", va="top", fontsize=7)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    style.save(figure, path)
