"""A monitor for any training loop: it records every batch and finds the wrong labels at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy.typing as npt
import torch
from torch import Tensor

from jnpl.data.sources.arrays import to_numpy
from jnpl.internal.errors import InputError
from jnpl.judging.findings import Findings, Names
from jnpl.judging.ledger import Ledger, Values
from jnpl.judging.posterior import posterior


class Monitor:
    """Records the predictions of a network while it trains in any loop, and judges the given labels by them.

    A monitor counts visits, not epochs: the end of an epoch need not be reported, and a sample may be drawn twice or
    not at all. Of a sample that is twice in one batch the last row counts. Pass the batches that the network trains on,
    in training mode and before or after the update, and no others. Where several processes train, gather index and
    logits first.

    Args:
        num_samples: size of the training set, N.
        num_classes: number of classes, C.
        history: how many of a sample's last predictions are averaged.
        keep: "full" takes 4 * history * num_classes bytes a sample; "compact" less than 96, needs `labels`, and gives
            no posterior.
        labels: the given labels (N,); only for "compact".

    Example:
        >>> monitor = Monitor(num_samples=3, num_classes=2)
        >>> for epoch in range(2):
        ...     monitor.update([0, 1], [[2.0, 0.0], [0.0, 3.0]])  # logits, from a batch of two
        ...     monitor.update([2], [[4.0, 0.0]])
        >>> monitor.findings([0, 0, 0]).table[["id", "given_label", "suggested_label", "is_label_issue"]]
           id  given_label  suggested_label  is_label_issue
        0   0            0                0           False
        1   1            0                1            True
        2   2            0                0           False
    """

    def __init__(
        self,
        num_samples: int,
        num_classes: int,
        history: int = 10,
        *,
        keep: Literal["full", "compact"] = "full",
        labels: Values | None = None,
    ) -> None:
        self.ledger = Ledger(num_samples, num_classes, history, keep, labels)

    def __repr__(self) -> str:
        return f"Monitor{repr(self.ledger).removeprefix('Ledger')}"

    def update(self, index: Values, logits: Values, *, probs: bool = False) -> None:
        """Record a batch.

        Args:
            index: positions (B,) in the training set.
            logits: the network's outputs (B, C), or probabilities with `probs=True`.
            probs: whether `logits` are probabilities.
        """
        rows = logits.detach() if isinstance(logits, Tensor) else torch.from_numpy(to_numpy(logits, "logits").copy())
        if rows.is_complex():
            raise InputError("logits must be real numbers, not complex ones")
        rows = rows.float()
        if rows.ndim != 2:
            raise InputError(f"logits must have shape (B, {self.ledger.num_classes}), not {tuple(rows.shape)}")
        # A new number each time, so that no visit replaces another.
        self.ledger.record(index, rows if probs else rows.softmax(1), self.ledger.epoch + 1)

    def findings(
        self,
        labels: Values,
        score: Literal["history", "posterior"] = "history",
        *,
        class_names: Names | None = None,
        ids: npt.ArrayLike | None = None,
        threshold: float | str = "auto",
    ) -> Findings:
        """Judge the given labels by the recorded predictions.

        Args:
            labels: class numbers (N,).
            score: "history" is the mean probability of the given label, as the paper has it; "posterior" corrects it by
                the estimated confusion between classes (transition matrix), which ranks better where some classes are
                confused more than others.
            class_names: names of the classes.
            ids: names (N,) of the samples, by default their positions.
            threshold: label quality below which a label is an issue: "auto" is estimated from the data; 0.5 suits
                networks that are as sure as JNPL makes them, not a few epochs of cross-entropy.

        Returns:
            Findings; a sample that was never seen has a quality of nan and is no issue.
        """
        if score not in ("history", "posterior"):
            raise InputError(f"score must be 'history' or 'posterior', not {score!r}")
        given_labels = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else labels
        options: dict[str, Any] = {"class_names": class_names, "ids": ids, "threshold": threshold}
        history = Findings.from_ledger(self.ledger, given_labels, **options)  # the checks of labels and names too
        if score == "history":
            return history
        unseen = self.ledger.seen == 0
        probs = posterior(self.ledger.mean_probs(), history.given_labels).probs
        return Findings.from_probs(probs, given_labels, **options, unreadable=unseen if unseen.any() else None)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint; its tensors share memory with the monitor, as torch's do."""
        return self.ledger.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state_dict()` of a monitor of the same size."""
        self.ledger.load_state_dict(state)
