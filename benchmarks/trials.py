"""The short trials by which the schedule of scale `small` was found; docs/results/trials.md has their figures.

    python benchmarks/trials.py --data DIR                 # all of trials.jsonl, hours of one core
    python benchmarks/trials.py --data DIR --only "nl+ lr.02"

A line of trials.jsonl is a name, a recipe and a noise. Images 35,000 on at 16 pixels, seed 0, the first 2,000 test
images. AP counts wrong labels as positive. A trial whose predictions are of one class is stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from jnpl import metrics
from jnpl.experiments import run_data
from jnpl.experiments.spec import RunSpec
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.schema import parse_recipe
from jnpl.training.epoch_view import EpochView
from jnpl.training.reporting import Reporter

TRIALS = Path(__file__).with_name("trials.jsonl")
EVERY = 5  # epochs between two lines


class CollapsedError(Exception):
    """All samples are predicted as one class."""


def trial(name: str, recipe: dict[str, Any], kind: str, rate: float, root: Path, n: int = 5_000) -> None:
    """Train once and print a line every few epochs."""
    same = {
        "row": "ce",
        "data": "cifar10",
        "images": n,
        "test_images": 2_000,
        "pixels": 16,
        "noise": kind,
        "rate": rate,
        "epochs": 1,
        "seed": 0,
    }
    tested = run_data.load(RunSpec.model_validate(same), root)
    source = run_data.load(RunSpec.model_validate({**same, "start": 35_000}), root)
    source = replace(source, test=tested.test)
    wrong = run_data.is_wrong(source)

    def show(view: EpochView) -> None:
        epoch, line, ledger = view.epoch + 1, view.line, view.ledger
        if epoch % EVERY and view.phase_epoch + 1 < view.phase.plan.epochs and epoch > 2:
            return
        newest = ledger.newest().argmax(1)
        top = np.bincount(newest, minlength=10).max() / len(newest)
        quality = ledger.quality(source.labels)
        ap, learnt = metrics.average_precision(quality, wrong), quality[wrong].mean()
        figures = (
            f"AP {ap:.3f}, accuracy {line['test_accuracy']:.3f}, p_y of wrong labels {learnt:.2f}, largest {top:.2f}"
        )
        print(f"{name}, {kind} {rate:g}, {view.phase.name} epoch {epoch}: {figures}", flush=True)
        if top > 0.9 and epoch >= 2:
            raise CollapsedError

    settings = {
        "model": "resnet8",
        "data": {"padding": 0, "std": "data"},
        "engine": {"accelerator": "cpu", "workers": 0},
        **recipe,
    }
    report = Reporter()
    report.quiet(True)
    with TemporaryDirectory() as place:
        try:
            run_recipe(
                source,
                parse_recipe(settings),
                Path(place) / "run",
                seed=0,
                every=CheckpointInterval(seconds=None),
                strict=True,
                report=report,
                observe=show,
            )
        except CollapsedError:
            print(f"{name}: all predictions are one class, stopped", flush=True)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with CIFAR-10's binary version")
    parser.add_argument("--only", help="the trials of this name")
    args = parser.parse_args()
    torch.set_num_threads(1)
    for text in TRIALS.read_text("utf-8").splitlines():
        settings = json.loads(text)
        if args.only in (None, settings["name"]):
            trial(**settings, root=args.data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
