"""Predictions of a run -> findings on its given labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.findings.findings import Findings
from jnpl.findings.posterior import posterior

if TYPE_CHECKING:
    import numpy.typing as npt

    from jnpl.data.source import Source
    from jnpl.methods.base import Method
    from jnpl.recipes.schema import Verdict
    from jnpl.training.evaluation import TrainingSet
    from jnpl.training.records import SampleRecords


def final_probs(settings: Verdict, method: Method, training_set: TrainingSet) -> npt.NDArray[np.float64] | None:
    """Return the probabilities (N, C) to judge by: those of the trained network, or the posterior made from them.

    None if what was recorded during training decides (`verdict.score` history, aum, margin).
    """
    if settings.score in ("history", "aum", "margin"):
        return None
    probs = training_set.probabilities(method.classifier)
    if settings.score == "network":
        return probs.astype(np.float64)
    ledger = training_set.ledger
    if ledger.keep == "full":  # the trained network is surer than it was during training: the mean of both is taken
        history = ledger.mean_probs()
        history += probs
        history /= 2
        np.copyto(probs, history, where=~np.isnan(history))
        del history
    corrected = posterior(probs, training_set.feed.labels).probs
    if settings.score == "blend":
        corrected += probs
        corrected /= 2
    return corrected


def judge(
    source: Source,
    records: SampleRecords,
    settings: Verdict,
    unreadable: dict[int, str],
    probs: npt.NDArray[np.float64] | None = None,
) -> Findings:
    """Return the findings on all given labels, by the records or by `probs` (N, C)."""
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
    if probs is not None:
        return Findings.from_probs(probs, source.labels, **options)
    return Findings.from_ledger(records.ledger, source.labels, quality=records.quality(), **options)
