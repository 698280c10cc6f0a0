"""What stays the same while a run trains: settings, processes and batches, and the networks and records they make."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from jnpl.data.loading.batches import generator_for
from jnpl.judging.ledger import Ledger
from jnpl.judging.margins import margins_of
from jnpl.judging.out_of_fold import FOLDS, deal_folds
from jnpl.methods.base import Task
from jnpl.models.build import build
from jnpl.models.head_matrix import HeadMatrix
from jnpl.training.feeds import make_feeds
from jnpl.training.records import SampleRecords
from jnpl.training.run_results import TrainedModel
from jnpl.training.run_settings import check_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightning_fabric import Fabric
    from torch import nn

    from jnpl.training.run_settings import RunSettings


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
        source = self.settings.source
        description = {
            "model": self.settings.model_name,
            "input_shape": list(self.feeds.shape),
            "sample_shape": list(self.feeds.train.prepared.shape),
            "transform": self.feeds.describe_transform(),
            "encoding": source.encoding,
            "classes": list(source.class_names),
        }
        if source.backbone is not None:
            description["backbone"] = source.backbone.facts
        state = None if source.backbone is None else source.backbone.state
        return TrainedModel(classifier, self.feeds.transform, description, state)


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
