"""Build a network from a name, a factory or a module. The initial weights depend on the seed only.

A new network is one file with its factory, and one line in `MODELS`.
"""

import inspect
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from jnpl.data.loading.augment import EmbeddingViews
from jnpl.embedding.backbones import ImageBackbone, load_backbone
from jnpl.embedding.compute import EmbeddingClassifier
from jnpl.internal.errors import InputError, checked_seed, one_line, whole
from jnpl.internal.importing import import_by_name
from jnpl.models.resnet import STEMS, Stem, resnet18, resnet34, resnet50
from jnpl.models.small import CNN9_SMALLEST, cnn9, linear, mlp, preact_resnet18, preact_resnet32, resnet8, resnet20
from jnpl.models.weights import load_weights

Factory = Callable[..., nn.Module]


@dataclass(frozen=True)
class ModelEntry:
    """A network of `MODELS`.

    `factory` is called with the number of classes and `in_channels`, and with `stem` if it has one; a network for
    vectors with the number of features and the number of classes.
    """

    description: str
    parameters: int  # at 10 classes: 3 channels and the CIFAR stem; 64 features for vectors
    factory: Factory
    has_stem: bool = False  # whether the first layers differ for CIFAR and ImageNet sizes
    takes_vectors: bool = False  # images are flattened
    smallest: int = 1  # pixels a side


MODELS: dict[str, ModelEntry] = {
    "resnet18": ModelEntry("ResNet-18, widths 64 to 512", 11_173_962, resnet18, has_stem=True),
    "resnet34": ModelEntry("ResNet-34, the paper's network for CIFAR", 21_282_122, resnet34, has_stem=True),
    "resnet50": ModelEntry("ResNet-50, the paper's network for Clothing1M", 23_520_842, resnet50, has_stem=True),
    "resnet8": ModelEntry("ResNet-8, widths 16 to 64, for quick runs", 78_042, resnet8),
    "resnet20": ModelEntry("ResNet-20, widths 16 to 64", 272_474, resnet20),
    "cnn9": ModelEntry(
        "the 9-layer CNN of Co-teaching, for images of 28 pixels or more", 4_434_570, cnn9, smallest=CNN9_SMALLEST
    ),
    "preact-resnet18": ModelEntry("PreAct-ResNet-18 of M-correction", 11_171_274, preact_resnet18),
    "preact-resnet32": ModelEntry("PreAct-ResNet-32 of Joint-Optim, widths 32 to 128", 1_861_162, preact_resnet32),
    "linear": ModelEntry("one linear layer, the head on embeddings", 650, linear, takes_vectors=True),
    "mlp512": ModelEntry(
        "one hidden layer of 512, for vectors", 38_410, partial(mlp, hidden=(512,)), takes_vectors=True
    ),
    "mlp": ModelEntry("two hidden layers of 256, for vectors (images are flattened)", 85_002, mlp, takes_vectors=True),
}
FINETUNE = "finetune:"  # before the name of a backbone: the backbone and a linear head as one network
_CIFAR_STEM_UP_TO = 64  # pixels of height; larger images are divided by 4 first


def build(
    name_or_module: str | nn.Module | Factory,
    *,
    num_classes: int,
    input_shape: tuple[int, ...],
    seed: int,
    stem: Stem | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> nn.Module:
    """Build a network (B, *input_shape) -> (B, num_classes) logits.

    Args:
        name_or_module: a name of `MODELS`; "finetune:" and the name of a backbone, for the backbone with a linear
            head; an `nn.Module`, which is returned itself; a factory; or the place of a factory as
            "package.module:factory". A factory is called with `num_classes` and, if it takes it, `input_shape`. A
            network of the user is tried on two inputs of zeros.
        num_classes: number of classes, at least 2.
        input_shape: of one sample, (C, H, W) or (F,).
        seed: the initial weights depend on it; PyTorch's global random state is left unchanged.
        stem: first layers of resnet18, resnet34 and resnet50: by default "cifar" up to 64 pixels of height,
            "imagenet" above.
        weights: a file or an http(s) address to load weights from; see `jnpl.models.weights.load_weights`.

    Example:
        >>> network = build("resnet8", num_classes=10, input_shape=(1, 28, 28), seed=0)
        >>> network(torch.zeros(2, 1, 28, 28)).shape
        torch.Size([2, 10])
        >>> build(torch.nn.Linear(4, 3), num_classes=2, input_shape=(4,), seed=0)
        Traceback (most recent call last):
            ...
        jnpl.internal.errors.InputError: the model Linear must give (2, 2) for inputs (2, 4), got (2, 3)
    """
    classes, shape = _checked(num_classes, input_shape)
    stemmed = [name for name, entry in MODELS.items() if entry.has_stem]
    if stem is not None and (not isinstance(name_or_module, str) or name_or_module not in stemmed):
        raise InputError(f"a stem is for {', '.join(stemmed)} only, got stem={stem!r} for {_called(name_or_module)}")
    with _seeded(seed):
        if isinstance(name_or_module, str) and name_or_module.startswith(FINETUNE):
            model = _backbone_and_head(name_or_module.removeprefix(FINETUNE), classes, shape)
        elif isinstance(name_or_module, str) and ":" not in name_or_module:
            model = _named(name_or_module, classes, shape, stem)
        else:
            model = _user_model(name_or_module, classes, shape)
            _try(model, classes, shape)
    if weights is not None:
        load_weights(model, weights)
    return model


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed PyTorch's CPU generator inside the block, and restore its state afterwards (GPUs are not touched)."""
    if checked_seed(seed) >= 2**63:
        raise InputError(f"seed must be below 2**63, got {seed}")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(checked_seed(seed))  # torch.manual_seed would reseed every GPU permanently
        yield


def _checked(num_classes: int, input_shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    if whole(num_classes, "num_classes") < 2:
        raise InputError(f"num_classes must be at least 2, got {num_classes}")
    try:
        shape = tuple(input_shape)
    except TypeError:  # a single number
        shape = ()
    if len(shape) not in (1, 3) or any(whole(size, "a size of input_shape") < 1 for size in shape):
        raise InputError(f"input_shape must be (channels, height, width) or (features,), got {input_shape!r}")
    return int(num_classes), tuple(int(size) for size in shape)


def _named(name: str, num_classes: int, shape: tuple[int, ...], stem: Stem | None) -> nn.Module:
    if name not in MODELS:
        names = ", ".join(MODELS)
        raise InputError(f"unknown model {name!r}: choose from {names}, or name your own as package.module:factory")
    entry = MODELS[name]
    if entry.takes_vectors:
        dense = entry.factory(math.prod(shape), num_classes)
        layers = dense.children() if isinstance(dense, nn.Sequential) else (dense,)
        return dense if len(shape) == 1 else nn.Sequential(nn.Flatten(), *layers)
    if len(shape) != 3:
        raise InputError(f"{name} needs images (channels, height, width), got input_shape {shape}: vectors are for mlp")
    channels, height, width = shape
    if min(height, width) < entry.smallest:
        raise InputError(f"{name} needs images of at least {entry.smallest} pixels a side, got {height} x {width}")
    options: dict[str, Any] = {"in_channels": channels}
    if entry.has_stem:
        if stem is not None and stem not in STEMS:
            raise InputError(f"stem must be one of {', '.join(STEMS)}, got {stem!r}")
        options["stem"] = stem or ("cifar" if height <= _CIFAR_STEM_UP_TO else "imagenet")
    return entry.factory(num_classes, **options)


def _backbone_and_head(name: str, num_classes: int, shape: tuple[int, ...]) -> nn.Module:
    """Return a pretrained backbone with a linear head that knows nothing yet: images (B, 3, S, S) -> (B, C)."""
    if len(shape) != 3 or shape[1] != shape[2]:
        raise InputError(f"the backbone {name} needs square images, got input_shape {shape}")
    backbone = load_backbone(name, "image", size=shape[1])
    if not isinstance(backbone, ImageBackbone):
        raise InputError(f"the backbone {name} is not a network for images")
    views = EmbeddingViews((0.0,) * backbone.width, (1.0,) * backbone.width, unit=True)
    return EmbeddingClassifier(backbone.network, linear(backbone.width, num_classes), views, mirror=False)


def _user_model(user_model: str | nn.Module | Factory, num_classes: int, shape: tuple[int, ...]) -> nn.Module:
    if isinstance(user_model, nn.Module):
        return user_model
    factory = (
        import_by_name(user_model, "the model", "package.module:factory") if isinstance(user_model, str) else user_model
    )
    called = _called(user_model)
    if not callable(factory):
        raise InputError(f"{called} must be a factory (a function or a class), got {type(factory).__name__}")
    if isinstance(factory, nn.Module):
        return factory
    try:
        if _takes_shape(factory):
            model = factory(num_classes=num_classes, input_shape=shape)
        else:
            model = factory(num_classes=num_classes)
    except Exception as error:  # the user's factory may raise anything
        raise InputError(f"{called} failed to make a network of {num_classes} classes: {one_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise InputError(f"{called} must return a torch.nn.Module, got {type(model).__name__}")
    return model


def _takes_shape(factory: Factory) -> bool:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):  # some compiled callables show no signature
        return False
    return any(
        parameter.kind is parameter.VAR_KEYWORD
        or (parameter.name == "input_shape" and parameter.kind is not parameter.POSITIONAL_ONLY)
        for parameter in parameters
    )


def _try(model: nn.Module, num_classes: int, shape: tuple[int, ...]) -> None:
    """Raise InputError unless two zero inputs (2, *shape) give logits (2, num_classes); modes stay as they were."""
    called = f"the model {type(model).__name__}"
    like = next((weight for weight in model.parameters() if weight.is_floating_point()), torch.empty(0))
    inputs = torch.zeros(2, *shape, device=like.device, dtype=like.dtype)
    training = [module for module in model.modules() if module.training]
    try:
        with torch.no_grad():
            logits = model.eval()(inputs)
    except Exception as error:  # the user's network may raise anything
        raise InputError(f"{called} fails on inputs {tuple(inputs.shape)}: {one_line(error)}") from error
    finally:
        for module in training:
            module.training = True
    if not isinstance(logits, Tensor):
        raise InputError(f"{called} must give a tensor of logits, got {type(logits).__name__}")
    if logits.shape != (2, num_classes):
        wanted, got = (2, num_classes), tuple(logits.shape)
        raise InputError(f"{called} must give {wanted} for inputs {tuple(inputs.shape)}, got {got}")


def _called(model: object) -> str:
    return repr(model) if isinstance(model, str) else f"the model {getattr(model, '__name__', type(model).__name__)}"
