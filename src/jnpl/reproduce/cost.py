"""What the paper's scale costs, before it is begun: operations counted, time estimated."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

import torch

from jnpl.methods.registry import METHODS
from jnpl.models.build import build
from jnpl.phases import second_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jnpl.config import Recipe
    from jnpl.reproduce.cell import Cell

TERA = 15e12  # operations a second that a GPU is taken to sustain
_BACKWARD = 3  # a step costs three forward passes
_SAMPLES = {"cifar10": 45_000, "cifar100": 45_000, "clothing1m": 1_000_000, "digits": 600}
_CLASSES = {"cifar10": 10, "cifar100": 100, "clothing1m": 14, "digits": 10}


def epochs(recipe: Recipe, *, classify: bool) -> int:
    """Of all stages, and of the steps with pseudo-labels.

    >>> from jnpl.config import load_recipe
    >>> epochs(load_recipe("nlnl-cifar10"), classify=True), epochs(load_recipe("paper-cifar10"), classify=False)
    (3120, 1000)
    """
    method = METHODS[recipe.method.name]
    total = sum(recipe.plan(stage.name).epochs for stage in method.stages)
    second = second_part(recipe, method) if classify else None
    if second is not None:
        total += second.plan.epochs * (2 if second.mode == "nlnl" else 1)
    return total


def gpu_hours(cells: Sequence[Cell]) -> float:
    """Epochs x images x networks x operations of a step, at `TERA` a second."""
    kinds = {(cell.variant, cell.data, cell.classify): cell for cell in cells}  # noise and seed change nothing
    counts = Counter((cell.variant, cell.data, cell.classify) for cell in cells)
    return sum(count * _operations_of(kinds[kind]) for kind, count in counts.items()) / TERA / 3600


def _operations_of(cell: Cell) -> float:
    """Of a whole run."""
    recipe = cell.recipe()
    networks = 2 if METHODS[recipe.method.name].networks.startswith("2") else 1
    pixels = recipe.data.crop or recipe.data.size or 32
    model = "resnet8" if recipe.model == "auto" else recipe.model
    step = _BACKWARD * networks * operations(model, _CLASSES[cell.data], pixels)
    return epochs(recipe, classify=cell.classify) * _SAMPLES[cell.data] * step


@cache
def operations(model: str, classes: int, pixels: int) -> float:
    """Of one image's forward pass, counted by PyTorch; a product and a sum are two."""
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415 (slow to import)

    network = build(model, num_classes=classes, input_shape=(3, pixels, pixels), seed=0).eval()
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        network(torch.zeros(1, 3, pixels, pixels))
    return float(counter.get_total_flops())
