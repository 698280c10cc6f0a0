"""Methods by name. A new one is a line here, a file beside it, and a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from jnpl.errors import InputError
from jnpl.losses import JNPLLoss
from jnpl.methods.ce import CE
from jnpl.methods.jnpl import JNPL

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from jnpl.config import Method as Settings
    from jnpl.data.source import Labels
    from jnpl.methods.base import Method


def _ce(model: nn.Module, _settings: Settings, _labels: Labels, _num_classes: int) -> Method:
    return CE(model)


def _jnpl(model: nn.Module, settings: Settings, labels: Labels, num_classes: int) -> Method:
    loss = JNPLLoss(
        num_classes,
        pl_weight=settings.pl_weight,
        n=settings.n,
        complements=settings.complements,
        num_complements=settings.num_complements,
        gamma=settings.gamma,
        class_weight=settings.class_weight,
        labels=torch.from_numpy(labels),
    )
    return JNPL(model, loss)


METHODS: dict[str, Callable[[nn.Module, Settings, Labels, int], Method]] = {"ce": _ce, "jnpl": _jnpl}


def make(model: nn.Module, settings: Settings, labels: Labels, num_classes: int) -> Method:
    """The method that the settings name, around a network; `labels` are the given labels (N,) of the training set."""
    if settings.name not in METHODS:
        raise InputError(f"setting method.name: there are {', '.join(METHODS)}, got {settings.name!r}")
    return METHODS[settings.name](model, settings, labels, num_classes)
