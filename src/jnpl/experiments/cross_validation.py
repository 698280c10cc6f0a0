"""The row cleanlab: cross-validated probabilities, its label quality, and a classifier on the labels it keeps."""

import shutil
import warnings
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.data.source import Source
from jnpl.data.split import part
from jnpl.experiments.observer import Seconds, Stopwatch
from jnpl.experiments.run_data import is_wrong
from jnpl.internal.files import make_folder, replacing
from jnpl.internal.importing import require
from jnpl.judging import metrics
from jnpl.outputs.saved_model import SavedModel
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.schema import Recipe
from jnpl.training.reporting import Reporter

Floats: TypeAlias = npt.NDArray[np.float32]

FOLDS = 5


def run(source: Source, test: Source, recipe: Recipe, work: Path, seed: int) -> dict[str, Any]:
    """Return the results of the row; folds that a killed process finished in `work` are not trained again."""
    rank, filtering = require("cleanlab.rank", "bench"), require("cleanlab.filter", "bench")
    wrong, watch = is_wrong(source), Stopwatch()
    probs = held_out_probabilities(source, recipe, work, seed, watch)
    quality = rank.get_label_quality_scores(source.labels, probs)
    seconds = watch.read()
    margins = rank.get_label_quality_scores(source.labels, probs, method="normalized_margin")
    # One process: with more, their work would not be in our CPU seconds.
    issues = filtering.find_label_issues(source.labels, probs, n_jobs=1)
    final = work / "final"
    train(part(source, np.flatnonzero(~issues)), recipe, final, seed)
    total, ap = watch.read(), metrics.average_precision(quality, wrong)
    epochs = FOLDS * recipe.train.epochs
    return {
        "ap": ap,
        "ap_curve": [ap],
        "ap_peak": ap,
        "ap_epoch": epochs,
        "curve_seconds": [seconds.cpu],
        "ap_normalized_margin": metrics.average_precision(margins, wrong),
        "precision_at_noise": metrics.precision_at_k(quality, wrong),
        "issues": int(issues.sum()),
        "seconds": seconds.wall,
        "cpu_seconds": seconds.cpu,
        "total_seconds": total.wall,
        "total_cpu_seconds": total.cpu,
        "seconds_per_epoch": seconds.cpu / epochs,
        "filter_epochs": epochs,
        "test_accuracy": metrics.accuracy(SavedModel.load(final).probabilities(test).argmax(1), test.labels),
    }


def held_out_probabilities(
    source: Source, recipe: Recipe, work: Path, seed: int, watch: Stopwatch | None = None
) -> Floats:
    """(N, C) probabilities of each sample by a network that was trained on the other folds.

    `work` is for this alone: folds that a killed process finished there are used, and `watch` goes on from their time.
    """
    from sklearn.model_selection import StratifiedKFold  # noqa: PLC0415 (slow to import)

    watch = watch or Stopwatch()
    probs = np.zeros((len(source), len(source.class_names)), np.float32)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        parts = list(folds.split(probs, source.labels))
    make_folder(work)
    for number, (kept, held_out) in enumerate(parts):
        folder, file = work / f"fold-{number}", work / f"fold-{number}.npz"
        if file.is_file():  # of a killed process: its time is in it
            with np.load(file) as saved:
                probs[held_out] = saved["probs"]
                watch.go_on_from(Seconds(*saved["seconds"].tolist()))
            continue
        train(part(source, kept), recipe, folder, seed)
        probs[held_out] = SavedModel.load(folder).probabilities(part(source, held_out))
        _save_fold(file, probs[held_out], watch)
        shutil.rmtree(folder, ignore_errors=True)
    return probs


def _save_fold(file: Path, probs: Floats, watch: Stopwatch) -> None:
    """Save a fold that is done, and the time so far; the time of saving is not counted."""
    began = Seconds.now()
    with replacing(file) as draft, draft.open("wb") as opened:
        np.savez(opened, probs=probs, seconds=np.array(watch.read()))
    watch.leave_out(Seconds.now() - began)


def train(source: Source, recipe: Recipe, folder: Path, seed: int) -> None:
    """One run from its first epoch, without checkpoints."""
    shutil.rmtree(folder, ignore_errors=True)
    run_recipe(
        source, recipe, folder, seed=seed, every=CheckpointInterval(seconds=None), strict=True, report=Reporter()
    )
