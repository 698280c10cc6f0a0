"""Cross-entropy with the given labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jnpl.losses import functional as JF
from jnpl.methods.base import MethodSettings, Task
from jnpl.methods.plain import PlainLoss

if TYPE_CHECKING:
    from torch import Tensor


class CE(PlainLoss):
    """The mean of -log p_y over the batch (positive learning, Eq. 1)."""

    paper = "the baseline of all"

    class Settings(MethodSettings):
        """No settings of its own."""

        name: str = "ce"

    def __init__(self, task: Task, _settings: Settings) -> None:
        super().__init__(task)

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each sample: (B, C), (B,) -> (B,)."""
        return JF.pl(logits, labels)
