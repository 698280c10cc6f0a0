"""JNPL with a PL+ that keeps all classes (docs/results/pl-plus.md): NL first, then NL+ and a balanced PL+."""

from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.losses.short_training import EpochCounts, loses_classes
from jnpl.methods.base import Task, TrainingSetView
from jnpl.methods.jnpl import Terms
from jnpl.methods.varied_jnpl import ClassWeight, VariedJNPL


class JNPLStable(VariedJNPL):
    """The paper's two losses. PL+ selects by p divided by its running mean, so that no class leads in all samples.

    NL alone in the first epochs, and in an epoch after one that has lost classes: neither NL+ nor PL+ leads back.
    """

    paper = "this package, after Kim et al., CVPR 2021"
    mean: Tensor  # (C,), running mean prediction

    class Settings(VariedJNPL.Settings):
        """Settings of the paper, and of the changes."""

        name: str = "jnpl-stable"
        class_weight: ClassWeight = "nlnl"
        pl_mean: Literal["selected", "batch"] = Field("batch", description="samples that PL+ is averaged over")
        nl_share: float = Field(0.2, ge=0, lt=1, description="share of the epochs, the first, with NL alone")
        nl_if_lost: bool = Field(
            True, description="NL alone also in an epoch after one in which over a twentieth of the classes was lost"
        )
        momentum: float | None = Field(
            0.99,
            ge=0,
            lt=1,
            description="of the running mean that p is divided by where PL+ selects; None: not divided",
        )

    settings: Settings

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task, settings)
        self.register_buffer("mean", torch.full((task.num_classes,), 1 / task.num_classes))
        self.counts = EpochCounts(task.num_classes)
        self.per_process_buffers = tuple(f"counts.{name}" for name, _ in self.counts.named_buffers())
        self.nl_alone = False  # a plain number: a step reads it without waiting for a GPU

    def begin_epoch(self, training_set: TrainingSetView) -> None:  # noqa: ARG002 (counts are kept by step)
        """Choose NL alone, or NL+ and PL+."""
        totals = self.counts.take(self.sum_over_processes)
        lost = self.settings.nl_if_lost and loses_classes(totals.predicted, totals.given)
        self._use_nl_alone(alone=lost or self.epoch < self.settings.nl_share * self.epochs)

    def _use_nl_alone(self, *, alone: bool) -> None:
        self.nl_alone = alone
        self.loss.negative.gamma = 0.0 if alone else self.settings.gamma

    def pl_weight(self) -> float:
        """Return lambda, or 0 for NL alone."""
        return 0.0 if self.nl_alone else self.settings.pl_weight

    def terms(self, logits: Tensor, batch: Batch) -> Terms:
        """Return the two losses of one batch, after counting its predictions: (B, C) -> (), ()."""
        weights = self.sample_weights(batch)
        self.counts.add(logits, self.trusted_labels(batch), weights)
        if self.settings.momentum is not None:
            p = logits.detach().float().softmax(1)
            ones = p.new_ones(len(p)) if weights is None else weights
            summed = (p if weights is None else weights[:, None] * p).sum(0)  # no matmul: autocast would round it
            total = self.sum_over_processes(torch.cat([summed, ones.sum()[None]]))  # (C + 1,), the last their number
            self.mean.lerp_(total[:-1] / total[-1].clamp_min(1e-12), 1 - self.settings.momentum)
        return super().terms(logits, batch)

    def usual_prediction(self) -> Tensor | None:
        """Return the running mean prediction (C,), by which p is divided where PL+ selects."""
        return None if self.settings.momentum is None else self.mean

    def get_extra_state(self) -> Tensor:
        """Return what checkpoints hold besides the buffers."""
        return torch.tensor(self.nl_alone)

    def set_extra_state(self, state: Any) -> None:
        """Continue from a checkpoint."""
        self._use_nl_alone(alone=bool(state.view(-1)[0]))
