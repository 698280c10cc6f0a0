"""ELR+: ELR with two networks, targets from the other one's averaged weights, and mixup."""

import math

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import MethodSettings, StepCount, StepOutput, Task, draw_mixup, frozen_copy
from jnpl.methods.elr import clamped_probs, early_learning, moved_targets, target_quality
from jnpl.methods.two_networks import TwoNetworks, log_mean_prediction


def rise(step: int, length: int) -> float:
    """exp(-5 (1 - step / length)^2), 1 from step `length` on.

    >>> round(rise(0, 100), 4), rise(100, 100), rise(3, 0)
    (0.0067, 1.0, 1.0)
    """
    return 1.0 if step >= length else math.exp(-5 * (1 - step / length) ** 2)


class ELRPlus(TwoNetworks):
    """Two networks on mixed samples; the targets of each come from the averaged weights of the other."""

    paper = "Liu et al., NeurIPS 2020"
    networks = "2 (each with an EMA copy)"
    score = "share of the given label in the targets of both networks, mean of the last 10 epochs"
    tests_ensemble = True

    class Settings(MethodSettings):
        """Settings of the regularisation; steps are batches."""

        name: str = "elr-plus"
        beta: float = Field(0.7, ge=0, lt=1, description="decay of the targets' moving average, once an epoch")
        weight: float = Field(3.0, ge=0, description="the paper's lambda: weight of the regularisation")
        weight_steps: int = Field(0, ge=0, description="steps in which the weight rises (CIFAR-100: 40,000)")
        mixup_alpha: float = Field(1.0, gt=0, description="the mixup weight of a batch is drawn from Beta(a, a)")
        average_decay: float = Field(0.997, ge=0, lt=1, description="decay of the averaged weights, per step")
        average_steps: int = Field(40_000, ge=0, description="steps in which that decay rises from nearly 0")
        labels_by_targets: bool = Field(
            False, description="multiply the mixed labels by the mixed targets (CIFAR-100, where the code does so)"
        )

    targets_1: Tensor  # (N, C)
    targets_2: Tensor

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.settings, self.num_classes = settings, task.num_classes
        self.average_1, self.average_2 = frozen_copy(self.model), frozen_copy(self.second)
        for name in ("targets_1", "targets_2"):
            self.register_buffer(name, torch.zeros(len(task.labels), task.num_classes))
        self.steps = StepCount()  # of the run

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        done = self.steps.number
        if done:
            self._update_averages(done)
        weight = self.settings.weight * rise(done + 1, self.settings.weight_steps)
        with torch.no_grad():
            plain_1, plain_2 = self.average_1(batch.inputs), self.average_2(batch.inputs)
        targets_1 = self._update_targets(batch, self.targets_1, plain_2)  # by the other network
        targets_2 = self._update_targets(batch, self.targets_2, plain_1)
        loss_1, agree_1 = self._loss(batch, self.model, targets_1, weight)
        loss_2, agree_2 = self._loss(batch, self.second, targets_2, weight)
        self.steps.number += 1
        quality = (target_quality(targets_1, batch.labels) + target_quality(targets_2, batch.labels)) / 2
        scalars = {"network_1": loss_1, "network_2": loss_2, "regularisation": (agree_1 + agree_2) / 2}
        return StepOutput(loss_1 + loss_2, log_mean_prediction(plain_1, plain_2), scalars, quality)

    @torch.no_grad()
    def _update_averages(self, done: int) -> None:
        """Average the weights after `done` steps; batch norm's statistics come from the averages' own passes."""
        decay = self.settings.average_decay * rise(done + 1, self.settings.average_steps)
        for average, network in ((self.average_1, self.model), (self.average_2, self.second)):
            for averaged, current in zip(average.parameters(), network.parameters(), strict=True):
                averaged.lerp_(current, 1 - decay)

    def _update_targets(self, batch: Batch, targets: Tensor, logits: Tensor) -> Tensor:
        """Move the targets of the batch towards the predictions: (N, C), (B, C) -> (B, C)."""
        moved = moved_targets(targets[batch.index.to(targets.device)], logits.float().softmax(1), self.settings.beta)
        index, rows = self.gather_over_processes(batch, moved)
        targets[index.to(targets.device)] = rows
        return moved

    def _loss(self, batch: Batch, network: torch.nn.Module, targets: Tensor, weight: float) -> tuple[Tensor, Tensor]:
        """Return the loss of a network on mixed samples, and its regularisation: (B, C) -> (), ()."""
        drawn, partner = draw_mixup(batch, self.settings.mixup_alpha, len(batch.labels))
        share = max(drawn, 1 - drawn)
        logits = network(share * batch.inputs + (1 - share) * batch.inputs[partner])
        given = F.one_hot(batch.labels, self.num_classes).float()
        labels, mixed = (share * rows + (1 - share) * rows[partner] for rows in (given, targets))
        if self.settings.labels_by_targets:
            labels = labels * mixed
            labels = labels / labels.sum(1, keepdim=True).clamp_min(1e-12)
        agreement = early_learning(mixed, clamped_probs(logits)).mean()
        return JF.soft_pl(logits.float(), labels).mean() + weight * agreement, agreement
