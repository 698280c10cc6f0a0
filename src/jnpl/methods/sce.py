"""Symmetric cross-entropy: cross-entropy and reverse cross-entropy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from jnpl.losses import functional as JF
from jnpl.methods.base import MethodSettings, Task
from jnpl.methods.plain import PlainLoss

if TYPE_CHECKING:
    from torch import Tensor


class SCE(PlainLoss):
    """The mean of alpha CE + beta RCE over the batch."""

    paper = "Wang et al., ICCV 2019"

    class Settings(MethodSettings):
        """Weights of the two terms: 0.1 and 1 are the authors' for CIFAR-10, 6 and 0.1 for CIFAR-100."""

        name: str = "sce"
        alpha: float = Field(0.1, ge=0, description="weight of cross-entropy (CIFAR-100: 6)")
        beta: float = Field(1.0, ge=0, description="weight of reverse cross-entropy (CIFAR-100: 0.1)")

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.alpha, self.beta = settings.alpha, settings.beta

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each sample: (B, C), (B,) -> (B,)."""
        return JF.sce(logits, labels, self.alpha, self.beta)
