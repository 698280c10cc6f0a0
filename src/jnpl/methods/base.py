"""The contract between the training loop and a method."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from jnpl.data.loading.augment import View
from jnpl.data.loading.batches import Batch
from jnpl.internal.settings import MethodSettings
from jnpl.internal.tensors import PlainState

__all__ = [
    "Method",
    "MethodSettings",
    "ParameterGroup",
    "Stage",
    "StepCount",
    "StepOutput",
    "Task",
    "TrainingSetView",
    "frozen_copy",
    "gather_labels",
]


class StepOutput(NamedTuple):
    """The result of one step.

    `quality`, in 0..1 and LOWER for worse labels, is for methods whose label quality is not the probability of the
    given label; like that one it is averaged over the last epochs.
    """

    loss: Tensor  # (), to be minimised
    logits: Tensor  # (B, C), recorded in the ledger
    scalars: Mapping[str, Tensor]  # logged by name
    quality: Tensor | None = None  # (B,)


class Stage(NamedTuple):
    """One part of a method's training, with its own plan: `[stages.NAME]` of a recipe, or `[train]` without it."""

    name: str
    fresh: bool = False  # start with new networks, optimiser and ledger; otherwise all three continue
    select: bool = False  # end with the weights that did best on validation data, if there is any


class ParameterGroup(NamedTuple):
    """Parameters with an optimiser plan of their own: SGD at a constant learning rate, beside the plan of `[train]`."""

    parameters: tuple[nn.Parameter, ...]
    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Task:
    """What a method is built from. `noise_rate` and `transition` are known only where true labels are."""

    build: Callable[[int], nn.Module]  # number -> a network with its own initial weights; 0 is the run's network
    labels: Tensor  # (N,) given labels of the training set
    num_classes: int
    noise_rate: float | None = None  # share of wrong labels
    transition: Tensor | None = None  # (C, C), P(given = j | true = i) in row i
    weights: Tensor | None = None  # (N,) sample weights, 1 on average; None: all equal
    decided: Tensor | None = None  # (N,) labels that a person has decided on, -1 where there is none

    @property
    def trusted_labels(self) -> Tensor:
        """The labels to learn from (N,): decided ones in place of given ones."""
        return self.labels if self.decided is None else self.labels.where(self.decided < 0, self.decided)


class TrainingSetView(Protocol):
    """The training set as a method sees it between epochs and stages. Samples that cannot be read have rows of nan."""

    def logits(self, network: nn.Module) -> Tensor:
        """Logits of all samples, not augmented, in evaluation mode: (N, C)."""

    def history(self) -> Tensor:
        """Mean predictions of the last epochs, recorded during training: (N, C)."""

    def quality(self) -> Tensor:
        """Label quality, averaged over the last epochs: (N,)."""

    def posterior(self) -> Tensor:
        """`history`, corrected by the given labels and the estimated confusion between classes: (N, C)."""


class Method(nn.Module, ABC):
    """The networks of a method, and the loss of one batch. Optimiser, device and data belong to the loop.

    The loss is a mean over the samples of this process. For a term that is not, `sum_over_processes` adds up a tensor
    over all processes that share a batch, and `gather_over_processes` collects rows of the batch (with one process
    both return their input). State that is not a parameter, per-sample state included, is a buffer: checkpoints hold
    it. `stage`, `epoch` and `epochs` (of the stage) are the position of the training.
    """

    Settings: ClassVar[type[MethodSettings]] = MethodSettings
    # Shown by `jnpl methods` and in the docs:
    paper: ClassVar[str]
    networks: ClassVar[str] = "1"
    needs: ClassVar[str] = "nothing"
    score: ClassVar[str] = "probability of the given label, mean of the last 10 epochs"

    pseudo_mode: ClassVar[Literal["paper", "nlnl"] | None] = None  # pseudo-labels in `jnpl train`; None: none
    supports_compile: ClassVar[bool] = True  # its networks may be compiled
    supports_sample_weights: ClassVar[bool] = False  # uses `Task.weights`
    supports_decided_labels: ClassVar[bool] = False  # uses `Task.decided`; others get them as given labels
    has_unused_parameters: ClassVar[bool] = False  # a step may leave parameters without a gradient
    per_process_buffers: tuple[str, ...] = ()  # buffers with a different value in every process

    stages: tuple[Stage, ...] = (Stage("train"),)
    optional_stages: ClassVar[tuple[Stage, ...]] = ()  # stages that some settings add
    group_size: int | None = None  # batches consist of groups of this many samples with the same given label
    views: ClassVar[tuple[View, ...]] = ()  # further augmented views of every batch, in `batch.views`

    weights: Tensor | None  # (N,) of the samples
    decided: Tensor | None  # (N,) labels, -1 where there is none

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.model = task.build(0)
        self.register_buffer("weights", task.weights if self.supports_sample_weights else None, persistent=False)
        self.register_buffer("decided", task.decided if self.supports_decided_labels else None, persistent=False)
        self.stage, self.epoch, self.epochs = 0, 0, 1
        self.sum_over_processes: Callable[[Tensor], Tensor] = lambda tensor: tensor
        self.gather_over_processes: Callable[[Batch, Tensor], tuple[Tensor, Tensor]]
        self.gather_over_processes = lambda batch, rows: (batch.index, rows)

    @abstractmethod
    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""

    @property
    def has_logit_gradient(self) -> bool:
        """Whether `logit_gradient` gives the gradient of `step`, so that a linear head trains without autograd."""
        return False

    def logit_gradient(self, probs: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the losses (B,) of the first of K heads, and the gradient of each head's losses on its logits.

        Returns:
            Losses (B,) and gradient (B, K, C), sample by sample; `step` would take the mean.
        """
        raise NotImplementedError(f"{type(self).__name__} has no closed form of its gradient")

    def forward(self, batch: Batch) -> StepOutput:
        """Call `step`: wrappers for several processes expect it here."""
        return self.step(batch)

    def begin_stage(self, training_set: TrainingSetView) -> None:
        """Prepare a stage. Called for every stage but the first, before the networks are reset."""

    def begin_epoch(self, training_set: TrainingSetView) -> None:
        """Prepare an epoch."""

    def reset_networks(self, build: Callable[[int], nn.Module]) -> None:
        """Load new initial weights at the start of a fresh stage: those of network number `self.stage`."""
        self.model.load_state_dict(build(self.stage).state_dict())

    def parameter_groups(self) -> tuple[ParameterGroup, ...]:
        """Return the parameters that do not follow the plan of `[train]`. They need train.optimizer = sgd."""
        return ()

    def notes(self) -> list[str]:
        """Return remarks on the training for the user, one line each."""
        return []

    def predict(self, inputs: Tensor) -> Tensor:
        """Return logits for new inputs: (B, ...) -> (B, C)."""
        logits: Tensor = self.classifier(inputs)
        return logits

    @property
    def classifier(self) -> nn.Module:
        """The network that a run saves."""
        return self.model

    def network_logits(self, inputs: Tensor) -> dict[str, Tensor]:
        """Return logits (B, C) of each network to test, by name.

        Test accuracy is that of "ensemble" if there is one by this name, else the mean over networks.
        """
        return {"model": self.predict(inputs)}

    def network_state(self) -> dict[str, Tensor]:
        """Return weights and buffers of the networks by name, without the other state: counters, per-sample state."""
        networks = {name for name, child in self.named_children() if next(child.parameters(), None) is not None}
        return {name: value for name, value in self.state_dict().items() if name.partition(".")[0] in networks}

    def trusted_labels(self, batch: Batch) -> Tensor:
        """Return the labels to learn from (B,), those that a person has decided on in place of the given ones."""
        if self.decided is None:
            return batch.labels
        decided = self.decided[batch.index.to(self.decided.device)]
        return batch.labels.where(decided < 0, decided)

    def sample_weights(self, batch: Batch) -> Tensor | None:
        """Return the weights of a batch's samples (B,), or None if all are equal."""
        return None if self.weights is None else self.weights[batch.index.to(self.weights.device)]

    def mean_of_selected(self, total: Tensor, selected: Tensor, batch_size: int) -> Tensor:
        """Return a sum over selected samples, divided by their number in the whole batch, over all processes.

        Args:
            total: the sum over those of this process, ().
            selected: their number, or the sum of their weights, ().
            batch_size: samples of this process; the loop takes the mean over processes in proportion to it.

        Returns:
            The mean, (); exactly 0 if no sample is selected.
        """
        counts = torch.stack([selected, torch.full_like(selected, batch_size)]).float()
        counts = self.sum_over_processes(counts)
        divisor = counts[0].where(counts[0] > 0, 1.0)  # a sum of weights can be below 1
        return total / divisor * (counts[1] / batch_size)

    def global_batch_size(self, batch: Batch) -> Tensor:
        """Return the number of samples in the batch over all processes, without those that cannot be read: ()."""
        size = torch.full((), float(len(batch.labels)), device=batch.labels.device)
        return size if batch.rows.all_here else self.sum_over_processes(size)

    def uniforms(self, batch: Batch, columns: int) -> Tensor:
        """Draw from U(0, 1), the same numbers for a sample however many processes share the batch: (B, columns)."""
        drawn = torch.rand(batch.rows.total, columns, generator=batch.generator)
        start = batch.rows.start
        return drawn[start : start + len(batch.labels)].to(batch.labels.device)


class StepCount(PlainState):
    """The number of steps so far."""

    state = ("number",)

    def __init__(self) -> None:
        super().__init__()
        self.number = 0


def frozen_copy(network: nn.Module) -> nn.Module:
    """Return a copy of a network without gradients."""
    return copy.deepcopy(network).requires_grad_(requires_grad=False)


def gather_labels(values: Tensor, labels: Tensor) -> Tensor:
    """Return the value of each row's label: (B, C), (B,) -> (B,)."""
    return values.gather(1, labels.unsqueeze(1)).squeeze(1)


def draw_mixup(batch: Batch, alpha: float, rows: int) -> tuple[float, Tensor]:
    """Draw a weight from Beta(alpha, alpha), the same in all processes, and a partner for each own row: (), (rows,)."""
    seed = int(torch.randint(2**62, (), generator=batch.generator))  # torch's Beta takes no generator
    weight = float(np.random.default_rng(seed).beta(alpha, alpha))
    return weight, torch.randperm(rows, generator=batch.generator).to(batch.labels.device)
