"""Joint-Optim: predictions of a network trained at a high learning rate replace the labels."""

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from jnpl.data.loading.batches import Batch
from jnpl.internal.errors import InputError
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, MethodSettings, Stage, StepOutput, Task, TrainingSetView, gather_labels

_UPDATE_FROM = 0.35  # share of the stage: the paper's 70 of 200 epochs


def entropy(log_p: Tensor) -> Tensor:
    """-sum_k p_k log p_k: (B, C) -> (B,)."""
    return -(log_p.exp() * log_p).sum(1)


def log_mean(log_p: Tensor, whole: Tensor) -> Tensor:
    """log of the mean prediction of the whole batch, with the gradient of the own rows: (B, C), (W, C) -> (C,).

    `whole` is `log_p` of all processes that share the batch, without gradient; with one process it is `log_p`. The
    loop multiplies the gradient of a process by B / W, which the last factor undoes.
    """
    log_total, log_sum = whole.logsumexp(0), log_p.logsumexp(0)
    share = (log_sum - log_total).exp().detach()
    return log_total - math.log(len(whole)) + share * (log_sum - log_sum.detach()) * (len(whole) / len(log_p))


class JointOptim(Method):
    """Soft labels updated from the network's predictions, then a fresh network trained on them."""

    paper = "Tanaka et al., CVPR 2018"
    networks = "1, then 1 fresh"
    needs = "class prior"
    score = "soft label of the given class at the end of the first stage"
    stages = (Stage("labels"), Stage("retrain", fresh=True))

    class Settings(MethodSettings):
        """Settings of the first stage; the second is cross-entropy."""

        name: str = "joint-optim"
        alpha: float = Field(1.0, ge=0, description="weight of the class prior; with 0 all labels can become one class")
        beta: float = Field(0.5, ge=0, description="weight of the entropy")
        update_from: int | None = Field(
            None, ge=0, description="first epoch with new labels, counted from 0; None: 0.35 of the stage (70 of 200)"
        )
        prior: Literal["uniform", "given"] = Field(
            "uniform", description="class prior: uniform, or the shares of the given labels"
        )

        @property
        def needs_full_history(self) -> bool:
            """The soft labels are made of it."""
            return True

    soft_labels: Tensor  # (N, C)
    prior: Tensor  # (C,)

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.alpha, self.beta, self.update_from = settings.alpha, settings.beta, settings.update_from
        given = F.one_hot(task.labels.long(), task.num_classes).float()
        prior = given.mean(0) if settings.prior == "given" else torch.full_like(given[0], 1 / task.num_classes)
        self.register_buffer("soft_labels", given)
        self.register_buffer("prior", prior)

    def begin_epoch(self, training_set: TrainingSetView) -> None:
        """Update the soft labels from the history up to the epoch before."""
        if self.stage > 0:
            return
        if self._first_update() >= self.epochs:
            raise InputError(
                f"joint-optim has new labels from epoch {self._first_update()} on, stage labels has {self.epochs}: "
                f"--set method.update_from={int(_UPDATE_FROM * self.epochs)}"
            )
        if self.epoch >= max(self._first_update(), 1):  # before epoch 0 there are no predictions
            self._update(training_set)

    def begin_stage(self, training_set: TrainingSetView) -> None:
        """Update the soft labels after the last epoch of the first stage."""
        self._update(training_set)

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        log_p = logits.float().log_softmax(1)
        soft = self.soft_labels[batch.index].to(log_p.device)
        fit = JF.soft_pl(logits.float(), soft).mean()
        quality = gather_labels(soft, batch.labels).clamp(0, 1)
        if self.stage > 0:
            return StepOutput(fit, logits, {}, quality)
        # The mean prediction is over the whole batch, over all processes.
        _, whole = self.gather_over_processes(batch, log_p.detach())
        prior = -(self.prior * log_mean(log_p, whole)).sum()  # KL(prior || mean p) up to a constant
        unsure = entropy(log_p).mean()
        loss = fit + self.alpha * prior + self.beta * unsure
        scalars = {"fit": fit, "prior": prior, "entropy": unsure}
        # Before the first update the soft labels are the given ones: label quality is then p_y.
        return StepOutput(loss, logits, scalars, quality if self.epoch >= max(self._first_update(), 1) else None)

    def _first_update(self) -> int:
        """The first epoch of the first stage that is trained with new labels, counted from 0."""
        return int(_UPDATE_FROM * self.epochs) if self.update_from is None else self.update_from

    def _update(self, training_set: TrainingSetView) -> None:
        """Set the soft labels to the mean predictions of the last epochs; samples that cannot be read keep theirs."""
        history = training_set.history().to(self.soft_labels)
        self.soft_labels.copy_(torch.where(history.isnan().any(1, keepdim=True), self.soft_labels, history))
