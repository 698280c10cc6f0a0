"""THE loop. It knows no method by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from jnpl.findings.ledger import Ledger
from jnpl.internal.errors import LearningError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from lightning_fabric import Fabric
    from torch import Tensor

    from jnpl.data.loading.batches import Batch
    from jnpl.data.loading.feed import Feed
    from jnpl.methods.base import Method, StepOutput
    from jnpl.recipes.schema import Training


@dataclass
class Progress:
    """Where a run stands: with weights, optimiser and ledger, all that a resume needs."""

    phase: int = 0  # which of the run's trainings
    before: int = 0  # epochs of the earlier ones
    epoch: int = 0  # of this one
    step: int = 0  # steps of this epoch that are done
    sums: dict[str, Tensor] = field(default_factory=dict)  # what the method reported this epoch, times samples
    samples: int = 0

    @property
    def total(self) -> int:
        """Epochs of the run that are done."""
        return self.before + self.epoch

    def next_epoch(self) -> Progress:
        """The start of the next epoch."""
        return Progress(self.phase, self.before, self.epoch + 1)

    def add(self, batch: Batch, output: StepOutput) -> None:
        """Count a step."""
        for name, value in {"loss": output.loss, **output.scalars}.items():
            weighted = value.detach().float() * len(batch.labels)
            self.sums[name] = self.sums[name] + weighted if name in self.sums else weighted
        self.samples += len(batch.labels)
        self.step += 1

    def means(self) -> dict[str, float]:
        """Of what the method reported this epoch, over samples."""
        return {name: value.item() / max(self.samples, 1) for name, value in self.sums.items()}


class Watcher:
    """Who is told how far the loop is; this one does not care."""

    def before_epoch(self) -> None:
        """At the start of an epoch; not again if the run goes on in the middle of it."""

    def after_step(self) -> None:
        """The weights have changed."""

    def after_epoch(self) -> None:
        """All batches have been seen."""


@dataclass
class Books:
    """What is noted of every sample: predictions, and the score of methods that have one of their own."""

    ledger: Ledger
    scores: Ledger  # of two classes, wrong and right

    @classmethod
    def make(cls, ledger: Ledger) -> Books:
        """An empty book of scores beside a ledger."""
        return cls(ledger, Ledger(ledger.num_samples, 2, ledger.history))

    def record(self, batch: Batch, output: StepOutput, epoch: int, fabric: Fabric) -> None:
        """Note a batch, from all processes that share it."""
        # The prediction of the augmented view, before the update, is what NLNL and the paper average.
        self.ledger.record(*gather(batch, output.logits.detach().float().softmax(1), fabric), epoch)
        if output.quality is not None:
            index, quality = gather(batch, output.quality.detach().float()[:, None], fabric)
            self.scores.record(index, torch.cat([1 - quality, quality], 1), epoch)

    def quality(self) -> npt.NDArray[np.float32] | None:
        """(N,) the method's own score, if it has one."""
        if not self.scores.seen.any():
            return None
        return self.scores.quality(torch.ones(self.scores.num_samples, dtype=torch.long))


def train(
    method: Method,
    optimizer: torch.optim.Optimizer,
    feed: Feed,
    books: Books,
    settings: Training,
    fabric: Fabric,
    progress: Progress,
    watcher: Watcher,
) -> None:
    """Train from where `progress` stands to the last epoch. `method` and `optimizer` come from `fabric.setup`."""
    while progress.epoch < settings.epochs:
        for group in optimizer.param_groups:
            group["lr"] = settings.lr_at(progress.epoch)
        if progress.step == 0:
            watcher.before_epoch()
        method.train()
        batches = feed.epoch(progress.total, progress.step)
        while together := list(islice(batches, settings.accumulate)):  # fewer at the end of an epoch
            total = _everyone(sum(len(batch.labels) for batch in together), fabric)
            for batch in together:
                # Dropout draws from the global generator: tie it to the step, or a resume would draw anew.
                _seed_global(batch.generator.initial_seed() ^ fabric.global_rank, fabric.device)
                output = method(batch)
                if not output.loss.isfinite():
                    at = f"epoch {progress.total}, step {progress.step}"
                    raise LearningError(
                        f"the loss is {output.loss.item()} in {at}: try a smaller train.lr, or a clip_norm"
                    )
                # Processes average their gradients: weigh each batch by its share of all that make the step.
                fabric.backward(output.loss * (len(batch.labels) * fabric.world_size / total))
                books.record(batch, output, progress.total, fabric)
                progress.add(batch, output)
            if settings.clip_norm is not None:
                # A gradient that is not finite shows in the next loss (or is the gradient scaler's to skip).
                fabric.clip_gradients(method, optimizer, max_norm=settings.clip_norm, error_if_nonfinite=False)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            watcher.after_step()
        watcher.after_epoch()
        progress.epoch, progress.step, progress.sums, progress.samples = progress.epoch + 1, 0, {}, 0


def _everyone(number: int, fabric: Fabric) -> float:
    """The sum of a number over all processes."""
    if fabric.world_size == 1:
        return float(number)
    told = torch.tensor(float(number), device=fabric.device)
    return float(torch.as_tensor(fabric.all_reduce(told, reduce_op="sum")))


def gather(batch: Batch, values: Tensor, fabric: Fabric) -> tuple[Tensor, Tensor]:
    """Positions (B,) and values (B, K) of the whole batch, from all processes that share it."""
    if fabric.world_size == 1:
        return batch.index, values
    most = -(-batch.rows.total // fabric.world_size)  # all processes must send as much
    index = torch.full((most,), -1, device=values.device)
    index[: len(batch.index)] = batch.index.to(values.device)
    padded = values.new_zeros(most, values.shape[1])
    padded[: len(values)] = values
    everyone = torch.as_tensor(fabric.all_gather(index)).reshape(-1)
    rows = torch.as_tensor(fabric.all_gather(padded)).reshape(-1, values.shape[1])
    return everyone[everyone >= 0], rows[everyone >= 0]


@torch.inference_mode()
def accuracy(method: Method, feed: Feed, fabric: Fabric) -> dict[str, float]:
    """Share of a feed's labels that each of the method's networks predicts, in evaluation mode; over all processes."""
    method.eval()
    right: dict[str, int] = {}
    seen = 0
    for inputs, labels, _ in feed.evaluation():
        for name, logits in method.network_logits(inputs).items():
            right[name] = right.get(name, 0) + int((logits.argmax(1) == labels).sum())
        seen += len(labels)
    told: list[Any] = [(right, seen)]
    if fabric.world_size > 1:  # by name: a process may have had no sample at all
        told = [None] * fabric.world_size
        torch.distributed.all_gather_object(told, (right, seen))
    total = sum(each for _, each in told)
    names = dict.fromkeys(name for counts, _ in told for name in counts)
    return {name: sum(counts.get(name, 0) for counts, _ in told) / total for name in names}


def _seed_global(seed: int, device: torch.device) -> None:
    """On a CPU without torch.manual_seed, which keeps a list of calls for every device that is not there."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
