"""The random draws of mixup: a weight, and a partner for every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from jnpl.data.loading.batches import Batch


def draw_mixup(batch: Batch, alpha: float, rows: int) -> tuple[float, Tensor]:
    """Draw a weight from Beta(alpha, alpha), the same in all processes, and a partner for each own row: (), (rows,)."""
    seed = int(torch.randint(2**62, (), generator=batch.generator))  # torch's Beta takes no generator
    weight = float(np.random.default_rng(seed).beta(alpha, alpha))
    return weight, torch.randperm(rows, generator=batch.generator).to(batch.labels.device)
