"""JNPL with departures from the paper for short trainings: every one of them is a setting that is off by default.

The paper trains for a thousand epochs. In thirty, from random weights, NL+ is slow, PL+ can reinforce arbitrary
early predictions (`pl_start`), and both can lose classes (`jnpl.losses.short_training`).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.losses.short_training import CollapseGuard, EpochCounts, WarmUp
from jnpl.methods.base import StepOutput, Task, TrainingSetView
from jnpl.methods.refinement import REFINE, Refinement
from jnpl.methods.varied_jnpl import VariedJNPL

_FADES = (
    "how that cross-entropy fades: agreement: with the recall of the given labels in the last epoch; a number: in a "
    "line, within this share of the epochs; confusion: like agreement if each class is mistaken mostly for one other, "
    "else within half of the epochs"
)
CrossEntropyFade = Annotated[
    Annotated[float, Field(gt=0, le=1)] | Literal["agreement", "confusion"], Field(description=_FADES)
]


class ExtendedJNPL(VariedJNPL):
    """JNPL with a warm-up, a later PL+, a guard against lost classes and a second stage, where settings say so."""

    optional_stages = (REFINE,)

    class Settings(VariedJNPL.Settings):
        """Settings of the paper, and of the departures from it."""

        gamma_rise: tuple[float, float] | Literal["agreement"] | None = Field(
            None,
            description="gamma rises from 0 between these two shares of the epochs; agreement: with the recall of "
            "the given labels in the last epoch; None: constant, as in the paper",
        )
        pl_start: float = Field(0.0, ge=0, lt=1, description="share of the epochs before PL+ begins; 0 is the paper's")
        ce_start: bool = Field(
            False,
            description="with more than ten classes, add cross-entropy until the network predicts half of the given "
            "labels or PL+ begins",
        )
        ce_fade: CrossEntropyFade = "agreement"
        guard: float = Field(
            0.0,
            ge=0,
            lt=1,
            description="use NL after an epoch whose predictions are further than this from the given labels (total "
            "variation of the class shares) or lose a class; 0: off",
        )
        refine: bool = Field(
            False,
            description="a second stage `refine`: a new network learns the mean of the first one's predictions and "
            "their posterior, as soft targets, and judges the labels",
        )

        @property
        def needs_full_history(self) -> bool:
            """The targets of the second stage are made of it."""
            return self.refine

        @model_validator(mode="after")
        def _check_gamma_rise(self) -> ExtendedJNPL.Settings:
            if isinstance(self.gamma_rise, tuple) and not 0 <= self.gamma_rise[0] < self.gamma_rise[1] <= 1:
                raise ValueError(f"gamma_rise takes two shares, 0 <= start < end <= 1, got {list(self.gamma_rise)}")
            return self

    settings: Settings

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task, settings)
        self.warm_up = WarmUp(
            task.num_classes,
            gamma=settings.gamma,
            gamma_rise=settings.gamma_rise,
            cross_entropy=settings.ce_start,
            fade=settings.ce_fade,
            end=settings.pl_start,
        )
        self.counts = EpochCounts(task.num_classes, confusion=self.warm_up.needs_confusion)
        self.per_process_buffers = tuple(f"counts.{name}" for name, _ in self.counts.named_buffers())
        self.guard = CollapseGuard(settings.guard)
        if settings.refine:
            self.stages = (*self.stages, REFINE)
            self.refinement = Refinement(len(task.labels), task.num_classes)

    def begin_stage(self, training_set: TrainingSetView) -> None:
        """Make the targets of the second stage."""
        self.refinement.prepare(training_set, self.decided)

    def begin_epoch(self, training_set: TrainingSetView) -> None:  # noqa: ARG002 (counts are kept by step)
        """Set gamma and the weights of the losses by what the last epoch predicted."""
        totals = self.counts.take(self.sum_over_processes)
        self.warm_up.observe(totals)
        at_risk = self.stage == 0 and (self._gamma() > 0 or self._unguarded_pl_weight() > 0)
        self.guard.check(totals, at_risk=at_risk, pl_had_begun=self._pl_has_begun(self.epoch - 1))

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        labels, weights = self.trusted_labels(batch), self.sample_weights(batch)
        if self.stage == 1:
            logits = self.model(batch.inputs)
            return StepOutput(self.refinement.loss(logits, batch.index, weights), logits, {})
        self.loss.negative.gamma = 0.0 if self.guard.active else self._gamma()
        output = super().step(batch)
        self.counts.add(output.logits, labels, weights)
        if share := self.warm_up.cross_entropy_weight(self.epoch, self.epochs):
            cross_entropy = JF.pl(output.logits, labels)
            loss = output.loss + share * self.loss.negative.weighted_mean(cross_entropy, labels, weights)
            return output._replace(loss=loss)
        return output

    def pl_weight(self) -> float:
        """Return the weight of PL+ in this epoch."""
        return 0.0 if self.guard.active else self._unguarded_pl_weight()

    def notes(self) -> list[str]:
        """Return that the guard acted, if it may matter."""
        return self.guard.notes()

    def _gamma(self) -> float:
        """The exponent of NL+ in this epoch, without the guard."""
        return self.warm_up.gamma(self.epoch, self.epochs)

    def _unguarded_pl_weight(self) -> float:
        """The weight of PL+ in this epoch, without the guard."""
        return self.settings.pl_weight * self.guard.pl_scale if self._pl_has_begun(self.epoch) else 0.0

    def _pl_has_begun(self, epoch: int) -> bool:
        return epoch >= self.settings.pl_start * self.epochs
