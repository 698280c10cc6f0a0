"""Batches that know which samples they hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Inputs (B, ...), given labels (B,) and the samples' positions in the data set (B,)."""

    inputs: Tensor
    labels: Tensor
    index: Tensor


def shuffled(inputs: Tensor, labels: Tensor, batch_size: int, generator: torch.Generator) -> Iterator[Batch]:
    """One epoch over (N, ...) inputs and (N,) labels in random order, the last partial batch included."""
    for index in torch.split(torch.randperm(len(labels), generator=generator), batch_size):
        yield Batch(inputs[index], labels[index], index)
