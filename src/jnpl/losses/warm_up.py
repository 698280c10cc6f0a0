"""The first epochs of a training with NL+: NL or cross-entropy first, NL+ as the network learns to predict the labels.

A departure from the paper, which trains a thousand epochs. From random weights NL+ learns very slowly on hard data: its
weight (1 - p) does not help, NL has none. With many classes NL is slow too, its gradient on the given logit is
p_y = 1 / C at the start: cross-entropy helps until the network predicts about half of the given labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jnpl.losses.epoch_counts import EpochTotals

FEW_CLASSES = 10  # up to as many, no cross-entropy
MAX_CONFUSION = 500  # classes up to which mistakes are counted by pair
_TINY = 1e-12  # only against 0 / 0
_RECALL_SCALE = 2.0  # NL+ is reached, and cross-entropy ends, at a recall of 1 / 2
# Between the shares of human (0.17) and of asymmetric labels (0.24) of CIFAR-100, see `concentration`.
_CONCENTRATED = 0.2
_LONG_FADE = 0.5  # share of the epochs in which cross-entropy fades where mistakes are not concentrated


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


class WarmUp(nn.Module):
    """Gamma of NL+ and the weight of cross-entropy in every epoch, by what the network predicted in the last one.

    `recall` and `concentration`, of the last epoch, are plain numbers: a step reads them without waiting for a GPU.

    Args:
        gamma: exponent of NL+'s weight after the warm-up.
        gamma_rise: gamma rises from 0 between two shares of the epochs, or by recall ("agreement"); None: at once.
        cross_entropy: begin with cross-entropy, if there are more than ten classes.
        fade: how it fades: "agreement", with the recall; a number, in a line within this share of the epochs;
            "confusion", like "agreement" if each class is mistaken mostly for one other, else within half of the
            epochs.
        end: share of the epochs after which there is no cross-entropy.
    """

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
        self.num_classes, self.full_gamma, self.gamma_rise, self.fade, self.end = (
            num_classes,
            gamma,
            gamma_rise,
            fade,
            end,
        )
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

    def get_extra_state(self) -> Tensor:
        """Return what checkpoints hold: recall and concentration."""
        return torch.tensor([self.recall, self.concentration], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue from a checkpoint."""
        self.recall, self.concentration = state.tolist()


def _line(epoch: int, epochs: int, end: float) -> float:
    """From 1 to 0 within a share of the epochs."""
    return max(1 - epoch / (end * epochs), 0.0)
