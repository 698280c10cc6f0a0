"""Help for short trainings with NL+ and PL+: a start with NL or cross-entropy, and a guard against lost classes.

Departures from the paper, which trains a thousand epochs. From random weights NL+ learns very slowly on hard data: its
weight (1 - p) does not help, NL has none. With many classes NL is slow too, its gradient on the given logit is
p_y = 1 / C at the start: cross-entropy helps until the network predicts about half of the given labels. And a network
that predicts one class for all samples does not recover under NL+: where it is confident, the weight removes the
gradient. PL+ can lead there, and single classes can be lost in the same way. NL recovers. Both go by what the network
predicted in the last epoch, counted by class.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from jnpl.internal.tensors import PlainState

FEW_CLASSES = 10  # up to as many, no cross-entropy
MAX_CONFUSION = 500  # classes up to which mistakes are counted by pair
_TINY = 1e-12  # only against 0 / 0
_RECALL_SCALE = 2.0  # NL+ is reached, and cross-entropy ends, at a recall of 1 / 2
# Between the shares of human (0.17) and of asymmetric labels (0.24) of CIFAR-100, see `concentration`.
_CONCENTRATED = 0.2
_LONG_FADE = 0.5  # share of the epochs in which cross-entropy fades where mistakes are not concentrated
# A class with at least this many given labels is lost if it is predicted less often than this share of them.
_LOST_COUNT, _LOST_SHARE = 50, 0.1
_LOST_CLASSES = 0.05  # share of the classes that may be lost before it counts as a collapse


class EpochTotals(NamedTuple):
    """Counts of an epoch, or sums of sample weights, over all processes."""

    predicted: Tensor  # (C,), how often each class was predicted
    given: Tensor  # (C,), how often each class was the given label
    right: Tensor  # (C,), how often each given label was predicted
    confusion: Tensor | None  # (C, C), predicted and given labels; None: not counted


class EpochCounts(nn.Module):
    """Counts predicted and given labels from batch to batch: `add` each batch, `take` the totals after an epoch.

    The counts are buffers, so that checkpoints hold those of an unfinished epoch. With `confusion`, pairs of predicted
    and given labels are counted too.
    """

    predicted: Tensor
    given: Tensor
    right: Tensor
    confusion: Tensor | None

    def __init__(self, num_classes: int, *, confusion: bool = False) -> None:
        super().__init__()
        for name in ("predicted", "given", "right"):
            self.register_buffer(name, torch.zeros(num_classes))
        self.register_buffer("confusion", torch.zeros(num_classes, num_classes) if confusion else None)

    @torch.no_grad()
    def add(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> None:
        """Count a batch: logits (B, C), given labels (B,), sample weights (B,)."""
        predicted = logits.argmax(1)
        weight = torch.ones(len(labels), device=labels.device) if weights is None else weights
        right = (predicted == labels) * weight
        for count, classes, amounts in (
            (self.predicted, predicted, weight),
            (self.given, labels, weight),
            (self.right, labels, right),
        ):  # not bincount, which makes a GPU wait
            count.add_(torch.zeros_like(count).index_add_(0, classes, amounts.to(count.dtype)))
        if self.confusion is not None:
            self.confusion.index_put_((predicted, labels), weight.to(self.confusion.dtype), accumulate=True)

    def take(self, sum_over_processes: Callable[[Tensor], Tensor] = lambda counts: counts) -> EpochTotals:
        """Return the totals since the last call, over all processes, and start anew."""
        predicted, given, right = (
            sum_over_processes(count.clone()) for count in (self.predicted, self.given, self.right)
        )
        confusion = None if self.confusion is None else sum_over_processes(self.confusion.clone())
        for count in self.buffers():
            count.zero_()
        return EpochTotals(predicted, given, right, confusion)


# --- The start --------------------------------------------------------------------------------------------------------


def cross_entropy_share(num_classes: int) -> float:
    """Return the weight of cross-entropy in the first epoch, beside NL+: none with ten classes or less.

    >>> cross_entropy_share(10), cross_entropy_share(100)
    (0.0, 0.9)
    """
    return max(1 - FEW_CLASSES / num_classes, 0.0)


def recall_above_chance(given: Tensor, right: Tensor) -> Tensor:
    """Return the mean recall of the given labels over classes, scaled so that chance is 0: (C,), (C,) -> ().

    `given` counts the given labels of each class, `right` how often they were predicted.

    >>> recall_above_chance(torch.tensor([4.0, 4.0]), torch.tensor([4.0, 2.0]))
    tensor(0.5000)
    """
    classes = (given > 0).sum().clamp_min(2)
    recall, chance = (right / given.clamp_min(_TINY)).sum() / classes, 1 / classes  # chance: a constant prediction
    return ((recall - chance) / (1 - chance)).clamp(0, 1)


def concentration(confusion: Tensor) -> Tensor:
    """Return the share of mistakes that are the most frequent one of their predicted class: (C, C) -> ().

    `confusion` counts predicted (rows) and given labels. Where each class is mistaken for one other, it is high; where
    mistakes are spread over classes, or where there are none, it is low.

    >>> concentration(torch.tensor([[50.0, 8.0, 0.0], [1.0, 50.0, 7.0], [2.0, 2.0, 50.0]]))
    tensor(0.8500)
    """
    mistakes = confusion.clone().fill_diagonal_(0)
    return mistakes.amax(1).sum() / mistakes.sum().clamp_min(1)


class WarmUp(PlainState):
    """Gamma of NL+ and the weight of cross-entropy in every epoch, by what the network predicted in the last one.

    `recall` and `concentration` are those of the last epoch.

    Args:
        gamma: exponent of NL+'s weight after the warm-up.
        gamma_rise: gamma rises from 0 between two shares of the epochs, or by recall ("agreement"); None: at once.
        cross_entropy: begin with cross-entropy, if there are more than ten classes.
        fade: how it fades: "agreement", with the recall; a number, in a line within this share of the epochs;
            "confusion", like "agreement" if each class is mistaken mostly for one other, else within half of the
            epochs.
        end: share of the epochs after which there is no cross-entropy.
    """

    state = ("recall", "concentration")

    def __init__(
        self,
        num_classes: int,
        *,
        gamma: float = 1.0,
        gamma_rise: tuple[float, float] | Literal["agreement"] | None = None,
        cross_entropy: bool = False,
        fade: float | Literal["agreement", "confusion"] = "agreement",
        end: float = 0.5,
    ) -> None:
        super().__init__()
        self.num_classes, self.full_gamma, self.gamma_rise = num_classes, gamma, gamma_rise
        self.fade, self.end = fade, end
        self.share = cross_entropy_share(num_classes) if cross_entropy else 0.0
        self.recall, self.concentration = 0.0, 1.0

    @property
    def needs_confusion(self) -> bool:
        """Whether `observe` reads the pairs of predicted and given labels."""
        return self.fade == "confusion" and self.share > 0 and self.num_classes <= MAX_CONFUSION

    def observe(self, totals: EpochTotals) -> None:
        """Take note of what was predicted in an epoch."""
        self.recall = recall_above_chance(totals.given, totals.right).item()
        if totals.confusion is not None and totals.given.any():
            self.concentration = concentration(totals.confusion).item()

    def gamma(self, epoch: int, epochs: int) -> float:
        """Return the exponent of NL+ in this epoch of so many."""
        if self.gamma_rise is None:
            return self.full_gamma
        if self.gamma_rise == "agreement":
            if self.num_classes == 2:  # with two classes NL is cross-entropy, and NL+ learns fast
                return self.full_gamma
            return self.full_gamma * min(_RECALL_SCALE * self.recall, 1.0)
        start, end = self.gamma_rise
        return self.full_gamma * min(max((epoch / epochs - start) / (end - start), 0.0), 1.0)

    def cross_entropy_weight(self, epoch: int, epochs: int) -> float:
        """Return the weight of cross-entropy in this epoch of so many."""
        if self.share == 0 or epoch >= self.end * epochs:
            return 0.0
        if isinstance(self.fade, float):
            return self.share * _line(epoch, epochs, self.fade)
        left = max(1 - _RECALL_SCALE * self.recall, 0.0)
        if self.needs_confusion and self.concentration < _CONCENTRATED:
            # Cross-entropy learns mistakes that are always the same, and is the better start where they are spread.
            left = max(left, _line(epoch, epochs, _LONG_FADE))
        return self.share * left


def _line(epoch: int, epochs: int, end: float) -> float:
    """From 1 to 0 within a share of the epochs."""
    return max(1 - epoch / (end * epochs), 0.0)


# --- The guard --------------------------------------------------------------------------------------------------------


def presence(given: Tensor, predicted: Tensor) -> Tensor:
    """1 for a class that is predicted, towards 0 where it is hardly predicted any more: (C,), (C,) -> (C,).

    >>> presence(torch.tensor([100.0, 100.0]), torch.tensor([195.0, 5.0]))
    tensor([1.0000, 0.5000])
    """
    return (predicted / (_LOST_SHARE * given).clamp_min(_TINY)).clamp(0, 1)


def loses_classes(predicted: Tensor, given: Tensor) -> bool:
    """Whether more than one class in twenty is hardly predicted: counts (C,), (C,) -> bool.

    >>> loses_classes(torch.tensor([9.0, 191.0]), torch.tensor([100.0, 100.0]))
    True
    """
    lost = (presence(given, predicted) < 1) & (given >= _LOST_COUNT)
    return bool(lost.sum() > _LOST_CLASSES * len(given))


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
    return loses_classes(predicted, given) or bool(apart > most)


class CollapseGuard(PlainState):
    """After an epoch of collapsed predictions comes one with NL alone (`active`), and PL+ keeps half of its weight.

    Args:
        most: largest distance of the predictions from the given labels, see `has_collapsed`; 0: never active.
    """

    state = ("active", "times", "pl_scale")

    def __init__(self, most: float) -> None:
        super().__init__()
        self.most = most
        self.active = False  # NL alone in this epoch
        self.times = 0  # number of such epochs
        self.pl_scale = 1.0  # factor of PL+'s weight

    def check(self, totals: EpochTotals, *, at_risk: bool, pl_had_begun: bool) -> None:
        """Decide on this epoch by the last one's totals.

        Args:
            totals: counts of the last epoch.
            at_risk: whether this epoch would have NL+ or PL+; NL recovers by itself.
            pl_had_begun: whether the last epoch had PL+, which may be the cause.
        """
        self.active = self.most > 0 and at_risk and has_collapsed(totals.predicted, totals.given, self.most)
        if self.active:
            self.times += 1
            if pl_had_begun:
                self.pl_scale /= 2

    def notes(self) -> list[str]:
        """Return that the guard acted in the second part of training; early in training that is usual."""
        if self.pl_scale == 1:
            return []
        times = "once" if self.times == 1 else f"{self.times} times"
        lost = f"training was unstable: the network stopped predicting some classes {times}, and was put right"
        return [f"{lost}. If classes look odd in the report, run again with another --seed or --set method.pl_weight=0"]
