"""SOP+: SOP with agreement between a weak and a strong view, and balanced classes."""

import torch
from pydantic import Field
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.methods.base import StepOutput, Task
from jnpl.methods.joint_optim import log_mean
from jnpl.methods.sop import SOP, SOPSettings


def consistency(weak: Tensor, strong: Tensor) -> Tensor:
    """KL(p(weak) || p(strong)), p(weak) a constant: logits (B, C), (B, C) -> (B,)."""
    log_p, log_q = weak.detach().float().log_softmax(1), strong.float().log_softmax(1)
    return (log_p.exp() * (log_p - log_q)).sum(1)


class SOPPlus(SOP):
    """SOP + 0.9 KL(p(weak) || p(strong)) + 0.1 cross-entropy of the uniform and the mean adjusted prediction."""

    views = ("strong",)

    class Settings(SOPSettings):
        """Settings of u, v and the two terms."""

        name: str = "sop-plus"
        consistency: float = Field(0.9, ge=0, description="weight of the agreement of weak and strong views")
        balance: float = Field(0.1, ge=0, description="weight of the class balance")

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task, settings)
        self.consistency, self.balance = settings.consistency, settings.balance

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits, strong = self.model(torch.cat([batch.inputs, *batch.views])).chunk(2)
        supervised, fit, adjusted = self.terms(logits, batch)
        agreement = consistency(logits, strong).mean()
        # The mean prediction is over the whole batch, over all processes. It cannot be 0: rows are at least 1e-4.
        _, whole = self.gather_over_processes(batch, adjusted.detach().log())
        balance = -log_mean(adjusted.log(), whole).mean()
        loss = supervised + fit + self.consistency * agreement + self.balance * balance
        scalars = {"supervised": supervised, "fit": fit, "consistency": agreement, "balance": balance}
        return StepOutput(loss, logits, scalars)
