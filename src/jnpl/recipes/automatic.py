"""What suits a data set: network, resolution and batches, each with its reason, for who names none of them.

More epochs do not suit small sets: what is left to learn there are the wrong labels.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from jnpl.data.source import UnreadableError
from jnpl.methods.jnpl import even_weights

if TYPE_CHECKING:
    from collections.abc import Collection

    from jnpl.data.source import Source
    from jnpl.recipes.schema import Recipe

SIDES = (16, 24, 32, 48, 64, 96, 128)  # pixels
PATIENCE = 20 * 60  # seconds of two cores that images may take; smaller ones are trained instead
SPEED = 800 * 32 * 32  # pixels a second of resnet8 on two cores (benchmarks/step.py)
GPU = 50  # times that
MLP_RATE = 0.03  # of fast, for 30 epochs in batches of 64; at 0.1 an MLP learns wrong labels by heart (docs/fast.md)
_PUSH, _MOST = 2.0, 0.1  # rate times steps that a class takes; a rate
_LOOKED_AT = 100  # files whose size is read


def mlp_rate(samples: int, classes: int, batch: int, epochs: int) -> float:
    """The rate of `fast` for an MLP: less with smaller batches and more epochs, but enough to learn all classes.

    >>> mlp_rate(1400, 10, 64, 30), mlp_rate(426, 2, 32, 30), mlp_rate(510, 10, 32, 30), mlp_rate(50_000, 10, 64, 30)
    (0.03, 0.015, 0.042, 0.03)
    """
    slow = MLP_RATE * batch / 64 * 30 / epochs
    enough = _PUSH * classes / (math.ceil(samples / batch) * epochs)
    return float(f"{min(max(slow, enough), _MOST):.2g}")


class Choice(NamedTuple):
    """Changes to a recipe as `jnpl.recipes.schema.load_recipe` takes them, and a line for each, with its reason."""

    changes: list[str]
    lines: list[str]


def choose(source: Source, recipe: Recipe, given: Collection[str] = (), *, gpu: bool = False) -> Choice:
    """Choose for `source` all but the settings that the user has `given`, whose values the recipe has."""
    samples = len(source)
    batch = 64 if samples >= 1_000 else 32 if samples >= 200 else 16
    if "train.batch_size" in given:
        batch = recipe.train.batch_size
    steps, epochs = math.ceil(samples / batch), recipe.train.epochs
    chosen: dict[str, object] = {"train.batch_size": batch}
    model = "mlp" if source.kind == "vector" else "resnet18" if gpu else "resnet8"
    if "model" in given:
        model = recipe.model
    chosen["model"] = f'"{model}"'
    if source.kind == "vector":
        network = f"network: {model}, for {samples:,} rows of {source.inputs.read(_readable(source)).shape[0]} numbers"
    else:
        side, why = (recipe.data.size, "as you say") if "data.size" in given else _images(source, epochs, gpu=gpu)
        if side is not None:
            chosen["data.size"] = side
        network = f"network: {model}, {why}" if side is None else f"network: {model}, at {side} pixels: {why}"
    plan = f"training: {epochs} epochs in batches of {batch}, {epochs * steps:,} steps"
    if batch < recipe.train.batch_size:
        plan += " (small batches: the set is small)"
    if model == "mlp" and recipe.method.name == "jnpl" and "train.lr" not in given:
        chosen["train.lr"] = rate = mlp_rate(samples, len(source.class_names), batch, epochs)
        plan += f", at a rate of {rate:g}: at a higher one an MLP learns wrong labels by heart"
    changes = [f"{name}={value}" for name, value in chosen.items() if name not in given]
    return Choice(changes, [network, plan, _classes(source, getattr(recipe.method, "class_weight", "none"))])


def _images(source: Source, epochs: int, *, gpu: bool) -> tuple[int | None, str]:
    """Side to decode files at (None: the images are an array as it is), and why."""
    values = getattr(source.inputs, "values", None)
    if values is not None:
        return None, f"images of {values.shape[1]} x {values.shape[2]} pixels as they are"
    side = _side(source)
    fitting = [each for each in SIDES if each <= side] or [SIDES[0]]
    within = (PATIENCE * SPEED * (GPU if gpu else 1) / (len(source) * epochs)) ** 0.5
    size = max([each for each in fitting if each <= within] or [fitting[0]])
    if size < fitting[-1]:
        return size, f"images have {side:.0f}, which would take long on this machine (--size)"
    return size, f"most images have {side:.0f} or more"


def _side(source: Source) -> float:
    """Pixels that three of four images have on their shorter side."""
    sides = []
    for position in np.linspace(0, len(source) - 1, min(_LOOKED_AT, len(source))).astype(int):
        try:
            sides.append(min(source.inputs.read(int(position)).shape[:2]))
        except UnreadableError:  # noqa: PERF203 - each may fail alone
            continue
    return float(np.quantile(sides, 0.25)) if sides else float(SIDES[-1])


def _readable(source: Source) -> int:
    return next(at for at in range(len(source)) if at not in (source.unreadable or {}))


def _classes(source: Source, weights: str) -> str:
    counts = np.bincount(source.labels, minlength=len(source.class_names))
    held = counts[counts > 0]
    ratio = held.max() / held.min()
    told = f"classes: {len(counts)}, of {held.min():,} to {held.max():,} samples"
    absent = len(counts) - len(held)
    if absent:
        told += f" ({absent} without any)"
    if ratio < 1.5:
        return f"{told}: even"
    if weights == "none":
        return f"{told}, and every sample counts the same"
    if weights == "mean":
        balance = even_weights(torch.from_numpy(source.labels), len(counts))[torch.from_numpy(np.flatnonzero(counts))]
        ratio = (balance.max() / balance.min()).item()
    return f"{told}: a sample of a smaller class counts for more, up to {ratio:.3g} times"
