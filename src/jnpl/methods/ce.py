"""Cross-entropy: trust every label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jnpl.losses import functional as JF
from jnpl.methods.base import MethodSettings, Task
from jnpl.methods.plain import PlainLoss

if TYPE_CHECKING:
    from torch import Tensor


class CE(PlainLoss):
    """Positive learning with the given labels (Eq. 1), the mean over the batch."""

    paper = "the baseline of all"

    class Settings(MethodSettings):
        """None."""

        name: str = "ce"

    def __init__(self, task: Task, _settings: Settings) -> None:
        super().__init__(task)

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(B, C), (B,) -> (B,)."""
        return JF.pl(logits, labels)
