"""The batches of a run: fetched, moved to the device and augmented."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from jnpl.data.loading.augment import DRAWS, Transform, View
from jnpl.data.loading.batches import Batch, Groups, evaluation, generator_for, local_rows, order

if TYPE_CHECKING:
    from jnpl.data.loading.prepare import Prepared
    from jnpl.data.source import Labels


@dataclass(frozen=True)
class Feed:
    """The batches of a prepared data set, for one of `world` processes.

    Samples in memory are kept on the device, where crop, flip and standardisation run too. Order, crops and the
    method's random draws depend on seed, epoch and step only, for the batch as a whole: they are the same for any
    number of processes, and after a resume.
    """

    prepared: Prepared
    labels: Labels
    transform: Transform
    batch_size: int
    seed: int
    device: torch.device
    rank: int = 0
    world: int = 1
    group_size: int | None = None  # samples with the same given label come in groups of this size
    views: tuple[View, ...] = ()  # further views of every batch

    def steps(self) -> int:
        """Return the number of batches in an epoch, the same throughout a run."""
        return len(self._order(0))

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch, without the first `start`, which were used before a resume.

        A sample that turns out to be unreadable is missing from its batch, and a batch without any readable sample is
        left out. The other batches and their random draws do not change.
        """
        shared = self._order(epoch)
        steps = self._readable_steps(shared)[start:]
        rows = [local_rows(len(shared[step]), self.rank, self.world) for step in steps]
        local_batches = [shared[step][part.start : part.stop] for step, part in zip(steps, rows, strict=True)]
        labels = torch.from_numpy(self.labels)
        fetched = self.prepared.fetch(local_batches, self.device)
        for step, part, fetched_batch in zip(steps, rows, fetched, strict=True):
            # A process without a readable sample takes one of another process: the others would wait for ever.
            index, samples = fetched_batch if len(fetched_batch[0]) else self.prepared.first(shared[step])
            if len(index) == 0:
                continue
            generator = generator_for(self.seed, "step", epoch, step)
            whole = 0 < len(fetched_batch[0]) == part.stop - part.start
            placed = slice(part.start, part.stop) if whole else torch.isin(shared[step], index)
            samples = samples.to(self.device)
            uniforms = torch.rand(part.total, 3, generator=generator)[placed].to(self.device)
            inputs = self.transform.train(samples, uniforms)
            draws = (generator_for(self.seed, "view", epoch, step, number) for number in range(len(self.views)))
            further = (torch.rand(part.total, DRAWS, generator=draw)[placed].to(self.device) for draw in draws)
            views = tuple(
                self.transform.strong(samples, uniforms_of_view)
                if kind == "strong"
                else self.transform.train(samples, uniforms_of_view)
                for kind, uniforms_of_view in zip(self.views, further, strict=True)
            )
            yield Batch(inputs, labels[index].to(self.device), index, generator, part, views)

    def evaluation(self, *, flipped: bool = False) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield this process's part of the data, in order: inputs (B, ...), labels (B,), positions (B,).

        The data are not augmented; `flipped` mirrors images left to right.
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

    def _readable_steps(self, shared: list[Tensor]) -> list[int]:
        """Return the steps that may have a readable sample.

        A checkpoint stores which samples are unreadable, so that `start` counts the same batches before and after.
        """
        if not self.prepared.unreadable:
            return list(range(len(shared)))
        readable = torch.zeros(len(self.labels), dtype=torch.bool)
        readable[torch.from_numpy(self.prepared.readable())] = True
        return [step for step, batch in enumerate(shared) if readable[batch].any()]
