"""JoCoR: two networks with a joint loss that rewards agreement, trained on the samples of small loss."""

import torch
from pydantic import Field
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import StepOutput, Task
from jnpl.methods.small_loss import SmallLoss, SmallLossSettings, mean_of
from jnpl.methods.two_networks import log_mean_prediction


def symmetric_kl(first: Tensor, second: Tensor) -> Tensor:
    """KL(p || q) + KL(q || p) = sum_k (p_k - q_k) (log p_k - log q_k): (B, C), (B, C) -> (B,).

    The gradient flows through both p and q, as in the authors' code.

    >>> symmetric_kl(torch.zeros(1, 2), torch.tensor([[0.0, 1.0]]))
    tensor([0.2311])
    """
    dtype = torch.promote_types(first.dtype, torch.float32)  # float16 is too coarse for logarithms
    log_p, log_q = first.log_softmax(1, dtype=dtype), second.log_softmax(1, dtype=dtype)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum(1)


def joint_loss(first: Tensor, second: Tensor, labels: Tensor, agreement: float) -> Tensor:
    """(1 - a) (CE_1 + CE_2) + a (KL both ways), not reduced: (B, C), (B, C), (B,) -> (B,)."""
    supervised = JF.pl(first, labels) + JF.pl(second, labels)
    return (1 - agreement) * supervised + agreement * symmetric_kl(first, second)


class JoCoR(SmallLoss):
    """The joint loss over the samples where it is small; both networks use the same samples."""

    paper = "Wei et al., CVPR 2020"
    score = "exp(-joint loss of the two networks), mean of the last 10 epochs"

    class Settings(SmallLossSettings):
        """Settings of the joint loss and of the selection."""

        name: str = "jocor"
        agreement: float = Field(0.9, ge=0, le=1, description="the paper's lambda: weight of the networks' agreement")

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task, settings)
        self.agreement = settings.agreement

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        first, second = self.model(batch.inputs), self.second(batch.inputs)
        losses = joint_loss(first, second, batch.labels, self.agreement)
        chosen = self.choose(batch, losses)
        loss = mean_of(losses, chosen)
        kept = chosen.share.to(loss)
        divergence = symmetric_kl(first.detach(), second.detach()).mean()
        scalars = {"kept": kept, "divergence": divergence}
        return StepOutput(loss, log_mean_prediction(first, second), scalars, (-losses.detach()).exp())
