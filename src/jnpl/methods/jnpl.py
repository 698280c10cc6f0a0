"""JNPL as the paper has it: NL+ with complementary labels and PL+ with confident predictions, in one stage.

Equations and Algorithm 1 are those of *Joint Negative and Positive Learning for Noisy Labels* (CVPR 2021). Other
complements, exponents, weights and means are settings of `varied_jnpl`, help for short trainings of `extended_jnpl`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.losses import complement
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task


class Terms(NamedTuple):
    """The two losses of a batch, and the number of samples in PL+, all scalars."""

    nl_plus: Tensor
    pl_plus: Tensor
    selected: Tensor


class JNPL(Method):
    """One network, one stage, two losses: L = L_NL+ + lambda L_PL+ (Eq. 4)."""

    paper = "Kim et al., CVPR 2021"
    pseudo_mode = "paper"
    supports_decided_labels = True

    class Settings(MethodSettings):
        """Settings of the two losses; the defaults are the paper's."""

        name: str = "jnpl"
        pl_weight: float = Field(0.01, ge=0, description="the paper's lambda; 0: NL+ alone")
        n: int = Field(3, ge=-1, description="the paper's N; -1: plain cross-entropy")
        num_complements: int | None = Field(None, ge=1, description="None: the paper's 1, or 110 for 100 classes")

    settings: Settings

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.settings = settings
        self.num_complements = settings.num_complements or complement.default_count(task.num_classes)

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)  # f(x), (B, C)
        terms = self.terms(logits, batch)
        loss = terms.nl_plus + self.pl_weight() * terms.pl_plus  # Eq. 4
        share = terms.selected / len(logits)
        return StepOutput(loss, logits, {"nl_plus": terms.nl_plus, "pl_plus": terms.pl_plus, "selected": share})

    def pl_weight(self) -> float:
        """Return the paper's lambda."""
        return self.settings.pl_weight

    def terms(self, logits: Tensor, batch: Batch) -> Terms:
        """Return NL+ and PL+ of one batch: (B, C) -> (), ()."""
        labels = self.trusted_labels(batch)  # y, (B,)
        nl_plus = self.nl_plus(logits, labels, batch)
        # Algorithm 1: a sample enters PL+ if p_i < 1/C for all i other than y-hat, and u < p_yhat with u ~ U(0, 1).
        selected, y_hat = self.select(logits, labels, self.uniforms(batch, 1).squeeze(1))
        # Eq. 7: -prod_{i=0..N} (1 + p_yhat^(2^i)) log p_yhat, the product constant.
        losses = torch.where(selected, JF.pl_plus(logits, y_hat, self.settings.n), 0.0)  # (B,)
        return Terms(nl_plus, *self.mean_pl_plus(losses, selected, batch))

    def nl_plus(self, logits: Tensor, labels: Tensor, batch: Batch) -> Tensor:
        """Return Eq. 5, -(1 - p_ybar) log(1 - p_ybar), the factor constant: (B, C), (B,) -> ().

        A sum over the complementary labels, which are drawn anew in each step, and a mean over the batch.
        """
        y_bar = complement.sample(labels, logits.shape[1], self.num_complements, batch.generator, batch.rows)  # (B, K)
        return JF.nl_plus(logits, y_bar, reduction="mean")

    def select(self, logits: Tensor, labels: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Return which samples PL+ learns from, and y-hat: (B, C), (B,), (B,) -> (B,) bool, (B,)."""
        return JF.pl_plus_select(logits, uniforms)

    def mean_pl_plus(self, losses: Tensor, selected: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:  # noqa: ARG002
        """Return the mean of PL+ over the selected samples, and their number: (B,), (B,) -> (), ()."""
        number = selected.sum()
        return self.mean_of_selected(losses.sum(), number, len(losses)), number
