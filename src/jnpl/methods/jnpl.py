"""JNPL: NL+ pushes away what a sample is not, PL+ pulls in what the network is sure of (Eq. 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from pydantic import Field, model_validator

from jnpl.losses import functional
from jnpl.losses.modules import JNPLLoss, class_weights
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task, TrainingSetView

if TYPE_CHECKING:
    from torch import Tensor

    from jnpl.data.loading.batches import Batch


_TEN = 10  # classes: with more, NL hardly moves a new network (its push on the given logit is p_y, 1 / C)
_HEAVIEST = 10.0  # a class weight beyond this, at a high rate, makes steps that nothing comes back from
_FULL, _FULL_OF_TWO = 2.5, 1.25  # up to here a class weight is what it should be, beyond its square root
_ENOUGH = 2.0  # half of the way from a constant to perfect agreement makes NL into NL+
_LOST, _FEW = 0.1, 50  # a class predicted for less than this part of those who are given it, if they are not too few
_MANY = 0.05  # of the classes: so many may be lost before it is a collapse (of less than twenty none)


def even_weights(labels: Tensor, num_classes: int, weights: Tensor | None = None) -> Tensor:
    """`class_weights` within bounds, 1 on average over the samples: (N,) -> (C,).

    Where noise makes the given classes uneven, weights make up for it. Where the classes themselves are uneven, noise
    fills the small ones with others' samples, which weights by count would let outvote the rest: beyond 2.5 a weight is
    its square root. With two classes every mistake is between the same two, and 1.25 is the most.

    >>> even_weights(torch.tensor([0, 0, 0, 0, 1, 1]), num_classes=3)
    tensor([0.7500, 1.5000, 0.0000])
    >>> weights = even_weights(torch.tensor([0] * 90 + [1] * 10), num_classes=3)
    >>> weights[1] / weights[0]
    tensor(3.)
    """
    balance = class_weights(labels, num_classes, weights)
    if num_classes == 2:
        balance = balance.clamp_max(_FULL_OF_TWO)
    else:
        balance = torch.minimum(balance, balance.sqrt().clamp_min(_FULL))
    own = balance[labels]
    return (balance / (own if weights is None else weights * own).mean()).clamp_max(_HEAVIEST)


def agreement(given: Tensor, agreed: Tensor) -> Tensor:
    """How often the given label was predicted, the mean over classes, 0 for a constant, 1 for all: (C,), (C,) -> ().

    >>> agreement(torch.tensor([4.0, 4.0]), torch.tensor([4.0, 2.0]))
    tensor(0.5000)
    """
    here = given > 0
    if not here.any():
        return given.sum()
    recall, chance = (agreed[here] / given[here]).mean(), 1 / here.sum()  # what a constant prediction reaches
    return ((recall - chance) / (1 - chance).clamp_min(1e-6)).clamp(0, 1)


def ran_away(predicted: Tensor, given: Tensor, most: float) -> bool:
    """Whether predictions are spread over the classes all too differently from the given labels: (C,), (C,) counts.

    Further apart than `most` (total variation), or with a class that is hardly predicted (of many: more than one in
    twenty).

    >>> ran_away(torch.tensor([90.0, 110.0]), torch.tensor([100.0, 100.0]), 0.3)
    False
    >>> ran_away(torch.tensor([9.0, 191.0]), torch.tensor([100.0, 100.0]), 0.5)
    True
    """
    if not predicted.any():
        return False
    apart = 0.5 * (predicted - given).abs().sum() / predicted.sum()
    lost = ((predicted < _LOST * given) & (given >= _FEW)).sum() > _MANY * len(given)
    return bool(lost | (apart > most))


class JNPL(Method):
    """One network, one stage, two losses.

    NL+ makes "all is class k" a state that a network does not leave: where it is sure, the weight (1 - p) takes the
    push away; and PL+ can drive it there. Single classes can be lost in the same way. NL leads out. With `guard`, an
    epoch whose predictions have run away is followed by one with gamma 0 and without PL+, and PL+ comes back at half
    its weight. That is a departure, and off unless asked for.
    """

    paper = "Kim et al., CVPR 2021"
    pseudo_mode = "paper"
    supports_sample_weights = True
    per_process_buffers = ("predicted", "given", "agreed")
    weights: Tensor | None
    predicted: Tensor
    given: Tensor
    agreed: Tensor
    agreement: Tensor
    pl_scale: Tensor
    held: Tensor
    guarded: Tensor

    class Settings(MethodSettings):
        """Of the two losses."""

        name: str = "jnpl"
        pl_weight: float = Field(0.01, ge=0, description="the paper's lambda; 0: NL+ alone")
        n: int = Field(3, ge=-1, description="the paper's N; -1: plain cross-entropy")
        complements: Literal["sampled", "exhaustive"] = Field("sampled", description="drawn anew each step, or all")
        num_complements: int | None = Field(None, ge=1, description="None: the paper's 1, or 110 for 100 classes")
        gamma: float = Field(1.0, ge=0, description="exponent of NL+'s weight; 0: NL")
        gamma_rise: tuple[float, float] | Literal["agreement"] | None = Field(
            None,
            description="shares of the epochs between which gamma rises from 0; agreement: as the last epoch "
            "predicted the given labels; None: constant, as the paper",
        )
        pl_start: float = Field(0.0, ge=0, lt=1, description="share of the epochs before PL+ begins; 0 is the paper's")
        ce_start: bool = Field(
            False,
            description="beyond ten classes, cross-entropy beside NL+ until the network predicts half of the labels or "
            "PL+ begins",
        )
        class_weight: Literal["none", "nlnl", "mean"] = Field(
            "none",
            description="nlnl: largest count / count of given labels; mean: so, but 1 on average, and less where "
            "classes are very uneven",
        )
        pl_target: Literal["predicted", "given"] = Field("predicted", description="given: PL+ only where y-hat is y")
        pl_mean: Literal["selected", "batch"] = Field("selected", description="PL+ is a mean over these")
        guard: float = Field(
            0.0,
            ge=0,
            lt=1,
            description="how far predictions of an epoch may be from the given labels, as shares of the classes (total "
            "variation), before NL takes over, as it does when a class is lost; 0: any, and no guard",
        )

        @model_validator(mode="after")
        def _a_number_belongs_to_sampled(self) -> JNPL.Settings:
            if self.num_complements is not None and self.complements == "exhaustive":
                raise ValueError(f"num_complements goes with complements 'sampled', got {self.num_complements}")
            return self

        @model_validator(mode="after")
        def _gamma_rises(self) -> JNPL.Settings:
            if isinstance(self.gamma_rise, tuple) and not 0 <= self.gamma_rise[0] < self.gamma_rise[1] <= 1:
                raise ValueError(f"gamma_rise takes two shares, 0 <= start < end <= 1, got {list(self.gamma_rise)}")
            return self

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.pl_mean, self.pl_start, self.guard = settings.pl_mean, settings.pl_start, settings.guard
        self.gamma, self.gamma_rise = settings.gamma, settings.gamma_rise
        self.ce_weight = max(1 - _TEN / task.num_classes, 0.0) if settings.ce_start else 0.0
        self.register_buffer("weights", task.weights, persistent=False)
        self.register_buffer("predicted", torch.zeros(task.num_classes))  # how often, this epoch
        self.register_buffer("given", torch.zeros(task.num_classes))  # how often, of those that could be read
        self.register_buffer("agreed", torch.zeros(task.num_classes))  # how often it was the given label, this epoch
        self.register_buffer("agreement", torch.tensor(0.0))  # of the last epoch: 0 for a constant, 1 for all
        self.register_buffer("held", torch.tensor(False))  # NL alone, this epoch
        self.register_buffer("guarded", torch.tensor(0))  # epochs that were so
        self.register_buffer("pl_scale", torch.tensor(1.0))
        weigh = even_weights if settings.class_weight == "mean" else class_weights
        balance = weigh(task.labels, task.num_classes, task.weights)
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

    def begin_epoch(self, training_set: TrainingSetView) -> None:  # noqa: ARG002 (counts are kept by step)
        """Hold back what can run away, if the last epoch's predictions say that it has."""
        predicted, given, agreed = (self.sum_over_processes(each.clone()) for each in self._counted())
        for each in self._counted():
            each.zero_()
        self.agreement.copy_(agreement(given, agreed))
        at_risk = self._gamma() > 0 or self._pl_weight() > 0
        self.held.fill_(bool(self.guard) and at_risk and ran_away(predicted, given, self.guard))
        if self.held:
            self.guarded += 1
            if self._begun(self.epoch - 1):
                self.pl_scale /= 2

    def _counted(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.predicted, self.given, self.agreed

    def notes(self) -> list[str]:
        """Whether the guard acted."""
        if not self.guarded:
            return []
        told = (
            f"the guard held back NL+ and PL+: {int(self.guarded)} of the epochs followed on ones that left classes out"
        )
        if self.pl_scale == 1:
            return [f"{told} (usual while a network knows little)"]
        return [f"{told}, and PL+ counted {self.pl_scale:g} of its weight in the end"]

    def _gamma(self) -> float:
        """NL+'s exponent in this epoch, were it not held back."""
        if self.gamma_rise is None:
            return self.gamma
        # Departures: from random weights NL+ hardly moves on hard data, NL does.
        if self.gamma_rise == "agreement":
            if len(self.given) == 2:  # with two classes NL is cross-entropy, and NL+ moves well
                return self.gamma
            return self.gamma * min(_ENOUGH * self.agreement.item(), 1.0)
        start, end = self.gamma_rise
        return self.gamma * min(max((self.epoch / self.epochs - start) / (end - start), 0.0), 1.0)

    def _pl_weight(self) -> float:
        """PL+'s weight in this epoch, were it not held back."""
        return self.loss.pl_weight * self.pl_scale.item() if self._begun(self.epoch) else 0.0

    def _begun(self, epoch: int) -> bool:
        """Whether it is PL+'s turn."""
        return epoch >= self.pl_start * self.epochs

    def _ce_weight(self) -> float:
        """Departure: cross-entropy's weight in this epoch; with many wrong labels agreement alone would not end it."""
        return 0.0 if self._begun(self.epoch) else self.ce_weight * max(1 - _ENOUGH * self.agreement.item(), 0.0)

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        self.loss.negative.gamma = 0.0 if self.held else self._gamma()
        weights = None if self.weights is None else self.weights[batch.index]
        with torch.no_grad():
            predicted = logits.argmax(1)
            agreed = predicted == batch.labels
            self.predicted += torch.bincount(predicted, weights, minlength=len(self.predicted))
            self.given += torch.bincount(batch.labels, weights, minlength=len(self.given))
            right = agreed.float() if weights is None else agreed * weights
            self.agreed += torch.bincount(batch.labels, right, minlength=len(self.agreed))
        draws = self.loss.draw(batch.labels, batch.generator, batch.rows)
        own = len(batch.labels)
        terms = self.loss.terms(logits, batch.labels, draws, weights)
        if self.pl_mean == "batch":
            pl_plus = terms.pl_plus_sum / own
        else:
            # PL+ is a mean over the selected of the whole batch (Algorithm 1), also where processes share it.
            counts = torch.stack([terms.selected, torch.full_like(terms.selected, own)]).float()
            counts = self.sum_over_processes(counts)
            selected = counts[0].where(counts[0] > 0, 1.0)  # a sum of weights may be below 1
            pl_plus = terms.pl_plus_sum / selected * (counts[1] / own)
        pl_weight = 0.0 if self.held else self._pl_weight()
        loss = terms.nl_plus + pl_weight * pl_plus
        if ce_weight := self._ce_weight():
            loss = loss + ce_weight * self._cross_entropy(logits, batch.labels, weights)
        share = terms.selected / own
        return StepOutput(loss, logits, {"nl_plus": terms.nl_plus, "pl_plus": pl_plus, "selected": share})

    def _cross_entropy(self, logits: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
        """Weighted as NL+ is."""
        losses = functional.pl(logits, labels)
        if (balance := self.loss.negative.class_weight) is not None:
            losses = balance[labels] * losses
        return (losses if weights is None else weights * losses).mean()
