"""Generalized cross-entropy: a loss between cross-entropy and mean absolute error."""

import torch
from pydantic import Field
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task, TrainingSetView


class GCE(Method):
    """The mean of L_q = (1 - p_y^q) / q over the batch; truncated, samples with p_y <= k are pruned periodically.

    `keep` (N,) marks the samples that the truncated loss uses: all of them before the first pruning.
    """

    paper = "Zhang and Sabuncu, NeurIPS 2018"

    keep: Tensor
    given: Tensor

    class Settings(MethodSettings):
        """Settings of the loss and of the pruning."""

        name: str = "gce"
        q: float = Field(0.7, gt=0, le=1, description="towards 0: cross-entropy; 1: half of mae")
        truncated: bool = Field(False, description="prune samples whose given label has probability k or less")
        k: float = Field(0.5, gt=0, lt=1, description="truncated: that probability")
        prune_from: int = Field(40, ge=0, description="truncated: first epoch with pruning, counted from 0")
        prune_every: int = Field(10, ge=1, description="truncated: epochs between two prunings")

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.q, self.truncated = settings.q, settings.truncated
        self.prune_from, self.prune_every = settings.prune_from, settings.prune_every
        self.limit = (1 - settings.k**settings.q) / settings.q  # L_q(k)
        if self.truncated:
            self.register_buffer("keep", torch.ones(len(task.labels), dtype=torch.bool))
            self.register_buffer("given", task.labels, persistent=False)  # belongs to the data, not to a checkpoint

    def begin_epoch(self, training_set: TrainingSetView) -> None:
        """Prune samples for the truncated loss (the paper's Algorithm 1)."""
        since = self.epoch - self.prune_from
        if not self.truncated or since < 0 or since % self.prune_every:
            return
        # Departure: the public code prunes with the model that did best on test data; this is the current network.
        losses = JF.gce(training_set.logits(self.model), self.given, self.q)
        self.keep.copy_(losses < self.limit)  # false for nan, a sample that cannot be read

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        losses = JF.gce(logits, batch.labels, self.q)
        if not self.truncated:
            return StepOutput(losses.mean(), logits, {})
        keep = self.keep[batch.index.to(self.keep.device)]
        # The mean is over the whole batch, not over the kept samples: a batch with few of them takes a small step.
        loss = torch.where(keep, losses - self.limit, 0.0).mean()
        return StepOutput(loss, logits, {"kept": keep.float().mean()})
