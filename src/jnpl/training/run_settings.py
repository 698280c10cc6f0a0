"""The settings of one run, and the refusal of those that do not work together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jnpl.internal.errors import InputError
from jnpl.methods.registry import METHODS
from jnpl.training.checkpoint import CheckpointInterval
from jnpl.training.pseudo_labels import pseudo_label_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

    from jnpl.data.source import Source
    from jnpl.models.build import Factory
    from jnpl.recipes.schema import Recipe
    from jnpl.training.epoch_view import EpochView
    from jnpl.training.pseudo_labels import PseudoLabelSettings


@dataclass(frozen=True)
class RunSettings:
    """What a run trains on, and how.

    `pseudo_labels` says how a classifier is trained on pseudo-labels after the method, if one is. `network`, a module
    or a factory as `jnpl.models.build` takes it, replaces the recipe's model. `strict` refuses unreadable samples.
    `source_to_judge` has the given labels to judge, where the method learns from others.
    """

    source: Source
    recipe: Recipe
    seed: int = 0
    strict: bool = False
    every: CheckpointInterval = field(default_factory=CheckpointInterval)
    pseudo_labels: PseudoLabelSettings | None = None
    network: nn.Module | Factory | None = None
    observe: Callable[[EpochView], None] | None = None
    source_to_judge: Source | None = None

    @property
    def model_name(self) -> str:
        """Name of the network."""
        if self.network is not None:
            return str(getattr(self.network, "__name__", type(self.network).__name__))
        if self.recipe.model != "auto":
            return self.recipe.model
        return "resnet8" if self.source.kind == "image" else "mlp"

    @property
    def may_train_later(self) -> bool:
        """Whether `jnpl train` may continue in the folder of this `jnpl find`."""
        saves = self.every.epochs is not None or self.every.seconds is not None
        has_pseudo_labels = pseudo_label_settings(self.recipe, METHODS[self.recipe.method.name]) is not None
        return saves and has_pseudo_labels and self.pseudo_labels is None and self.recipe.verdict.keep == "full"


def check_settings(settings: RunSettings) -> None:
    """Refuse settings that do not work together, or not with this kind of samples, before any data are read."""
    source, recipe = settings.source, settings.recipe
    name, method, verdict = recipe.method.name, METHODS[recipe.method.name], recipe.verdict
    if verdict.keep == "compact" and (subject := _needs_history(settings)) is not None:
        raise InputError(f"{subject} whole predictions of past epochs: verdict.keep = full, got compact")
    if source.weights is not None and not method.supports_sample_weights:
        able = [other_name for other_name, other in METHODS.items() if other.supports_sample_weights]
        raise InputError(f"{name} does not support sample weights; {', '.join(able)} do")
    if recipe.engine.compile and not method.supports_compile:
        raise InputError(f"{name} does not work with compiled networks: set engine.compile = false")
    if verdict.trees and (source.kind != "vector" or verdict.score in ("history", "aum", "margin")):
        instead = f"{source.kind}s" if source.kind != "vector" else f"verdict.score = {verdict.score}"
        raise InputError(f"verdict.trees needs rows of numbers, and a verdict.score that it is part of, not {instead}")
    if verdict.calibrate and verdict.score in ("aum", "margin"):
        raise InputError(
            f"verdict.score = {verdict.score} is no probability that could be calibrated: set verdict.calibrate = false"
        )
    if recipe.weights == "required":
        raise InputError("this recipe starts from pretrained weights: name a file with torchvision's keys by --weights")


def _needs_history(settings: RunSettings) -> str | None:
    """Return the subject of a sentence, and its verb, that says what needs whole predictions of past epochs."""
    name = settings.recipe.method.name
    if settings.pseudo_labels is not None:
        return "pseudo-labels need"
    if settings.recipe.method.needs_full_history:
        return f"{name} needs"
    if settings.source_to_judge is not None:  # a compact ledger follows the labels that were learnt from
        return f"{name} with decided labels needs"
    return None
