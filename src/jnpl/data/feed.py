"""Batches for the loop: fetched, moved, augmented, with the step's own randomness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from jnpl.data.batches import Batch, evaluation, generator_for, order, own_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from jnpl.data.augment import Transform
    from jnpl.data.prepare import Prepared
    from jnpl.data.source import Labels


@dataclass(frozen=True)
class Feed:
    """A prepared data set as a stream of batches for one of `world` processes.

    What fits is kept on the device, as bytes; crop, flip and mean subtraction run there too. Order, crops and the
    method's draws depend on seed, epoch and step alone, for the batch as a whole: they are the same however many
    processes share it, and after a resume.
    """

    prepared: Prepared
    labels: Labels
    transform: Transform
    batch_size: int
    seed: int
    device: torch.device
    rank: int = 0
    world: int = 1

    def steps(self) -> int:
        """Batches in an epoch."""
        return len(order(self.prepared.readable(), self.batch_size, self.seed, 0, self.world))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """One epoch from step `start` on."""
        batches = order(self.prepared.readable(), self.batch_size, self.seed, epoch, self.world)[start:]
        rows = [own_rows(len(batch), self.rank, self.world) for batch in batches]
        own = [batch[part.start : part.stop] for batch, part in zip(batches, rows, strict=True)]
        labels = torch.from_numpy(self.labels)
        for step, (index, samples) in enumerate(self.prepared.fetch(own, self.device), start):
            part = rows[step - start]
            generator = generator_for(self.seed, "step", epoch, step)
            uniforms = torch.rand(part.total, 3, generator=generator)[part.start : part.stop]
            if len(index) < len(uniforms):  # some could not be read
                uniforms = uniforms[torch.isin(own[step - start], index)]
            inputs = self.transform.train(samples.to(self.device), uniforms.to(self.device))
            yield Batch(inputs, labels[index].to(self.device), index, generator, part)

    def evaluation(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """This process's part of the data, in order and not augmented: inputs (B, ...), labels (B,), positions (B,)."""
        batches = list(evaluation(len(self.labels), 2 * self.batch_size, self.rank, self.world))
        labels = torch.from_numpy(self.labels)
        for index, samples in self.prepared.fetch(batches, self.device):
            yield self.transform.evaluate(samples.to(self.device)), labels[index].to(self.device), index
