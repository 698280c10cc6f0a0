"""One cell: `python -m jnpl.experiments.bench.run CELL.json [--data-root DIR]`; writes result.json."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sys
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jnpl.experiments.bench import crossval, data
from jnpl.experiments.bench.cell import Cell
from jnpl.experiments.bench.observer import Observer
from jnpl.experiments.bench.rows import ROWS, recipe_of
from jnpl.experiments.cell_process import device, lower_priority, open_work, placed, run_as_process
from jnpl.findings import metrics
from jnpl.findings.findings import Findings
from jnpl.internal import provenance
from jnpl.internal.errors import InputError, LearningError
from jnpl.outputs.saved_model import SavedModel
from jnpl.training import checkpoint
from jnpl.training.interrupt import Interrupted
from jnpl.training.reporting import Reporter
from jnpl.training.run import CheckpointInterval, find
from jnpl.training.run_folder import RunFolder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jnpl.data.source import Source
    from jnpl.recipes.schema import Recipe

CURVE_TEST = 1_000  # images on which ce is tested after every epoch


def run_cell(cell: Cell, work: Path, root: Path | None) -> dict[str, Any]:
    """Train a cell in `work`, from where a killed life of the same cell stood, and return what its JSON says."""
    torch.set_num_threads(1)
    import_module("lightning_fabric")  # slow, and not part of what is timed
    recipe, source = placed(recipe_of(cell)), data.load(cell, root)
    row = ROWS[cell.row]
    if row.true_labels:
        source = replace(source, labels=data.true_labels(source))
    test = source.test
    if test is None:
        raise InputError(f"{source.name} has no test set")
    same = {
        "cell": cell.model_dump(mode="json"),
        "settings": recipe.model_dump(mode="json"),
        "versions": provenance.versions(),
    }
    commits = open_work(work, {**same, "data": source.fingerprint()})
    final: Path | None
    if row.folds:
        told, final = crossval.run(replace(source, test=None), recipe, work, cell.seed)
    else:
        told, final = _run(cell, recipe, source, test, work)
    told["test_accuracy"] = None  # no classifier came of it
    if final is not None:
        predicted = SavedModel.load(final).probabilities(test).argmax(1)
        told["test_accuracy"] = metrics.accuracy(predicted, test.labels)
    if told.get("filter_test_accuracy", 0.0) is None:  # the filter is the classifier
        told["filter_test_accuracy"] = told["test_accuracy"]
    wrong = source.labels != data.true_labels(source)
    facts: dict[str, Any] = provenance.plain(
        {
            **same,
            "settings": recipe.model_dump(mode="json", exclude={"engine"}),
            "commit": ", ".join(commits),
            "device": device(recipe),
            "samples": len(source),
            "test_samples": len(test),
            "noise_sha256": hashlib.sha256(source.labels.astype("<i8").tobytes()).hexdigest(),
            "realised_rate": float(wrong.mean()),
            "results": told,
        }
    )
    return facts


def _run(cell: Cell, recipe: Recipe, source: Source, test: Source, work: Path) -> tuple[dict[str, Any], Path | None]:
    """A row that is one run: results, and its folder, unless no classifier came of it."""
    curve = cell.row == "ce"  # its best epoch is what an oracle would stop at; the others train without a test set
    few = data.subset(test, np.arange(min(CURVE_TEST, len(test)))) if curve else None
    observer, folder = Observer(source, test, recipe.verdict.score, margins=curve, notes=work / "notes"), work / "train"
    if not observer.resume(_epochs(folder)):
        for left in (folder, work / "notes"):
            shutil.rmtree(left, ignore_errors=True)
    stumbled, found = None, None
    try:
        # The observer saves, after its notes.
        found = find(
            replace(source, test=few),
            recipe,
            folder,
            seed=cell.seed,
            every=CheckpointInterval(seconds=None),
            strict=True,
            report=Reporter(),
            classify=ROWS[cell.row].classify,
            observe=observer,
        )
    except Interrupted:
        observer.save()  # the steps since the last epoch are in the run's checkpoint, and their time here
        raise
    except LearningError as error:  # no label is kept, say: what the filter found stands all the same
        if not observer.filtered:
            raise
        stumbled = str(error)
    total, seconds, aps = observer.watch.read(), observer.filter_seconds, observer.ap_curve
    quality = Findings.load(folder).label_quality  # the verdict itself, whatever the method's score is
    told: dict[str, Any] = {
        "ap": metrics.average_precision(quality, observer.wrong),
        "ap_curve": aps,
        "ap_peak": max(aps),
        "ap_epoch": None if math.isnan(aps[-1]) else observer.curve_epochs[aps.index(max(aps))],
        "curve_epochs": observer.curve_epochs,
        "curve_seconds": observer.curve_seconds,
        "precision_at_noise": metrics.precision_at_k(quality, observer.wrong),
        "filter_test_accuracy": observer.filter_accuracy,
        "seconds": seconds.wall,
        "cpu_seconds": seconds.cpu,
        "total_seconds": total.wall,
        "total_cpu_seconds": total.cpu,
        "seconds_per_epoch": seconds.cpu / observer.curve_epochs[-1],
        "filter_epochs": observer.curve_epochs[-1],
    }
    if found is not None and "notes" in found.results:  # what the method did on its own, such as a guard
        told["notes"] = found.results["notes"]
    if curve:
        told["best_test_accuracy"], told["test_curve"] = max(observer.test_curve), observer.test_curve
    if observer.margins is not None:
        told["aum_ap"] = metrics.average_precision(observer.margins, observer.wrong)
    if stumbled is not None:
        told["second_part"] = stumbled
        return told, None
    return told, folder


def _epochs(folder: Path) -> int | None:
    """After how many epochs a run in `folder` goes on: 0 if it begins, None if it is finished."""
    try:
        if json.loads((folder / "run.json").read_text("utf-8"))["status"] == "finished":
            return None
    except (OSError, ValueError, LookupError, TypeError):
        return 0
    state, _ = checkpoint.load(RunFolder(folder).checkpoints)
    return 0 if state is None else int(state.facts["before"]) + int(state.facts["epoch"])


def main(args: Sequence[str] | None = None) -> int:
    """Exit code 0 done, 2 wrong input, 128 + signal interrupted."""
    return run_as_process("jnpl.experiments.bench.run", __doc__, _result, args)


def _result(text: str, work: Path, root: Path | None) -> dict[str, Any]:
    return run_cell(Cell.model_validate_json(text), work, root)


if __name__ == "__main__":
    lower_priority()
    sys.exit(main())
