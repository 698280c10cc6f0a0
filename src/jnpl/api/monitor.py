"""A monitor for a training loop of one's own: shown every batch, it says at the end which labels are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from jnpl.findings.findings import Findings
from jnpl.findings.ledger import Ledger
from jnpl.findings.posterior import posterior
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from jnpl.findings.findings import Names
    from jnpl.findings.ledger import Values


class Monitor:
    """What the network said of each of `num_samples` samples the last `history` times it saw them.

    A monitor counts visits, not epochs: nothing is to be told at the end of an epoch, and a sample that a sampler draws
    twice, or not at all, is no trouble. Of a sample that stands twice in one batch the last row counts. Show it the
    batches that the network trains on, in training mode and before or after the update, but no others: the index is
    the place in the training set. Where several processes train, gather index and logits first.

    Memory is that of `jnpl.Ledger`: 4 * history * num_classes bytes a sample, or less than 96 with `keep="compact"`,
    which needs the given `labels`, and from which no posterior can be made.

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
        """Note a batch: (B,) places in the training set, (B, C) logits, or probabilities with `probs=True`."""
        rows = (logits.detach() if isinstance(logits, Tensor) else torch.tensor(np.asarray(logits))).float()
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
        """Judge the (N,) given labels 0..C-1; a sample that was never seen has a quality of nan and is no issue.

        `score` "history" is the mean probability of the given label, as the paper has it; "posterior" sees it in the
        light of who is taken for whom (`posterior`), which ranks better where some classes are confused more than
        others. The threshold is looked for between right and wrong labels: 0.5 is made for networks that are sure, as
        JNPL makes them, and a few epochs of cross-entropy do not.
        """
        if score not in ("history", "posterior"):
            raise InputError(f"score must be 'history' or 'posterior', not {score!r}")
        given = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else labels
        told: dict[str, Any] = {"class_names": class_names, "ids": ids, "threshold": threshold}
        history = Findings.from_ledger(self.ledger, given, **told)  # the checks of labels and names too
        if score == "history":
            return history
        unseen = self.ledger.seen == 0
        probs = posterior(self.ledger.mean_probs(), history.given_labels).probs
        return Findings.from_probs(probs, given, **told, unreadable=unseen if unseen.any() else None)

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint; its tensors share memory with the monitor, as torch's do."""
        return self.ledger.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from the `state_dict()` of a monitor of the same size."""
        self.ledger.load_state_dict(state)
