"""Networks for vectors: a multi-layer perceptron, and a single linear layer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from collections.abc import Sequence


def mlp(in_features: int, num_classes: int, hidden: Sequence[int] = (256, 256)) -> nn.Sequential:
    """Linear and ReLU layers: (B, in_features) -> (B, num_classes) logits. PyTorch's default initialisation.

    >>> sum(weight.numel() for weight in mlp(64, 10, hidden=(32,)).parameters())
    2410
    """
    widths = [in_features, *hidden]
    layers: list[nn.Module] = []
    for width_in, width_out in pairwise(widths):
        layers += [nn.Linear(width_in, width_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], num_classes))


def linear(in_features: int, num_classes: int) -> nn.Linear:
    """Return a linear layer that starts at zero: (B, in_features) -> (B, num_classes) logits, all classes alike."""
    layer = nn.Linear(in_features, num_classes)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
