"""Forward correction: the loss passes predictions through the transition matrix of the noise."""

import math
from typing import Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.internal.errors import InputError
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, MethodSettings, Stage, StepOutput, Task, TrainingSetView, gather_labels

Matrix = tuple[tuple[float, ...], ...]


def estimate_transition(probabilities: Tensor, percentile: float) -> Tensor:
    """Estimate P(given = j | true = i) from predictions of the given labels: (N, C) -> (C, C), rows sum to 1.

    Row i is the prediction for the sample with the largest p_i, after samples at or above the percentile of p_i have
    been discarded as outliers (100: none). Departure: the released code sets the outliers of a class to zero in
    `probabilities` itself, so that later rows read zeros.

    >>> estimate_transition(torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]), percentile=100)
    tensor([[0.9000, 0.1000],
            [0.3000, 0.7000]])
    """
    rank = math.ceil(percentile * (len(probabilities) - 1) / 100)  # numpy's percentile with method="higher"
    rows = []
    for column in probabilities.t():
        anchor_scores = column
        if percentile < 100:
            usual = column < column.sort().values[rank]
            if bool(usual.any()):  # false where all are equal
                anchor_scores = torch.where(usual, column, -1.0)
        rows.append(probabilities[anchor_scores.argmax()])
    estimated = torch.stack(rows)
    return estimated / estimated.sum(1, keepdim=True)


def log_transition(transition: Tensor) -> Tensor:
    """log T for `forward_loss`, with -inf for zeros: (C, C) -> (C, C).

    A given label whose column of T is zero would make the loss infinite. Its column is a small constant instead: the
    loss is finite and has no gradient.
    """
    never = (transition == 0).all(0)
    return torch.where(never, torch.finfo(transition.dtype).tiny, transition).log()


def forward_loss(logits: Tensor, labels: Tensor, log_t: Tensor) -> Tensor:
    """-log sum_i p_i T_iy, the cross-entropy of p T: (B, C), (B,), (C, C) -> (B,)."""
    return -(logits.float().log_softmax(1) + log_t.t()[labels]).logsumexp(1)


class Forward(Method):
    """Cross-entropy to estimate the transition matrix, then a fresh network with the corrected loss.

    With a known matrix there is no first stage.
    """

    paper = "Patrini et al., CVPR 2017"
    networks = "1, then 1 fresh"
    needs = "transition matrix, or anchor points"
    score = "P(true = given | given, x) by Bayes' rule, mean of the last 10 epochs"
    stages: tuple[Stage, ...] = (Stage("ce"), Stage("forward", fresh=True))

    class Settings(MethodSettings):
        """Settings of the transition matrix."""

        name: str = "forward"
        matrix: Literal["estimate", "oracle"] | Matrix = Field(
            "estimate",
            description="estimate: from anchor points; oracle: from true labels; or rows of P(given = j | true = i)",
        )
        percentile: float = Field(
            97.0, gt=0, le=100, description="samples at or above this percentile are no anchor points; 100: all may be"
        )
        select: bool = Field(False, description="end each stage with the epoch that does best on validation data")

        @field_validator("matrix")
        @classmethod
        def _rows_are_probabilities(cls, matrix: str | Matrix) -> str | Matrix:
            if isinstance(matrix, str):
                return matrix
            if len(matrix) < 2 or any(len(row) != len(matrix) for row in matrix):
                raise ValueError(f"a matrix has as many columns as rows, got rows of {[len(row) for row in matrix]}")
            for number, row in enumerate(matrix):
                if min(row) < 0 or abs(sum(row) - 1) > 1e-3:
                    raise ValueError(f"each row must hold numbers >= 0 that sum to 1, got {list(row)} in row {number}")
            return matrix

    transition: Tensor  # (C, C), the identity until it is estimated

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.percentile = settings.percentile
        matrix = torch.eye(task.num_classes)
        if settings.matrix != "estimate":
            self.stages = (Stage("forward"),)
            matrix = _given_matrix(settings.matrix, task)
        elif settings.select:
            self.stages = (Stage("ce", select=True), Stage("forward", fresh=True, select=True))
        self.register_buffer("transition", matrix)

    def begin_stage(self, training_set: TrainingSetView) -> None:
        """Estimate the matrix with the network of the first stage."""
        logits = training_set.logits(self.model).float()
        readable = ~logits.isnan().any(1)
        self.transition.copy_(estimate_transition(logits[readable].softmax(1), self.percentile))

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        if self.stages[self.stage].name == "ce":
            return StepOutput(JF.pl(logits, batch.labels).mean(), logits, {})
        log_t = log_transition(self.transition)
        losses = forward_loss(logits, batch.labels, log_t)
        log_p_y = gather_labels(logits.detach().float().log_softmax(1), batch.labels)
        # p_y T_yy / sum_i p_i T_iy; clamped against rounding
        quality = (log_p_y + log_t.diagonal()[batch.labels] + losses.detach()).exp().clamp(0, 1)
        return StepOutput(losses.mean(), logits, {}, quality)


def _given_matrix(matrix: str | Matrix, task: Task) -> Tensor:
    """The matrix from true labels or from the settings: (C, C), rows sum to 1."""
    if isinstance(matrix, str):
        if task.transition is None:
            raise InputError(
                "forward with the oracle's matrix needs true labels, and there are none: "
                "--set method.matrix=estimate, or give the matrix itself"
            )
        rows = task.transition.detach().float().cpu()
    else:
        rows = torch.tensor(matrix, dtype=torch.float32)
    if rows.shape != (task.num_classes, task.num_classes):
        raise InputError(
            f"setting method.matrix: for {task.num_classes} classes it has {task.num_classes} rows, got {len(rows)}"
        )
    sums = rows.sum(1, keepdim=True)
    # A class without true samples has a row of zeros: its row is that of the identity.
    return torch.where(sums > 0, rows / sums.clamp_min(torch.finfo(rows.dtype).tiny), torch.eye(len(rows)))
