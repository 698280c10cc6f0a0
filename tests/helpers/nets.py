"""Networks of a few weights that the tests of methods share."""

from __future__ import annotations

import torch
from torch import nn

CLASSES = 4


def linear(number: int = 0, scale: float = 3.0) -> nn.Module:
    """(B, 3) -> (B, 4), far enough from uniform predictions; `number` seeds it."""
    torch.manual_seed(number)
    net = nn.Linear(3, CLASSES)
    net.weight.data *= scale
    return net


def normed(number: int = 0) -> nn.Module:
    """The same with batch norm."""
    torch.manual_seed(number)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))
