"""Selection of small-loss samples for two networks: the common part of Co-teaching, Co-teaching+ and JoCoR."""

import math
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.internal.errors import InputError
from jnpl.methods.base import MethodSettings, Task
from jnpl.methods.two_networks import TwoNetworks


class SmallLossSettings(MethodSettings):
    """Settings of the number of samples to keep."""

    noise_rate: Annotated[float, Field(ge=0, lt=1)] | Literal["oracle"] | None = Field(
        None, description='share of wrong labels, required; "oracle": the true share, where true labels are known'
    )
    ramp_epochs: int = Field(10, ge=1, description="epochs in which the kept share falls to 1 - noise_rate (T_k)")


def resolve_rate(task: Task, settings: SmallLossSettings) -> float:
    """Return the noise rate of the settings.

    "oracle" is the realised share of wrong labels. (JoCoR's code halves the nominal rate of asymmetric noise on every
    data set, which is right for CIFAR-10 with five source classes and wrong for CIFAR-100.)
    """
    name, rate = settings.name, settings.noise_rate
    if rate is None:
        raise InputError(
            f"{name} needs the noise rate: --set method.noise_rate=0.2, or =oracle where true labels are known"
        )
    if rate != "oracle":
        return rate
    if task.noise_rate is None:
        raise InputError(
            f"{name}: method.noise_rate=oracle needs true labels, and there are none; "
            f"give a number, such as --set method.noise_rate=0.2"
        )
    return task.noise_rate


def keep_share(noise_rate: float, epoch: int, ramp_epochs: int) -> float:
    """Return the share of samples to keep, R(t) = 1 - rate * min(t / (T_k - 1), 1), epochs counted from 0.

    >>> [round(keep_share(0.2, epoch, ramp_epochs=5), 2) for epoch in range(6)]
    [1.0, 0.95, 0.9, 0.85, 0.8, 0.8]
    """
    return 1 - noise_rate * min(epoch / max(ramp_epochs - 1, 1), 1.0)


def keep_count(share: float, total: int) -> int:
    """Return the number of samples to keep: share * total rounded down, at least 1.

    The authors' code truncates the floating-point product, and (1 - 0.9) * 10 is 0.9999999999999998. Here 1e-6 is added
    first, so that whole numbers stay whole, also with a rate in float32.

    >>> keep_count(0.8, 128), keep_count(1 - 0.9, 10), keep_count(0.2, 3)
    (102, 1, 1)
    """
    return min(max(math.floor((share + 1e-6) * total), 1), total)


def smallest(losses: Tensor, count: int | Tensor) -> Tensor:
    """Mark the `count` smallest losses, the first ones on a tie: (B,) -> (B,) bool.

    >>> smallest(torch.tensor([3.0, 1.0, 2.0, 1.0]), 2)
    tensor([False,  True, False,  True])
    """
    places = torch.arange(len(losses), device=losses.device)
    return torch.empty_like(places).scatter(0, losses.argsort(stable=True), places) < count


def own_part(batch: Batch, index: Tensor, values: Tensor) -> Tensor:
    """Return this process's rows of what was gathered from all: positions (W,), values (W, ...) -> (B, ...)."""
    # The rows of a process are consecutive; where they start depends on the samples that others could read.
    start = (index == batch.index[0].to(index.device)).byte().argmax()
    return values[start + torch.arange(len(batch.labels), device=index.device)]


class Chosen(NamedTuple):
    """The small-loss samples of a batch."""

    in_this_process: Tensor  # (B,) bool, of this process
    kept: int  # how many of the whole batch, over all processes
    total: int  # samples of the whole batch

    @property
    def share(self) -> Tensor:
        """Share of the batch that is kept, for the log: ()."""
        return torch.tensor(self.kept / self.total)


class SmallLoss(TwoNetworks):
    """Two networks, each tested alone."""

    needs = "noise rate"

    def __init__(self, task: Task, settings: SmallLossSettings) -> None:
        rate = resolve_rate(task, settings)
        super().__init__(task)
        self.noise_rate, self.ramp_epochs = rate, settings.ramp_epochs

    def choose(self, batch: Batch, losses: Tensor) -> Chosen:
        """Select the small-loss samples of the whole batch, over all processes, by losses (B,)."""
        index, all_losses = self.gather_over_processes(batch, losses.detach().unsqueeze(1))  # (W,), (W, 1)
        count = keep_count(keep_share(self.noise_rate, self.epoch, self.ramp_epochs), len(all_losses))
        return Chosen(own_part(batch, index, smallest(all_losses.squeeze(1), count)), count, len(all_losses))


def mean_of(losses: Tensor, chosen: Chosen) -> Tensor:
    """Return the mean over the chosen samples of the whole batch, scaled by this process's share: (B,) -> ()."""
    return torch.where(chosen.in_this_process, losses, 0.0).sum() / chosen.kept * (chosen.total / len(losses))
