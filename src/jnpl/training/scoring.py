"""Predictions of a run -> findings on its given labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jnpl.findings.findings import Findings
from jnpl.findings.posterior import posterior
from jnpl.training.trees import agreement

if TYPE_CHECKING:
    import numpy.typing as npt

    from jnpl.data.source import Source
    from jnpl.methods.base import Method
    from jnpl.recipes.schema import Verdict
    from jnpl.training.evaluation import TrainingSet
    from jnpl.training.records import SampleRecords
    from jnpl.training.trees import TreePredictions

SURER = 0.75  # chosen on seed 0 of docs/tables.md: at 1 the ranking is worse, at 0 few labels are called wrong
_MOST_POWER = 16.0
TREES_BEHIND = 0.1  # lead in agreement beyond which the network judges alone: memorised labels explain less (tables)


class FinalProbs(NamedTuple):
    """Probabilities (N, C) to judge by, None if the recorded predictions decide, and lines for the user."""

    probs: npt.NDArray[np.float64] | None
    notes: list[str]


def final_probs(
    settings: Verdict, method: Method, training_set: TrainingSet, trees: TreePredictions | None = None
) -> FinalProbs:
    """Return the probabilities to judge by: of the trained network and of trees, or the posterior made from them.

    None if the recorded predictions decide (`verdict.score = history`).
    """
    if settings.score == "history":
        return FinalProbs(None, [])
    labels, notes = np.asarray(training_set.feed.labels), []
    probs = training_set.probabilities(method.classifier).astype(np.float64)
    ledger = training_set.ledger
    # The trained network is surer than it was during training: the mean of both is taken.
    if ledger.keep == "full" and settings.score != "network":
        history = ledger.mean_probs()
        probs = np.where(np.isnan(history), probs, (probs + history) / 2)
    if trees is not None:
        probs, note = with_trees(probs, trees, labels)
        notes.append(note)
    if settings.score == "network":
        return FinalProbs(probs, notes)
    corrected = posterior(probs, labels).probs
    return FinalProbs(corrected if settings.score == "posterior" else (probs + corrected) / 2, notes)


def with_trees(
    probs: npt.NDArray[np.float64], trees: TreePredictions, labels: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], str]:
    """Return the probabilities (N, C) of network, trees or the mean of both, and a line that says which.

    The network has been trained on the labels, the trees that predict a sample have not. If they still agree with the
    given labels more often, the network is the worse model and is left out. If they agree far less often, they are.
    """
    own = agreement(probs, labels)
    share, lead = f"{trees.agreement:.1%} of the labels without having seen them", own - trees.agreement
    if lead > TREES_BEHIND:
        return probs, f"judged by the network alone: decision trees agree with {share}, the network with {own:.1%}"
    others = _surer(trees.probs.astype(np.float64), float(np.nanmean(probs.max(axis=1))))
    if lead < 0:
        name = f"judged by decision trees alone ({trees.description})"
        return others, f"{name}: they agree with {share}, more than the network does ({own:.1%})"
    name = f"judged by the network and decision trees ({trees.description})"
    return (probs + others) / 2, f"{name}, which agree with {share}"


def _surer(probs: npt.NDArray[np.float64], confidence: float) -> npt.NDArray[np.float64]:
    """Return a power of probabilities (N, C), rows that sum to 1, that is nearly as sure as the network.

    Trees that learn from wrong labels are never sure: unchanged, they would call nearly every label right. The mean of
    the largest probabilities goes `SURER` of the way to `confidence`.
    """
    now, logs = float(probs.max(axis=1).mean()), np.log(probs)
    low, high = 1.0, _MOST_POWER
    for _ in range(20):
        power = (low + high) / 2
        raised = np.exp(power * (logs - logs.max(axis=1, keepdims=True)))
        raised /= raised.sum(axis=1, keepdims=True)
        short = raised.max(axis=1).mean() < now + SURER * (confidence - now)
        low, high = (power, high) if short else (low, power)
    return raised


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
