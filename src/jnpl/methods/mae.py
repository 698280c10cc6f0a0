"""Mean absolute error: its gradient is bounded, so that wrong labels have little influence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jnpl.losses import functional as JF
from jnpl.methods.base import MethodSettings, Task
from jnpl.methods.plain import PlainLoss

if TYPE_CHECKING:
    from torch import Tensor


class MAE(PlainLoss):
    """The mean of sum_k |p_k - [k = y]| = 2 (1 - p_y) over the batch."""

    paper = "Ghosh et al., AAAI 2017"

    class Settings(MethodSettings):
        """No settings of its own."""

        name: str = "mae"

    def __init__(self, task: Task, _settings: Settings) -> None:
        super().__init__(task)

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each sample: (B, C), (B,) -> (B,)."""
        return JF.mae(logits, labels)
