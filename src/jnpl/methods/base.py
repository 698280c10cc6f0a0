"""What the training loop and a method say to each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import nn

from jnpl.internal.settings import MethodSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from jnpl.data.loading.batches import Batch


__all__ = ["Method", "MethodSettings", "Stage", "StepOutput", "Task", "TrainingSetView"]


class StepOutput(NamedTuple):
    """A scalar loss to descend, the logits (B, C) for the ledger, and numbers worth a line in the log.

    `quality` (B,), in 0..1 and LOWER for worse labels, is for methods whose score is not the probability of the given
    label; like that one it is averaged over the last epochs.
    """

    loss: Tensor
    logits: Tensor
    scalars: Mapping[str, Tensor]
    quality: Tensor | None = None


class Stage(NamedTuple):
    """A part of a training with a plan of its own: `[stages.NAME]` in a recipe, `[train]` where that is silent.

    The optimiser goes on with its momentum, unless a stage is `fresh`: then networks and optimiser begin anew. With
    `select` the stage ends with the weights that did best on validation data, where there are any.
    """

    name: str
    fresh: bool = False
    select: bool = False


@dataclass(frozen=True)
class Task:
    """What a method is made for. `noise_rate` and `transition` (C, C) are oracles, where true labels are known."""

    build: Callable[[int], nn.Module]  # number -> a network with first weights of its own; 0 is the run's
    labels: Tensor  # (N,) given labels of the training set
    num_classes: int
    noise_rate: float | None = None
    transition: Tensor | None = None  # P(given = j | true = i), row by row
    weights: Tensor | None = None  # (N,) how much each sample's loss counts, 1 on average; None: all alike


class TrainingSetView(Protocol):
    """What a method may look at between epochs and stages. Samples that cannot be read have rows of nan."""

    def logits(self, network: nn.Module) -> Tensor:
        """(N, C) of the training set, not augmented, in evaluation mode."""

    def history(self) -> Tensor:
        """(N, C) mean of the last epochs' predictions during training."""

    def quality(self) -> Tensor:
        """(N,) the same for the given label alone."""


class Method(nn.Module, ABC):
    """Networks and what one batch teaches them. Optimiser, device and data belong to the loop.

    The loss is a mean over the batch's own samples. `sum_over_processes` adds up a tensor over all processes that
    share a batch, `gather_over_processes` brings rows of a batch together, for the rare term that is not (they are
    identities for one process). What changes and is not a parameter is a buffer, per-sample state too: checkpoints
    hold it. `stage`, `epoch` and `epochs` (of the stage) say where the training stands.
    """

    Settings: ClassVar[type[MethodSettings]] = MethodSettings
    # What `jnpl methods` and the docs say:
    paper: ClassVar[str]
    networks: ClassVar[str] = "1"
    pseudo_mode: ClassVar[Literal["paper", "nlnl"] | None] = None  # how `jnpl train` goes on; None: not at all
    needs: ClassVar[str] = "nothing"
    score: ClassVar[str] = "probability of the given label, mean of the last 10 epochs"

    supports_compile: ClassVar[bool] = True  # its networks may be compiled
    needs_full_history: ClassVar[bool] = False  # asks for whole predictions of past epochs
    has_unused_parameters: ClassVar[bool] = False  # a step may leave parameters without a gradient
    supports_sample_weights: ClassVar[bool] = False  # heeds the weights of samples
    per_process_buffers: ClassVar[tuple[str, ...]] = ()  # buffers that every process counts for itself

    stages: tuple[Stage, ...] = (Stage("train"),)
    group_size: int | None = None  # batches of so many samples with one given label after another, if not None

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.model = task.build(0)
        self.stage, self.epoch, self.epochs = 0, 0, 1
        self.sum_over_processes: Callable[[Tensor], Tensor] = lambda tensor: tensor
        self.gather_over_processes: Callable[[Batch, Tensor], tuple[Tensor, Tensor]] = lambda batch, rows: (
            batch.index,
            rows,
        )

    @abstractmethod
    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""

    def forward(self, batch: Batch) -> StepOutput:
        """The step, where wrappers for several processes expect it."""
        return self.step(batch)

    def begin_stage(self, training_set: TrainingSetView) -> None:
        """Called at the start of every stage but the first, before a fresh one renews the networks."""

    def begin_epoch(self, training_set: TrainingSetView) -> None:
        """Called at the start of every epoch."""

    def reset_networks(self, build: Callable[[int], nn.Module]) -> None:
        """Give the networks the first weights of network `self.stage`."""
        self.model.load_state_dict(build(self.stage).state_dict())

    def notes(self) -> list[str]:
        """What a user should know of how the training went, a line each."""
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Logits for new inputs: (B, ...) -> (B, C)."""
        logits: Tensor = self.classifier(inputs)
        return logits

    @property
    def classifier(self) -> nn.Module:
        """The network that a run leaves behind."""
        return self.model

    def network_logits(self, inputs: Tensor) -> dict[str, Tensor]:
        """Logits (B, C) of each network worth testing, by name; test accuracy is the mean of theirs."""
        return {"model": self.predict(inputs)}

    def global_batch_size(self, batch: Batch) -> int:
        """Samples of the batch over all processes; `batch.rows`, for draws, also counts those that cannot be read."""
        if batch.rows.stop - batch.rows.start == batch.rows.total:
            return len(batch.labels)
        return int(self.sum_over_processes(torch.tensor(float(len(batch.labels)), device=batch.labels.device)))

    def uniforms(self, batch: Batch, columns: int) -> Tensor:
        """(B, columns) draws in [0, 1), the same for a sample however many processes share the batch."""
        drawn = torch.rand(batch.rows.total, columns, generator=batch.generator)
        start = batch.rows.start
        return drawn[start : start + len(batch.labels)].to(batch.labels.device)
