"""Residual networks (He et al. 2016) under torchvision's names, so that its weight files load.

The paper's CIFAR network is `resnet34(10)`: a 3x3 stem without max-pool, widths 64 to 512, PyTorch's default
initialisation (as in the code of NLNL, by the same first author; torchvision uses Kaiming initialisation).
"""

from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

from torch import Tensor, nn

from jnpl.internal.errors import InputError

Stem = Literal["cifar", "imagenet"]
STEMS: tuple[str, ...] = get_args(Stem)


def conv(width_in: int, width_out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """Return a convolution without bias: (B, width_in, H, W) -> (B, width_out, H / stride, W / stride)."""
    return nn.Conv2d(width_in, width_out, kernel, stride, padding=kernel // 2, bias=False)


def _shortcut(width_in: int, width_out: int, stride: int) -> nn.Sequential | None:
    if stride == 1 and width_in == width_out:
        return None
    return nn.Sequential(conv(width_in, width_out, 1, stride), nn.BatchNorm2d(width_out))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions: (B, width_in, H, W) -> (B, width, H / stride, W / stride)."""

    expansion: ClassVar[int] = 1

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(width_in, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(width_in, width, stride)

    def forward(self, features: Tensor) -> Tensor:
        """(B, width_in, H, W) -> (B, width, H / stride, W / stride)."""
        kept = features if self.downsample is None else self.downsample(features)
        change = self.relu(self.bn1(self.conv1(features)))
        change = self.bn2(self.conv2(change))
        result: Tensor = self.relu(change + kept)
        return result


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions: (B, width_in, H, W) -> (B, 4 width, H / stride, W / stride).

    The stride sits on the 3x3 convolution, as in torchvision (and not on the first 1x1, as in the paper).
    """

    expansion: ClassVar[int] = 4

    def __init__(self, width_in: int, width: int, stride: int) -> None:
        super().__init__()
        width_out = width * self.expansion
        self.conv1 = conv(width_in, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, width_out, 1)
        self.bn3 = nn.BatchNorm2d(width_out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(width_in, width_out, stride)

    def forward(self, features: Tensor) -> Tensor:
        """(B, width_in, H, W) -> (B, 4 width, H / stride, W / stride)."""
        kept = features if self.downsample is None else self.downsample(features)
        change = self.relu(self.bn1(self.conv1(features)))
        change = self.relu(self.bn2(self.conv2(change)))
        change = self.bn3(self.conv3(change))
        result: Tensor = self.relu(change + kept)
        return result


class ResNet(nn.Module):
    """A stem, stages of residual blocks, average pool, linear: (B, in_channels, H, W) -> (B, num_classes) logits.

    Stage i is called `layer{i}`, has `blocks[i - 1]` blocks of width `widths[i - 1]` and, but for the first, halves
    the image. The stem "cifar" keeps the image size (3x3, stride 1), "imagenet" divides it by 4 (7x7, stride 2, and
    a max-pool).
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        blocks: Sequence[int],
        num_classes: int,
        *,
        widths: Sequence[int] = (64, 128, 256, 512),
        stem: Stem = "cifar",
        in_channels: int = 3,
    ) -> None:
        if stem not in STEMS:
            raise InputError(f"stem must be one of {', '.join(STEMS)}, got {stem!r}")
        super().__init__()
        width = widths[0]
        small = stem == "cifar"
        self.conv1 = conv(in_channels, width, 3) if small else conv(in_channels, width, 7, stride=2)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, stride=2, padding=1)
        self.stages = tuple(f"layer{stage}" for stage in range(1, len(blocks) + 1))
        for stage, count, stage_width in zip(self.stages, blocks, widths, strict=True):
            layer = nn.Sequential()
            for index in range(count):
                stride = 2 if index == 0 and stage != "layer1" else 1
                layer.append(block(width, stage_width, stride))
                width = stage_width * block.expansion
            self.add_module(stage, layer)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(B, in_channels, H, W) -> (B, num_classes) logits."""
        features = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for stage in self.stages:
            features = self.get_submodule(stage)(features)
        logits: Tensor = self.fc(self.avgpool(features).flatten(1))
        return logits


def resnet18(num_classes: int, *, stem: Stem = "cifar", in_channels: int = 3) -> ResNet:
    """ResNet-18: (B, in_channels, H, W) -> (B, num_classes) logits.

    >>> import torch
    >>> resnet18(10).eval()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, stem=stem, in_channels=in_channels)


def resnet34(num_classes: int, *, stem: Stem = "cifar", in_channels: int = 3) -> ResNet:
    """ResNet-34, the paper's CIFAR network: (B, in_channels, H, W) -> (B, num_classes) logits.

    >>> sum(weight.numel() for weight in resnet34(10).parameters())
    21282122
    """
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes, stem=stem, in_channels=in_channels)


def resnet50(num_classes: int, *, stem: Stem = "cifar", in_channels: int = 3) -> ResNet:
    """ResNet-50, the paper's Clothing1M network: (B, in_channels, H, W) -> (B, num_classes) logits.

    >>> sum(weight.numel() for weight in resnet50(1000, stem="imagenet").parameters())
    25557032
    """
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes, stem=stem, in_channels=in_channels)
