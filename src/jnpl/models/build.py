"""A network from its name, a factory or a module of one's own; the weights it starts from depend on the seed only."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from jnpl.internal.checks import checked_seed, whole
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.importing import import_by_name
from jnpl.models.mlp import mlp
from jnpl.models.resnet import STEMS, Stem, resnet18, resnet34, resnet50
from jnpl.models.small import CNN9_SMALLEST, cnn9, preact_resnet18, preact_resnet32, resnet8, resnet20
from jnpl.models.weights import load_weights

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

Factory = Callable[..., nn.Module]


class Model(NamedTuple):
    """What a network is, and its parameters at 10 classes (3 channels and the CIFAR stem; 64 features for mlp)."""

    what: str
    parameters: int


MODELS: dict[str, Model] = {
    "resnet18": Model("ResNet-18, widths 64 to 512", 11_173_962),
    "resnet34": Model("ResNet-34, the paper's network for CIFAR", 21_282_122),
    "resnet50": Model("ResNet-50, the paper's network for Clothing1M", 23_520_842),
    "resnet8": Model("ResNet-8, widths 16 to 64, for quick looks", 78_042),
    "resnet20": Model("ResNet-20, widths 16 to 64", 272_474),
    "cnn9": Model("the 9-layer CNN of Co-teaching, for images of 28 pixels or more", 4_434_570),
    "preact-resnet18": Model("PreAct-ResNet-18 of M-correction", 11_171_274),
    "preact-resnet32": Model("PreAct-ResNet-32 of Joint-Optim, widths 32 to 128", 1_861_162),
    "mlp": Model("two hidden layers of 256, for vectors (images are flattened)", 85_002),
}
_STEMMED = {"resnet18": resnet18, "resnet34": resnet34, "resnet50": resnet50}
_SMALL: dict[str, Factory] = {
    "resnet8": resnet8,
    "resnet20": resnet20,
    "cnn9": cnn9,
    "preact-resnet18": preact_resnet18,
    "preact-resnet32": preact_resnet32,
}
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
    """A network (B, *input_shape) -> (B, num_classes) logits; `input_shape` is (C, H, W) or (F,).

    `name_or_module` is a name of `MODELS`, an `nn.Module` (returned as it is), a factory, or the place of one as
    "package.module:factory". A factory is called with `num_classes` and, if it takes it, `input_shape`. What is not
    from `MODELS` is tried on two inputs of zeros. `stem` is for resnet18, resnet34 and resnet50: by default "cifar"
    up to 64 pixels of height, "imagenet" above. `weights` is a file or an address: see `load_weights`.

    >>> network = build("resnet8", num_classes=10, input_shape=(1, 28, 28), seed=0)
    >>> network(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    >>> build(torch.nn.Linear(4, 3), num_classes=2, input_shape=(4,), seed=0)
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.InputError: the model Linear must give (2, 2) for inputs (2, 4), got (2, 3)
    """
    classes, shape = _checked(num_classes, input_shape)
    if stem is not None and (not isinstance(name_or_module, str) or name_or_module not in _STEMMED):
        raise InputError(f"a stem is for {', '.join(_STEMMED)} only, got stem={stem!r} for {_called(name_or_module)}")
    with _seeded(seed):
        if isinstance(name_or_module, str) and ":" not in name_or_module:
            model = _named(name_or_module, classes, shape, stem)
        else:
            model = _foreign(name_or_module, classes, shape)
            _try(model, classes, shape)
    if weights is not None:
        load_weights(model, weights)
    return model


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed PyTorch's CPU draws inside the block, and leave the global state as it was (no GPU is touched)."""
    if checked_seed(seed) >= 2**63:
        raise InputError(f"seed must be below 2**63, got {seed}")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(checked_seed(seed))  # torch.manual_seed would reseed every GPU, for good
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
        known = ", ".join(MODELS)
        raise InputError(f"unknown model {name!r}: choose from {known}, or name your own as package.module:factory")
    if name == "mlp":
        dense = mlp(math.prod(shape), num_classes)
        return dense if len(shape) == 1 else nn.Sequential(nn.Flatten(), *dense)
    if len(shape) != 3:
        raise InputError(f"{name} needs images (channels, height, width), got input_shape {shape}: vectors are for mlp")
    channels, height, width = shape
    if name == "cnn9" and min(height, width) < CNN9_SMALLEST:
        raise InputError(f"cnn9 needs images of at least {CNN9_SMALLEST} pixels a side, got {height} x {width}")
    if name in _SMALL:
        return _SMALL[name](num_classes, in_channels=channels)
    fitting: Stem = "cifar" if height <= _CIFAR_STEM_UP_TO else "imagenet"
    if stem is not None and stem not in STEMS:
        raise InputError(f"stem must be one of {', '.join(STEMS)}, got {stem!r}")
    return _STEMMED[name](num_classes, stem=stem or fitting, in_channels=channels)


def _foreign(given: str | nn.Module | Factory, num_classes: int, shape: tuple[int, ...]) -> nn.Module:
    """The module itself, or what the factory makes."""
    if isinstance(given, nn.Module):
        return given
    factory = import_by_name(given, "the model", "package.module:factory") if isinstance(given, str) else given
    called = _called(given)
    if not callable(factory):
        raise InputError(f"{called} must be a factory (a function or a class), got {type(factory).__name__}")
    if isinstance(factory, nn.Module):
        return factory
    try:
        if _takes_shape(factory):
            model = factory(num_classes=num_classes, input_shape=shape)
        else:
            model = factory(num_classes=num_classes)
    except Exception as error:  # the factory is the user's: whatever it raises is told as its failure
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
    except Exception as error:  # the network is the user's: whatever it raises is told as its failure
        raise InputError(f"{called} fails on inputs {tuple(inputs.shape)}: {one_line(error)}") from error
    finally:
        for module in training:
            module.training = True
    if not isinstance(logits, Tensor):
        raise InputError(f"{called} must give a tensor of logits, got {type(logits).__name__}")
    if logits.shape != (2, num_classes):
        wanted, got = (2, num_classes), tuple(logits.shape)
        raise InputError(f"{called} must give {wanted} for inputs {tuple(inputs.shape)}, got {got}")


def _called(given: object) -> str:
    return repr(given) if isinstance(given, str) else f"the model {getattr(given, '__name__', type(given).__name__)}"
