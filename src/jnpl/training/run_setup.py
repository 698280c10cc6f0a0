"""What stays the same while a run trains: settings, processes and batches, and the networks and records they make.

Settings that do not work together are refused here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from jnpl.data.loading.batches import generator_for
from jnpl.data.source import Source
from jnpl.internal.errors import InputError
from jnpl.judging.ledger import Ledger
from jnpl.judging.margins import margins_of
from jnpl.judging.out_of_fold import FOLDS, deal_folds
from jnpl.methods.base import Task
from jnpl.methods.registry import METHODS
from jnpl.models.build import Factory, build
from jnpl.models.head_matrix import HeadMatrix
from jnpl.recipes.schema import Recipe
from jnpl.training.checkpoint import CheckpointInterval
from jnpl.training.feeds import Feeds, make_feeds
from jnpl.training.pseudo_labels import PseudoLabelSettings, pseudo_label_settings
from jnpl.training.records import SampleRecords
from jnpl.training.run_results import TrainedModel

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from jnpl.training.epoch_view import EpochView


class RunSetup:
    """The settings of a run, its processes (`fabric`), its data as batches (`feeds`) and what methods learn (`task`).

    It reads or maps the data; `note` is called with a line for every sample that is left out.
    """

    def __init__(self, settings: RunSettings, fabric: Fabric, note: Callable[[str], None]) -> None:
        check_settings(settings)
        source = settings.source
        self.settings, self.fabric = settings, fabric
        self.feeds = make_feeds(source, settings.recipe, fabric, settings.seed, note, strict=settings.strict)
        rate, matrix = source.realised_noise()
        self.task = Task(
            partial(make_network, settings, self.feeds.shape),
            torch.from_numpy(source.labels),
            len(source.class_names),
            rate,
            None if matrix is None else torch.from_numpy(matrix),
            None if source.weights is None else torch.from_numpy(source.weights / source.weights.mean()),
            None if source.decided is None else torch.from_numpy(source.decided),
        )

    def empty_records(self, *, of_heads: bool = False) -> SampleRecords:
        """Return records for the predictions of every sample; heads with siblings record one mean of each."""
        source, verdict = self.settings.source, self.settings.recipe.verdict
        if of_heads:
            seen, unseen = (Ledger(len(source), self.task.num_classes, history=1) for _ in range(2))
            return SampleRecords(seen, unseen=unseen)
        labels = source.labels if verdict.keep == "compact" else None
        ledger = Ledger(len(source), self.task.num_classes, verdict.history, verdict.keep, labels)
        return SampleRecords(ledger, margins_of(verdict.score, source.labels, self.task.num_classes))

    def head_matrix(self, head: nn.Linear, *, siblings: bool) -> HeadMatrix:
        """Return a head as a matrix to train, with siblings that each leave out a fold, or without."""
        labels = self.task.trusted_labels.numpy()
        folds = min(FOLDS, len(labels)) if siblings else 0
        fold_of = torch.from_numpy(deal_folds(labels, folds, self.settings.seed)) if siblings else None
        return HeadMatrix(head, len(labels), fold_of)

    def trained_model(self, classifier: nn.Module) -> TrainedModel:
        """Return a trained network with what a run folder keeps of it."""
        return describe_model(classifier, self.settings.model_name, self.settings.source, self.feeds)


def describe_model(network: nn.Module, name: str, source: Source, feeds: Feeds, **more: Any) -> TrainedModel:
    """Return a trained network with what a run folder keeps of it; `more` are entries of model.json."""
    description = {
        "model": name,
        "input_shape": list(feeds.shape),
        "sample_shape": list(feeds.train.prepared.shape),
        "transform": feeds.describe_transform(),
        "encoding": source.encoding,
        "classes": list(source.class_names),
        **more,
    }
    if source.backbone is not None:
        description["backbone"] = source.backbone.facts
    state = None if source.backbone is None else source.backbone.state
    return TrainedModel(network, feeds.transform, description, state)


def make_network(settings: RunSettings, shape: tuple[int, ...], number: int) -> nn.Module:
    """Return network `number` of a run, with first weights of its own; `shape` is that of a sample."""
    recipe, seed = settings.recipe, settings.seed
    model = build(
        settings.model_name if settings.network is None else settings.network,
        num_classes=len(settings.source.class_names),
        input_shape=shape,
        seed=seed if number == 0 else generator_for(seed, "network", number).initial_seed(),
        weights=recipe.weights,
    )
    if recipe.engine.channels_last and len(shape) == 3:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if recipe.engine.compile:
        model.compile()
    return model


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
