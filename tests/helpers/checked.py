"""A finished run on a small table, and new tables for it to judge."""

from pathlib import Path

import numpy as np
import pandas as pd

from jnpl import find_label_issues

CLASSES = np.array(["ant", "bee", "cow"])


def frame(samples: int, noise: float = 0.08, seed: int = 0, shift: float = 0.0) -> pd.DataFrame:
    """Rows of three well separated classes, a share of whose labels is wrong; `true` has the right ones."""
    random = np.random.default_rng(seed)
    true = random.integers(0, 3, samples)
    values = random.normal(size=(samples, 4)) + 3 * np.eye(3, 4)[true] + shift
    given = np.where(random.random(samples) < noise, (true + 1) % 3, true)
    return pd.DataFrame(values, columns=list("abcd")).assign(label=CLASSES[given], true=CLASSES[true])


def make_run(folder: Path, samples: int = 600) -> Path:
    """A run folder, whose table lies beside it as old.csv; the recipe has no decision trees, to be quick."""
    frame(samples).drop(columns="true").to_csv(folder / "old.csv", index=False)
    settings = ["verdict.trees=false", "train.epochs=15"]
    find_label_issues(folder / "old.csv", settings=settings, out=folder / "run")
    return folder / "run"


def bad_batch() -> pd.DataFrame:
    """300 rows: shifted, 30 % of the labels wrong, ten of a new class, five copies, two of them labelled otherwise."""
    rows, old = frame(300, 0.3, 2, 0.7).drop(columns="true"), frame(600).drop(columns="true")
    rows.loc[:9, "label"] = "dog"
    rows.loc[100:104] = old.loc[:4].to_numpy()
    rows.loc[100:101, "label"] = [next(name for name in CLASSES if name != label) for label in old.loc[:1, "label"]]
    return rows
