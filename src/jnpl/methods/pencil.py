"""PENCIL: label distributions updated by backpropagation."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, MethodSettings, Stage, StepOutput, Task, gather_labels

_CE, _LABELS, _CLASSIFY = range(3)
_START = 10.0  # the paper's K: label distributions start as softmax(K e_y)


def classification(log_p: Tensor, log_d: Tensor) -> Tensor:
    """The paper's L_c, KL(p || d) / C: (B, C), (B, C) -> (B,)."""
    return (log_p.exp() * (log_p - log_d)).mean(1)


def entropy_per_class(log_p: Tensor) -> Tensor:
    """The paper's L_e, the entropy of p divided by C: (B, C) -> (B,)."""
    return -(log_p.exp() * log_p).mean(1)


def compatibility(log_d: Tensor, labels: Tensor, double_softmax: bool) -> Tensor:
    """The paper's L_o, -log d_y; with `double_softmax` d is used as logits, as in the code: (B, C), (B,) -> (B,)."""
    if double_softmax:
        return F.cross_entropy(log_d.exp(), labels, reduction="none")
    return F.nll_loss(log_d, labels, reduction="none")


class PENCIL(Method):
    """One network, three stages: given labels, label distributions that are learnt, the same ones fixed."""

    paper = "Yi & Wu, CVPR 2019"
    score = "learnt label of the given class, softmax of y-tilde"
    stages = (Stage("ce"), Stage("labels"), Stage("classify"))

    class Settings(MethodSettings):
        """Settings of the second stage."""

        name: str = "pencil"
        alpha: float = Field(
            0.4, ge=0, description="weight of L_o, which keeps the distributions near the given labels"
        )
        beta: float = Field(0.1, ge=0, description="weight of L_e, the entropy")
        label_lr: float = Field(
            600.0, ge=0, description="learning rate of the label distributions: the paper's lambda, for batches of 128"
        )
        label_lr_end: float | None = Field(None, ge=0, description="lambda at the end of the stage; None: constant")
        label_lr_change: Literal["linear", "halfway"] = Field(
            "linear", description="linear: epoch by epoch; halfway: at once"
        )
        double_softmax: bool = Field(True, description="true: L_o of the released code; false: the paper's -log d_y")

        @model_validator(mode="after")
        def _check_label_lr_end(self) -> PENCIL.Settings:
            if self.label_lr_change == "halfway" and self.label_lr_end is None:
                raise ValueError("label_lr_change 'halfway' needs a label_lr_end, got None")
            return self

    y_tilde: Tensor  # (N, C)

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.settings = settings
        self.register_buffer("y_tilde", _START * F.one_hot(task.labels.long(), task.num_classes).float())

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        if self.stage == _CE:
            return StepOutput(JF.pl(logits, batch.labels).mean(), logits, {})
        log_p = logits.float().log_softmax(1)
        rows = self.y_tilde[batch.index].to(log_p.device)
        if self.stage == _CLASSIFY:
            loss = classification(log_p, rows.log_softmax(1)).mean()
            return StepOutput(loss, logits, {}, _quality(rows, batch))
        rows.requires_grad_()
        log_d = rows.log_softmax(1)
        fit = classification(log_p, log_d).mean()
        near = compatibility(log_d, batch.labels, self.settings.double_softmax).mean()
        unsure = entropy_per_class(log_p).mean()
        loss = fit + self.settings.alpha * near + self.settings.beta * unsure
        learnt = self._update_labels(loss, rows, batch)
        return StepOutput(loss, logits, {"fit": fit, "near": near, "entropy": unsure}, _quality(learnt, batch))

    def label_lr(self) -> float:
        """Return the paper's lambda in this epoch of the stage."""
        start, end = self.settings.label_lr, self.settings.label_lr_end
        if end is None:
            return start
        if self.settings.label_lr_change == "halfway":
            return start if 2 * self.epoch < self.epochs else end
        return start + (end - start) * self.epoch / self.epochs

    def _update_labels(self, loss: Tensor, rows: Tensor, batch: Batch) -> Tensor:
        """Take a gradient step on the label distributions of the batch, and store them: (), (B, C) -> (B, C)."""
        # The graph is kept for the loop's backward pass; `rows.grad` is not used.
        (gradient,) = torch.autograd.grad(loss, rows, retain_graph=True)
        # lambda belongs to a mean over the whole batch, over all processes.
        share = len(batch.labels) / self.global_batch_size(batch)
        learnt = rows.detach() - self.label_lr() * share * gradient
        index, all_rows = self.gather_over_processes(batch, learnt)
        self.y_tilde[index.to(self.y_tilde.device)] = all_rows.to(self.y_tilde)
        return learnt


def _quality(rows: Tensor, batch: Batch) -> Tensor:
    """Label quality, softmax(y-tilde) of the given label: (B, C) -> (B,)."""
    return gather_labels(rows.softmax(1), batch.labels).clamp(0, 1)
