"""Automatic choices: method, network, resolution, batch size and learning rate that suit a data set.

Small data sets do not get more epochs: after the first ones, a network learns mostly their wrong labels.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from jnpl.data.source import Source
from jnpl.embedding.choice import common_side
from jnpl.internal.devices import available_device
from jnpl.losses.class_balance import even_weights
from jnpl.recipes.load import DEFAULT, EMBEDDINGS, load_default_recipe, load_recipe
from jnpl.recipes.schema import DEFAULT_METHOD, Recipe

SIDES = (16, 24, 32, 48, 64, 96, 128)  # pixels
NAMED_RECIPE_SIDE = 64  # pixels of image files for a recipe that the user names and that gives none
TIME_LIMIT = 20 * 60  # seconds that training on images may take on two cores; above, the images are made smaller
CPU_SPEED = 800 * 32 * 32  # pixels per second that resnet8 trains on, two cores: seen once, no benchmark repeats it
GPU_FACTOR = 50  # speed of a GPU relative to two cores
MLP_RATE = 0.03  # for 30 epochs in batches of 64; at 0.1 an MLP memorises wrong labels (docs/results/fast.md)
_MIN_RATE_STEPS, _MAX_RATE = 2.0, 0.1  # smallest (learning rate x steps) per class; largest learning rate
SMALL_IMAGE_SET = 5_000  # below as many images, training from random weights uses cross-entropy (docs/results/fast.md)
# Cross-entropy with the augmentation, schedule, averaged weights and classifier of `fast`. Its score is `history`: on
# drawings of 20 classes the posterior ranked worse. p_y is low after so few steps, therefore the threshold is 1 / C.
_CROSS_ENTROPY = {
    "method.name": "ce",
    "data.std": "one",
    "verdict.calibrate": False,
    "verdict.threshold": "1/c",
    "pseudo.mode": "predicted",
    "pseudo.warm": True,
    "pseudo.stretch": 3.0,
    "pseudo.train.weight_decay": 1e-3,
}
_CROSS_ENTROPY_EPOCHS = 30  # in more epochs cross-entropy memorises wrong labels of a small set
_MANY_CLASSES = 10
_REFERENCE_WIDTH = 1280  # of the embeddings that the learning rates of a head were chosen on
_HEAD_SAMPLES, _LARGE = 100_000, 250_000  # samples that a head sees in a stage; more than so many have 4 epochs
_REFINED_SAMPLES = 60_000  # that the stage `refine` sees, of few classes: at least 4 epochs, in larger steps
_REFINED_DECAY = 0.6  # weight decay of the stage `refine`, relative to the first
_TAG_EPOCHS = 10  # at least: rare tags are learnt slowly
EMBEDDING_WIDTH = 128  # vectors with at least as many numbers count as embeddings unless the user says otherwise


class Choice(NamedTuple):
    """Changes of a recipe by dotted name, and a line for each choice with its reason."""

    changes: dict[str, Any]
    lines: list[str]


class AdaptedRecipe(NamedTuple):
    """A recipe that suits the data, and a line for each automatic choice (none if the user named the recipe)."""

    recipe: Recipe
    choices: list[str]


def adapt_recipe(source: Source, name: str | None, method: str | None, changes: Mapping[str, Any]) -> AdaptedRecipe:
    """Return the recipe for a data set.

    Args:
        source: the data to train on.
        name: a recipe's name or .toml file, which is taken as it is; None: the default recipe, adapted to the data.
        method: the method to use in place of the recipe's own.
        changes: new values of settings by dotted name; they are never changed automatically.

    Returns:
        The recipe, and the automatic choices in words.
    """
    if name in (None, DEFAULT) and is_embedded(source):
        width = source.inputs.read(_first_readable(source)).shape[0]
        plan = head_plan(width, len(source), len(source.class_names))
        if method not in (None, load_recipe(EMBEDDINGS).method.name):
            plan = {name: value for name, value in plan.items() if name in ("train.weight_decay", "train.lr")}
        recipe = load_default_recipe(EMBEDDINGS, method, {**plan, **changes})
        return AdaptedRecipe(recipe, _embedding_lines(source, recipe))
    recipe = load_default_recipe(name, method, changes)
    if name is not None:
        if source.kind == "image" and recipe.data.size is None and source.inputs.array() is None:
            recipe = load_default_recipe(name, method, {**changes, "data.size": NAMED_RECIPE_SIDE})
        return AdaptedRecipe(recipe, [])
    gpu = available_device(recipe.engine.accelerator).type != "cpu"
    fixed = {*changes, *(() if method is None else ("method.name",))}
    choice = choose(source, recipe, fixed, gpu=gpu)
    return AdaptedRecipe(load_default_recipe(name, method, {**choice.changes, **changes}), choice.lines)


def is_embedded(source: Source) -> bool:
    """Return whether the samples are embeddings: of a backbone, or wide vectors that are not columns of a table."""
    if source.inputs.is_embedded():
        return True
    if source.kind != "vector" or source.encoding is not None:
        return False
    return bool(source.inputs.read(_first_readable(source)).shape[0] >= EMBEDDING_WIDTH)


def head_plan(width: int, samples: int, classes: int) -> dict[str, Any]:
    """Return what a head on embeddings changes in its recipe: weight decay, and with many classes more.

    Weight decay is larger for few samples, and smaller in the first stage for many classes. Embeddings of `width`
    numbers are scaled to a total variance of `width`: narrow ones need a higher learning rate and, in proportion to it,
    less weight decay. With few classes this makes little difference, and is left out. With many, cross-entropy at the
    start fades by the confusion of classes. The more samples, the fewer epochs, above all of the second stage with few
    classes. The rules were fitted to photographs and texts of 1,500 to 50,000 samples (docs/owners.md,
    docs/results/field.md).

    >>> plan = head_plan(1280, 10_000, 10)
    >>> plan["train.epochs"], plan["train.weight_decay"], plan["stages.refine.weight_decay"]
    (10, 0.03, 0.018)
    >>> head_plan(256, 10_000, 100)["train.lr"]
    0.21
    """
    decay = min(max(0.085 * math.sqrt(width / samples), 5e-3), 0.1)
    first, decay = decay * min(1.0, math.sqrt(10 / classes)), _REFINED_DECAY * decay
    least = 4 if samples > _LARGE else 6 if classes <= _MANY_CLASSES else 20  # cross-entropy fades epoch by epoch
    epochs = min(max(round(_HEAD_SAMPLES / samples), least), 20)
    plan: dict[str, Any] = {"train.epochs": epochs, "stages.refine.epochs": min(epochs, 10)}
    if classes <= _MANY_CLASSES and (fewer := max(round(_REFINED_SAMPLES / samples), 4)) < min(epochs, 10):
        rate = load_recipe(EMBEDDINGS).stages["refine"]["lr"] * min(epochs, 10) / fewer
        plan |= {"stages.refine.epochs": fewer, "stages.refine.lr": _rounded(rate)}
    if classes > _MANY_CLASSES:
        plan["method.ce_fade"] = "confusion"
        if width < _REFERENCE_WIDTH:
            narrow = (width / _REFERENCE_WIDTH) ** (1 - _MANY_CLASSES / classes)
            recipe = load_recipe(EMBEDDINGS)
            plan["train.lr"] = _rounded(recipe.train.lr / narrow)
            plan["stages.refine.lr"] = _rounded(recipe.stages["refine"]["lr"] / narrow)
            first, decay = first * math.sqrt(narrow), decay * math.sqrt(narrow)
    return {"train.weight_decay": _rounded(first), "stages.refine.weight_decay": _rounded(decay), **plan}


def tag_recipe(source: Source, changes: Mapping[str, Any]) -> AdaptedRecipe:
    """Return the recipe of a head with an output per tag: that of a head on embeddings, with `changes`."""
    width, samples = source.inputs.read(_first_readable(source)).shape[0], len(source)
    plan = head_plan(width, samples, 2)
    chosen = {
        "train.weight_decay": plan["train.weight_decay"],
        "train.epochs": max(plan["train.epochs"], _TAG_EPOCHS),
        "data.vectors": "unit" if is_embedded(source) else "standard",
    }
    recipe = load_default_recipe(EMBEDDINGS, None, {**chosen, **changes})
    return AdaptedRecipe(recipe, [_embedding_lines(source, recipe)[0]])


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


def _embedding_lines(source: Source, recipe: Recipe) -> list[str]:
    plan = recipe.train
    refined = recipe.stages.get("refine", {}).get("epochs", 0) if getattr(recipe.method, "refine", False) else 0
    steps = math.ceil(len(source) / plan.batch_size) * (plan.epochs + refined)
    epochs = f"{plan.epochs} epochs" + (f" and {refined} of refinement" if refined else "")
    head = f"head: {recipe.model}, {epochs} in batches of {plan.batch_size}, {steps:,} steps"
    return [head, _class_line(source, getattr(recipe.method, "class_weight", "none"))]


def choose(source: Source, recipe: Recipe, fixed: Collection[str] = (), *, gpu: bool = False) -> Choice:
    """Choose settings for `source`, except the `fixed` ones, which the user has chosen and the recipe contains."""
    samples = len(source)
    batch = 64 if samples >= 1_000 else 32 if samples >= 200 else 16
    if "train.batch_size" in fixed:
        batch = recipe.train.batch_size
    steps, epochs = math.ceil(samples / batch), recipe.train.epochs
    chosen: dict[str, Any] = {"train.batch_size": batch}
    model = "mlp" if source.kind == "vector" else "resnet18" if gpu else "resnet8"
    if "model" in fixed:
        model = recipe.model
    chosen["model"] = model
    if source.kind == "vector":
        features = source.inputs.read(_first_readable(source)).shape[0]
        network = f"network: {model}, for {samples:,} rows of {features} numbers"
    else:
        side, reason = (recipe.data.size, "as given") if "data.size" in fixed else _image_side(source, epochs, gpu=gpu)
        if side is not None:
            chosen["data.size"] = side
        network = f"network: {model}, {reason}" if side is None else f"network: {model}, at {side} pixels: {reason}"
    training = f"training: {epochs} epochs in batches of {batch}, {epochs * steps:,} steps"
    if batch < recipe.train.batch_size:
        training += " (small batches: the data set is small)"
    if model == "mlp" and recipe.method.name == "jnpl" and "train.lr" not in fixed:
        chosen["train.lr"] = rate = mlp_rate(samples, len(source.class_names), batch, epochs)
        training += f", learning rate {rate:g}: at a higher one an MLP memorises wrong labels"
    weighting, lines = getattr(recipe.method, "class_weight", "none"), [network, training]
    last: list[str] = []
    if model == "resnet8" and _suits_cross_entropy(source, recipe, fixed):
        chosen |= _CROSS_ENTROPY
        weighting = "none"
        lines.append(
            f"method: cross-entropy, for fewer than {SMALL_IMAGE_SET:,} images from random weights: on average it "
            "ranked labels better than the method of the paper in tests (--method jnpl)"
        )
    suits_trees = source.kind == "vector" and recipe.verdict.score not in ("history", "aum", "margin")
    if model == "mlp" and recipe.method.name == DEFAULT_METHOD and suits_trees and "verdict.trees" not in fixed:
        chosen["verdict.trees"] = True
        last.append("verdict: decision trees judge the labels too (--set verdict.trees=false: the network alone)")
    changes = {name: value for name, value in chosen.items() if name not in fixed}
    return Choice(changes, [*lines, _class_line(source, weighting), *last])


def _suits_cross_entropy(source: Source, recipe: Recipe, fixed: Collection[str]) -> bool:
    """Return whether cross-entropy replaces the method of `fast`: few images and epochs, method not given."""
    return (
        source.kind == "image"
        and len(source) < SMALL_IMAGE_SET
        and source.weights is None  # cross-entropy has no weights of samples
        and recipe.method.name == DEFAULT_METHOD
        and recipe.train.epochs <= _CROSS_ENTROPY_EPOCHS
        and not any(name.startswith("method.") for name in fixed)
    )


def mlp_rate(samples: int, classes: int, batch: int, epochs: int) -> float:
    """Return the learning rate of `fast` for an MLP: lower for small batches and many epochs, within limits.

    >>> mlp_rate(1400, 10, 64, 30), mlp_rate(426, 2, 32, 30), mlp_rate(510, 10, 32, 30), mlp_rate(50_000, 10, 64, 30)
    (0.03, 0.015, 0.042, 0.03)
    """
    scaled = MLP_RATE * batch / 64 * 30 / epochs
    lowest = _MIN_RATE_STEPS * classes / (math.ceil(samples / batch) * epochs)
    return float(f"{min(max(scaled, lowest), _MAX_RATE):.2g}")


def _image_side(source: Source, epochs: int, *, gpu: bool) -> tuple[int | None, str]:
    """Return the side to decode image files at (None: the images are an array), and the reason."""
    values = source.inputs.array()
    if values is not None:
        return None, f"images of {values.shape[1]} x {values.shape[2]} pixels as they are"
    side = common_side(source)
    sides = [pixels for pixels in SIDES if pixels <= side] or [SIDES[0]]
    affordable = (TIME_LIMIT * CPU_SPEED * (GPU_FACTOR if gpu else 1) / (len(source) * epochs)) ** 0.5
    size = max([pixels for pixels in sides if pixels <= affordable] or [sides[0]])
    if size < sides[-1]:
        return size, f"images have {side:.0f}, which would take long on this machine (--size)"
    return size, f"most images have {side:.0f} or more"


def _first_readable(source: Source) -> int:
    return next(at for at in range(len(source)) if at not in (source.unreadable or {}))


def _class_line(source: Source, weighting: str) -> str:
    counts = np.bincount(source.labels, minlength=len(source.class_names))
    present = counts[counts > 0]
    ratio = present.max() / present.min()
    line = f"classes: {len(counts)}, of {present.min():,} to {present.max():,} samples"
    empty = len(counts) - len(present)
    if empty:
        line += f" ({empty} without any)"
    if ratio < 1.5:
        return f"{line}: balanced"
    if weighting == "none":
        return f"{line}, every sample with the same weight"
    if weighting == "mean":
        weights = even_weights(torch.from_numpy(source.labels), len(counts))[torch.from_numpy(np.flatnonzero(counts))]
        ratio = (weights.max() / weights.min()).item()
    return f"{line}: samples of smaller classes have up to {ratio:.3g} times the weight"
