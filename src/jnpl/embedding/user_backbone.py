"""Backbones that the user wrote: "package.module:factory"."""

import hashlib
import inspect
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import nn

from jnpl.data.sources.user_embedding import embed_texts
from jnpl.embedding.backbones import ImageBackbone, TextBackbone, checked_image_backbone
from jnpl.internal.errors import InputError, one_line, whole
from jnpl.internal.importing import import_by_name

SIZE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, as torchvision has them
_FORM = "package.module:factory"
_TRIAL_TEXTS = ("This is a text.", "Another, longer text to try the encoder with.", "")


def load_user_images(name: str, *, size: int | None = None) -> ImageBackbone:
    """Return the user's network for images, after a trial on two images.

    Args:
        name: "package.module:factory". The factory is called without arguments and returns an `nn.Module`
            (B, 3, S, S) -> (B, F). The module may have `size`, `mean` and `std`; by default 224 and those of ImageNet.
        size: pixels a side of the images, by default the module's.

    Example:
        >>> load_user_images("torch.nn:Flatten", size=4).width
        48
    """
    factory = _imported(name)
    network = _made(name, factory)
    if not isinstance(network, nn.Module):
        raise InputError(f"the backbone {name} must return an nn.Module for images, got {type(network).__name__}")
    size = whole(getattr(network, "size", SIZE) if size is None else size, f"the size of the backbone {name}")
    if size < 1:
        raise InputError(f"the size of the backbone {name} must be at least 1, got {size}")
    mean, std = getattr(network, "mean", MEAN), getattr(network, "std", STD)
    return replace(checked_image_backbone(name, network, size, mean, std), code=_code(factory, type(network)))


def load_user_texts(name: str, *, device: str = "auto") -> TextBackbone:  # noqa: ARG001
    """Return the user's encoder of texts, after a trial on three texts.

    Args:
        name: "package.module:function" that takes a list of n texts and returns (n, F): an array, a tensor or lists.
            A class, or a function that needs no argument, is called first, and returns such a function.
        device: not used; the code chooses where it runs.

    Returns:
        The encoder. Its digest is of its name and of the embeddings of the three texts.

    Example:
        >>> load_user_texts("math:pi")
        Traceback (most recent call last):
            ...
        jnpl.internal.errors.InputError: the backbone math:pi must be a factory (a function or a class), got float
    """
    function: Any = _imported(name)
    if not isinstance(function, nn.Module) and (isinstance(function, type) or _needs_no_argument(function)):
        function = _made(name, function)
    if not callable(function):
        raise InputError(f"the backbone {name} must be a function of a list of texts, got {type(function).__name__}")

    def encode(texts: list[str]) -> npt.NDArray[np.float32]:
        if not texts:
            return np.zeros((0, width), np.float32)
        embeddings: npt.NDArray[np.float32] = embed_texts(np.array(texts, object), function).astype(np.float32)
        return embeddings

    width = 0
    trial = encode(list(_TRIAL_TEXTS))
    width = trial.shape[1]
    digest = hashlib.sha256(f"{name} {trial.shape} ".encode() + trial.tobytes()).hexdigest()
    return TextBackbone(name, encode, width, digest)


def _imported(name: str) -> Any:
    factory = import_by_name(name, "the backbone", _FORM)
    if not callable(factory):
        raise InputError(f"the backbone {name} must be a factory (a function or a class), got {type(factory).__name__}")
    return factory


def _code(*objects: Any) -> str:
    """Return the source code of the modules of objects, where there is any."""
    sources = {}
    for owner in objects:
        with suppress(OSError, TypeError):  # built in, or written in an interpreter
            module = inspect.getmodule(owner)
            sources[str(module)] = "" if module is None else inspect.getsource(module)
    return "".join(sources.values())


def _made(name: str, factory: Any) -> Any:
    if isinstance(factory, nn.Module):
        return factory
    try:
        return factory()
    except Exception as error:  # the user's factory may raise anything
        raise InputError(f"the backbone {name} failed when called without arguments: {one_line(error)}") from error


def _needs_no_argument(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions in C have no signature
        return False
    return all(
        parameter.default is not parameter.empty or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in parameters
    )
