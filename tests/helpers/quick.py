"""Every method, two epochs a stage: the settings of the quick tests."""

import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jnpl import noise
from jnpl.data.source import Source
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import Interrupted
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.schema import Recipe, parse_recipe
from jnpl.training.loop import Position
from jnpl.training.reporting import Reporter

SHARED = 141  # samples for two processes: a last batch of 13, so that they and one process take the same steps
OWN: dict[str, dict[str, Any]] = {
    "gce": {"truncated": True, "prune_from": 1, "prune_every": 1, "k": 0.3},
    "co-teaching": {"noise_rate": "oracle", "ramp_epochs": 2},
    "jocor": {"noise_rate": "oracle", "ramp_epochs": 2},
    "nlnl": {"complements": "exhaustive"},
    "jnpl": {"complements": "exhaustive"},
    "m-correction": {"bootstrap_from": 1},
    "limit": {"init_q": True, "beta": 1.0},
    "joint-optim": {"update_from": 1},
    "metacleaner": {"subset_size": 3},
    "mlnt": {"label_sets": 2, "inner_lr": 0.1, "warm_up_steps": 2, "ramp_steps": 6},
    "pencil": {"label_lr": 500.0},
    "co-teaching-plus": {"noise_rate": "oracle", "ramp_epochs": 2, "warm_up": 1},
    "dividemix": {"warm_up": 1, "ramp_epochs": 1},
    "elr-plus": {"average_steps": 5},
    "cores2": {"warm_up": 0, "ramp_epochs": 1, "sieve_from": 1},
}


def recipe_of(name: str, model: str = "mlp", devices: int = 1) -> Recipe:
    """Two epochs in every stage."""
    plan = {"epochs": 2, "batch_size": 32, "lr": 0.02}
    engine = {"accelerator": "cpu", "workers": 0, "devices": devices}
    method = {"name": name, **OWN.get(name, {})}
    verdict = {"threshold": "1/c"}  # after two epochs little is sure, and pseudo-labels need some labels that are kept
    return parse_recipe({"model": model, "train": plan, "method": method, "verdict": verdict, "engine": engine})


def data(kind: str = "vector", samples: int = 130) -> Source:
    """Four classes, 30 % of the labels wrong, a last batch of 2; of those to be shared some cannot be read."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, samples)
    if kind == "vector":
        x: Any = random.normal(size=(samples, 8)) + 2 * np.eye(8)[labels]
    else:
        noise_of = random.normal(90, 30, (samples, 8, 8, 3))
        x = np.clip(noise_of + 35 * labels[:, None, None, None], 0, 255).astype(np.uint8)
    given = noise.symmetric(labels, 0.3, 4, seed=0)
    broken = {5: "torn", 17: "torn", **dict.fromkeys(range(80, 92), "torn")} if samples == SHARED else None
    held = {"x_test": x[:40], "y_test": labels[:40], "x_val": x[40:80], "y_val": labels[40:80]}
    return replace(from_arrays(x, given, y_true=labels, **held), unreadable=broken)


def train(source: Source, recipe: Recipe, out: Path, report: Reporter | None = None, *, classify: bool = True) -> Any:
    """Run it without checkpoints but for those of a stop; returns its result, None in all but the first process."""
    return run_recipe(
        source,
        recipe,
        out,
        seed=0,
        every=CheckpointInterval(epochs=None, seconds=None),
        strict=False,
        report=report or Reporter(),
        classify=classify,
    )


class Stop(Reporter):
    """Sends the process a signal to stop after so many steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left = steps

    def step(self, position: Position, lr: float) -> None:
        """After every update of the weights."""
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGTERM)
        super().step(position, lr)


def stopped_and_resumed(run: Callable[[Reporter], Any], steps: int) -> tuple[Any, int]:
    """Return the result of a run that is stopped every `steps` steps until it is done, and how often that was."""
    stops, result = 0, None
    while result is None:
        with suppress(Interrupted):
            result = run(Stop(steps))
        stops += result is None
    return result, stops
