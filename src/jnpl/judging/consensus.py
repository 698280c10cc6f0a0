"""One label from several: annotators' votes and the predictions of a classifier that has not seen them.

The model is that of Dawid and Skene (1979) with the classifier's prediction in place of the classes' frequencies
(Raykar et al. 2010): the true class t of a sample has the probability

    q(t) ~ p(t | x)^s  prod_a T_a(t, vote of a)^0.8,

T_a(t, v) being how often annotator a calls a t a v. T and q are estimated in turns (EM). Two departures: the exponent
0.8, because annotators fail together on difficult samples, so that a vote tells less than if they were independent;
and the mistakes of an annotator are pulled towards those of all by as much as 20 labels of each class weigh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from jnpl.judging.findings import Findings
    from jnpl.judging.scoring import UnseenProbs

Floats: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = npt.NDArray[np.int64]
Votes: TypeAlias = "Mapping[str, Labels]"

VOTE = "vote "  # and the name of the annotator: a column of the table of findings
_VOTE, _POOLED = 0.8, 20.0  # exponent of a vote; pseudo-labels of each class
_ROUNDS, _TOLERANCE = 100, 1e-5
_SMALLEST = 1e-12  # probability


class Consensus(NamedTuple):
    """The probabilities (N, C) of the true classes, and P(vote = j | true = i) (C, C) of each annotator."""

    probs: Floats
    transitions: dict[str, Floats]

    @property
    def labels(self) -> Labels:
        """The most probable classes (N,)."""
        best: Labels = self.probs.argmax(axis=1)
        return best

    @property
    def quality(self) -> Floats:
        """The probability (N,) that the consensus label is right."""
        highest: Floats = self.probs.max(axis=1)
        return highest


def majority(votes: Votes, num_classes: int) -> Labels:
    """Return the most frequent vote (N,), the first class of several; -1 where nobody has voted.

    >>> majority({"ann": np.array([0, 1, -1]), "bob": np.array([0, 0, -1])}, 2).tolist()
    [0, 0, -1]
    """
    counts = _counts(votes, num_classes)
    return np.where(counts.any(axis=1), counts.argmax(axis=1), -1)


def consensus(votes: Votes, probs: npt.ArrayLike, scale: float = 1.0) -> Consensus:
    """Return the consensus of annotators and a classifier.

    Args:
        votes: annotator -> class number (N,) of each sample, -1 where there is none.
        probs: (N, C) probabilities of models that have not seen the votes on the sample; rows of nan count for nothing.
        scale: s, the inverse temperature at which they are calibrated.

    Example:
        >>> votes = {"ann": np.array([0, 0, 1, 1]), "bob": np.array([0, 0, 1, 0])}
        >>> consensus(votes, [[0.9, 0.1], [0.2, 0.8], [0.1, 0.9], [0.1, 0.9]]).labels.tolist()
        [0, 0, 1, 1]
    """
    predicted = np.nan_to_num(np.asarray(probs, np.float64), nan=1 / np.shape(probs)[1])
    size = predicted.shape[1]
    if not votes or any(len(given) != len(predicted) for given in votes.values()):
        raise InputError(f"votes must be {len(predicted)} for each annotator")
    log_prior = scale * np.log(np.maximum(predicted, _SMALLEST))
    seen = {name: np.flatnonzero(given >= 0) for name, given in votes.items()}
    q = _normalised(np.log(_counts(votes, size) + 1e-3) + log_prior)
    transitions: dict[str, Floats] = {}
    for _ in range(_ROUNDS):
        counts = {name: _table(q[rows], votes[name][rows]) for name, rows in seen.items()}
        everybody = sum(counts.values(), np.full((size, size), 0.1) + 0.9 * size * np.eye(size))
        everybody /= everybody.sum(axis=1, keepdims=True)
        transitions = {name: table + _POOLED * everybody for name, table in counts.items()}
        transitions = {name: table / table.sum(axis=1, keepdims=True) for name, table in transitions.items()}
        logs = log_prior.copy()
        for name, rows in seen.items():
            logs[rows] += _VOTE * np.log(transitions[name][:, votes[name][rows]].T)
        old, q = q, _normalised(logs)
        if np.abs(q - old).max() < _TOLERANCE:
            break
    return Consensus(q, transitions)


def with_consensus(
    findings: Findings,
    votes: dict[str, Labels],
    probs: npt.NDArray[np.floating[Any]] | None,
    unseen: UnseenProbs | None,
    threshold: float | str,
) -> Findings:
    """Return findings with the consensus labels in place of the given ones, and how sure they are.

    Args:
        votes: annotator -> class number (N,) of each sample, or -1.
        probs: (N, C) by which the labels were judged, where there are no others.
    """
    predicted, scale = (probs, 1.0) if unseen is None else (unseen.probs, unseen.expected_scale or 1.0)
    if predicted is None:
        raise InputError("a consensus needs predictions of the classes, which this recipe does not keep")
    joint = consensus(votes, predicted, scale)
    judged = ~np.isnan(findings.label_quality)
    labels = np.where(judged, joint.labels, findings.given_labels)
    quality = np.where(judged, joint.quality, np.nan)
    joined = replace(findings, given_labels=labels, suggested_labels=labels, noise=None, votes=votes)
    sure = replace(
        joined, label_quality=quality, suggested_confidence=quality, other_labels=None, other_confidence=None
    )
    return sure.with_threshold(threshold)


def ask_next(findings: Findings, most: int) -> pd.DataFrame:
    """Return the samples whose consensus is least sure, and whom to ask; see `Findings.ask_next`."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    votes = findings.votes or {}
    ranked = annotator_table(votes, findings.given_labels, findings.label_quality)["annotator"].tolist()[::-1]
    order = np.argsort(findings.label_quality, kind="stable")[:most]
    ask = np.array([next((name for name in ranked if votes[name][at] < 0), None) for at in order.tolist()], object)
    labels = [findings.names[label] for label in findings.given_labels[order].tolist()]
    columns = {"id": findings.ids[order], "consensus": labels, "label_quality": findings.label_quality[order]}
    return pd.DataFrame({**columns, "ask": pd.Series(ask, dtype=object)})


def annotator_table(votes: Votes, labels: Labels, quality: Floats) -> pd.DataFrame:
    """Return a row per annotator, the worst first: labels, agreement with the consensus, and quality.

    Quality is the expected share of right votes. Of a vote for the consensus label this is the quality of that label; a
    vote for another class is right with no more than the rest.
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    rows = []
    for name, given in votes.items():
        voted = (given >= 0) & ~np.isnan(quality)
        agrees, count = given[voted] == labels[voted], int(voted.sum())
        shares = (agrees.mean(), quality[voted][agrees].sum() / count) if count else (np.nan, np.nan)
        rows.append((name, count, *map(float, shares)))
    table = pd.DataFrame(rows, columns=["annotator", "labels", "agreement", "quality"])
    return table.sort_values("quality", kind="stable", ignore_index=True)


def _counts(votes: Votes, size: int) -> Floats:
    counts = np.zeros((len(next(iter(votes.values()))), size))
    for given in votes.values():
        rows = np.flatnonzero(given >= 0)
        counts[rows, given[rows]] += 1
    return counts


def _table(q: Floats, given: Labels) -> Floats:
    """Return the expected number (C, C) of samples of each true class with each vote."""
    size = q.shape[1]
    return np.stack([np.bincount(given, q[:, true], size) for true in range(size)])


def _normalised(logs: Floats) -> Floats:
    q: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    q /= q.sum(axis=1, keepdims=True)
    return q
