"""JNPL: NL+ pushes away what a sample is not, PL+ pulls in what the network is sure of (Eq. 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from jnpl.methods.base import Method, StepOutput

if TYPE_CHECKING:
    from torch import nn

    from jnpl.data.batches import Batch
    from jnpl.losses import JNPLLoss


class JNPL(Method):
    """One network, one stage, two losses."""

    def __init__(self, model: nn.Module, loss: JNPLLoss) -> None:
        super().__init__(model)
        self.loss = loss

    def step(self, batch: Batch) -> StepOutput:
        """Look at one batch."""
        logits = self.model(batch.inputs)
        draws = self.loss.draw(batch.labels, batch.generator, batch.rows)
        own = len(batch.labels)
        terms = self.loss.terms(logits, batch.labels, draws)
        # PL+ is a mean over the selected of the whole batch (Algorithm 1), also where processes share it.
        counts = self.sum_over_processes(torch.stack([terms.selected, torch.full_like(terms.selected, own)]).float())
        pl_plus = terms.pl_plus_sum / counts[0].clamp_min(1) * (counts[1] / own)
        loss = terms.nl_plus + self.loss.pl_weight * pl_plus
        share = terms.selected / own
        return StepOutput(loss, logits, {"nl_plus": terms.nl_plus, "pl_plus": pl_plus, "selected": share})
