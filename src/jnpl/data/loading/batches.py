"""Batches with the positions of their samples, in an order that depends on seed and epoch only."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Rows(NamedTuple):
    """The rows of a batch, shared by several processes, that belong to this process."""

    start: int
    stop: int
    total: int

    @property
    def all_here(self) -> bool:
        """Whether no other process has a part of the batch."""
        return self.stop - self.start == self.total


class Batch(NamedTuple):
    """Inputs (B, ...), given labels (B,), positions in the data set (B,), and the step's random generator."""

    inputs: Tensor
    labels: Tensor
    index: Tensor  # type: ignore[assignment]  # hides tuple.index
    generator: torch.Generator
    rows: Rows
    views: tuple[Tensor, ...] = ()  # (B, ...) each: further views of the same samples, augmented anew

    def part(self, rows: slice) -> Batch:
        """Return some rows of a batch that is in one process."""
        index = self.index[rows]
        return self._replace(
            inputs=self.inputs[rows], labels=self.labels[rows], index=index, rows=Rows(0, len(index), len(index))
        )


def generator_for(seed: int, *place: int | str) -> torch.Generator:
    """Return the random generator of one place in a run, such as ("step", epoch, step).

    No state is carried from one place to the next: a run resumes exactly, and processes that share a batch draw the
    same numbers.

    >>> int(torch.randint(100, (), generator=generator_for(0, "order", 3))) == int(
    ...     torch.randint(100, (), generator=generator_for(0, "order", 3)))
    True
    """
    digest = hashlib.sha256(repr((seed, *place)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)


class Groups(NamedTuple):
    """Order an epoch in groups of `size` samples with the same given label (N,)."""

    labels: npt.NDArray[np.int64]
    size: int


def order(
    samples: npt.NDArray[np.int64],
    batch_size: int,
    seed: int,
    epoch: int,
    world: int = 1,
    groups: Groups | None = None,
) -> list[Tensor]:
    """Return one epoch's batches of positions, the last partial one included: (N,) -> list of (B,).

    A last batch that would leave a process a single sample, which batch norm cannot use, is added to the one before.
    """
    generator = generator_for(seed, "order", epoch)
    shuffled = torch.from_numpy(samples)[torch.randperm(len(samples), generator=generator)]
    if groups is not None:
        shuffled = _grouped(shuffled, groups, generator)
    batches = list(torch.split(shuffled, batch_size))
    if len(batches) > 1 and len(batches[-1]) < min(2 * world, batch_size):
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def _grouped(shuffled: Tensor, groups: Groups, generator: torch.Generator) -> Tensor:
    """Return the same positions (N,) in groups of one class; the last group of a class may be smaller."""
    labels = groups.labels[shuffled.numpy()]
    members = (shuffled[torch.from_numpy(labels == label)] for label in sorted(set(labels.tolist())))
    parts = [part for positions in members for part in torch.split(positions, groups.size)]
    return torch.cat([parts[at] for at in torch.randperm(len(parts), generator=generator).tolist()])


def local_rows(total: int, rank: int, world: int) -> Rows:
    """Return the rows of a shared batch that belong to one process, as evenly as possible.

    >>> [local_rows(5, rank, 2)[:2] for rank in range(2)]
    [(0, 3), (3, 5)]
    """
    share, left = divmod(total, world)
    start = rank * share + min(rank, left)
    return Rows(start, start + share + (rank < left), total)


def evaluation(samples: int, batch_size: int, rank: int = 0, world: int = 1) -> Iterator[Tensor]:
    """Yield this process's part of all positions, in order, in batches (B,)."""
    rows = local_rows(samples, rank, world)
    yield from torch.split(torch.arange(rows.start, rows.stop), batch_size)
