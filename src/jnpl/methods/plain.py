"""Base class of methods that are a loss on the given labels and nothing else."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from jnpl.methods.base import Method, StepOutput

if TYPE_CHECKING:
    from torch import Tensor

    from jnpl.data.loading.batches import Batch


class PlainLoss(Method):
    """One network, one stage; the mean of a loss over the batch."""

    @abstractmethod
    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each sample: (B, C), (B,) -> (B,)."""

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        return StepOutput(self.losses(logits, batch.labels).mean(), logits, {})
