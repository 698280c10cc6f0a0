"""A guard against lost classes, for a training with NL+ and PL+.

A departure from the paper. A network that predicts one class for all samples does not recover under NL+: where it is
confident, the weight (1 - p) removes the gradient. PL+ can lead there, and single classes can be lost in the same way.
NL recovers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from jnpl.losses.epoch_counts import EpochTotals

# A class with at least this many given labels is lost if it is predicted less often than this share of them.
_LOST_COUNT, _LOST_SHARE = 50, 0.1
_LOST_CLASSES = 0.05  # share of the classes that may be lost before it counts as a collapse
_TINY = 1e-12  # only against 0 / 0


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


class CollapseGuard(nn.Module):
    """After an epoch of collapsed predictions comes one with NL alone (`active`), and PL+ keeps half of its weight.

    Its state are plain numbers: a step reads them without waiting for a GPU.

    Args:
        most: largest distance of the predictions from the given labels, see `has_collapsed`; 0: never active.
    """

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

    def get_extra_state(self) -> Tensor:
        """Return what checkpoints hold."""
        return torch.tensor([self.active, self.times, self.pl_scale], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue from a checkpoint."""
        active, times, self.pl_scale = state.tolist()
        self.active, self.times = bool(active), int(times)
