"""What a network predicts during an epoch, counted by class: what `warm_up` and `collapse_guard` decide by."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn


class EpochTotals(NamedTuple):
    """Counts of an epoch, or sums of sample weights, over all processes."""

    predicted: Tensor  # (C,), how often each class was predicted
    given: Tensor  # (C,), how often each class was the given label
    right: Tensor  # (C,), how often each given label was predicted
    confusion: Tensor | None  # (C, C), predicted and given labels; None: not counted


class EpochCounts(nn.Module):
    """Counts predicted and given labels from batch to batch: `add` each batch, `take` the totals after an epoch.

    The counts are buffers, so that checkpoints hold those of an unfinished epoch.

    Args:
        confusion: also count pairs of predicted and given labels, (C, C).

    Example:
        >>> counts = EpochCounts(num_classes=2)
        >>> counts.add(torch.tensor([[3.0, 0.0], [3.0, 0.0]]), torch.tensor([0, 1]))
        >>> counts.take().predicted
        tensor([2., 0.])
    """

    predicted: Tensor
    given: Tensor
    right: Tensor
    confusion: Tensor | None

    def __init__(self, num_classes: int, *, confusion: bool = False) -> None:
        super().__init__()
        for name in ("predicted", "given", "right"):
            self.register_buffer(name, torch.zeros(num_classes))
        self.register_buffer("confusion", torch.zeros(num_classes, num_classes) if confusion else None)

    @torch.no_grad()
    def add(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Count a batch: logits (B, C), given labels (B,), sample weights (B,)."""
        predicted = logits.argmax(1)
        weight = torch.ones(len(labels), device=labels.device) if weights is None else weights
        right = (predicted == labels) * weight
        for count, classes, amounts in (
            (self.predicted, predicted, weight),
            (self.given, labels, weight),
            (self.right, labels, right),
        ):  # not bincount, which makes a GPU wait
            count.add_(torch.zeros_like(count).index_add_(0, classes, amounts.to(count.dtype)))
        if self.confusion is not None:
            self.confusion.index_put_((predicted, labels), weight.to(self.confusion.dtype), accumulate=True)

    def take(self, sum_over_processes: Callable[[Tensor], Tensor] = lambda counts: counts) -> EpochTotals:
        """Return the totals since the last call, over all processes, and start anew."""
        predicted, given, right = (
            sum_over_processes(count.clone()) for count in (self.predicted, self.given, self.right)
        )
        confusion = None if self.confusion is None else sum_over_processes(self.confusion.clone())
        for count in self.buffers():
            count.zero_()
        return EpochTotals(predicted, given, right, confusion)
