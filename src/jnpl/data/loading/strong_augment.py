"""Strong augmentation of images: a small set of operations in the manner of RandAugment, then cutout.

Every image gets one geometric and one photometric operation, each drawn with its strength, and a grey square. The draws
arrive as numbers, so that a run resumes exactly and processes that share a batch make the same pictures; libraries that
need no torchvision (kornia) draw from the global generator instead.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

STRONG_DRAWS = 6  # from U(0, 1) for each image: two operations, their strengths, the two places of the square
_GREY = 128.0
_SHEAR, _SHIFT, _TURN = 0.3, 0.3, 30.0  # largest shear, shift as a share of the side, rotation in degrees
_COLOUR = 0.9  # brightness, contrast and saturation are multiplied by 1 - this to 1 + this
_SQUARE = 0.5  # side of the square as a share of the image's: 16 of 32 pixels


def strong_augment(images: Tensor, uniforms: Tensor) -> Tensor:
    """Return changed copies of uint8 images: (B, H, W, C), (B, 6) draws from U(0, 1) -> (B, H, W, C)."""
    strength = 2 * uniforms - 1  # -1..1
    pixels = _warped(images.float(), uniforms[:, 0], strength[:, 1])
    pixels = _recoloured(pixels, uniforms[:, 2], strength[:, 3])
    return _with_square(pixels, uniforms[:, 4:6]).round().clamp(0, 255).to(torch.uint8)


def _choices(uniforms: Tensor, count: int) -> Tensor:
    """(B,) draws -> (B,) whole numbers below `count`."""
    return (uniforms * count).long().clamp_max(count - 1)


def _warped(pixels: Tensor, choice: Tensor, strength: Tensor) -> Tensor:
    """Nothing, a shear or a shift along x or y, or a rotation; grey comes in from outside: (B, H, W, C) -> the same."""
    kind = _choices(choice, 6)
    turn = torch.where(kind == 5, math.radians(_TURN) * strength, 0.0)
    matrix = torch.stack(
        [
            torch.stack([turn.cos(), torch.where(kind == 1, _SHEAR * strength, -turn.sin())], 1),
            torch.stack([torch.where(kind == 2, _SHEAR * strength, turn.sin()), turn.cos()], 1),
        ],
        1,
    )  # (B, 2, 2)
    # The coordinates of `affine_grid` run from -1 to 1, twice the share of the side.
    shift = torch.stack([torch.where(kind == axis_kind, 2 * _SHIFT * strength, 0.0) for axis_kind in (3, 4)], 1)
    planes = pixels.permute(0, 3, 1, 2) - _GREY
    grid = F.affine_grid(torch.cat([matrix, shift.unsqueeze(2)], 2), list(planes.shape), align_corners=False)
    return (F.grid_sample(planes, grid, align_corners=False) + _GREY).permute(0, 2, 3, 1)


def _recoloured(pixels: Tensor, choice: Tensor, strength: Tensor) -> Tensor:
    """Nothing, or brightness, contrast, saturation, solarise, posterise, full contrast: (B, H, W, C) -> the same."""
    kind = _choices(choice, 7)
    strength = strength.view(-1, 1, 1, 1)
    factor = 1 + _COLOUR * strength
    share = (1 + strength) / 2  # 0..1
    changed = pixels.clone()
    for number, operation in (
        (1, lambda picture, at: picture * factor[at]),
        (2, lambda picture, at: _blend(picture, picture.mean((1, 2, 3), keepdim=True), factor[at])),
        (3, lambda picture, at: _blend(picture, picture.mean(3, keepdim=True), factor[at])),
        (4, lambda picture, at: torch.where(picture >= 256 * share[at], 255 - picture, picture)),
        (5, lambda picture, at: _posterised(picture, share[at])),
        (6, lambda picture, _at: _full_contrast(picture)),
    ):
        at = (kind == number).nonzero().squeeze(1)
        if len(at):
            changed[at] = operation(pixels[at], at)
    return changed.clamp(0, 255)


def _blend(pixels: Tensor, base: Tensor, factor: Tensor) -> Tensor:
    return base + factor * (pixels - base)


def _posterised(pixels: Tensor, share: Tensor) -> Tensor:
    """Keep the upper 4 to 8 bits."""
    step = 2.0 ** (4 * share).long().clamp_max(4)
    return (pixels / step).floor() * step


def _full_contrast(pixels: Tensor) -> Tensor:
    """Stretch every channel to 0..255."""
    low, high = pixels.amin((1, 2), keepdim=True), pixels.amax((1, 2), keepdim=True)
    return (pixels - low) * (255 / (high - low).clamp_min(1))


def _with_square(pixels: Tensor, centre: Tensor) -> Tensor:
    """A grey square around a random pixel, cut off at the border (DeVries & Taylor 2017): (B, H, W, C) -> the same."""
    inside = []
    for axis, length in enumerate(pixels.shape[1:3]):
        middle = (centre[:, axis : axis + 1] * length).floor()
        distance = torch.arange(length, device=pixels.device) - middle  # (B, length)
        half = max(round(_SQUARE * length / 2), 1)
        inside.append((distance >= -half) & (distance < half))
    square = (inside[0].unsqueeze(2) & inside[1].unsqueeze(1)).unsqueeze(3)
    return torch.where(square, _GREY, pixels)
