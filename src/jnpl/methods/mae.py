"""Mean absolute error: a wrong label pulls no harder than a right one, and a hopeless sample hardly at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jnpl.losses import functional as JF
from jnpl.methods.base import MethodSettings, Task
from jnpl.methods.plain import PlainLoss

if TYPE_CHECKING:
    from torch import Tensor


class MAE(PlainLoss):
    """sum_k |p_k - [k = y]| = 2 (1 - p_y), the mean over the batch. Some code has half of it, and half the pull."""

    paper = "Ghosh et al., AAAI 2017"

    class Settings(MethodSettings):
        """None."""

        name: str = "mae"

    def __init__(self, task: Task, _settings: Settings) -> None:
        super().__init__(task)

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(B, C), (B,) -> (B,)."""
        return JF.mae(logits, labels)
