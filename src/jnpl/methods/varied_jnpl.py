"""JNPL with its two losses varied: other complements, exponents, class and sample weights, and means of PL+."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.losses.class_balance import class_weights, even_weights
from jnpl.losses.modules import Complements, NLPlusLoss
from jnpl.methods.base import Task
from jnpl.methods.jnpl import JNPL

_WEIGHTS = (
    "nlnl: largest count / count of given labels; mean: the same, 1 on average, and damped where classes are very "
    "uneven; both are departures"
)
ClassWeight = Annotated[Literal["none", "nlnl", "mean"], Field(description=_WEIGHTS)]


def nl_plus_loss(
    task: Task, class_weight: ClassWeight, complements: Complements, number: int | None = None, gamma: float = 1.0
) -> NLPlusLoss:
    """Return NL+ with the weights of classes that a setting names, from the labels to learn from."""
    if class_weight == "none":
        return NLPlusLoss(task.num_classes, complements, number, gamma)
    weigh = even_weights if class_weight == "mean" else class_weights
    weights = weigh(task.trusted_labels, task.num_classes, task.weights)
    return NLPlusLoss(task.num_classes, complements, number, gamma, weights)


class VariedJNPL(JNPL):
    """The step of the paper; where settings say so, with another NL+, selection or mean."""

    supports_sample_weights = True

    class Settings(JNPL.Settings):
        """Settings of the paper, and of the variations."""

        complements: Complements = Field(
            "sampled", description="sampled: drawn anew in each step; exhaustive: all C - 1, a departure"
        )
        gamma: float = Field(1.0, ge=0, description="exponent of NL+'s weight; 0: NL; others than 0 and 1: departures")
        class_weight: ClassWeight = "none"
        pl_target: Literal["predicted", "given"] = Field("predicted", description="given: PL+ only where y-hat is y")
        pl_mean: Literal["selected", "batch"] = Field(
            "selected", description="samples that PL+ is averaged over; batch: a departure"
        )

        @model_validator(mode="after")
        def _check_num_complements(self) -> VariedJNPL.Settings:
            if self.num_complements is not None and self.complements == "exhaustive":
                raise ValueError(f"num_complements goes with complements 'sampled', got {self.num_complements}")
            return self

    settings: Settings

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task, settings)
        plan = settings.class_weight, settings.complements, settings.num_complements, settings.gamma
        self.loss = nl_plus_loss(task, *plan)

    def nl_plus(self, logits: Tensor, labels: Tensor, batch: Batch) -> Tensor:
        """Return NL+ of the paper or, where a setting says so, another: (B, C), (B,) -> ()."""
        negative, weights = self.loss.negative, self.sample_weights(batch)
        even = negative.class_weight is None and weights is None
        if even and negative.complements == "sampled" and negative.gamma == 1:
            return super().nl_plus(logits, labels, batch)
        loss: Tensor = negative(logits, labels, negative.draw(labels, batch.generator, batch.rows), weights)
        return loss

    def select(self, logits: Tensor, labels: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Return which samples PL+ learns from, and y-hat: (B, C), (B,), (B,) -> (B,) bool, (B,)."""
        selected, y_hat = JF.pl_plus_select(logits, uniforms, self.usual_prediction())
        return (selected & (y_hat == labels) if self.settings.pl_target == "given" else selected), y_hat

    def usual_prediction(self) -> Tensor | None:
        """Return the mean prediction (C,) that predictions are divided by for the selection; None: not divided."""
        return None

    def mean_pl_plus(self, losses: Tensor, selected: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the mean of PL+ over the selected samples or all, and the number (or weight) of the selected."""
        weights = self.sample_weights(batch)
        total = losses.sum() if weights is None else (weights * losses).sum()
        number = selected.sum() if weights is None else (weights * selected).sum()
        if self.settings.pl_mean == "batch":
            return total / len(losses), number
        return self.mean_of_selected(total, number, len(losses)), number
