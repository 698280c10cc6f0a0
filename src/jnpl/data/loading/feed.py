"""Batches for the loop: fetched, moved, augmented, with the step's own randomness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from jnpl.data.loading.batches import Batch, Groups, evaluation, generator_for, order, own_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from jnpl.data.loading.augment import Transform
    from jnpl.data.loading.prepare import Prepared
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
    group_size: int | None = None  # so many samples with one given label after another, if not None

    def steps(self) -> int:
        """Batches in an epoch, the same throughout a run."""
        return len(self._order(0))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """One epoch but for the `start` batches that were given before.

        A sample that turns out to be unreadable is missing from its batch, and a batch of which nothing can be read
        is left out. The others stay as they would be without it, draws included.
        """
        shared = self._order(epoch)
        given = self._given(shared)[start:]
        rows = [own_rows(len(shared[step]), self.rank, self.world) for step in given]
        own = [shared[step][part.start : part.stop] for step, part in zip(given, rows, strict=True)]
        labels = torch.from_numpy(self.labels)
        fetched = self.prepared.fetch(own, self.device)
        for step, part, found in zip(given, rows, fetched, strict=True):
            # A process without a sample of its own would let the others wait for ever: it borrows one.
            index, samples = found if len(found[0]) else self.prepared.first(shared[step])
            if len(index) == 0:
                continue
            generator = generator_for(self.seed, "step", epoch, step)
            uniforms = torch.rand(part.total, 3, generator=generator)
            whole = 0 < len(found[0]) == part.stop - part.start
            uniforms = uniforms[part.start : part.stop] if whole else uniforms[torch.isin(shared[step], index)]
            inputs = self.transform.train(samples.to(self.device), uniforms.to(self.device))
            yield Batch(inputs, labels[index].to(self.device), index, generator, part)

    def evaluation(self, *, flipped: bool = False) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """This process's part of the data, in order and not augmented: inputs (B, ...), labels (B,), positions (B,).

        `flipped` turns images left to right.
        """
        batches = list(evaluation(len(self.labels), 2 * self.batch_size, self.rank, self.world))
        labels = torch.from_numpy(self.labels)
        for index, samples in self.prepared.fetch(batches, self.device):
            if len(index):
                inputs = self.transform.evaluate(samples.to(self.device))
                yield inputs.flip(-1) if flipped else inputs, labels[index].to(self.device), index

    def _order(self, epoch: int) -> list[Tensor]:
        groups = None if self.group_size is None else Groups(self.labels, self.group_size)
        return order(self.prepared.offered, self.batch_size, self.seed, epoch, self.world, groups)

    def _given(self, shared: list[Tensor]) -> list[int]:
        """Steps of which something may be readable.

        A step left out before a checkpoint is known to it: `start` counts the same batches before and after.
        """
        if not self.prepared.unreadable:
            return list(range(len(shared)))
        readable = torch.zeros(len(self.labels), dtype=torch.bool)
        readable[torch.from_numpy(self.prepared.readable())] = True
        return [step for step, batch in enumerate(shared) if readable[batch].any()]
