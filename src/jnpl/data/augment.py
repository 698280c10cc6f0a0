"""Crop, flip and mean subtraction for a whole batch at once, on the batch's device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F


class Transform(Protocol):
    """From raw samples to what the network sees."""

    def train(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """(B, ...), (B, 3) draws from U(0, 1) -> (B, ...)."""

    def evaluate(self, samples: Tensor) -> Tensor:
        """(B, ...) -> (B, ...)."""


@dataclass(frozen=True)
class Standardize:
    """Vectors (B, F), minus the mean, over the std of every feature."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    def train(self, samples: Tensor, uniforms: Tensor) -> Tensor:  # noqa: ARG002 (nothing random here)
        """(B, F), (B, 3) -> (B, F)."""
        return self.evaluate(samples)

    def evaluate(self, samples: Tensor) -> Tensor:
        """(B, F) -> (B, F)."""
        mean, std = (torch.tensor(numbers, device=samples.device) for numbers in (self.mean, self.std))
        return (samples - mean) / std


@dataclass(frozen=True)
class CropFlip:
    """uint8 images (B, H, W, C) -> float (B, C, size, size) in channels-last memory, minus the mean, over the std.

    In training: zero padding by `padding` pixels, a random crop of `size` and a random flip; with `padding` 0 the crop
    is at the centre, as the paper has it for Clothing1M. In evaluation: the centre crop.
    """

    mean: tuple[float, ...]  # per channel, of pixels in 0..1
    std: tuple[float, ...]
    size: int
    padding: int = 4
    flip: bool = True

    def train(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """(B, H, W, C), (B, 3) draws from U(0, 1) -> (B, C, size, size)."""
        images = samples
        if self.padding:
            images = F.pad(images, (0, 0, self.padding, self.padding, self.padding, self.padding))
        room_y, room_x = images.shape[1] - self.size, images.shape[2] - self.size
        if self.padding:
            top, left = (uniforms[:, 0] * (room_y + 1)).long(), (uniforms[:, 1] * (room_x + 1)).long()
        else:
            top, left = (torch.full_like(uniforms[:, 0], room // 2).long() for room in (room_y, room_x))
        steps = torch.arange(self.size, device=images.device)
        columns = steps.expand(len(images), -1)
        if self.flip:
            columns = torch.where(uniforms[:, 2:] < 0.5, columns, self.size - 1 - columns)
        rows = top[:, None] + steps + torch.arange(len(images), device=images.device)[:, None] * images.shape[1]
        place = rows[:, :, None] * images.shape[2] + (left[:, None] + columns)[:, None, :]  # (B, size, size)
        pixels = images.reshape(-1, images.shape[3]).index_select(0, place.reshape(-1))
        return self._finish(pixels.view(len(images), self.size, self.size, -1))

    def evaluate(self, samples: Tensor) -> Tensor:
        """(B, H, W, C) -> (B, C, size, size)."""
        top, left = (samples.shape[1] - self.size) // 2, (samples.shape[2] - self.size) // 2
        return self._finish(samples[:, top : top + self.size, left : left + self.size])

    def _finish(self, pixels: Tensor) -> Tensor:
        scale = torch.tensor(self.std, device=pixels.device).mul_(255).reciprocal_()
        shift = torch.tensor(self.mean, device=pixels.device) / torch.tensor(self.std, device=pixels.device)
        return pixels.float().mul_(scale).sub_(shift).permute(0, 3, 1, 2)
