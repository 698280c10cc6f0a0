"""Networks for vectors and for small images: ResNet-8 and -20, and those of the methods that JNPL is compared with."""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from jnpl.models.resnet import BasicBlock, ResNet, conv


def resnet8(num_classes: int, *, in_channels: int = 3) -> ResNet:
    """ResNet-8, one block a stage of widths 16, 32, 64: (B, in_channels, H, W) -> (B, num_classes) logits.

    The shortcuts are 1x1 convolutions with batch norm (option B of He et al. 2016), as in the larger networks.

    >>> sum(weight.numel() for weight in resnet8(10).parameters())
    78042
    """
    return ResNet(BasicBlock, (1, 1, 1), num_classes, widths=(16, 32, 64), in_channels=in_channels)


def resnet20(num_classes: int, *, in_channels: int = 3) -> ResNet:
    """ResNet-20, three blocks a stage of widths 16, 32, 64: (B, in_channels, H, W) -> (B, num_classes) logits.

    The shortcuts are 1x1 convolutions with batch norm; those of He et al. (Sec. 4.2) have no weights (option A).

    >>> sum(weight.numel() for weight in resnet20(10).parameters())
    272474
    """
    return ResNet(BasicBlock, (3, 3, 3), num_classes, widths=(16, 32, 64), in_channels=in_channels)


CNN9_SMALLEST = 28  # pixels: 28 -> 14 -> 7 by the pools, then 5 -> 3 -> 1 by the valid convolutions


def cnn9(num_classes: int, *, in_channels: int = 3, dropout: float = 0.25) -> nn.Sequential:
    """The 9-layer CNN of Co-teaching (Han et al. 2018): (B, in_channels, 32, 32) -> (B, num_classes) logits.

    Made for 32x32 images; the global average pool takes any size from 28 pixels on. With a smaller side nothing is
    left for the last convolution, and PyTorch raises RuntimeError. Departure: dropout is on in training and off in
    evaluation; the authors' code passes no such flag, and whether it drops at all depends on the PyTorch version.

    >>> sum(weight.numel() for weight in cnn9(10).parameters())
    4434570
    """
    layers: list[nn.Module] = []
    width_in = in_channels
    for widths, padding in (((128, 128, 128), 1), ((256, 256, 256), 1), ((512, 256, 128), 0)):
        for width in widths:
            layers += [nn.Conv2d(width_in, width, 3, padding=padding), nn.BatchNorm2d(width), nn.LeakyReLU(0.01)]
            width_in = width
        if padding:
            layers += [nn.MaxPool2d(2), nn.Dropout2d(dropout)]
    features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(OrderedDict(features=features, fc=nn.Linear(width_in, num_classes)))


class PreActBlock(nn.Module):
    """Batch norm and ReLU before each 3x3 convolution: (B, width_in, H, W) -> (B, width, H / stride, W / stride).

    With `project`, a 1x1 convolution of the activated input is the shortcut; else it is the input itself or, with
    `keep_active`, the activated input.
    """

    def __init__(self, width_in: int, width: int, stride: int, *, project: bool, keep_active: bool) -> None:
        super().__init__()
        self.keep_active = keep_active
        self.bn1 = nn.BatchNorm2d(width_in)
        self.conv1 = conv(width_in, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3)
        self.downsample = conv(width_in, width, 1, stride) if project else None

    def forward(self, features: Tensor) -> Tensor:
        """(B, width_in, H, W) -> (B, width, H / stride, W / stride)."""
        active = self.bn1(features).relu()
        plain = active if self.keep_active else features
        kept = plain if self.downsample is None else self.downsample(active)
        result: Tensor = self.conv2(self.bn2(self.conv1(active)).relu()) + kept
        return result


class PreActResNet(nn.Module):
    """Stages of pre-activation blocks (He et al. 2016b): (B, in_channels, H, W) -> (B, num_classes) logits.

    The two networks in use differ in where a batch norm stands outside the blocks (`last_norm`: before the pool,
    else after the first convolution), in whether the first block of stage 1, too, projects its shortcut
    (`project_first`), and in what a block without a projection adds (`keep_active`: the activated input).
    """

    def __init__(
        self,
        blocks: Sequence[int],
        widths: Sequence[int],
        num_classes: int,
        *,
        last_norm: bool,
        project_first: bool,
        keep_active: bool,
        in_channels: int = 3,
    ) -> None:
        super().__init__()
        width = widths[0]
        self.conv1 = conv(in_channels, width, 3)
        self.bn_first = nn.Identity() if last_norm else nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.layers = nn.Sequential()
        for stage, (count, stage_width) in enumerate(zip(blocks, widths, strict=True)):
            for index in range(count):
                stride = 2 if index == 0 and stage > 0 else 1
                project = index == 0 and (stage > 0 or project_first)
                self.layers.append(PreActBlock(width, stage_width, stride, project=project, keep_active=keep_active))
                width = stage_width
        self.bn_last = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(inplace=True)) if last_norm else nn.Identity()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """(B, in_channels, H, W) -> (B, num_classes) logits."""
        features = self.layers(self.bn_first(self.conv1(images)))
        logits: Tensor = self.fc(self.avgpool(self.bn_last(features)).flatten(1))
        return logits


def preact_resnet18(num_classes: int, *, in_channels: int = 3) -> PreActResNet:
    """PreAct-ResNet-18 of M-correction (Arazo et al. 2019): (B, in_channels, H, W) -> (B, num_classes) logits.

    As their code has it: batch norm after the first convolution, none before the pool; a block without a projection
    adds its activated input, relu(bn1(x)), where He et al. (2016b) add x.

    >>> sum(weight.numel() for weight in preact_resnet18(10).parameters())
    11171274
    """
    widths = (64, 128, 256, 512)
    return PreActResNet(
        (2, 2, 2, 2),
        widths,
        num_classes,
        last_norm=False,
        project_first=False,
        keep_active=True,
        in_channels=in_channels,
    )


def preact_resnet32(num_classes: int, *, in_channels: int = 3) -> PreActResNet:
    """PreAct-ResNet-32 of Joint-Optim (Tanaka et al. 2018): (B, in_channels, H, W) -> (B, num_classes) logits.

    Five blocks a stage of widths 32, 64, 128; the convolutions have Kaiming normal initialisation, as in their code.

    >>> sum(weight.numel() for weight in preact_resnet32(10).parameters())
    1861162
    """
    widths = (32, 64, 128)
    network = PreActResNet(
        (5, 5, 5),
        widths,
        num_classes,
        last_norm=True,
        project_first=True,
        keep_active=False,
        in_channels=in_channels,
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)
    return network


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
