"""What PL+ learns from, epoch by epoch: the candidates of Algorithm 1, how many of them are right, classes predicted.

    python benchmarks/pl_plus.py --data DIR     # three minutes of one core; DIR as for jnpl reproduce --scale features

Trains filters of `jnpl reproduce starts --scale features` and `steps` (60 % symmetric noise, seed 1) and writes
benchmarks/results/pl-plus.jsonl, a line for each. docs/reproduction.md shows them (benchmarks/reproduction_page.py).
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from jnpl.data.source import Labels
from jnpl.experiments import results, run_data
from jnpl.experiments.spec import RunSpec
from jnpl.internal import provenance
from jnpl.pipeline import run_recipe
from jnpl.training.epoch_view import EpochView
from jnpl.training.reporting import Reporter

RESULTS = Path(__file__).parent / "results/pl-plus.jsonl"
RUNS = (
    *((variant, "cifar100") for variant in ("nl-plus", "nl")),
    *((variant, "cifar10") for variant in ("nl-plus", "jnpl", "jnpl-batch", "jnpl-pl30")),
)
TESTED = 2_000


def facts(probs: npt.NDArray[np.floating[Any]], true: Labels) -> dict[str, float | None]:
    """Of predictions (N, C): the share of candidates of PL+, among these of right ones and of the largest class.

    And the number of classes that are predicted at all.

    >>> facts(np.array([[0.9, 0.05, 0.05], [0.8, 0.1, 0.1], [0.1, 0.9, 0.0], [0.5, 0.5, 0.0]]), np.array([0, 1, 1, 0]))
    {'classes': 2, 'candidates': 0.75, 'right': 0.6667, 'largest': 0.6667}
    """
    second = np.sort(probs, axis=1)[:, -2]
    taken = second < 1 / probs.shape[1]
    predicted = probs.argmax(1)[taken]
    shares: dict[str, float | None] = {"classes": len(np.unique(probs.argmax(1)))}
    shares |= {"candidates": round(float(taken.mean()), 4), "right": None, "largest": None}
    if len(predicted):
        largest = np.bincount(predicted).max() / len(predicted)
        shares |= {"right": round(float((predicted == true[taken]).mean()), 4), "largest": round(float(largest), 4)}
    return shares


def run(variant: str, data: str, root: Path | None) -> dict[str, Any]:
    """Train one filter and return its curves."""
    spec = RunSpec(variant=variant, data=data, noise="symm", rate=0.6, seed=1, scale="features", classify=False)
    source = run_data.load(spec, root)
    if source.test is None:
        raise SystemExit("the data have no test set")
    true, curves = run_data.true_labels(source), defaultdict(list)
    wrong = run_data.is_wrong(source)

    def note(view: EpochView) -> None:
        newest = view.ledger.newest()
        own = newest[np.arange(len(true)), source.labels]
        noted = {"accuracy": view.line["test_accuracy"], "p_right": own[~wrong].mean(), "p_wrong": own[wrong].mean()}
        for name, value in {**noted, **facts(newest, true)}.items():
            curves[name].append(None if value is None else round(float(value), 4))

    with tempfile.TemporaryDirectory() as folder:
        run_recipe(
            replace(source, test=run_data.first(source.test, TESTED)),
            spec.recipe(),
            Path(folder) / "run",
            seed=spec.seed,
            strict=False,
            report=Reporter(),
            classify=False,
            observe=note,
        )
    same = {"cell": spec.model_dump(mode="json"), "versions": provenance.versions(), "commit": provenance.commit()}
    return {"name": spec.name, **same, "results": dict(curves)}


def main() -> None:
    """Train the filters, and replace their lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the named data sets")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of results")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for variant, data in RUNS:
        line = run(variant, data, given.data)
        results.add(given.out, line)
        print(line["name"])


if __name__ == "__main__":
    main()
