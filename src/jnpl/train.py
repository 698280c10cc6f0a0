"""THE loop. It knows no method by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import torch

from jnpl.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_fabric import Fabric
    from torch import Tensor

    from jnpl.config import Training
    from jnpl.data.batches import Batch
    from jnpl.data.feed import Feed
    from jnpl.ledger import Ledger
    from jnpl.methods.base import Method, StepOutput


@dataclass
class Progress:
    """Where a run stands: with weights, optimiser and ledger, all that a resume needs."""

    epoch: int = 0
    step: int = 0  # steps of this epoch that are done
    sums: dict[str, Tensor] = field(default_factory=dict)  # what the method reported this epoch, times samples
    samples: int = 0

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


def train(
    method: Method,
    optimizer: torch.optim.Optimizer,
    feed: Feed,
    ledger: Ledger,
    settings: Training,
    fabric: Fabric,
    progress: Progress,
    after_step: Callable[[], None],
    after_epoch: Callable[[], None],
) -> None:
    """Train from where `progress` stands to the last epoch. `method` and `optimizer` come from `fabric.setup`."""
    while progress.epoch < settings.epochs:
        for group in optimizer.param_groups:
            group["lr"] = settings.lr_at(progress.epoch)
        method.train()
        batches = feed.epoch(progress.epoch, progress.step)
        while together := list(islice(batches, settings.accumulate)):  # fewer at the end of an epoch
            total = _everyone(sum(len(batch.labels) for batch in together), fabric)
            for batch in together:
                # Dropout draws from the global generator: tie it to the step, or a resume would draw anew.
                torch.manual_seed(batch.generator.initial_seed() ^ fabric.global_rank)
                output = method(batch)
                if not output.loss.isfinite():
                    at = f"epoch {progress.epoch}, step {progress.step}"
                    raise InputError(
                        f"the loss is {output.loss.item()} in {at}: try a smaller train.lr, or a clip_norm"
                    )
                # Processes average their gradients: weigh each batch by its share of all that make the step.
                fabric.backward(output.loss * (len(batch.labels) * fabric.world_size / total))
                # The prediction of the augmented view, before the update, is what NLNL and the paper average.
                ledger.record(*gather(batch, output, fabric), progress.epoch)
                progress.add(batch, output)
            if settings.clip_norm is not None:
                # A gradient that is not finite shows in the next loss (or is the gradient scaler's to skip).
                fabric.clip_gradients(method, optimizer, max_norm=settings.clip_norm, error_if_nonfinite=False)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            after_step()
        after_epoch()
        progress.epoch, progress.step, progress.sums, progress.samples = progress.epoch + 1, 0, {}, 0


def _everyone(number: int, fabric: Fabric) -> float:
    """The sum of a number over all processes."""
    if fabric.world_size == 1:
        return float(number)
    told = torch.tensor(float(number), device=fabric.device)
    return float(torch.as_tensor(fabric.all_reduce(told, reduce_op="sum")))


def gather(batch: Batch, output: StepOutput, fabric: Fabric) -> tuple[Tensor, Tensor]:
    """Positions (B,) and probabilities (B, C) of the whole batch, from all processes that share it."""
    probs = output.logits.detach().float().softmax(1)
    if fabric.world_size == 1:
        return batch.index, probs
    most = -(-batch.rows.total // fabric.world_size)  # all processes must send as much
    index = torch.full((most,), -1, device=probs.device)
    index[: len(batch.index)] = batch.index.to(probs.device)
    padded = probs.new_zeros(most, probs.shape[1])
    padded[: len(probs)] = probs
    everyone = torch.as_tensor(fabric.all_gather(index)).reshape(-1)
    values = torch.as_tensor(fabric.all_gather(padded)).reshape(-1, probs.shape[1])
    return everyone[everyone >= 0], values[everyone >= 0]


@torch.inference_mode()
def accuracy(method: Method, feed: Feed, fabric: Fabric) -> float:
    """Share of a feed's labels that the method predicts, in evaluation mode; over all processes."""
    method.eval()
    counts = torch.zeros(2, dtype=torch.float64)
    for inputs, labels, _ in feed.evaluation():
        right = method.predict(inputs).argmax(1) == labels
        counts += torch.tensor([int(right.sum()), len(labels)])
    if fabric.world_size > 1:
        counts = torch.as_tensor(fabric.all_reduce(counts.to(fabric.device), reduce_op="sum")).cpu()
    return float(counts[0] / counts[1])
