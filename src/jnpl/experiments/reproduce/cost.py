"""GPU hours of runs, estimated from their operations before anything is trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import torch

from jnpl.methods.mlnt import MLNT
from jnpl.methods.registry import METHODS
from jnpl.models.build import build
from jnpl.recipes.schema import Recipe
from jnpl.training.pseudo_labels import pseudo_label_settings

if TYPE_CHECKING:
    from jnpl.experiments.spec import RunSpec

TERA = 15e12  # operations a second that a GPU is taken to sustain
_BACKWARD = 3  # a step costs three forward passes
# A label set of MLNT: a gradient (2), a pass with the weights that it moves (1) and back (2); and back through the
# gradient itself, which is twice a gradient.
_LABEL_SET, _SECOND_ORDER = 5, 4
_SAMPLES = {"cifar10": 45_000, "cifar100": 45_000, "clothing1m": 1_000_000, "digits": 600}
_CLASSES = {"cifar10": 10, "cifar100": 100, "clothing1m": 14, "digits": 10}


def passes(recipe: Recipe, stage: int) -> int:
    """What a step of a stage costs, in forward passes of one network; MLNT's warm-up, which costs less, as the rest.

    >>> from jnpl.recipes.load import load_recipe
    >>> [passes(load_recipe("mlnt-clothing1m"), stage) for stage in range(4)]
    [3, 95, 96, 96]
    """
    if stage == 0 or not isinstance(recipe.method, MLNT.Settings):
        return _BACKWARD
    label_set = _LABEL_SET + (_SECOND_ORDER if recipe.method.second_order else 0)
    frozen = 2 if stage == 1 else 3  # the teacher, the feature network, and the mentor if there is one
    return _BACKWARD + frozen + recipe.method.label_sets * label_set


def gpu_hours(specs: Sequence[RunSpec]) -> float:
    """Return GPU hours: epochs x images x networks x passes of a step x operations of a pass, at `TERA` a second."""
    kinds = {(spec.variant, spec.data, spec.classify): spec for spec in specs}  # noise and seed change nothing
    counts = Counter((spec.variant, spec.data, spec.classify) for spec in specs)
    return sum(count * _operations_of(kinds[kind]) for kind, count in counts.items()) / TERA / 3600


def _operations_of(spec: RunSpec) -> float:
    """Operations of a whole run."""
    recipe = spec.recipe()
    method = METHODS[recipe.method.name]
    last = 1 + recipe.method.iterations if isinstance(recipe.method, MLNT.Settings) else None
    plans = [recipe.plan(stage.name).epochs for stage in method.stages[:last]]
    forward_passes = sum(epochs * passes(recipe, stage) for stage, epochs in enumerate(plans))
    if spec.classify and (second := pseudo_label_settings(recipe, method)) is not None:
        forward_passes += _BACKWARD * second.plan.epochs * (2 if second.mode == "nlnl" else 1)
    networks = 2 if method.networks.startswith("2") else 1
    model = "resnet8" if recipe.model == "auto" else recipe.model
    image = networks * operations(model, _CLASSES[spec.data], recipe.data.crop or recipe.data.size or 32)
    return forward_passes * _SAMPLES[spec.data] * image


@cache
def operations(model: str, classes: int, pixels: int) -> float:
    """Operations of one image's forward pass, counted by PyTorch; a product and a sum are two."""
    from torch.utils.flop_counter import FlopCounterMode  # noqa: PLC0415 (slow to import)

    network = build(model, num_classes=classes, input_shape=(3, pixels, pixels), seed=0).eval()
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        network(torch.zeros(1, 3, pixels, pixels))
    return float(counter.get_total_flops())
