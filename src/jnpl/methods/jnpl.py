"""JNPL: NL+ pushes away what a sample is not, PL+ pulls in what the network is sure of (Eq. 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from pydantic import Field, model_validator

from jnpl.losses import JNPLLoss
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task

if TYPE_CHECKING:
    from jnpl.data.batches import Batch


class JNPL(Method):
    """One network, one stage, two losses."""

    paper = "Kim et al., CVPR 2021"
    pseudo = "paper"

    class Settings(MethodSettings):
        """Of the two losses."""

        name: str = "jnpl"
        pl_weight: float = Field(0.01, ge=0, description="the paper's lambda; 0: NL+ alone")
        n: int = Field(3, ge=-1, description="the paper's N; -1: plain cross-entropy")
        complements: Literal["sampled", "exhaustive"] = Field("sampled", description="drawn anew each step, or all")
        num_complements: int | None = Field(None, ge=1, description="None: the paper's 1, or 110 for 100 classes")
        gamma: float = Field(1.0, ge=0, description="exponent of NL+'s weight; 0: NL")
        gamma_rise: tuple[float, float] | None = Field(
            None, description="shares of the epochs between which gamma rises from 0; None: constant, as the paper"
        )
        pl_start: float = Field(0.0, ge=0, lt=1, description="share of the epochs before PL+ begins; 0 is the paper's")
        class_weight: Literal["none", "nlnl"] = Field("none", description="nlnl: largest count / count of given labels")
        pl_target: Literal["predicted", "given"] = Field("predicted", description="given: PL+ only where y-hat is y")
        pl_mean: Literal["selected", "batch"] = Field("selected", description="PL+ is a mean over these")

        @model_validator(mode="after")
        def _a_number_belongs_to_sampled(self) -> JNPL.Settings:
            if self.num_complements is not None and self.complements == "exhaustive":
                raise ValueError(f"num_complements goes with complements 'sampled', got {self.num_complements}")
            return self

        @model_validator(mode="after")
        def _gamma_rises(self) -> JNPL.Settings:
            if self.gamma_rise is not None and not 0 <= self.gamma_rise[0] < self.gamma_rise[1] <= 1:
                raise ValueError(f"gamma_rise takes two shares, 0 <= start < end <= 1, got {list(self.gamma_rise)}")
            return self

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.pl_mean, self.pl_start = settings.pl_mean, settings.pl_start
        self.gamma, self.gamma_rise = settings.gamma, settings.gamma_rise
        self.loss = JNPLLoss(
            task.num_classes,
            pl_weight=settings.pl_weight,
            n=settings.n,
            complements=settings.complements,
            num_complements=settings.num_complements,
            gamma=settings.gamma,
            class_weight=settings.class_weight,
            labels=task.labels,
            pl_target=settings.pl_target,
        )

    def step(self, batch: Batch) -> StepOutput:
        """Look at one batch."""
        logits = self.model(batch.inputs)
        if self.gamma_rise is not None:  # a departure: from random weights NL+ hardly moves on hard data, NL does
            start, end = self.gamma_rise
            risen = (self.epoch / self.epochs - start) / (end - start)
            self.loss.negative.gamma = self.gamma * min(max(risen, 0.0), 1.0)
        draws = self.loss.draw(batch.labels, batch.generator, batch.rows)
        own = len(batch.labels)
        terms = self.loss.terms(logits, batch.labels, draws)
        if self.pl_mean == "batch":
            pl_plus = terms.pl_plus_sum / own
        else:
            # PL+ is a mean over the selected of the whole batch (Algorithm 1), also where processes share it.
            counts = torch.stack([terms.selected, torch.full_like(terms.selected, own)]).float()
            counts = self.sum_over_processes(counts)
            pl_plus = terms.pl_plus_sum / counts[0].clamp_min(1) * (counts[1] / own)
        pl_weight = self.loss.pl_weight if self.epoch >= self.pl_start * self.epochs else 0.0
        loss = terms.nl_plus + pl_weight * pl_plus
        share = terms.selected / own
        return StepOutput(loss, logits, {"nl_plus": terms.nl_plus, "pl_plus": pl_plus, "selected": share})
