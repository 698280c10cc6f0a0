"""All methods on scikit-learn's digits with 40 % symmetric noise: does each do what it is for?

    python benchmarks/digits.py [--seeds 3] [--methods NAME ...]     # results/digits.jsonl, about 4 minutes

1,400 images of 8 x 8 as vectors, an MLP, 40 % of the labels wrong: cross-entropy memorises them within 60 epochs.
tests/integration/test_methods.py holds every method to these settings.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from jnpl import noise
from jnpl.data.opening import open_source
from jnpl.experiments import results
from jnpl.experiments.result_tables import markdown_table
from jnpl.methods.registry import METHODS
from jnpl.recipes.schema import Recipe, parse_recipe
from jnpl.training.reporting import Reporter
from jnpl.training.run import CheckpointInterval, find

RESULTS = Path(__file__).parent / "results" / "digits.jsonl"
RATE = 0.4

PLAN = {"epochs": 60, "lr": 0.05, "schedule": "cosine"}
HIGH = {"lr": 0.05, "schedule": "constant"}
ADAM = {"epochs": 60, "optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "co-teaching": {"train": ADAM, "method": {"noise_rate": "oracle"}},
    "jocor": {"train": ADAM, "method": {"noise_rate": "oracle"}},
    "nlnl": {"method": {"complements": "exhaustive"}},
    "jnpl": {"method": {"complements": "exhaustive"}},
    "forward": {"stages": {"ce": {"epochs": 10}}},
    "limit": {"train": ADAM, "method": {"beta": 10.0}},
    "joint-optim": {"stages": {"labels": {"epochs": 40, **HIGH}}},
    "mlnt": {
        "method": {"iterations": 2, "label_sets": 3, "inner_lr": 0.2, "warm_up_steps": 22, "ramp_steps": 110},
        "stages": {"ce": {"epochs": 10}, "mlnt-1": {"epochs": 20}, "mlnt-2": {"epochs": 20}},
    },
    "pencil": {
        "method": {"label_lr": 3000.0},
        "stages": {"ce": {"epochs": 10, **HIGH}, "labels": {"epochs": 40, **HIGH}, "classify": {"epochs": 20}},
    },
}
VARIANTS: dict[str, dict[str, Any]] = {
    "gce-truncated": {"method": {"name": "gce", "truncated": True, "prune_from": 24, "prune_every": 6}},
    "forward-oracle": {"method": {"name": "forward", "matrix": "oracle"}},
    "m-correction-sh": {
        "method": {"name": "m-correction", "variant": "MD-DYR-SH", "dynamic_epochs": 4, "temperature_epochs": 35},
    },
    "limit-l": {"train": ADAM, "method": {"name": "limit", "kind": "L", "beta": 10.0}},
    "limit-beta0": {"train": ADAM, "method": {"name": "limit"}},
    "nl-plus": {"method": {"name": "jnpl", "complements": "exhaustive", "pl_weight": 0.0}},
    "nl": {"method": {"name": "jnpl", "complements": "exhaustive", "pl_weight": 0.0, "gamma": 0.0}},
}


def recipe_of(name: str) -> Recipe:
    """A method's settings as a recipe."""
    own = VARIANTS.get(name) or SETTINGS.get(name, {})
    return parse_recipe(
        {
            "model": "mlp",
            "train": own.get("train", PLAN),
            "stages": own.get("stages", {}),
            "method": {"name": name, **own.get("method", {})},
            "engine": {"accelerator": "cpu", "workers": 0},
        }
    )


def run(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train one method on one seed; `jnpl` and `nlnl` with their pseudo-labels."""
    torch.set_num_threads(1)
    source = open_source("digits")
    source = replace(source, labels=noise.symmetric(source.labels, RATE, 10, seed=seed))
    result = find(
        source,
        recipe_of(name),
        folder,
        seed=seed,
        every=CheckpointInterval(),
        strict=False,
        report=Reporter(),
        classify=True,
    )
    if result is None:
        raise RuntimeError("only the first of several processes has results")
    return result.results


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    rows = [*METHODS, *VARIANTS]
    parser.add_argument("--methods", nargs="*", choices=rows, default=rows)
    args = parser.parse_args()
    lines: list[dict[str, Any]] = []
    table = [["method", "accuracy", "worst seed", "best epoch", "AP", "worst seed"]]
    for name in args.methods:
        settings = recipe_of(name).model_dump(mode="json", exclude={"engine"})
        facts = {"rate": RATE, "versions": {"torch": torch.__version__}, "settings": settings}
        with tempfile.TemporaryDirectory() as work:
            runs = [run(name, seed, Path(work) / str(seed)) for seed in range(args.seeds)]
        for seed, figures in enumerate(runs):
            kept = {key: figures[key] for key in ("test_accuracy", "best_test_accuracy", "ap")}
            lines.append({"name": f"{name}-{seed}", "method": name, "seed": seed, **facts, "results": kept})
        accuracy, best, ap = ([each[key] for each in runs] for key in kept)
        shown = (statistics.mean(accuracy), min(accuracy), statistics.mean(best), statistics.mean(ap), min(ap))
        table.append([name, *(f"{value:.3f}" for value in shown)])
    print(markdown_table(table))
    if set(args.methods) == set(rows):
        results.add(RESULTS, *lines)


if __name__ == "__main__":
    main()
