"""Batches that know which samples they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


class Batch(NamedTuple):
    """Inputs (B, ...), given labels (B,) and the samples' positions in the data set (B,)."""

    inputs: Tensor
    labels: Tensor
    index: Tensor


def shuffled(inputs: Tensor, labels: Tensor, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
    """One epoch over (N, ...) inputs and (N,) labels in random order, the last partial batch included."""
    for index in torch.randperm(len(labels), generator=generator).split(batch_size):
        yield Batch(inputs[index], labels[index], index)
