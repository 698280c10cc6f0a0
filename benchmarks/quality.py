"""How well methods find wrong labels, what their classifiers are worth, and what they cost: the tables of the docs.

    python benchmarks/quality.py --suite decisive --data DIR    # fill results/quality-decisive.jsonl, resumable
    python benchmarks/quality.py --suite decisive --table       # print tables from that file alone
    python benchmarks/quality.py --suite decisive --data DIR --epochs 1 --images 300 --out DIR    # does it run?

A run is a row (a method with its settings), data, a noise and a seed; its line holds every setting. One thread a run.
Seed 0 was used to choose settings: the tables are of seeds 1, 2, 3.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from jnpl.experiments import result_tables as tables
from jnpl.experiments.execute import run_all
from jnpl.experiments.spec import RunSpec
from jnpl.experiments.variants import ABLATIONS, BENCH, CIFAR, CROPS, LONG, NEWER, SECOND_PARTS, TABLE
from jnpl.internal.errors import InputError
from jnpl.training.interrupt import Interrupted

RESULTS = Path(__file__).parent / "results"
SEEDS = (1, 2, 3)

Noises = list[tuple[str, float]]
DECISIVE: Noises = [("symm", 0.2), ("symm", 0.4), ("symm", 0.6), ("symm", 0.8), ("asymm", 0.2), ("asymm", 0.4)]
BREADTH: Noises = [
    ("symm", 0.2),
    ("symm", 0.4),
    ("symm", 0.6),
    ("asymm", 0.2),
    ("asymm", 0.4),
    ("instance", 0.2),
    ("instance", 0.4),
]
NOISES: Noises = [("asymm", 0.1), ("asymm", 0.3), ("instance", 0.2), ("instance", 0.4)]
SMALL_ROWS = ("ce", "cleanlab", "gce", "nlnl", "jnpl-paper", "co-teaching", "fast")
GAP = ("ce-clean", "ce-augmented", "ce-clean-augmented")  # in one setting
ONCE = ("fast-flip", *NEWER, *LONG, *(row for row in CROPS if row not in GAP))  # there too, and with one seed
MARKED = "symm", 0.4
RESNET8: dict[str, Any] = {"pixels": 16, "net": "resnet8", "epochs": 30, "batch_size": 64}  # of CIFAR
BOTH = (
    "ce",
    "fast-filter",
    "fast-ce",
    "fast-full-weights",
    "fast-no-weights",
    "fast-sampled",
    "fast-no-average",
    "fast-history",
    "fast-network",
)


def decisive(seeds: tuple[int, ...]) -> list[RunSpec]:
    """5,000 images at 16 pixels, all rows: a whole table of the first seed before the next begins."""
    same = {**RESNET8, "images": 5_000, "test_images": 10_000}
    settings = [("cifar10", *noise) for noise in DECISIVE] + [("cifar10n", "human", 0.0)]
    return [
        RunSpec(variant=row, data=data, noise=noise, rate=rate, seed=seed, **same)
        for seed in seeds
        for data, noise, rate in settings
        for row in (*TABLE, *CROPS, *NEWER, *LONG)
        if row not in (*GAP, *ONCE) or (noise, rate) == MARKED
        if row not in ONCE or seed == seeds[0]
    ]


def full(seeds: tuple[int, ...]) -> list[RunSpec]:
    """All 50,000 images, three rows, one seed."""
    same = {**RESNET8, "data": "cifar10", "noise": "symm", "rate": 0.4, "epochs": 10}
    return [RunSpec(variant=row, seed=seed, **same) for seed in seeds[:1] for row in ("ce", "nlnl", "fast")]


def breadth(seeds: tuple[int, ...]) -> list[RunSpec]:
    """Small tables of numbers, and a wider network on a few images."""
    tables = [
        RunSpec(variant=row, data=data, noise=noise, rate=rate, net="mlp", epochs=60, batch_size=32, seed=seed)
        for seed in seeds
        for data in ("digits", "wine", "breast-cancer")
        for noise, rate in (*BREADTH, *([("symm", 0.8)] if data == "digits" else []))  # of 3 classes that is no noise
        for row in SMALL_ROWS
    ]
    same: dict[str, Any] = {
        "data": "cifar10",
        "images": 500,
        "pixels": 32,
        "noise": "symm",
        "rate": 0.4,
        "net": "cnn9",
        "epochs": 4,
        "test_images": 500,
    }
    return tables + [RunSpec(variant=row, seed=seed, **same) for seed in seeds[:1] for row in ("ce", "fast")]


def noises(seeds: tuple[int, ...]) -> list[RunSpec]:
    """The noises that are not in the decisive table, on 10,000 images: the rankings alone, one seed."""
    same = {**RESNET8, "data": "cifar10", "images": 10_000, "test_images": 1_000}
    return [
        RunSpec(variant=row, noise=noise, rate=rate, seed=seed, **same)
        for seed in seeds[:1]
        for noise, rate in NOISES
        for row in ("ce", "gce", "fast-filter")
    ]


def ablation(_seeds: tuple[int, ...]) -> list[RunSpec]:
    """What each part of fast is worth: seed 0 and other images than those of the table, no test image; and digits."""
    same = {**RESNET8, "data": "cifar10", "start": 35_000, "images": 5_000, "test_images": 5_000}
    specs = [
        RunSpec(variant=row, noise=noise, rate=0.4, seed=0, **same)
        for noise, rows in (("symm", ("ce", *ABLATIONS, "fast", *SECOND_PARTS)), ("asymm", BOTH))
        for row in rows
    ]
    digits = [
        RunSpec(variant=row, data="digits", noise="symm", rate=0.4, net="mlp", epochs=60, batch_size=64, seed=0)
        for row in ("ce", *ABLATIONS)
        if row != "fast-no-crop"
    ]
    return digits + specs


def cost(_seeds: tuple[int, ...]) -> list[RunSpec]:
    """What a filter costs beside cross-entropy and its cross-validation, one right after the other (--jobs 1)."""
    same = {**RESNET8, "data": "cifar10", "noise": "symm", "rate": 0.4, "images": 5_000, "test_images": 1_000}
    return [RunSpec(variant=row, seed=seed, **same) for seed in (4, 5, 6) for row in ("ce", "fast-filter", "cleanlab")]


SUITES = {
    "decisive": decisive,
    "full": full,
    "cost": cost,
    "noises": noises,
    "breadth": breadth,
    "ablation": ablation,
}


def results_of(suite: str, folder: Path | None = None) -> Path:
    """The file of results of a suite."""
    return (folder or RESULTS) / f"quality-{suite}.jsonl"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=list(SUITES), required=True)
    parser.add_argument("--data", type=Path, help="folder with CIFAR-10's binary version and CIFAR-10N's labels")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--rows", nargs="+", choices=list(BENCH), metavar="ROW", help="only these, such as ce fast")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--work", type=Path, default=Path("runs/quality"), help="logs, and run folders while they run")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for results, tables and plots; default: results/, and no plots",
    )
    parser.add_argument("--epochs", type=int, help="for a quick test; needs --out")
    parser.add_argument("--images", type=int, help="for a quick test; needs --out")
    parser.add_argument("--table", action="store_true", help="only tables and plots from the results")
    args = parser.parse_args()
    changes = {name: value for name in ("epochs", "images") if (value := getattr(args, name)) is not None}
    if min(changes.values(), default=1) < 1:
        parser.error("--epochs and --images take numbers from 1 on")
    if changes and args.out is None:
        parser.error("--epochs and --images change the suite: name another folder for its results with --out DIR")
    if not args.table and (args.data is None or not (args.data / "cifar-10-batches-bin").is_dir()):
        parser.error(f"--data is the folder that holds cifar-10-batches-bin, got {args.data}")
    results = results_of(args.suite, args.out)
    failed: dict[str, str] = {}
    try:
        if not args.table:
            failed = _fill(args, results, changes)
        print(tables.markdown(tables.load(results)) if args.out is None else tables.write(results, args.out))
    except InputError as error:
        parser.error(str(error))
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        return stop.code
    return 1 if failed else 0


def _fill(args: argparse.Namespace, results: Path, changes: dict[str, int]) -> dict[str, str]:
    """Run the runs that have no result yet; returns those that failed with the reason."""
    specs = [
        _shrunk(spec, changes)
        for spec in SUITES[args.suite](tuple(args.seeds))
        if args.rows is None or spec.variant in args.rows
    ]
    return run_all(specs, results, args.work / args.suite, args.jobs, args.data, partial(print, flush=True))


def _shrunk(spec: RunSpec, changes: dict[str, int]) -> RunSpec:
    """Fewer epochs, fewer images; tables of numbers are small as they are."""
    few = {name: value for name, value in changes.items() if name != "images" or spec.data in CIFAR}
    return RunSpec.model_validate({**spec.model_dump(), **few})


if __name__ == "__main__":
    sys.exit(main())
