"""Vision models of the library timm, by their name (extra `timm`)."""

from contextlib import suppress
from types import ModuleType
from typing import Any

from jnpl.embedding.backbones import ImageBackbone, checked_image_backbone
from jnpl.internal.errors import InputError, MissingExtraError, one_line
from jnpl.internal.importing import require

PREFIX = "timm:"


def load_timm(name: str, *, size: int | None = None) -> ImageBackbone:
    """Return a pretrained vision model of timm without its classifier.

    Args:
        name: "timm:NAME", such as "timm:resnet50.a1_in1k".
        size: pixels a side of the images, by default those the model was trained with.

    Returns:
        The backbone, with the mean and std of the model's own data configuration.

    Example:
        >>> load_timm("timm:")
        Traceback (most recent call last):
            ...
        jnpl.internal.errors.InputError: a backbone of timm is named as timm:NAME, got 'timm:'
    """
    model = name.removeprefix(PREFIX)
    if not model:
        raise InputError(f"a backbone of timm is named as {PREFIX}NAME, got {name!r}")
    timm = _import_timm(name)
    try:
        network, config = _create(timm, model, size)
        trained_at = int(config["input_size"][-1])
    except Exception as error:  # of the name, of the network, of the model
        raise InputError(f"cannot load {name}: {one_line(error)}") from error
    network.digest_settings = model  # two models may have weights of the same names and shapes
    return checked_image_backbone(name, network.float(), size or trained_at, config["mean"], config["std"])


def _create(timm: ModuleType, model: str, size: int | None) -> tuple[Any, dict[str, Any]]:
    network = timm.create_model(model, pretrained=True, num_classes=0)
    config = timm.data.resolve_model_data_config(network)
    if size is not None and size != config["input_size"][-1]:
        with suppress(TypeError):  # transformers of timm are made for one size, convolutional networks take any
            network = timm.create_model(model, pretrained=True, num_classes=0, img_size=size)
    return network, config


def _import_timm(name: str) -> ModuleType:
    try:
        timm = require("timm", "timm")
        require("timm.data", "timm")
    except MissingExtraError:
        raise
    except Exception as error:  # timm needs torchvision, whose import fails in many ways where torch is another build
        raise InputError(f"{name} needs timm, which cannot be imported here: {one_line(error)}") from error
    return timm
