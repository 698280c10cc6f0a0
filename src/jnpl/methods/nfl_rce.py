"""NFL+RCE: an active and a passive loss of APL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from jnpl.losses import functional as JF
from jnpl.methods.base import MethodSettings, Task
from jnpl.methods.plain import PlainLoss

if TYPE_CHECKING:
    from torch import Tensor


class NFLRCE(PlainLoss):
    """The mean of alpha NFL + beta RCE over the batch."""

    paper = "Ma et al., ICML 2020"

    class Settings(MethodSettings):
        """Weights of the two terms: 1 and 1 are the authors' for CIFAR-10, 10 and 0.1 for CIFAR-100."""

        name: str = "nfl-rce"
        alpha: float = Field(1.0, ge=0, description="weight of the normalised focal loss (CIFAR-100: 10)")
        beta: float = Field(1.0, ge=0, description="weight of reverse cross-entropy (CIFAR-100: 0.1)")
        gamma: float = Field(0.5, ge=0, description="exponent of the focal factor; 0: NCE+RCE")

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.alpha, self.beta, self.gamma = settings.alpha, settings.beta, settings.gamma

    def losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of each sample: (B, C), (B,) -> (B,)."""
        return JF.nfl_rce(logits, labels, self.alpha, self.beta, self.gamma)
