"""A running mean of the networks' weights: steadier than any of them, and all but free.

w' <- w' + (1 - d) (w - w') after every step (Polyak & Juditsky 1992 in its exponential form), with d rising to its
value as (1 + t) / (10 + t), so that the first, random weights are soon forgotten. Batch norm's statistics are averaged
with the weights they belong to.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor, nn


class Average:
    """The mean of a method's networks; per-sample state and counters (names without a dot) are not part of it."""

    def __init__(self, method: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self._current = {
            name: value for name, value in method.state_dict().items() if "." in name and value.is_floating_point()
        }  # references: they see every step
        self.values = {name: value.clone() for name, value in self._current.items()}

    @torch.no_grad()
    def update(self) -> None:
        """After a step."""
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        self.steps += 1
        torch._foreach_lerp_(list(self.values.values()), list(self._current.values()), 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The networks have the mean's weights meanwhile."""
        held = {name: value.clone() for name, value in self._current.items()}
        try:
            self._put(self.values)
            yield
        finally:
            self._put(held)

    def keep(self) -> None:
        """The networks take over the mean's weights for good."""
        self._put(self.values)

    def load(self, values: Mapping[str, Tensor], steps: int) -> None:
        """Go on from a checkpoint."""
        for name, value in self.values.items():
            value.copy_(values[name])
        self.steps = steps

    @torch.no_grad()
    def _put(self, values: Mapping[str, Tensor]) -> None:
        for name, value in self._current.items():
            value.copy_(values[name])
