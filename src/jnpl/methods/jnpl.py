"""JNPL: NL+ with complementary labels and PL+ with confident predictions, in one stage (Eq. 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import torch
from pydantic import Field, model_validator
from torch.nn.functional import one_hot

from jnpl.losses import functional as JF
from jnpl.losses.modules import JNPLLoss, class_weights
from jnpl.methods.base import Method, MethodSettings, Stage, StepOutput, Task, TrainingSetView

if TYPE_CHECKING:
    from torch import Tensor

    from jnpl.data.loading.batches import Batch


_CE_CLASSES = 10  # with more classes NL starts slowly: its gradient on the given logit is p_y, 1 / C at the start
_MAX_CLASS_WEIGHT = 10.0  # larger class weights diverge at a high learning rate
_FULL_WEIGHT, _FULL_WEIGHT_BINARY = 2.5, 1.25  # beyond this a class weight is damped
_AGREEMENT_SCALE = 2.0  # gamma is reached at an agreement of 1 / 2
# A class with at least this many given labels is lost if it is predicted less often than this share of them.
_LOST_COUNT, _LOST_SHARE = 50, 0.1
_LOST_CLASSES = 0.05  # share of the classes that may be lost before it counts as a collapse
# Between the shares of human (0.17) and of asymmetric labels (0.24) of CIFAR-100, see `concentration`.
_CONCENTRATED = 0.2
_LONG_FADE = 0.5  # share of the epochs in which cross-entropy fades where mistakes are not concentrated
_MAX_CONFUSION = 500  # classes up to which mistakes are counted by pair


def even_weights(labels: Tensor, num_classes: int, weights: Tensor | None = None) -> Tensor:
    """Return `class_weights`, damped and scaled to 1 on average over the samples: (N,) -> (C,).

    Weights compensate for noise that makes the given classes uneven. Where the classes themselves are uneven, noise
    fills the small ones with samples of others, and weights by count would amplify those: beyond 2.5 a weight is
    replaced by its square root. With two classes the largest weight is 1.25.

    >>> even_weights(torch.tensor([0, 0, 0, 0, 1, 1]), num_classes=3)
    tensor([0.7500, 1.5000, 0.0000])
    >>> weights = even_weights(torch.tensor([0] * 90 + [1] * 10), num_classes=3)
    >>> weights[1] / weights[0]
    tensor(3.)
    """
    balance = class_weights(labels, num_classes, weights)
    if num_classes == 2:
        balance = balance.clamp_max(_FULL_WEIGHT_BINARY)
    else:
        balance = torch.minimum(balance, balance.sqrt().clamp_min(_FULL_WEIGHT))
    own = balance[labels]
    return (balance / (own if weights is None else weights * own).mean()).clamp_max(_MAX_CLASS_WEIGHT)


def agreement(given: Tensor, agreed: Tensor) -> Tensor:
    """Return the mean recall of the given labels over classes, scaled so that chance is 0: (C,), (C,) -> ().

    `given` counts the given labels of each class, `agreed` how often they were predicted.

    >>> agreement(torch.tensor([4.0, 4.0]), torch.tensor([4.0, 2.0]))
    tensor(0.5000)
    """
    here = given > 0
    if not here.any():
        return given.sum()
    recall, chance = (agreed[here] / given[here]).mean(), 1 / here.sum()  # recall of a constant prediction
    return ((recall - chance) / (1 - chance).clamp_min(1e-6)).clamp(0, 1)


def concentration(confusion: Tensor) -> Tensor:
    """Return the share of mistakes that are the most frequent one of their predicted class: (C, C) -> ().

    `confusion` counts predicted (rows) and given labels. Where each class is mistaken for one other, it is high; where
    mistakes are spread over classes, or where there are none, it is low.

    >>> concentration(torch.tensor([[50.0, 8.0, 0.0], [1.0, 50.0, 7.0], [2.0, 2.0, 50.0]]))
    tensor(0.8500)
    """
    mistakes = confusion.clone().fill_diagonal_(0)
    return mistakes.amax(1).sum() / mistakes.sum().clamp_min(1)


def has_collapsed(predicted: Tensor, given: Tensor, most: float) -> bool:
    """Whether the distribution of predictions has collapsed: counts (C,), (C,) -> bool.

    True if it is further than `most` (total variation) from that of the given labels, or if more than one class in
    twenty is hardly predicted.

    >>> has_collapsed(torch.tensor([90.0, 110.0]), torch.tensor([100.0, 100.0]), 0.3)
    False
    >>> has_collapsed(torch.tensor([9.0, 191.0]), torch.tensor([100.0, 100.0]), 0.5)
    True
    """
    if not predicted.any():
        return False
    apart = 0.5 * (predicted - given).abs().sum() / predicted.sum()
    lost = ((predicted < _LOST_SHARE * given) & (given >= _LOST_COUNT)).sum() > _LOST_CLASSES * len(given)
    return bool(lost | (apart > most))


class JNPL(Method):
    """One network, one stage, two losses; with `refine` (a departure, off by default) a second stage.

    A network that predicts one class for all samples does not recover under NL+: where it is confident, the weight
    (1 - p) removes the gradient. PL+ can lead there, and single classes can be lost in the same way. NL recovers. With
    `guard` (a departure, off by default) an epoch with collapsed predictions is followed by one with gamma 0 and
    without PL+, and the weight of PL+ is halved.
    """

    paper = "Kim et al., CVPR 2021"
    pseudo_mode = "paper"
    supports_sample_weights = True
    supports_decided_labels = True
    optional_stages = (Stage("refine", fresh=True),)
    per_process_buffers: tuple[str, ...] = ("predicted", "given", "agreed")
    weights: Tensor | None
    decided: Tensor | None
    predicted: Tensor
    given: Tensor
    agreed: Tensor
    confusion: Tensor  # (C, C), predicted and given labels of this epoch
    agreement: Tensor
    concentration: Tensor
    pl_scale: Tensor
    held: Tensor
    guarded: Tensor
    targets: Tensor  # (N, C), of the stage `refine`

    class Settings(MethodSettings):
        """Settings of the two losses."""

        name: str = "jnpl"
        pl_weight: float = Field(0.01, ge=0, description="the paper's lambda; 0: NL+ alone")
        n: int = Field(3, ge=-1, description="the paper's N; -1: plain cross-entropy")
        complements: Literal["sampled", "exhaustive"] = Field(
            "sampled", description="sampled: drawn anew in each step; exhaustive: all C - 1"
        )
        num_complements: int | None = Field(None, ge=1, description="None: the paper's 1, or 110 for 100 classes")
        gamma: float = Field(1.0, ge=0, description="exponent of NL+'s weight; 0: NL")
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
        ce_fade: Annotated[float, Field(gt=0, le=1)] | Literal["agreement", "confusion"] = Field(
            "agreement",
            description="how that cross-entropy fades: agreement: with the recall of the given labels in the last "
            "epoch; a number: in a line, within this share of the epochs; confusion: like agreement if each class is "
            "mistaken mostly for one other, else within half of the epochs",
        )
        class_weight: Literal["none", "nlnl", "mean"] = Field(
            "none",
            description="nlnl: largest count / count of given labels; mean: the same, 1 on average, and damped where "
            "classes are very uneven",
        )
        pl_target: Literal["predicted", "given"] = Field("predicted", description="given: PL+ only where y-hat is y")
        pl_mean: Literal["selected", "batch"] = Field("selected", description="samples that PL+ is averaged over")
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

        @model_validator(mode="after")
        def _check_num_complements(self) -> JNPL.Settings:
            if self.num_complements is not None and self.complements == "exhaustive":
                raise ValueError(f"num_complements goes with complements 'sampled', got {self.num_complements}")
            return self

        @model_validator(mode="after")
        def _check_gamma_rise(self) -> JNPL.Settings:
            if isinstance(self.gamma_rise, tuple) and not 0 <= self.gamma_rise[0] < self.gamma_rise[1] <= 1:
                raise ValueError(f"gamma_rise takes two shares, 0 <= start < end <= 1, got {list(self.gamma_rise)}")
            return self

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.pl_mean, self.pl_start, self.guard = settings.pl_mean, settings.pl_start, settings.guard
        self.gamma, self.gamma_rise = settings.gamma, settings.gamma_rise
        if settings.refine:
            self.stages = (*self.stages, *self.optional_stages)
            self.register_buffer("targets", torch.zeros(len(task.labels), task.num_classes))
        self.ce_fade = settings.ce_fade
        self.ce_weight = max(1 - _CE_CLASSES / task.num_classes, 0.0) if settings.ce_start else 0.0
        self.register_buffer("weights", task.weights, persistent=False)
        self.register_buffer("decided", task.decided, persistent=False)
        self.register_buffer("predicted", torch.zeros(task.num_classes))  # predictions of this epoch
        self.register_buffer("given", torch.zeros(task.num_classes))  # given labels of this epoch
        self.register_buffer("agreed", torch.zeros(task.num_classes))  # predictions that are the given label
        self.register_buffer("agreement", torch.tensor(0.0))  # of the last epoch, see `agreement`
        if self._counts_mistakes(task.num_classes):
            self.per_process_buffers = (*self.per_process_buffers, "confusion")
            self.register_buffer("confusion", torch.zeros(task.num_classes, task.num_classes))
            self.register_buffer("concentration", torch.tensor(1.0))  # of the last epoch, see `concentration`
        self.register_buffer("held", torch.tensor(False))  # the guard acts in this epoch: NL alone
        self.register_buffer("guarded", torch.tensor(0))  # number of such epochs
        self.register_buffer("pl_scale", torch.tensor(1.0))
        weigh = even_weights if settings.class_weight == "mean" else class_weights
        known = task.labels if task.decided is None else task.labels.where(task.decided < 0, task.decided)
        balance = weigh(known, task.num_classes, task.weights)
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

    def begin_stage(self, training_set: TrainingSetView) -> None:
        """Departure: make the targets of the second stage. A sample that cannot be read has none."""
        self.targets.copy_(training_set.posterior())  # in place: there may be millions of samples
        self.targets.add_(training_set.history()).div_(2).nan_to_num_()
        if self.decided is not None:
            known = (self.decided >= 0).nonzero().squeeze(1)
            self.targets[known] = one_hot(self.decided[known], self.targets.shape[1]).float()

    def begin_epoch(self, training_set: TrainingSetView) -> None:  # noqa: ARG002 (counts are kept by step)
        """Let the guard act if the predictions of the last epoch have collapsed."""
        predicted, given, agreed = (self.sum_over_processes(each.clone()) for each in self._epoch_counts())
        for each in self._epoch_counts():
            each.zero_()
        self.agreement.copy_(agreement(given, agreed))
        if self._counts_mistakes(len(given)):
            if given.any():
                self.concentration.copy_(concentration(self.sum_over_processes(self.confusion.clone())))
            self.confusion.zero_()
        at_risk = self.stage == 0 and (self._gamma() > 0 or self._pl_weight() > 0)
        self.held.fill_(bool(self.guard) and at_risk and has_collapsed(predicted, given, self.guard))
        if self.held:
            self.guarded += 1
            if self._pl_has_begun(self.epoch - 1):
                self.pl_scale /= 2

    def _epoch_counts(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.predicted, self.given, self.agreed

    def notes(self) -> list[str]:
        """Return that the guard acted in the second part of training; early in training that is usual."""
        if self.pl_scale == 1:
            return []
        times = "once" if self.guarded == 1 else f"{int(self.guarded)} times"
        lost = f"training was unstable: the network stopped predicting some classes {times}, and was put right"
        return [f"{lost}. If classes look odd in the report, run again with another --seed or --set method.pl_weight=0"]

    def _gamma(self) -> float:
        """The exponent of NL+ in this epoch, without the guard."""
        if self.gamma_rise is None:
            return self.gamma
        # Departures: from random weights NL+ learns very slowly on hard data, NL does not.
        if self.gamma_rise == "agreement":
            if len(self.given) == 2:  # with two classes NL is cross-entropy, and NL+ learns fast
                return self.gamma
            return self.gamma * min(_AGREEMENT_SCALE * self.agreement.item(), 1.0)
        start, end = self.gamma_rise
        return self.gamma * min(max((self.epoch / self.epochs - start) / (end - start), 0.0), 1.0)

    def _pl_weight(self) -> float:
        """The weight of PL+ in this epoch, without the guard."""
        return self.loss.pl_weight * self.pl_scale.item() if self._pl_has_begun(self.epoch) else 0.0

    def _pl_has_begun(self, epoch: int) -> bool:
        return epoch >= self.pl_start * self.epochs

    def _ce_weight(self) -> float:
        """Departure: the weight of cross-entropy in this epoch. It ends with the start of PL+ at the latest."""
        if self._pl_has_begun(self.epoch):
            return 0.0
        if isinstance(self.ce_fade, float):
            return self.ce_weight * self._line(self.ce_fade)
        left = max(1 - _AGREEMENT_SCALE * self.agreement.item(), 0.0)
        if self._counts_mistakes(len(self.given)) and self.concentration < _CONCENTRATED:
            # Cross-entropy learns mistakes that are always the same, and is the better start where they are spread.
            left = max(left, self._line(_LONG_FADE))
        return self.ce_weight * left

    def _line(self, end: float) -> float:
        """From 1 to 0 within a share of the epochs."""
        return max(1 - self.epoch / (end * self.epochs), 0.0)

    def _counts_mistakes(self, classes: int) -> bool:
        return self.ce_fade == "confusion" and self.ce_weight > 0 and classes <= _MAX_CONFUSION

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        if self.stage == 1:
            return self._refine(logits, batch)
        labels = self._decided_labels(batch)
        self.loss.negative.gamma = 0.0 if self.held else self._gamma()
        weights = None if self.weights is None else self.weights[batch.index]
        with torch.no_grad():
            predicted = logits.argmax(1)
            agreed = predicted == labels
            self.predicted += torch.bincount(predicted, weights, minlength=len(self.predicted))
            self.given += torch.bincount(labels, weights, minlength=len(self.given))
            right = agreed.float() if weights is None else agreed * weights
            self.agreed += torch.bincount(labels, right, minlength=len(self.agreed))
            if self._counts_mistakes(len(self.given)):
                one = torch.ones_like(right) if weights is None else weights
                self.confusion.index_put_((predicted, labels), one.to(self.confusion.dtype), accumulate=True)
        draws = self.loss.draw(labels, batch.generator, batch.rows)
        own = len(labels)
        terms = self.loss.terms(logits, labels, draws, weights)
        if self.pl_mean == "batch":
            pl_plus = terms.pl_plus_sum / own
        else:
            # PL+ is a mean over the selected samples of the whole batch (Algorithm 1), over all processes.
            counts = torch.stack([terms.selected, torch.full_like(terms.selected, own)]).float()
            counts = self.sum_over_processes(counts)
            selected = counts[0].where(counts[0] > 0, 1.0)  # a sum of weights can be below 1
            pl_plus = terms.pl_plus_sum / selected * (counts[1] / own)
        pl_weight = 0.0 if self.held else self._pl_weight()
        loss = terms.nl_plus + pl_weight * pl_plus
        if ce_weight := self._ce_weight():
            loss = loss + ce_weight * self._cross_entropy(logits, labels, weights)
        share = terms.selected / own
        return StepOutput(loss, logits, {"nl_plus": terms.nl_plus, "pl_plus": pl_plus, "selected": share})

    def _decided_labels(self, batch: Batch) -> Tensor:
        """Return the labels of a batch (B,), those that a person has decided on in place of the given ones."""
        if self.decided is None:
            return batch.labels
        decided = self.decided[batch.index.to(self.decided.device)]
        return batch.labels.where(decided < 0, decided)

    def _refine(self, logits: Tensor, batch: Batch) -> StepOutput:
        """Departure: cross-entropy with the soft targets of the second stage."""
        losses = JF.soft_pl(logits.float(), self.targets[batch.index.to(logits.device)])
        if self.weights is not None:
            losses = self.weights[batch.index] * losses
        return StepOutput(losses.mean(), logits, {})

    def _cross_entropy(self, logits: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor:
        """Cross-entropy, weighted like NL+: (B, C), (B,), (B,) -> ()."""
        losses = JF.pl(logits, labels)
        if (balance := self.loss.negative.class_weight) is not None:
            losses = balance[labels] * losses
        return (losses if weights is None else weights * losses).mean()
