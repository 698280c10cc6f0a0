"""Cross-entropy: trust every label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jnpl import functional as JF
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task

if TYPE_CHECKING:
    from jnpl.data.batches import Batch


class CE(Method):
    """Positive learning with the given labels (Eq. 1), the mean over the batch."""

    paper = "the baseline of all"

    class Settings(MethodSettings):
        """None."""

        name: str = "ce"

    def __init__(self, task: Task, _settings: Settings) -> None:
        super().__init__(task)

    def step(self, batch: Batch) -> StepOutput:
        """Look at one batch."""
        logits = self.model(batch.inputs)
        return StepOutput(JF.pl(logits, batch.labels).mean(), logits, {})
