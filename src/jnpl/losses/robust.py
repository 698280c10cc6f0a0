"""`RobustLoss`, a drop-in for cross-entropy that turns into NL+ and PL+ as the network learns.

First the formulas, unreduced, then the module that keeps their running statistics. p is softmax(f), y the given label,
C the number of classes; "constant" means that no gradient flows through the factor. Summed over all complements, NL+
has the gradient p_y (p_i - [i = y]): cross-entropy's, times the constant p_y. So both ends, and all between them, are
cross-entropy with a constant weight per sample. Departures from the paper, each with its reason:

- NL+ is divided by the largest probability (constant): an unsure network then learns as fast as with cross-entropy.
- The weight has an exponent that rises from 0 to 1 with the agreement between predictions and given labels: from random
  weights NL+ learns slowly and loses classes. When the agreement rises no more, the exponent becomes 1.5: what is
  learnt then are mostly wrong labels, and at 1 large networks memorise them too.
- The exponent rises sooner where labels that contradict the predictions are of random classes, hence probably wrong,
  than where they are of classes that the network finds plausible too, hence perhaps right: else clean but hard data are
  learnt less accurately.
- The exponent of a class that is hardly predicted any more is smaller: NL+ alone has no force that leads back to it.
- PL+ begins with the agreement, as a mean over the batch: it learns from predictions, which are arbitrary at first,
  and the mean over few selected samples gives each of them a large weight.
- PL+ selects by p divided by the running mean prediction of each class: else it pulls towards the largest class.
- PL+ weights a candidate with the probability of Algorithm 1 in place of drawing: the expectation, without variance.

The recipes have the same agreement (`recall_above_chance`) and the same test for lost classes (`presence`). Their gamma
is another: it weighs each complementary label by (1 - p)^gamma, and changes between epochs, of which this loss knows
nothing. With this loss in their place they would have other findings.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from jnpl.losses.argument_checks import check_labels, check_logits
from jnpl.losses.short_training import presence, recall_above_chance

__all__ = ["RobustLoss"]

_RANDOM_POWER = 3.0  # how much sooner the exponent rises where contradicting labels are of random classes
_SETTLED = 5.0  # the agreement has not settled while it is a fifth of itself above its mean over a longer time,
_LONGER = 10  # that of so many memories
_BEYOND = 0.5  # share by which the exponent exceeds `strength` when the agreement has settled
_PLAUSIBLE = 0.25  # labels this far between random and the second most probable class count as plausible
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


def plausibility(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Share of the given label in what the most probable class leaves, p_y / (1 - max p): (B, C), (B,) -> (B,).

    A random label has 1 / (C - 1) on average, and the second most probable class of a sure network 1.

    >>> plausibility(torch.tensor([[0.6, 0.3, 0.1]]).log(), torch.tensor([1]))
    tensor([0.7500])
    """
    rest = (1 - log_probs.amax(1).exp()).clamp_min(1e-6)
    return (_of_labels(log_probs, labels).exp() / rest).clamp_max(1)


def randomness(given: Tensor, agreed: Tensor, plausible: Tensor) -> Tensor:
    """1 if labels that contradict the predictions are of random classes, 0 if of plausible ones: (C,) x 3 -> ().

    `plausible` is the sum of the `plausibility` of those labels, by class. With two classes there is one other: 1.

    >>> randomness(torch.full((3,), 100.0), torch.full((3,), 60.0), torch.full((3,), 22.0))
    tensor(0.6000)
    """
    least = 1 / (len(given) - 1)
    mean = plausible.sum() / (given - agreed).sum().clamp_min(_TINY)
    above = (mean - least) / max(1 - least, _TINY)
    return (1 - above / _PLAUSIBLE).clamp(0, 1)


def progress(agreement: Tensor, randomness: Tensor) -> Tensor:
    """How far the exponent has risen, 1 - (1 - agreement)^n, n from 1 to 3 with the randomness: (), () -> ().

    >>> progress(torch.tensor(0.5), torch.tensor([0.0, 1.0]))
    tensor([0.5000, 0.8750])
    """
    return 1 - (1 - agreement) ** (1 + (_RANDOM_POWER - 1) * randomness)


def settled(agreement: Tensor, earlier: Tensor) -> Tensor:
    """1 if the agreement is not above its mean over a longer time, 0 if it is a quarter above or more: (), () -> ().

    >>> settled(torch.tensor(0.5), torch.tensor([0.5, 0.45, 0.3]))
    tensor([1.0000, 0.5000, 0.0000])
    """
    return (1 - _SETTLED * (1 - earlier / agreement.clamp_min(_TINY))).clamp(0, 1)


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
        pl_weight: weight of PL+ at full agreement; 0: none. (The paper has 0.01 beside one complement, which is
            0.09 beside all nine of ten classes.)
        strength: exponent of the weight at full agreement; 1: NL+'s, 0: cross-entropy. It becomes half as much again
            when the agreement has settled.
        memory: number of samples that the running means cover. None: `100 * num_classes`.
        synchronize: whether to sum over the processes of `torch.distributed`.

    Example:
        >>> criterion = RobustLoss(num_classes=10)
        >>> logits = torch.zeros(4, 10, requires_grad=True)
        >>> criterion(logits, torch.arange(4))  # at the start, cross-entropy
        tensor(2.3026, grad_fn=<MeanBackward0>)
        >>> criterion(logits, torch.arange(4), weights=torch.tensor([0.0, 1.0, 1.0, 2.0])).backward()
    """

    # (4, C), decaying sums by class: given labels, those predicted, plausibility of the others, predicted probabilities
    statistics: Tensor
    earlier: Tensor  # (2,), decaying sums over a longer time: the agreement, samples

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
        self.register_buffer("statistics", torch.zeros(4, num_classes))
        self.register_buffer("earlier", torch.zeros(2))

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
        if logits.is_meta:  # a shape is asked for, as Keras does when it builds a model
            return logits.new_empty(())
        log_probs = logits.log_softmax(1)
        constants = log_probs.detach()
        if self.training:
            self._measure(constants, labels, weights)
        given, agreed, plausible, predicted = self.statistics
        agreed_share = recall_above_chance(given, agreed)
        risen = progress(agreed_share, randomness(given, agreed, plausible))
        beyond = _BEYOND * settled(agreed_share, self.earlier[0] / self.earlier[1].clamp_min(_TINY))
        strength = self.strength * (1 + beyond) * risen * presence(given, predicted)
        losses = -robust_weight(constants, labels, strength[labels]) * _of_labels(log_probs, labels)
        if self.pl_weight:
            losses = losses + self.pl_weight * agreed_share * positive(log_probs, balanced(constants, predicted))
        return (losses if weights is None else weights * losses).mean()

    @torch.no_grad()
    def _measure(self, log_probs: Tensor, labels: Tensor, weights: Tensor | None) -> None:
        """Add a batch to the running sums; those of earlier samples decay."""
        log_probs = log_probs.float()
        right = (log_probs.argmax(1) == labels).float()
        rows = torch.stack([torch.ones_like(right), right, (1 - right) * plausibility(log_probs, labels)])
        probs = log_probs.exp()
        if weights is not None:
            rows, probs = rows * weights, weights.unsqueeze(1) * probs
        sums = torch.zeros_like(self.statistics)
        sums[:3].scatter_add_(1, labels.expand(3, -1), rows.float())
        sums[3] = probs.sum(0)
        if self.synchronize and torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.all_reduce(sums)
        samples = sums[0].sum()
        self.statistics.mul_((samples / -self.memory).exp()).add_(sums)
        self.earlier.mul_((samples / (-_LONGER * self.memory)).exp())
        self.earlier.add_(torch.stack([samples * self.agreement, samples]))

    def _checked(self, logits: Tensor, labels: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return logits in at least float32 and labels as int64; values are checked where that needs no waiting."""
        logits = check_logits(logits)
        if logits.shape[1] != self.num_classes:
            raise ValueError(f"logits must have {self.num_classes} classes, got shape {tuple(logits.shape)}")
        if weights is not None and weights.shape != logits.shape[:1]:
            raise ValueError(f"weights must have shape ({logits.shape[0]},), got {tuple(weights.shape)}")
        if (
            self.statistics.device != logits.device and not logits.is_meta
        ):  # as with nn.CrossEntropyLoss, no `.to(device)` is needed
            self.to(logits.device)
        return logits, check_labels(labels, logits, values=logits.device.type == "cpu")


def _of_labels(values: Tensor, labels: Tensor) -> Tensor:
    """(B, C), (B,) -> (B,)."""
    return values.gather(1, labels.unsqueeze(1)).squeeze(1)
