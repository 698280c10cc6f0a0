"""Cross-entropy: trust every label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jnpl import functional as JF
from jnpl.methods.base import Method, StepOutput

if TYPE_CHECKING:
    from jnpl.data.batches import Batch


class CE(Method):
    """Positive learning with the given labels (Eq. 1), the mean over the batch."""

    def step(self, batch: Batch) -> StepOutput:
        """Look at one batch."""
        logits = self.model(batch.inputs)
        return StepOutput(JF.pl(logits, batch.labels).mean(), logits, {})
