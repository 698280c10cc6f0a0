"""JNPL as the paper has it: NL+ with complementary labels and PL+ with confident predictions, in one stage.

Equations and Algorithm 1 are those of *Joint Negative and Positive Learning for Noisy Labels* (CVPR 2021); their terms
are functions of `jnpl.losses.functional`. What this package does otherwise in short trainings is in `extended_jnpl`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field, model_validator
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.losses.class_balance import class_weights, even_weights
from jnpl.losses.modules import JNPLLoss
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
    supports_sample_weights = True
    supports_decided_labels = True

    class Settings(MethodSettings):
        """Settings of the two losses; the defaults are the paper's, the departures marked."""

        name: str = "jnpl"
        pl_weight: float = Field(0.01, ge=0, description="the paper's lambda; 0: NL+ alone")
        n: int = Field(3, ge=-1, description="the paper's N; -1: plain cross-entropy")
        complements: Literal["sampled", "exhaustive"] = Field(
            "sampled", description="sampled: drawn anew in each step; exhaustive: all C - 1, a departure"
        )
        num_complements: int | None = Field(None, ge=1, description="None: the paper's 1, or 110 for 100 classes")
        gamma: float = Field(1.0, ge=0, description="exponent of NL+'s weight; 0: NL; others than 0 and 1: departures")
        class_weight: Literal["none", "nlnl", "mean"] = Field(
            "none",
            description="nlnl: largest count / count of given labels; mean: the same, 1 on average, and damped where "
            "classes are very uneven; both are departures",
        )
        pl_target: Literal["predicted", "given"] = Field("predicted", description="given: PL+ only where y-hat is y")
        pl_mean: Literal["selected", "batch"] = Field(
            "selected", description="samples that PL+ is averaged over; batch: a departure"
        )

        @model_validator(mode="after")
        def _check_num_complements(self) -> JNPL.Settings:
            if self.num_complements is not None and self.complements == "exhaustive":
                raise ValueError(f"num_complements goes with complements 'sampled', got {self.num_complements}")
            return self

    settings: Settings

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.settings = settings
        weigh = even_weights if settings.class_weight == "mean" else class_weights
        balance = weigh(task.trusted_labels, task.num_classes, task.weights)
        self.loss = JNPLLoss(
            task.num_classes,
            pl_weight=settings.pl_weight,
            n=settings.n,
            complements=settings.complements,
            num_complements=settings.num_complements,
            gamma=settings.gamma,
            class_weight="none" if settings.class_weight == "none" else balance,
            pl_target=settings.pl_target,
        )

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
        labels, weights = self.trusted_labels(batch), self.sample_weights(batch)
        # Complementary labels, (B, K), uniform over the classes other than y, and u ~ U(0, 1), (B,): anew in each step.
        draws = self.loss.draw(labels, batch.generator, batch.rows)
        # Eq. 5: -(1 - p_ybar) log(1 - p_ybar), a sum over complements and a mean over the batch.
        # Algorithm 1: a sample enters PL+ if p_i < 1/C for all i other than y-hat and u < p_yhat.
        # Eq. 7: -prod_{i=0..N} (1 + p_yhat^(2^i)) log p_yhat, a sum over the selected samples.
        nl_plus, total, number = self.loss.terms(logits, labels, draws, weights, self.select)
        if self.settings.pl_mean == "batch":
            return Terms(nl_plus, total / len(labels), number)
        return Terms(nl_plus, self.mean_of_selected(total, number, len(labels)), number)

    def select(self, logits: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Return which samples PL+ learns from (B,), and y-hat (B,): (B, C), (B,) -> (B,) bool, (B,)."""
        return JF.pl_plus_select(logits, uniforms)
