"""Predictions of a trained network -> findings on the given labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from torch import nn

from jnpl.data.source import Source
from jnpl.internal.devices import threads_for
from jnpl.judging.caveats import NO_SIGNAL, is_withheld, of_rules
from jnpl.judging.excerpts import excerpts
from jnpl.judging.findings import Findings
from jnpl.judging.noise_model import monotone
from jnpl.judging.out_of_fold import FOLDS, expected_scale, out_of_fold
from jnpl.judging.posterior import SHARE_ROWS, Posterior, float_type, posterior, share_factors
from jnpl.judging.trees import TreePredictions, share_agreeing
from jnpl.recipes.schema import Judging

if TYPE_CHECKING:
    from jnpl.judging.ledger import Ledger

# Share of the way from the trees' confidence to the network's; chosen on seed 0 of docs/results/tables.md: at 1 the
# ranking is worse, at 0 few labels are called wrong.
_CONFIDENCE_SHARE = 0.75
_MAX_POWER = 16.0
# In agreement; above it the trees are left out: memorised labels explain less (docs/results/tables.md)
MAX_NETWORK_LEAD = 0.1

_UNEVEN_RULE = 2  # times the labels of the smallest class, chosen on docs/results/noise-rate.md
BY_RULE = "judged by the posterior alone: the labels seem to follow a rule, of uneven classes"
_BLOCK = 1 << 16  # samples
MIN_CALIBRATED = 100  # samples: with fewer, noise and overlap cannot be told apart
_MAX_VECTORS = 1 << 29  # numbers of all vectors together, up to which out-of-fold heads are trained (2 GB of disk)


class Predicted(Protocol):
    """A training set and what is predicted for it, as `jnpl.training.evaluation.TrainingSet` has it."""

    ledger: Ledger  # predictions of the last epochs, during training
    decided: npt.NDArray[np.int64] | None  # (N,) labels that a person has decided on, -1 where there is none

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """(N,) given labels."""

    def probabilities(self, network: nn.Module) -> npt.NDArray[np.float32]:
        """Return (N, C) of a network, in evaluation mode; nan where a sample cannot be read."""

    def vectors(self, most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]] | None:
        """Return positions (M,) and inputs (M, F); None if these are no vectors, or more than `most` numbers."""


class UnseenProbs(NamedTuple):
    """Probabilities (N, C) that calibrate the findings, and the inverse temperature that they are expected to have.

    `expected_scale` is about 1 if they are known to be nearly those of the true class (`jnpl.judging.noise_model`), or
    None.
    """

    probs: npt.NDArray[np.floating[Any]]
    expected_scale: float | None = None


class FinalProbs(NamedTuple):
    """Probabilities (N, C) to judge by, None if the recorded predictions decide, and a line on which models judge."""

    probs: npt.NDArray[np.floating[Any]] | None
    judged_by: str | None = None


def final_probs(
    settings: Judging,
    network: nn.Module,
    training_set: Predicted,
    trees: TreePredictions | None = None,
    unseen: UnseenProbs | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> FinalProbs:
    """Return the probabilities to judge by: of the trained network and of trees, or the posterior made from them.

    None if what was recorded during training decides (`verdict.score` history, aum, margin). `unseen` heads tell the
    true shares of classes better. `progress` is called with the share of the posterior done, 0..1.
    """
    if settings.score in ("history", "aum", "margin"):
        return FinalProbs(None)
    labels, judged_by = training_set.labels, None
    if settings.score == "network":
        probs: npt.NDArray[np.floating] = training_set.probabilities(network).astype(np.float64)
    else:
        probs = mean_probs(network, training_set)
    if trees is not None:
        probs, judged_by = with_trees(probs, trees, labels)
    if settings.score == "network":
        return FinalProbs(probs, judged_by)
    decided = training_set.decided
    corrected = posterior(probs, labels, decided=decided, progress=progress)
    blended = settings.score == "blend"
    return FinalProbs(_blend(probs, labels, corrected, decided, unseen) if blended else corrected.probs, judged_by)


def _blend(
    probs: npt.NDArray[np.floating],
    labels: npt.NDArray[np.int64],
    corrected: Posterior,
    decided: npt.NDArray[np.int64] | None,
    unseen: UnseenProbs | None,
) -> npt.NDArray[np.floating]:
    """Return the mean of probabilities (N, C) and their posterior, which is overwritten.

    Both have the classes' factors (`share_factors`), where there are some; those of `unseen` linear heads are better.
    """
    mixed, transition, factors = corrected.probs, corrected.transition, None
    if transition is not None:
        factors = share_factors(probs, labels, transition)
    if transition is not None and factors is not None:
        if unseen is not None and unseen.expected_scale is not None:  # linear heads, which have memorised no mistake
            some = slice(None, None, len(labels) // SHARE_ROWS + 1)
            decisions = None if decided is None else decided[some]
            by_unseen = posterior(unseen.probs[some], labels[some], decisions).transition
            better = None if by_unseen is None else share_factors(unseen.probs[some], labels[some], by_unseen)
            if by_unseen is not None and better is not None:
                transition, factors = by_unseen, better
        probs = probs * factors.astype(probs.dtype)
        probs /= probs.sum(axis=1, keepdims=True)
        free = np.ones(len(labels), bool) if decided is None else decided < 0
        for start in range(0, len(labels), _BLOCK):
            rows = start + np.flatnonzero(free[start : start + _BLOCK])
            part = probs[rows] * transition.T[labels[rows]]
            mixed[rows] = part / part.sum(axis=1, keepdims=True)
    mixed += probs
    mixed /= 2
    return mixed


def follows_uneven_rule(findings: Findings, settings: Judging) -> bool:
    """Return whether the posterior alone ranks better than its mean with the network: the labels seem to follow a rule
    that gives some class twice as many as another one.

    The network has learnt the rule; the confusion of its classes, which the posterior is made of, has not.
    """
    noise = findings.noise
    if settings.score != "blend" or noise is None or not is_withheld(noise) or noise.caveat == NO_SIGNAL:
        return False
    counts = np.bincount(findings.given_labels, minlength=findings.num_classes)
    return bool(counts.max() >= _UNEVEN_RULE * counts[counts > 0].min())


def with_trees(
    probs: npt.NDArray[np.floating], trees: TreePredictions, labels: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float64], str]:
    """Return the probabilities (N, C) of network, trees or the mean of both, and a line that says which.

    The network has been trained on the labels, the trees that predict a sample have not. If they still agree with the
    given labels more often, the network is the worse model and is left out. If they agree far less often, they are.
    """
    network_agreement, of_network = share_agreeing(probs, labels), probs.astype(np.float64, copy=False)
    share, lead = f"{trees.agreement:.1%} of the labels without having seen them", network_agreement - trees.agreement
    if lead > MAX_NETWORK_LEAD:
        name = "judged by the network alone"
        return of_network, f"{name}: decision trees agree with {share}, the network with {network_agreement:.1%}"
    tree_probs = _sharpened(trees.probs.astype(np.float64), float(np.nanmean(of_network.max(axis=1))))
    if lead < 0:
        name = f"judged by decision trees alone ({trees.description})"
        return tree_probs, f"{name}: they agree with {share}, more than the network does ({network_agreement:.1%})"
    name = f"judged by the network and decision trees ({trees.description})"
    return (of_network + tree_probs) / 2, f"{name}, which agree with {share}"


def _sharpened(probs: npt.NDArray[np.float64], confidence: float) -> npt.NDArray[np.float64]:
    """Return a power of probabilities (N, C), rows that sum to 1, that is nearly as sure as the network.

    Trees that learn from wrong labels are never sure: unchanged, they would call nearly every label right. The mean of
    the largest probabilities goes three quarters of the way to `confidence`.
    """
    now, logs = float(probs.max(axis=1).mean()), np.log(probs)
    low, high = 1.0, _MAX_POWER
    for _ in range(20):
        power = (low + high) / 2
        raised = np.exp(power * (logs - logs.max(axis=1, keepdims=True)))
        raised /= raised.sum(axis=1, keepdims=True)
        short = raised.max(axis=1).mean() < now + _CONFIDENCE_SHARE * (confidence - now)
        low, high = (power, high) if short else (low, power)
    sharpened: npt.NDArray[np.float64] = raised
    return sharpened


def unseen_probs(
    settings: Judging,
    network: nn.Module,
    training_set: Predicted,
    trees: TreePredictions | None = None,
    *,
    of_siblings: Ledger | None = None,
    linear: bool,
    weight_decay: float,
    seed: int,
    progress: Callable[[float], None],
) -> UnseenProbs | None:
    """Return the probabilities that calibrate the findings; None if they are not calibrated.

    For a linear head these are out-of-fold predictions, recorded in training (`of_siblings`) or made now, on tables
    those of trees. Other networks would take too long to train several times, and heads that several processes train
    have no vectors in one place: their own predictions are taken, which know the given labels, so that the noise rate
    may be too low.
    """
    if not settings.calibrate or len(training_set.labels) < MIN_CALIBRATED:
        return None
    if trees is not None:
        return UnseenProbs(trees.probs)
    if of_siblings is not None and of_siblings.seen.any():
        return UnseenProbs(of_siblings.mean_probs(), expected_scale(training_set.ledger.num_classes))
    readable = training_set.vectors(_MAX_VECTORS) if linear else None
    if readable is None or len(readable[0]) < FOLDS:
        return UnseenProbs(mean_probs(network, training_set))
    (positions, vectors), classes = readable, training_set.ledger.num_classes
    labels = trusted_labels(training_set.labels, training_set.decided)
    probs = np.full((len(labels), classes), np.nan, np.float32)
    with threads_for(FOLDS * vectors.shape[1] * classes * 128):  # in batches of 128
        how: dict[str, Any] = {"weight_decay": weight_decay, "seed": seed, "progress": progress}
        probs[positions] = out_of_fold(vectors, labels[positions], classes, **how)
    return UnseenProbs(probs, expected_scale(classes))


def trusted_labels(labels: npt.NDArray[np.int64], decided: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    """Return the labels (N,) to learn from: decided ones in place of given ones; `decided` is -1 elsewhere."""
    return labels if decided is None else np.where(decided >= 0, decided, labels)


def mean_probs(network: nn.Module, training_set: Predicted) -> npt.NDArray[np.floating]:
    """Return the mean (N, C) of the trained network's predictions and those recorded during training, which are less
    sure; of the network's alone if whole predictions were not recorded."""
    probs = training_set.probabilities(network)
    probs = probs.astype(float_type(probs.size), copy=False)
    if training_set.ledger.keep == "full":
        history = training_set.ledger.mean_probs()
        history += probs
        history /= 2
        np.copyto(probs, history, where=~np.isnan(history))
    return probs


def judge_labels(
    source: Source,
    ledger: Ledger,
    recorded_quality: npt.NDArray[np.float32] | None,
    settings: Judging,
    unreadable: dict[int, str],
    probs: npt.NDArray[np.floating[Any]] | None = None,
    unseen: UnseenProbs | None = None,
    progress: Callable[[float], None] | None = None,
) -> Findings:
    """Return the findings on all given labels, calibrated by `unseen`.

    Labels are scored by `probs` (N, C), else by `recorded_quality` (N,), else by the predictions in the ledger.
    """
    paths = None if source.paths is None else source.paths.tolist()
    broken = np.zeros(len(source), bool)
    broken[list(unreadable)] = True
    options: dict[str, Any] = {
        "class_names": source.class_names,
        "threshold": settings.threshold,
        "paths": paths,
        "ids": None if paths else source.ids,
        "unreadable": broken if broken.any() else None,
    }
    if probs is None and unseen is not None and recorded_quality is None and ledger.keep == "full":
        probs = ledger.mean_probs().astype(np.float64)
        options["unreadable"] = broken | np.isnan(probs[:, 0])
    if probs is not None:
        if unseen is not None:
            options |= {"unseen_probs": unseen.probs, "unseen_scale": unseen.expected_scale, "progress": progress}
        findings = Findings.from_probs(probs, source.labels, **options)
        if findings.noise is not None and unseen is not None and findings.noise.caveat != NO_SIGNAL:
            noise = of_rules(
                findings.noise,
                unseen.probs,
                source.labels,
                _content(source),
                heads=unseen.expected_scale is not None,
            )
            findings = replace(findings, noise=noise)
            if is_withheld(noise):
                findings = _as_predicted(findings, probs, unseen.probs, settings.threshold)
    else:
        findings = Findings.from_ledger(ledger, source.labels, quality=recorded_quality, **options)
    if source.decided is not None:
        findings = findings.with_decisions(source.decided).with_threshold(settings.threshold)
    return replace(findings, excerpts=excerpts(source, findings))


def _as_predicted(
    findings: Findings, probs: npt.NDArray[np.floating[Any]], unseen: npt.NDArray[np.floating[Any]], rule: float | str
) -> Findings:
    """Return findings without a noise rate to calibrate by: quality is the probability that models which have not seen
    a label (N, C) give it, in the order of `probs` (N, C)."""
    rows, given = np.arange(len(unseen)), findings.given_labels
    other, noise, usable = findings.others[0], findings.noise, ~np.isnan(findings.label_quality)
    if noise is None or not usable.any():
        return findings
    predicted, quality = unseen[rows, given].astype(np.float64), np.full(len(given), np.nan)
    quality[usable] = monotone(probs[rows, given][usable], predicted[usable])
    confidence = (1 - quality) * np.clip(unseen[rows, other] / np.maximum(1 - predicted, 1e-9), 0, 1)
    rate, better = float(1 - quality[usable].mean()), confidence > quality
    unlikely = float((predicted[usable] < 0.5).mean())
    return replace(
        findings,
        label_quality=quality,
        suggested_labels=np.where(better, other, given),
        suggested_confidence=np.where(better, confidence, quality),
        other_confidence=confidence,
        noise=noise._replace(rate=rate, low=min(noise.low, rate), unlikely=unlikely),
    ).with_threshold(rule)


def _content(source: Source) -> Sequence[str] | npt.NDArray[np.floating[Any]] | None:
    """Return what a rule could have read: the texts, or the columns of a table."""
    if source.texts is not None:
        return [str(text) for text in source.texts]
    if source.kind != "vector" or source.backbone is not None or source.cells is None:
        return None
    return np.stack([source.inputs.read(at) for at in range(len(source))])
