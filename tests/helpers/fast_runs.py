"""Runs of the recipe `fast` for its tests, and the data of several of them."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from jnpl import noise
from jnpl.data.opening import open_source
from jnpl.data.sources.arrays import from_arrays
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.automatic import choose
from jnpl.recipes.load import load_recipe, parse_changes
from jnpl.training.reporting import Reporter
from tests.helpers import quick

NEVER = CheckpointInterval(epochs=None, seconds=None)
RAN_AWAY = "training was unstable"
# PL+ at a hundred times its weight beside NL+, both from the first step: without a guard it collapses.
COLLAPSES = ("train.lr=0.1", "method.pl_start=0", "method.pl_weight=1.0", "method.gamma_rise=none")

# Five epochs of batches of 32, and the two ways to choose gamma: by the step, or by what the network agrees with.
SMALL = ("train.epochs=5", "train.batch_size=32", "train.lr=0.05")
GAMMA = {"clock": ("method.gamma_rise=[0.0, 0.5]", "method.guard=0"), "agreement": ()}


def train(
    source: Any,
    out: Any,
    *changes: str,
    seed: int = 0,
    every: CheckpointInterval = NEVER,
    report: Any = None,
    **options: Any,
) -> Any:
    """One run on the CPU, fitted to the data as `jnpl find` does it."""
    given = parse_changes(["engine.accelerator=cpu", "engine.workers=0", *changes])
    chosen = choose(source, load_recipe("fast", given), given).changes if source.kind == "vector" else {}
    recipe = load_recipe("fast", {**chosen, **given})
    result = run_recipe(
        source, recipe, out, seed=seed, every=every, strict=False, report=report or Reporter(), **options
    )
    return None if result is None else result.results


def train_small(gamma: str, out: Any, devices: int, **options: Any) -> Any:
    """Train on a last batch of 26, and odd shares; pseudo-labels once."""
    changes = (*SMALL, *GAMMA[gamma], f"engine.devices={devices}")
    return train(quick.data(samples=250), out, *changes, classify=gamma == "clock", **options)


def digits(rate, seed=0):
    """With symmetric noise."""
    source = open_source("digits")
    return replace(
        source,
        labels=noise.symmetric(source.labels, rate, 10, seed=seed) if rate else source.labels.copy(),
        true_labels=source.labels.copy(),
    )


def zero_or_not(rate, seed):
    """Two classes, one in ten a zero."""
    bunch = load_digits()
    labels = (bunch.target == 0).astype(int)
    return from_arrays(bunch.data.astype(np.float32), noise.symmetric(labels, rate, 2, seed=seed), y_true=labels)


def blobs(sizes, seed, apart=4.0):
    """Gaussians of variance 1 in 16 dimensions, their centres at this distance from the origin."""
    random = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    centres = random.normal(size=(len(sizes), 16))
    centres *= apart / np.linalg.norm(centres, axis=1, keepdims=True)
    return (centres[labels] + random.normal(size=(len(labels), 16))).astype(np.float32), labels
