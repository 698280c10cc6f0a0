"""Random crops and flips, and standardisation, of a whole batch on its device."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from jnpl.data.loading.strong_augment import STRONG_DRAWS, strong_augment

View: TypeAlias = Literal["weak", "strong"]  # as in training, or with stronger changes of images
DRAWS = 3 + STRONG_DRAWS  # from U(0, 1), for each sample of a view


class Transform(Protocol):
    """Turns raw samples into inputs of the network."""

    @property
    def flip(self) -> bool:
        """Whether the mirror image of a sample has the same label."""

    def train(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """(B, ...), (B, 3) draws from U(0, 1) -> (B, ...)."""

    def strong(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """(B, ...), (B, DRAWS) draws from U(0, 1) -> (B, ...)."""

    def evaluate(self, samples: Tensor) -> Tensor:
        """(B, ...) -> (B, ...)."""


@dataclass(frozen=True)
class Standardize:
    """Vectors (B, F), minus the mean, over the std of every feature."""

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def flip(self) -> bool:
        """Vectors have no mirror image."""
        return False

    def train(self, samples: Tensor, uniforms: Tensor) -> Tensor:  # noqa: ARG002 - nothing random here
        """(B, F), (B, 3) -> (B, F)."""
        return self.evaluate(samples)

    def strong(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """As `train`: vectors have no stronger view."""
        return self.train(samples, uniforms)

    def evaluate(self, samples: Tensor) -> Tensor:
        """(B, F) -> (B, F)."""
        mean, std = (torch.tensor(numbers, device=samples.device) for numbers in (self.mean, self.std))
        return (samples - mean) / std


@dataclass(frozen=True)
class EmbeddingViews:
    """Embeddings of V views (B, V, F), or of one (B, F) -> (B, F), minus the mean, over the std of every feature.

    With `unit`, every embedding is first divided by its length. Training takes one view of each sample at random,
    evaluation their mean. `done` means that the samples are what `standardized` returned.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    unit: bool = False
    done: bool = False

    @property
    def flip(self) -> bool:
        """The mirror image is one of the views."""
        return False

    def train(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """(B, V, F) or (B, F), (B, 3) draws from U(0, 1) -> (B, F)."""
        if samples.ndim == 3:
            views = samples.shape[1]
            chosen = (uniforms[:, 0] * views).long().clamp_max_(views - 1)
            samples = samples[torch.arange(len(samples), device=samples.device), chosen]
        return samples if self.done else self.standardized(samples)

    def standardized(self, samples: Tensor) -> Tensor:
        """Return every embedding standardised on its own: (B, V, F) or (B, F) -> the same, float32."""
        return self._finish(self._scaled(samples))

    def strong(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """As `train`, another of the views: embeddings have no stronger one."""
        return self.train(samples, uniforms)

    def evaluate(self, samples: Tensor) -> Tensor:
        """(B, V, F) or (B, F) -> (B, F)."""
        scaled = self._scaled(samples)
        return self._finish(scaled.mean(1) if samples.ndim == 3 else scaled)

    def _scaled(self, values: Tensor) -> Tensor:
        return F.normalize(values.float(), dim=-1) if self.unit else values.float()

    def _finish(self, values: Tensor) -> Tensor:
        scale, shift = _feature_scale_and_shift(self.mean, self.std, values.device)
        return torch.addcmul(shift, values, scale)


@dataclass(frozen=True)
class CropFlip:
    """uint8 images (B, H, W, C) -> float (B, C, size, size) in channels-last memory, minus the mean, over the std.

    In training: zero padding by `padding` pixels (before the mean is subtracted), a random crop of `size` and a random
    flip; with `padding` 0 the crop is at the centre, as in the paper for Clothing1M. In evaluation: the centre crop.
    """

    mean: tuple[float, ...]  # per channel, of pixels in 0..1
    std: tuple[float, ...]
    size: int
    padding: int = 4
    flip: bool = True

    def train(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """(B, H, W, C), (B, 3) draws from U(0, 1) -> (B, C, size, size)."""
        return self._finish(self._cropped(samples, uniforms))

    def strong(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """As `train`, then `strong_augment`: (B, H, W, C), (B, DRAWS) draws from U(0, 1) -> (B, C, size, size)."""
        return self._finish(strong_augment(self._cropped(samples, uniforms), uniforms[:, 3:]))

    def _cropped(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """Random crop and flip: (B, H, W, C), (B, 3) -> (B, size, size, C)."""
        pixels = self._cut(samples, uniforms) if self.padding else self._centre(samples)
        if self.flip:
            turned = (uniforms[:, 2] >= 0.5).nonzero().squeeze(1)
            place = torch.arange(len(pixels), device=pixels.device)
            place[turned] = torch.arange(len(pixels), len(pixels) + len(turned), device=pixels.device)
            # Faster than assigning the flipped images: whole images are copied as blocks of bytes.
            pixels = torch.cat([pixels, pixels.index_select(0, turned).flip(2)]).index_select(0, place)
        return pixels

    def evaluate(self, samples: Tensor) -> Tensor:
        """(B, H, W, C) -> (B, C, size, size)."""
        return self._finish(self._centre(samples))

    def _centre(self, samples: Tensor) -> Tensor:
        top, left = (samples.shape[1] - self.size) // 2, (samples.shape[2] - self.size) // 2
        return samples[:, top : top + self.size, left : left + self.size]

    def _cut(self, samples: Tensor, uniforms: Tensor) -> Tensor:
        """Zero padding, then the crop at random: (B, H, W, C), (B, 3) -> (B, size, size, C)."""
        images = F.pad(samples, (0, 0, *(self.padding,) * 4)).contiguous()
        count, height, width, channels = images.shape
        top = (uniforms[:, 0] * (height - self.size + 1)).long()
        left = (uniforms[:, 1] * (width - self.size + 1)).long()
        steps = [torch.arange(length, device=images.device) for length in (count, self.size)]
        rows = (steps[0] * height + top)[:, None] + steps[1]  # (B, size): of all rows of the batch
        starts = rows * width + left[:, None]
        # A row of the crop is one run of bytes. All runs, from any pixel, are an overlapping view of the batch.
        places = max(0, count * height * width - self.size + 1)
        runs = images.as_strided((places, self.size * channels), (channels, 1))
        return runs.index_select(0, starts.reshape(-1)).view(count, self.size, self.size, channels)

    def _finish(self, pixels: Tensor) -> Tensor:
        """uint8 (B, size, size, C) -> float (B, C, size, size)."""
        scale, shift = _scale_and_shift(self.mean, self.std, self.size, pixels.device)
        values = pixels.to(torch.float32, memory_format=torch.contiguous_format)
        flat = values.view(-1, len(scale))  # long rows: vector instructions are slow on a last axis of three channels
        torch.addcmul(shift, flat, scale, out=flat)
        return values.permute(0, 3, 1, 2)


@lru_cache(maxsize=8)
def _scale_and_shift(
    mean: tuple[float, ...], std: tuple[float, ...], size: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the factor and the summand of each value of an image (up to 32 pixels) or of one row: two of (R,)."""
    pixels = size * size if size <= 32 else size
    deviation = torch.tensor(std, dtype=torch.float64)
    scale, shift = 1 / (255 * deviation), -torch.tensor(mean, dtype=torch.float64) / deviation
    return scale.repeat(pixels).float().to(device), shift.repeat(pixels).float().to(device)


@lru_cache(maxsize=8)
def _feature_scale_and_shift(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the factor and the summand of each feature: (F,), (F,)."""
    centre, deviation = (torch.tensor(numbers, dtype=torch.float64) for numbers in (mean, std))
    return (1 / deviation).float().to(device), (-centre / deviation).float().to(device)
