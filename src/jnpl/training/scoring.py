"""Predictions of a run -> findings on its given labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.findings.findings import Findings
from jnpl.findings.posterior import posterior
from jnpl.training.out_of_fold import FOLDS, out_of_fold

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from jnpl.data.source import Source
    from jnpl.methods.base import Method
    from jnpl.recipes.schema import Verdict
    from jnpl.training.evaluation import TrainingSet
    from jnpl.training.records import SampleRecords

_MAX_VECTORS = 1 << 29  # numbers of all vectors together, up to which out-of-fold heads are trained (2 GB)


def final_probs(settings: Verdict, method: Method, training_set: TrainingSet) -> npt.NDArray[np.float64] | None:
    """Return the probabilities (N, C) to judge by: those of the trained network, or the posterior made from them.

    None if the recorded predictions decide (`verdict.score = history`).
    """
    if settings.score == "history":
        return None
    if settings.score == "network":
        return training_set.probabilities(method.classifier).astype(np.float64)
    probs = mean_probs(method, training_set)
    corrected = posterior(probs, training_set.feed.labels).probs
    return corrected if settings.score == "posterior" else (probs + corrected) / 2


def unseen_probs(
    settings: Verdict,
    method: Method,
    training_set: TrainingSet,
    *,
    linear: bool,
    weight_decay: float,
    seed: int,
    progress: Callable[[float], None],
) -> npt.NDArray[np.floating[Any]] | None:
    """Return the probabilities (N, C) that calibrate the findings; None if they are not calibrated.

    For a linear head these are out-of-fold predictions. Other networks would take too long to train several times:
    their own predictions are taken, which know the given labels, so that the noise rate may be too low.
    """
    if not settings.calibrate:
        return None
    vectors = training_set.vectors(_MAX_VECTORS) if linear else None
    if vectors is None:
        return mean_probs(method, training_set)
    labels = training_set.feed.labels
    known = ~np.isnan(vectors[:, 0])
    probs = np.full((len(labels), training_set.ledger.num_classes), np.nan, np.float32)
    if known.sum() < FOLDS:
        return probs
    probs[known] = out_of_fold(
        vectors[known],
        labels[known],
        probs.shape[1],
        weight_decay=weight_decay,
        seed=seed,
        progress=progress,
    )
    return probs


def mean_probs(method: Method, training_set: TrainingSet) -> npt.NDArray[np.float64]:
    """Return the mean (N, C) of the trained network's predictions and those recorded during training, which are less
    sure; of the network's alone if whole predictions were not recorded."""
    probs = training_set.probabilities(method.classifier).astype(np.float64)
    if training_set.ledger.keep == "full":
        history = training_set.ledger.mean_probs()
        probs = np.where(np.isnan(history), probs, (probs + history) / 2)
    return probs


def judge(
    source: Source,
    records: SampleRecords,
    settings: Verdict,
    unreadable: dict[int, str],
    probs: npt.NDArray[np.float64] | None = None,
    unseen: npt.NDArray[np.floating[Any]] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Findings:
    """Return the findings on all given labels, by the records or by `probs` (N, C), calibrated by `unseen` (N, C)."""
    paths = source.ids.tolist() if source.ids.dtype == object else None
    broken = np.zeros(len(source), bool)
    broken[list(unreadable)] = True
    options: dict[str, Any] = {
        "class_names": source.class_names,
        "threshold": settings.threshold,
        "paths": paths,
        "ids": None if paths else source.ids,
        "unreadable": broken if broken.any() else None,
    }
    if probs is None and unseen is not None and records.quality() is None:
        probs = records.ledger.mean_probs().astype(np.float64)
        options["unreadable"] = broken | np.isnan(probs[:, 0])
    if probs is not None:
        return Findings.from_probs(probs, source.labels, **options, unseen_probs=unseen, progress=progress)
    return Findings.from_ledger(records.ledger, source.labels, quality=records.quality(), **options)
