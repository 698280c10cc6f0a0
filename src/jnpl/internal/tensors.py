"""Small help with PyTorch: arrays as tensors, and plain numbers in checkpoints."""

import warnings
from typing import Any, ClassVar

import numpy.typing as npt
import torch
from torch import Tensor, nn


def as_tensor(values: npt.NDArray[Any]) -> Tensor:
    """Return an array as a tensor of the same memory, which nothing may write to; PyTorch warns of read-only arrays."""
    if values.flags.writeable:
        return torch.from_numpy(values)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writ")
        return torch.from_numpy(values)


class PlainState(nn.Module):
    """The attributes named in `state` are plain numbers, which a step reads without waiting; checkpoints hold them."""

    state: ClassVar[tuple[str, ...]]

    def get_extra_state(self) -> Tensor:
        """Return what checkpoints hold."""
        return torch.tensor([getattr(self, name) for name in self.state], dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        """Continue from a checkpoint."""
        for name, value in zip(self.state, state.view(-1).tolist(), strict=True):
            setattr(self, name, type(getattr(self, name))(value))
