"""CORES2: confidence regularisation, and a sieve that drops labels less likely than the average class."""

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task, TrainingSetView

_TINY = 1e-8  # added to probabilities, as in the authors' code: bounds the regulariser
_WARM_UP, _RAMP, _SIEVE = 0.1, 0.3, 0.31  # shares of the epochs: the paper's 10, 30 and 31 of 100


def class_losses(logits: Tensor) -> Tensor:
    """-log(p + 1e-8) of every class: (B, C) -> (B, C)."""
    return -(logits.float().softmax(1) + _TINY).log()


class CORES2(Method):
    """CE - beta sum_c pi_c (-log p_c), over the samples that the sieve keeps."""

    paper = "Cheng et al., ICLR 2021"
    score = "1 / (1 + exp(CE - mean of -log p over classes)), mean of the last 10 epochs; the sieve keeps 0.5 and more"
    per_process_buffers = ("dropped",)

    class Settings(MethodSettings):
        """Settings of regulariser and sieve; epochs are counted from 0."""

        name: str = "cores2"
        beta: float = Field(2.0, ge=0, description="weight of the regulariser after its ramp")
        warm_up: int | None = Field(None, ge=0, description="epochs with beta 0; None: a tenth (10 of 100)")
        ramp_epochs: int | None = Field(None, ge=1, description="epochs in which beta rises; None: 0.3 of all")
        sieve_from: int | None = Field(None, ge=0, description="first epoch of the sieve; None: 0.31 of all")

    counts: Tensor  # (C,) given labels
    dropped: Tensor  # (C,) of this epoch
    prior: Tensor  # (C,)

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.settings = settings
        counts = torch.bincount(task.labels.long(), minlength=task.num_classes).float()
        self.register_buffer("counts", counts, persistent=False)
        self.register_buffer("dropped", torch.zeros_like(counts))
        self.register_buffer("prior", counts / counts.sum())

    def begin_epoch(self, training_set: TrainingSetView) -> None:  # noqa: ARG002 (counts are kept by step)
        """Set the prior to the class shares of the given labels without those dropped in the last epoch."""
        left = self.counts - self.sum_over_processes(self.dropped.clone())
        self.dropped.zero_()
        if left.sum() > 0:
            self.prior.copy_(left / left.sum())

    def beta(self) -> float:
        """Return the weight of the regulariser in this epoch."""
        start = self._epoch(self.settings.warm_up, _WARM_UP)
        ramp = self._epoch(self.settings.ramp_epochs, _RAMP)
        if self.epoch < start:
            return 0.0
        return self.settings.beta * min((self.epoch - start) / max(ramp - 1, 1), 1.0)

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits = self.model(batch.inputs)
        supervised, of_classes = JF.pl(logits, batch.labels), class_losses(logits)
        difference = (supervised - of_classes.mean(1)).detach()
        sieving = self.epoch >= self._epoch(self.settings.sieve_from, _SIEVE)
        kept = difference <= 0 if sieving else torch.ones_like(difference, dtype=torch.bool)
        self.dropped.index_add_(0, batch.labels, (~kept).to(self.dropped))
        beta = self.beta()
        losses = supervised - beta * (self.prior * of_classes).sum(1)
        # Departure in form alone: the authors divide the learning rate by 1 + beta, which for plain SGD is the same.
        loss = self._mean(batch, losses, kept) / (1 + beta)
        scalars = {"kept": kept.float().mean(), "beta": loss.new_tensor(beta)}
        return StepOutput(loss, logits, scalars, F.sigmoid(-difference))

    def _mean(self, batch: Batch, losses: Tensor, kept: Tensor) -> Tensor:
        """Mean over the kept samples of the whole batch, scaled by this process's share: (B,), (B,) -> ()."""
        size = len(batch.labels)
        counts = self.sum_over_processes(torch.stack([kept.sum(), kept.new_full((), size, dtype=torch.long)]).float())
        return torch.where(kept, losses, 0.0).sum() / counts[0].clamp_min(1) * (counts[1] / size)

    def _epoch(self, setting: int | None, share: float) -> int:
        return round(share * self.epochs) if setting is None else setting
