"""Source and recipe -> the feeds of a run: training, test and validation data as batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from jnpl.data.loading.augment import CropFlip, EmbeddingViews, Standardize, Transform
from jnpl.data.loading.feed import Feed
from jnpl.data.loading.prepare import Prepared, default_workers, prepare
from jnpl.data.source import Source
from jnpl.embedding.backbones import ImageBackbone, load_backbone
from jnpl.internal.errors import InputError
from jnpl.models.build import FINETUNE
from jnpl.recipes.schema import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Feeds(NamedTuple):
    """Training and test data as batches; `make` prepares other data in the same way."""

    train: Feed
    test: Feed | None
    make: Callable[[Source], Feed]
    transform: Transform
    shape: tuple[int, ...]  # of the network's input

    def describe_transform(self) -> dict[str, Any]:
        """Return what model.json says of the transform."""
        return {"kind": type(self.transform).__name__, **vars(self.transform)}


def make_feeds(
    source: Source,
    recipe: Recipe,
    fabric: Fabric,
    seed: int,
    note: Callable[[str], None],
    *,
    strict: bool,
) -> Feeds:
    """Read, decode or map the data; `note` is called with a line for every sample that is left out."""
    engine = recipe.engine
    here = max(fabric.world_size // engine.num_nodes, 1)  # processes on this machine share its cores
    workers = max(default_workers() // here, 1) if engine.workers is None else engine.workers
    bring = partial(prepare, memory_limit=engine.memory_limit, workers=workers, cache=engine.cache, strict=strict)
    prepared = bring(source, recipe.data.size)
    for position, reason in prepared.unreadable.items():
        note(f"left out: {source.ids[position]} ({reason})")
    if not len(prepared.readable()):
        raise InputError(f"none of the {len(source)} samples of {source.name} can be read")
    transform, shape = _transform(prepared, recipe)
    place = (fabric.device, fabric.global_rank, fabric.world_size)

    def make(of: Source, data: Prepared | None = None) -> Feed:
        data = bring(of, recipe.data.size) if data is None else data
        return Feed(data, of.labels, transform, recipe.train.batch_size, seed, *place)

    test = None if source.test is None else make(source.test)
    return Feeds(make(source, prepared), test, make, transform, shape)


def _transform(prepared: Prepared, recipe: Recipe) -> tuple[Transform, tuple[int, ...]]:
    """Return the transform, from the training data's own statistics, and the shape of its output."""
    shape, unit = prepared.shape, recipe.data.vectors == "unit"
    if len(shape) == 2 or (len(shape) == 1 and unit):
        return EmbeddingViews(*_view_statistics(prepared, unit=unit), unit), shape[-1:]
    values = np.concatenate(list(_statistics_sample(prepared)))
    if values.ndim == 2:
        deviation = values.std(0, dtype=np.float64)
        deviation[(deviation == 0) | (recipe.data.vectors == "centred")] = 1
        mean = values.mean(0, dtype=np.float64)
        return Standardize(tuple(mean.tolist()), tuple(deviation.tolist())), values.shape[1:]
    mean, deviation = _pixel_statistics(values)
    pretrained = _backbone_statistics(recipe)
    side = recipe.data.crop or min(values.shape[1:3])
    if side > min(values.shape[1:3]):  # padding is for training alone: in evaluation the centre is cut from the image
        raise InputError(f"setting data.crop: {side} pixels cannot be cut from images of {values.shape[1:3]}")
    std = (1.0,) * len(mean) if recipe.data.std == "one" else tuple(np.maximum(deviation, 1e-6).tolist())
    if pretrained is not None:
        mean, std = np.array(pretrained[0]), pretrained[1]
    padding = side // 8 if recipe.data.padding == "auto" else recipe.data.padding
    crop = CropFlip(tuple(mean.tolist()), std, side, padding, recipe.data.flip)
    return crop, (len(mean), side, side)


def _backbone_statistics(recipe: Recipe) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return mean and deviation that a backbone to be fine-tuned was trained with; None for other networks."""
    if not recipe.model.startswith(FINETUNE):
        return None
    backbone = load_backbone(recipe.model.removeprefix(FINETUNE), "image", size=recipe.data.size)
    return (backbone.mean, backbone.std) if isinstance(backbone, ImageBackbone) else None


def _view_statistics(prepared: Prepared, *, unit: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation of every feature over samples and views, of embeddings (V, F) or (F,): (F,), (F,).

    With `unit`, those of embeddings of length 1, and one deviation for all features: the root of their mean variance.
    A sample of a large memory map is never in memory as a whole.
    """
    features = prepared.shape[-1]
    total, squares, count = np.zeros(features), np.zeros(features), 0
    for samples in _statistics_sample(prepared, batch=max(1024 * features // math.prod(prepared.shape), 1)):
        part = samples.reshape(-1, features).astype(np.float64)
        if unit:
            part /= np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12)
        total += part.sum(axis=0)
        squares += np.square(part).sum(axis=0)
        count += len(part)
    mean = total / count
    variance = np.maximum(squares / count - mean**2, 0)
    if unit:
        variance = np.full_like(variance, variance.mean())
    deviation = np.sqrt(variance)
    deviation[deviation < 1e-8] = 1
    return tuple(mean.tolist()), tuple(deviation.tolist())


def _pixel_statistics(images: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """uint8 (M, H, W, C) -> mean and deviation of each channel, pixels in 0..1: (C,), (C,).

    Whole numbers, so nothing is rounded; numpy's `std` takes seconds for what this does in a fiftieth of one.
    """
    rows = images.reshape(len(images), -1)
    total, squares = (np.zeros(rows.shape[1], np.uint64) for _ in range(2))
    for start in range(0, len(rows), 256):
        part = rows[start : start + 256].astype(np.uint16)
        total += part.sum(axis=0, dtype=np.uint32)
        squares += (part * part).sum(axis=0, dtype=np.uint32)
    count = rows.size / images.shape[3]
    mean, square = (sums.reshape(-1, images.shape[3]).sum(axis=0) / count for sums in (total, squares))
    return mean / 255, np.sqrt(np.maximum(square - mean**2, 0)) / 255


def _statistics_sample(prepared: Prepared, batch: int = 64, most: int = 50_000) -> Iterator[np.ndarray[Any, Any]]:
    """Yield, in batches, all readable samples in memory, or `most` of them, or 1,000 of a stream, evenly spread."""
    readable = prepared.readable()
    few = min(len(readable), most if prepared.values is not None else 1000)
    positions = readable[np.linspace(0, len(readable) - 1, few).astype(np.int64)]
    for _, samples in prepared.fetch(torch.split(torch.from_numpy(positions), batch)):
        yield samples.numpy()
