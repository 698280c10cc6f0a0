"""A linear head on vectors, trained with its out-of-fold siblings: the loop of the default recipe on embeddings.

For methods that know the gradient of their loss on the logits (`Method.logit_gradient`), in one process and in float32.
All others are trained by `loop`. Steps, order of the samples and log are the same here; autograd, an optimiser object
and the ledger of every step are left out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from jnpl.data.loading.augment import EmbeddingViews
from jnpl.data.loading.feed import Feed
from jnpl.internal.errors import LearningError
from jnpl.internal.tensors import as_tensor
from jnpl.models.head_matrix import HeadMatrix
from jnpl.training.loop import LoopCallback, Position
from jnpl.training.phases import Phase

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from jnpl.methods.base import Method
    from jnpl.recipes.schema import Recipe, Training
    from jnpl.training.records import SampleRecords

_BLOCK = 1024  # samples
_STANDARDIZED = 1 << 26  # numbers of all samples that are standardised once (256 MiB)
_RECORDED = 4096  # samples whose mean predictions are written together


def trains_heads(recipe: Recipe, method: Method, phases: list[Phase], fabric: Fabric) -> bool:
    """Return whether all phases of a run can be trained by `train_heads`."""
    return (
        method.has_logit_gradient
        and isinstance(method.model, nn.Linear)
        and method.model.weight.dtype == torch.float32
        and recipe.engine.precision == "32"
        and fabric.world_size == 1
        and recipe.verdict.keep == "full"
        and recipe.verdict.score not in ("aum", "margin")
        and all(_is_plain(phase) for phase in phases)
    )


def _is_plain(phase: Phase) -> bool:
    """Return whether a phase is plain SGD on given labels."""
    plan = phase.plan
    plain = plan.optimizer == "sgd" and not plan.average and plan.accumulate == 1 and plan.clip_norm is None
    return plain and not phase.select and not phase.pseudo


def in_blocks(feed: Feed, before: Feed | None = None) -> Feed:
    """Return the same samples in blocks of some batches, which are fetched and moved together.

    Embeddings in memory are standardised once, unless they are many; else block by block. `before` is what this
    function returned for the phase before.
    """
    if before is not None:
        feed = replace(feed, prepared=before.prepared, transform=before.transform)
    prepared, transform = feed.prepared, feed.transform
    values = None if before is not None else prepared.values
    if isinstance(transform, EmbeddingViews) and values is not None and values.size <= _STANDARDIZED:
        ready = np.empty(values.shape, np.float32)
        for start in range(0, len(values), _BLOCK):
            rows = slice(start, start + _BLOCK)
            ready[rows] = transform.standardized(as_tensor(values[rows])).numpy()
        feed = replace(feed, prepared=replace(prepared, values=ready), transform=replace(transform, done=True))
    return replace(feed, batch_size=max(_BLOCK // feed.batch_size, 1) * feed.batch_size)


def train_heads(
    heads: HeadMatrix, method: Method, blocks: Feed, plan: Training, position: Position, callback: LoopCallback
) -> None:
    """Train from `position` to the last epoch, by steps of `plan.batch_size` samples within blocks of many.

    The predictions of the last half of the epochs are averaged.
    """
    while position.epoch < plan.epochs:
        if position.step == 0:
            callback.before_epoch()
            if position.epoch == plan.epochs // 2:
                heads.reset()  # a checkpoint of an earlier version may have sums of earlier epochs
        momentum = plan.momentum_at(position.epoch)
        for block in blocks.epoch(position.total, position.step):
            loss, predicted = torch.zeros((), device=block.inputs.device), []
            index = block.index.to(block.inputs.device)
            learners = heads.learners(index)
            for start in range(0, len(block.labels), plan.batch_size):
                rows = slice(start, start + plan.batch_size)
                batch = block.part(rows)
                rate = plan.lr_at(position.epoch + (position.samples + start) / len(blocks.labels))
                probs = heads.probs(batch.inputs)
                predicted.append(probs)
                losses, gradient = method.logit_gradient(probs, batch)
                learning = None if learners is None else learners[rows]
                heads.descend(batch.inputs, gradient, learning, rate=rate, momentum=momentum, decay=plan.weight_decay)
                loss += losses.sum()
            if position.epoch >= plan.epochs // 2:
                heads.record(index, torch.cat(predicted))
            position.count({"loss": loss}, len(block.labels))
            callback.after_step()
        if not position.sums["loss"].isfinite():  # once an epoch: a GPU waits for nothing in between
            raise LearningError(
                f"the loss is {position.sums['loss'].item()} in epoch {position.total}: try a smaller train.lr"
            )
        callback.after_epoch()
        position.epoch, position.step, position.sums, position.samples = position.epoch + 1, 0, {}, 0


def write_records(heads: HeadMatrix, records: SampleRecords, epoch: int) -> None:
    """Write the averaged predictions: those of the siblings to `unseen`, the mean with the head's to the ledger."""
    for index in torch.split(heads.count.nonzero().squeeze(1), _RECORDED):
        mean, unseen = heads.means(index)
        if unseen is not None and records.unseen is not None:
            records.unseen.record(index, unseen, epoch)
            mean = (mean + unseen) / 2
        records.ledger.record(index, mean, epoch)
