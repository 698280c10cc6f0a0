"""`RobustLoss`, a drop-in for cross-entropy that turns into NL+ and PL+ as the network learns.

First the formulas, unreduced, then the module that keeps their running statistics. p is softmax(f), y the given label,
C the number of classes; "constant" means that no gradient flows through the factor. Summed over all complements, NL+
has the gradient p_y (p_i - [i = y]): cross-entropy's, times the constant p_y. So both ends, and all between them, are
cross-entropy with a constant weight per sample. Departures from the paper, each with its reason:

- NL+ is divided by the largest probability (constant): an unsure network then learns as fast as with cross-entropy.
- The weight has an exponent that rises from 0 to 1 with the agreement between predictions and given labels: from
  random weights NL+ learns slowly and loses classes.
- The exponent of a class that is hardly predicted any more is smaller: NL+ alone has no force that leads back to it.
- PL+ begins with the agreement, as a mean over the batch: it learns from predictions, which are arbitrary at first,
  and the mean over few selected samples gives each of them a large weight.
- PL+ selects by p divided by the running mean prediction of each class: else it pulls towards the largest class.
- PL+ weights a candidate with the probability of Algorithm 1 in place of drawing: the expectation, without variance.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from jnpl.losses.argument_checks import check_labels, check_logits
from jnpl.losses.warm_up import recall_above_chance

__all__ = ["RobustLoss"]

_AGREEMENT_SCALE = 2.0  # full strength at an agreement of 1 / 2; at 1 / 4, a small network from scratch learns slowly
_LOST_SHARE = 0.1  # a class whose predictions are a smaller share of its given labels is about to be lost
_MEMORY = 100  # samples per class that a running mean covers
_N = 3  # the paper's N
_TINY = 1e-12  # only against 0 / 0


def robust_weight(log_probs: Tensor, labels: Tensor, strength: Tensor) -> Tensor:
    """(p_y / max p)^strength, between 0 and 1: (B, C), (B,), (B,) or () -> (B,).

    At strength 1, this times cross-entropy has the gradient of NL+ over all complements, divided by max p.

    >>> robust_weight(torch.tensor([[0.2, 0.8]]).log(), torch.tensor([0]), torch.tensor(1.0))
    tensor([0.2500])
    """
    return (strength * (_of_labels(log_probs, labels) - log_probs.amax(1))).exp()


def presence(given: Tensor, predicted: Tensor) -> Tensor:
    """1 for a class that is predicted, towards 0 where it is hardly predicted any more: (C,), (C,) -> (C,).

    >>> presence(torch.tensor([100.0, 100.0]), torch.tensor([195.0, 5.0]))
    tensor([1.0000, 0.5000])
    """
    return (predicted / (_LOST_SHARE * given).clamp_min(_TINY)).clamp(0, 1)


def balanced(log_probs: Tensor, predicted: Tensor) -> Tensor:
    """Log-probabilities divided by the mean prediction of each class, normalised again: (B, C), (C,) -> (B, C).

    >>> balanced(torch.tensor([[0.6, 0.4]]).log(), torch.tensor([75.0, 25.0])).exp()
    tensor([[0.3333, 0.6667]])
    """
    return (log_probs - predicted.clamp_min(_TINY).log()).log_softmax(1)


def positive(log_probs: Tensor, balanced_log_probs: Tensor) -> Tensor:
    """PL+ of each sample times the probability that Algorithm 1 selects it: (B, C), (B, C) -> (B,).

    Candidates, y-hat and their probability are those of the balanced predictions; the loss is that of p.

    >>> log_probs = torch.tensor([[0.95, 0.05], [0.5, 0.5]]).log()
    >>> positive(log_probs, log_probs)  # no candidate: both classes of the second sample have p = 1 / C
    tensor([0.5456, 0.0000])
    """
    probs = balanced_log_probs.detach().exp()
    p_hat, y_hat = probs.max(1)
    selected = p_hat * ((probs >= 1 / probs.shape[1]).sum(1) == 1)
    log_p = _of_labels(log_probs, y_hat)
    weight, power = selected, log_p.detach().exp()
    for _ in range(_N + 1):  # the constant product of Eq. 7
        weight, power = weight * (1 + power), power * power
    return -weight * log_p


class RobustLoss(nn.Module):
    """Cross-entropy that turns into NL+ and PL+: `criterion(logits, labels)`, (B, C), (B,) -> ().

    A drop-in for `nn.CrossEntropyLoss()` where labels may be wrong: no epochs, no noise rate, no list of labels. It
    measures the agreement between predictions and given labels on the batches that it sees, as running means
    over about `100 * num_classes` samples. They are buffers, so put `state_dict()` into your checkpoint; in
    `eval()` mode nothing is measured. Float16 and bfloat16 logits are computed in float32.

    Where `torch.distributed` is initialised, the measurements are summed over all processes, so that all have the same
    state: call it in every process, as with `nn.SyncBatchNorm`, or set `synchronize=False`.

    Args:
        num_classes: C.
        pl_weight: weight of PL+ at full agreement, the paper's lambda of one complement times nine of them; 0: none.
        strength: exponent of NL+'s weight at full agreement; 0: cross-entropy.
        memory: number of samples that the running means cover. None: `100 * num_classes`.
        synchronize: whether to sum over the processes of `torch.distributed`.

    Example:
        >>> criterion = RobustLoss(num_classes=10)
        >>> logits = torch.zeros(4, 10, requires_grad=True)
        >>> criterion(logits, torch.arange(4))  # at the start, cross-entropy
        tensor(2.3026, grad_fn=<MeanBackward0>)
        >>> criterion(logits, torch.arange(4), weights=torch.tensor([0.0, 1.0, 1.0, 2.0])).backward()
    """

    statistics: Tensor  # (3, C), decaying sums over samples by class: given labels, those predicted, probabilities

    def __init__(
        self,
        num_classes: int,
        *,
        pl_weight: float = 0.1,
        strength: float = 1.0,
        memory: int | None = None,
        synchronize: bool = True,
    ) -> None:
        super().__init__()
        if not isinstance(num_classes, int) or num_classes < 2:
            raise ValueError(f"num_classes must be a whole number of at least 2, got {num_classes!r}")
        for name, value in (("pl_weight", pl_weight), ("strength", strength)):
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a finite number >= 0, got {value}")
        if memory is not None and memory < 1:
            raise ValueError(f"memory must be a number of samples >= 1, got {memory}")
        self.num_classes, self.synchronize = num_classes, synchronize
        self.pl_weight, self.strength = pl_weight, strength
        self.memory = _MEMORY * num_classes if memory is None else memory
        self.register_buffer("statistics", torch.zeros(3, num_classes))

    def extra_repr(self) -> str:
        """Return what `repr` shows of the settings."""
        return f"num_classes={self.num_classes}, pl_weight={self.pl_weight}, strength={self.strength}"

    @property
    def agreement(self) -> Tensor:
        """Agreement between predictions and given labels, from 0 (chance) to 1, over the last samples: ()."""
        return recall_above_chance(self.statistics[0], self.statistics[1])

    def forward(self, logits: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """(B, C), (B,), (B,) -> ().

        Args:
            logits: network output, (B, C).
            labels: given labels, (B,).
            weights: sample weights, (B,), 1 on average; they multiply the losses before the mean over the batch.
        """
        logits, labels = self._checked(logits, labels, weights)
        log_probs = logits.log_softmax(1)
        constants = log_probs.detach()
        if self.training:
            self._measure(constants, labels, weights)
        given, agreed, predicted = self.statistics
        progress = (_AGREEMENT_SCALE * recall_above_chance(given, agreed)).clamp_max(1)
        strength = self.strength * progress * presence(given, predicted)
        losses = -robust_weight(constants, labels, strength[labels]) * _of_labels(log_probs, labels)
        if self.pl_weight:
            losses = losses + self.pl_weight * progress * positive(log_probs, balanced(constants, predicted))
        return (losses if weights is None else weights * losses).mean()

    @torch.no_grad()
    def _measure(self, log_probs: Tensor, labels: Tensor, weights: Tensor | None) -> None:
        """Add a batch to the running sums; those of earlier samples decay."""
        log_probs = log_probs.float()
        right = (log_probs.argmax(1) == labels).float()
        sums = torch.zeros_like(self.statistics)
        if weights is None:
            sums[0].scatter_add_(0, labels, torch.ones_like(right))
            sums[1].scatter_add_(0, labels, right)
            sums[2] = log_probs.exp().sum(0)
        else:
            weights = weights.float()
            sums[0].scatter_add_(0, labels, weights)
            sums[1].scatter_add_(0, labels, weights * right)
            sums[2] = (weights.unsqueeze(1) * log_probs.exp()).sum(0)  # no matmul: autocast would round it
        if self.synchronize and torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(sums)
        self.statistics.mul_((sums[0].sum() / -self.memory).exp()).add_(sums)

    def _checked(self, logits: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return logits in at least float32 and labels as int64; values are checked where that needs no waiting."""
        logits = check_logits(logits)
        if logits.shape[1] != self.num_classes:
            raise ValueError(f"logits must have {self.num_classes} classes, got shape {tuple(logits.shape)}")
        if weights is not None and weights.shape != logits.shape[:1]:
            raise ValueError(f"weights must have shape ({logits.shape[0]},), got {tuple(weights.shape)}")
        if self.statistics.device != logits.device:  # as with nn.CrossEntropyLoss, no `.to(device)` is needed
            self.statistics = self.statistics.to(logits.device)
        return logits, check_labels(labels, logits, values=logits.device.type == "cpu")


def _of_labels(values: Tensor, labels: Tensor) -> Tensor:
    """(B, C), (B,) -> (B,)."""
    return values.gather(1, labels.unsqueeze(1)).squeeze(1)
