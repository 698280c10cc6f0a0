"""ELR: early-learning regularisation, which holds predictions near their own moving average."""

import torch
from pydantic import Field
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task, gather_labels

_EDGE = 1e-4  # predictions stay this far from 0 and 1


def clamped_probs(logits: Tensor) -> Tensor:
    """Softmax, clamped to [1e-4, 1 - 1e-4], where its gradient is zero: (B, C) -> (B, C)."""
    return logits.float().softmax(1).clamp(_EDGE, 1 - _EDGE)


def moved_targets(targets: Tensor, probs: Tensor, beta: float) -> Tensor:
    """beta t + (1 - beta) p / sum p, without gradient: (B, C), (B, C) -> (B, C)."""
    probs = probs.detach()
    return beta * targets + (1 - beta) * probs / probs.sum(1, keepdim=True)


def early_learning(targets: Tensor, probs: Tensor) -> Tensor:
    """log(1 - <t, p>), smaller the more p agrees with its target: (B, C), (B, C) -> (B,)."""
    return (1 - (targets * probs).sum(1)).log()


def target_quality(targets: Tensor, labels: Tensor) -> Tensor:
    """Share of the given label in its target, t_y / sum t: (B, C), (B,) -> (B,)."""
    return (gather_labels(targets, labels) / targets.sum(1)).clamp(0, 1)


class ELR(Method):
    """Cross-entropy with the given labels, plus lambda log(1 - <t, p>) with t the moving average of p."""

    paper = "Liu et al., NeurIPS 2020"
    score = "share of the given label in the moving average of predictions, mean of the last 10 epochs"

    class Settings(MethodSettings):
        """Settings of the regularisation."""

        name: str = "elr"
        beta: float = Field(0.7, ge=0, lt=1, description="decay of the targets' moving average, once an epoch")
        weight: float = Field(3.0, ge=0, description="the paper's lambda: weight of the regularisation")

    targets: Tensor  # (N, C)

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.beta, self.weight = settings.beta, settings.weight
        self.register_buffer("targets", torch.zeros(len(task.labels), task.num_classes))

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        probs = clamped_probs(logits)
        targets = moved_targets(self.targets[batch.index.to(self.targets.device)], probs, self.beta)
        index, rows = self.gather_over_processes(batch, targets)
        self.targets[index.to(self.targets.device)] = rows
        supervised, regularisation = JF.pl(logits, batch.labels).mean(), early_learning(targets, probs).mean()
        loss = supervised + self.weight * regularisation
        scalars = {"ce": supervised, "regularisation": regularisation}
        return StepOutput(loss, logits, scalars, target_quality(targets, batch.labels))
