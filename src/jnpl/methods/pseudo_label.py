"""Training of a fresh network on kept labels and pseudo-labels, the second part of `jnpl train`."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, StepOutput, Task


class Targets(NamedTuple):
    """Soft targets (N, C) and sample weights (N,) to train on; a target of nan has weight 0."""

    probs: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float32]
    weighted_mean: bool  # a batch's loss is divided by the weights of its samples, not by their number


class PseudoLabel(Method):
    """Cross-entropy with soft targets (N, C) and sample weights (N,).

    Samples of weight 0 still pass through the network, so that they contribute to batch norm's statistics and their
    predictions are recorded, as in NLNL's code. The sum is divided by the number of samples in the batch, or by the sum
    of their weights (`weighted_mean`: NLNL's first step).
    """

    paper = "the second part of JNPL and NLNL"
    supports_sample_weights = True
    targets: Tensor
    weights: Tensor

    def __init__(self, task: Task, targets: Targets, number: int) -> None:
        super().__init__(task)
        self.model.load_state_dict(task.build(number).state_dict())  # other initial weights than those of the filter
        self.weighted_mean = targets.weighted_mean
        self.register_buffer("targets", torch.nan_to_num(torch.from_numpy(targets.probs)))
        weights = torch.from_numpy(targets.weights)
        self.register_buffer("weights", weights if task.weights is None else weights * task.weights)

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        targets, weights = self.targets[batch.index], self.weights[batch.index]
        losses = weights * JF.soft_pl(logits.float(), targets)
        if not self.weighted_mean:
            return StepOutput(losses.mean(), logits, {})
        # A weighted mean over the whole batch, over all processes; 0, not nan, where all weights are 0.
        size = len(batch.labels)
        sums = self.sum_over_processes(torch.stack([weights.sum(), weights.new_tensor(size)]))
        scale = torch.where(sums[0] > 0, sums[1] / sums[0], 0.0)
        return StepOutput(losses.sum() / size * scale, logits, {})
