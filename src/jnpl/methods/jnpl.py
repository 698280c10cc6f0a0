"""JNPL: NL+ pushes away what a sample is not, PL+ pulls in what the network is sure of (Eq. 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jnpl.methods.base import Method, StepOutput

if TYPE_CHECKING:
    import torch
    from torch import nn

    from jnpl.data.batches import Batch
    from jnpl.losses import JNPLLoss


class JNPL(Method):
    """One network, one stage, two losses; random draws come from the run's generator."""

    def __init__(self, model: nn.Module, loss: JNPLLoss, generator: torch.Generator) -> None:
        super().__init__(model)
        self.loss = loss
        self.generator = generator

    def step(self, batch: Batch) -> StepOutput:
        """Look at one batch."""
        logits = self.model(batch.inputs)
        terms = self.loss.terms(logits, batch.labels, self.loss.draw(batch.labels, self.generator))
        loss = terms.nl_plus + self.loss.pl_weight * terms.pl_plus
        return StepOutput(
            loss, logits, {"nl_plus": terms.nl_plus, "pl_plus": terms.pl_plus, "selected": terms.selected}
        )
