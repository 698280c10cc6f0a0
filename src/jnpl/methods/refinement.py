"""The stage `refine`: a new network learns what the first one and the posterior of the labels say.

A departure from the paper, for embeddings: the second network judges labels better than the first (docs/owners.md), and
is at the same time the classifier that pseudo-labels would give.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from jnpl.losses import functional as JF
from jnpl.methods.base import Stage, TrainingSetView

REFINE = Stage("refine", fresh=True)


class Refinement(nn.Module):
    """Soft targets (N, C) for all samples: the mean of the first network's predictions and of their posterior."""

    targets: Tensor

    def __init__(self, num_samples: int, num_classes: int) -> None:
        super().__init__()
        self.register_buffer("targets", torch.zeros(num_samples, num_classes))

    def prepare(self, training_set: TrainingSetView, decided: Tensor | None) -> None:
        """Make the targets; a sample that cannot be read has none, one that a person has decided on is certain."""
        self.targets.copy_(training_set.posterior())  # in place: there may be millions of samples
        self.targets.add_(training_set.history()).div_(2).nan_to_num_()
        if decided is not None:
            rows = (decided >= 0).nonzero().squeeze(1)
            self.targets[rows] = one_hot(decided[rows], self.targets.shape[1]).float()

    def loss(self, logits: Tensor, index: Tensor, weights: Tensor | None) -> Tensor:
        """Return cross-entropy with the targets of the samples `index`: (B, C), (B,), (B,) -> ()."""
        losses = JF.soft_pl(logits.float(), self.targets[index.to(logits.device)])
        return (losses if weights is None else weights * losses).mean()
