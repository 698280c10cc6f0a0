"""SOP: sparse over-parameterisation, which learns the wrong part of every label as u^2 y - v^2 (1 - y)."""

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

from jnpl.data.loading.batches import Batch
from jnpl.methods.base import Method, MethodSettings, ParameterGroup, StepOutput, Task, gather_labels

_EDGE = 1e-4  # smallest adjusted prediction
_START = 1e-8  # deviation of the first u and v: at 0 they would have no gradient


class SOPSettings(MethodSettings):
    """Settings of u and v."""

    lr_u: float = Field(10.0, ge=0, description="learning rate of u, for batches of 128")
    lr_v: float = Field(10.0, ge=0, description="learning rate of v")


def label_parts(u: Tensor, v: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """U = clamp(u^2 y, 0, 1) and V = clamp(v^2 (1 - y), 0, 1): (B, 1), (B, C), (B,) -> (B, C), (B, C)."""
    given = F.one_hot(labels, v.shape[1]).to(v)
    return (u.square() * given).clamp(0, 1), (v.square() * (1 - given)).clamp(0, 1)


def adjusted_prediction(logits: Tensor, added: Tensor, removed: Tensor) -> Tensor:
    """max(p + U - V, 1e-4), divided by its sum and again at least 1e-4; V is a constant: three of (B, C) -> (B, C)."""
    adjusted = (logits.float().softmax(1) + added - removed.detach()).clamp_min(_EDGE)
    return (adjusted / adjusted.sum(1, keepdim=True)).clamp(_EDGE, 1.0)


def fit_of_parts(logits: Tensor, added: Tensor, removed: Tensor, labels: Tensor) -> Tensor:
    """|e(argmax p) + U - V - y|^2, in which the prediction is a constant: three of (B, C), (B,) -> (B,)."""
    predicted, given = (F.one_hot(classes, added.shape[1]).to(added) for classes in (logits.argmax(1), labels))
    return (predicted + added - removed - given).square().sum(1)


class SOP(Method):
    """Cross-entropy of the adjusted prediction, and the fit of u and v to the label that the network predicts."""

    paper = "Liu et al., ICML 2022"

    class Settings(SOPSettings):
        """Settings of u and v."""

        name: str = "sop"

    def __init__(self, task: Task, settings: SOPSettings) -> None:
        super().__init__(task)
        self.rates = settings.lr_u, settings.lr_v
        generator = torch.Generator().manual_seed(0)  # the draws only have to differ from 0
        self.u = nn.Parameter(_START * torch.randn(len(task.labels), 1, generator=generator))
        self.v = nn.Parameter(_START * torch.randn(len(task.labels), task.num_classes, generator=generator))

    def parameter_groups(self) -> tuple[ParameterGroup, ...]:
        """Return u and v, each with its own learning rate."""
        return ParameterGroup((self.u,), self.rates[0]), ParameterGroup((self.v,), self.rates[1])

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        supervised, fit, _ = self.terms(logits, batch)
        return StepOutput(supervised + fit, logits, {"supervised": supervised, "fit": fit})

    def terms(self, logits: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Return the cross-entropy (), the fit of u and v () and the adjusted prediction (B, C)."""
        # One process: a sparse gradient, of the rows of the batch alone. Several would have to exchange it.
        alone = batch.rows.all_here
        index = batch.index.to(self.u.device)
        u, v = (F.embedding(index, rows, sparse=alone) for rows in (self.u, self.v))
        added, removed = label_parts(u, v, batch.labels)
        adjusted = adjusted_prediction(logits, added, removed)
        supervised = -gather_labels(adjusted, batch.labels).log().mean()
        return supervised, fit_of_parts(logits, added, removed, batch.labels).mean(), adjusted
