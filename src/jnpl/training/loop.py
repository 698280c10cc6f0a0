"""The training loop. It knows no method by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from jnpl.data.loading.batches import Batch
from jnpl.data.loading.feed import Feed
from jnpl.internal.errors import LearningError
from jnpl.training.processes import total

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from jnpl.methods.base import Method, StepOutput
    from jnpl.recipes.schema import Training
    from jnpl.training.records import SampleRecords

OWN_PLAN = "own_plan"  # marks a group of parameters with a constant learning rate and momentum of its own


@dataclass
class Position:
    """How far a run is. With weights, optimiser and records it is all that a resume needs."""

    phase: int = 0  # number of the phase
    before: int = 0  # epochs of the earlier phases
    epoch: int = 0  # epochs of this phase that are done
    step: int = 0  # batches of this epoch that are done
    sums: dict[str, Tensor] = field(default_factory=dict)  # what the method reported this epoch, times samples
    samples: int = 0  # of this epoch that are done

    @property
    def total(self) -> int:
        """Epochs of the run that are done."""
        return self.before + self.epoch

    def next_epoch(self) -> Position:
        """Return the start of the next epoch."""
        return Position(self.phase, self.before, self.epoch + 1)

    def add(self, batch: Batch, output: StepOutput) -> None:
        """Count a batch."""
        samples, means = len(batch.labels), {"loss": output.loss, **output.scalars}
        self.count({name: value.detach().float() * samples for name, value in means.items()}, samples)

    def count(self, sums: dict[str, Tensor], samples: int) -> None:
        """Count so many samples, over which the numbers are summed."""
        for name, value in sums.items():
            self.sums[name] = self.sums[name] + value if name in self.sums else value
        self.samples += samples
        self.step += 1

    def means(self) -> dict[str, float]:
        """Return the mean over samples of each number that the method reported this epoch."""
        return {name: value.item() / max(self.samples, 1) for name, value in self.sums.items()}


class LoopCallback:
    """Called by the loop at fixed points; the methods here do nothing."""

    def before_epoch(self) -> None:
        """At the start of an epoch; not again if the run resumes in the middle of it."""

    def after_step(self) -> None:
        """After every update of the weights."""

    def after_epoch(self) -> None:
        """After the last batch of an epoch."""


def train(
    method: Method,
    optimizer: torch.optim.Optimizer,
    feed: Feed,
    records: SampleRecords,
    settings: Training,
    fabric: Fabric,
    position: Position,
    callback: LoopCallback,
) -> None:
    """Train from `position` to the last epoch. `method` and `optimizer` come from `fabric.setup`."""
    while position.epoch < settings.epochs:
        for group in optimizer.param_groups:
            if OWN_PLAN in group:
                continue
            group["lr"], momentum = settings.lr_at(position.epoch), settings.momentum_at(position.epoch)
            if "betas" in group:
                group["betas"] = (momentum, group["betas"][1])
            else:
                group["momentum"] = momentum
        if position.step == 0:
            callback.before_epoch()
        method.train()
        batches = feed.epoch(position.total, position.step)
        while together := list(islice(batches, settings.accumulate)):  # fewer at the end of an epoch
            samples = total(sum(len(batch.labels) for batch in together), fabric)
            for batch in together:
                # Dropout draws from the global generator: tie it to the step, or a resume would draw anew.
                _seed_global(batch.generator.initial_seed() ^ fabric.global_rank, fabric.device)
                output = method(batch)
                # Processes average their gradients: weigh each batch by its share of all that make the step.
                fabric.backward(output.loss * (len(batch.labels) * fabric.world_size / samples))
                # Read here and not before: the records copy the predictions, for which a GPU is waited for anyway.
                if not output.loss.isfinite():
                    at = f"epoch {position.total}, step {position.step}"
                    raise LearningError(
                        f"the loss is {output.loss.item()} in {at}: try a smaller train.lr, or a clip_norm"
                    )
                records.record(batch, output, position.total, fabric)
                position.add(batch, output)
            if settings.clip_norm is not None:
                # A gradient that is not finite shows in the next loss (or is the gradient scaler's to skip).
                fabric.clip_gradients(method, optimizer, max_norm=settings.clip_norm, error_if_nonfinite=False)
            optimizer.step()
            optimizer.zero_grad()
            callback.after_step()
        callback.after_epoch()
        position.epoch, position.step, position.sums, position.samples = position.epoch + 1, 0, {}, 0


def _seed_global(seed: int, device: torch.device) -> None:
    """On a CPU without torch.manual_seed, which keeps a list of calls for every device that is not there."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
