"""Runs of the recipe `fast` for its tests."""

from __future__ import annotations

from typing import Any

from jnpl.config import load_recipe
from jnpl.progress import Reporter
from jnpl.run import Every, find

NEVER = Every(epochs=None, seconds=None)
RAN_AWAY = "predictions ran away from classes"
# PL+ at a hundred times its weight beside NL+, both from the first step: section 5 of the design has it collapse.
COLLAPSES = ("method.pl_start=0", "method.pl_weight=1.0", "method.gamma_rise=none")


def train(source: Any, out: Any, *changes: str, seed: int = 0, every: Every = NEVER, report: Any = None,
          **options: Any) -> Any:  # fmt: skip
    """One run on the CPU."""
    recipe = load_recipe("fast", ["engine.accelerator=cpu", "engine.workers=0", *changes])
    return find(source, recipe, out, seed=seed, every=every, strict=False, report=report or Reporter(), **options)
