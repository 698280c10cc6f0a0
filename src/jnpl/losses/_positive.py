"""PL+ on checked arguments, for callers that have targets from an argmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as F

if TYPE_CHECKING:
    from torch import Tensor


def pl_plus(logits: Tensor, targets: Tensor, n: int) -> Tensor:
    """-prod_{i=0..n} (1 + p_t^(2^i)) log p_t, the product constant (Eq. 7): (B, C), (B,) -> (B,)."""
    loss = F.cross_entropy(logits, targets, reduction="none")  # -log p_t
    power = (-loss.detach()).exp()
    weight = torch.ones_like(power)
    for _ in range(n + 1):
        weight = weight * (1 + power)
        power = power * power
    return weight * loss
