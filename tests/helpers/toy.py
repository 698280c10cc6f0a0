"""A small training in a process of its own: `python toy.py OUT [find options]` (started by the tests beside it)."""

import sys
from pathlib import Path

import numpy as np

from jnpl import noise

# An MLP, because batch norm would see half the batch, with PL+ at the weight of NL+.
LIKE_ONE = ("--set", "model=mlp", "--set", "method.pl_weight=1.0", "--set", "train.lr=0.01")


def write(path: Path, samples: int = 240) -> Path:
    """Small colour images of three classes, 30 % of the labels wrong, with a test part."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, samples)
    images = random.normal(90, 35, (samples, 8, 8, 3)) + 40 * labels[:, None, None, None]
    given = noise.symmetric(labels, 0.3, 3, seed=0)
    pixels = np.clip(images, 0, 255).astype(np.uint8)
    np.savez(path, x=pixels, y=given, y_true=labels, x_test=pixels[:60], y_test=labels[:60])
    return path


def command(data: Path, out: Path, *options: str) -> list[str]:
    """The `jnpl find` that the tests start, kill and start again."""
    settings = ("train.epochs=5", "train.batch_size=32", "train.schedule=step", "train.milestones=[3]", "train.lr=0.05")
    method = ("method.complements=sampled", "method.gamma=1.0", "method.pl_weight=0.01")
    changes = [part for change in (*settings, *method) for part in ("--set", change)]
    base = ["-m", "jnpl", "find", str(data), "--out", str(out), "--recipe", "small", "--threads", "1", "--json"]
    return [sys.executable, *base, *changes, *options]
