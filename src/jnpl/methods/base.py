"""What the training loop and a method say to each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from jnpl.data.batches import Batch


class StepOutput(NamedTuple):
    """A scalar loss to descend, the logits (B, C) for the ledger, and numbers worth a line in the log."""

    loss: Tensor
    logits: Tensor
    scalars: Mapping[str, Tensor]


class Method(nn.Module, ABC):
    """A network and what one batch teaches it. Optimiser, device and data belong to the loop.

    The loss is a mean over the batch's own samples; `sum_over_processes` adds up a tensor over all processes that
    share a batch, for the rare term that is not (it is the identity for one process).
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.sum_over_processes: Callable[[Tensor], Tensor] = lambda tensor: tensor

    @abstractmethod
    def step(self, batch: Batch) -> StepOutput:
        """Look at one batch."""

    def forward(self, batch: Batch) -> StepOutput:
        """The step, where wrappers for several processes expect it."""
        return self.step(batch)

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits for new inputs: (B, ...) -> (B, C)."""
        logits: Tensor = self.model(inputs)
        return logits
