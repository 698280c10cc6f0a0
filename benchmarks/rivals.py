"""All methods with 40 % wrong labels, on CIFAR-10 and on digits: last-epoch accuracy, filter AP, cost of an epoch.

    python benchmarks/rivals.py --data DIR            # fill results/rivals.jsonl, resumable; write the page
    python benchmarks/rivals.py --digits              # fill results/digits.jsonl, about 5 minutes; write the page
    python benchmarks/rivals.py --data DIR --cost     # seconds of an epoch, side by side, in results/rivals-cost.jsonl
    python benchmarks/rivals.py --table               # docs/results/rivals.md from the results alone

CIFAR-10: the first 10,000 training images at 16 pixels (2 x 2 means), resnet8, the first 5,000 test images. Digits:
1,400 images of 8 x 8 as vectors, an MLP: cross-entropy memorises them within 60 epochs. Batches of 128, one thread a
run. A run is a method, a noise and a seed; its line holds every setting. tests/integration/test_methods.py holds
every method to the settings for digits.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from jnpl import __version__, noise
from jnpl.data import split
from jnpl.data.opening import open_source
from jnpl.data.source import Source
from jnpl.experiments import results, run_data
from jnpl.experiments.execute import run_all
from jnpl.experiments.process import RESULT
from jnpl.experiments.result_tables import markdown_table, spread
from jnpl.experiments.spec import RunSpec
from jnpl.internal import provenance
from jnpl.internal.files import write_text
from jnpl.internal.settings import Settings
from jnpl.judging.ledger import Ledger
from jnpl.methods import registry
from jnpl.methods.base import Method, Task
from jnpl.methods.registry import METHODS
from jnpl.models.build import build
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.schema import Recipe, parse_recipe
from jnpl.training.evaluation import TrainingSet
from jnpl.training.feeds import make_feeds
from jnpl.training.interrupt import Interrupted
from jnpl.training.learner import Learner
from jnpl.training.loop import LoopCallback, Position, train
from jnpl.training.processes import make_fabric
from jnpl.training.records import SampleRecords
from jnpl.training.reporting import Reporter

HERE = Path(__file__).parent
COST, PAGE = HERE / "results/rivals-cost.jsonl", HERE.parent / "docs/results/rivals.md"
NOISES: tuple[Literal["symm", "asymm"], ...] = ("symm", "asymm")
RATE, IMAGES, TEST = 0.4, 10_000, 5_000

PLAN = {"epochs": 30, "lr": 0.1, "schedule": "cosine"}  # SGD, momentum 0.9, weight decay 1e-4
ROBUST = {**PLAN, "lr": 0.01}  # their papers' rate
HIGH = {"lr": 0.05, "schedule": "constant"}  # label-correcting methods hold the rate high
ADAM = {**PLAN, "optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0}
CIFAR: dict[str, dict[str, Any]] = {
    "ce": {},
    "mae": {},
    "gce": {"train": ROBUST},
    "gce-truncated": {
        "train": ROBUST,
        "method": {"name": "gce", "truncated": True, "prune_from": 12, "prune_every": 3},
    },
    "sce": {"train": ROBUST},
    "nce-rce": {"train": {**ROBUST, "clip_norm": 5.0}},
    "nfl-rce": {"train": {**ROBUST, "clip_norm": 5.0}},
    "co-teaching": {"train": ADAM, "method": {"noise_rate": "oracle", "ramp_epochs": 5}},
    "jocor": {"train": ADAM, "method": {"noise_rate": "oracle", "ramp_epochs": 5}},
    "nlnl": {
        "method": {"complements": "exhaustive"},
        "stages": {"nl": {"epochs": 20}, "selnl": {"epochs": 10, "lr": 0.05}, "selpl": {"epochs": 10, "lr": 0.02}},
        "pseudo": {"train": {**PLAN, "epochs": 15}},  # two steps: as many epochs as the one of jnpl
    },
    "jnpl": {
        "method": {
            "complements": "exhaustive",
            "class_weight": "nlnl",
            "gamma_rise": [0.25, 1.0],
            "pl_start": 0.67,
        },
    },
    "forward": {"stages": {"ce": {"epochs": 10}}},
    "forward-oracle": {"method": {"name": "forward", "matrix": "oracle"}},
    "m-correction": {"method": {"bootstrap_from": 10}},
    "m-correction-sh": {
        "method": {
            "name": "m-correction",
            "variant": "MD-DYR-SH",
            "bootstrap_from": 10,
            "dynamic_epochs": 3,
            "temperature_epochs": 15,
        },
    },
    "limit": {"train": ADAM, "method": {"beta": 10.0}},
    "limit-l": {"train": ADAM, "method": {"name": "limit", "kind": "L", "beta": 10.0}},
    "joint-optim": {"stages": {"labels": {"epochs": 20, **HIGH}}},
    "metacleaner": {},
    "mlnt": {
        "method": {
            "iterations": 2,
            "label_sets": 1,
            "inner_lr": 0.2,
            "warm_up_steps": 158,
            "ramp_steps": 395,
            "meta_weight": 0.4,
        },
        "stages": {"ce": {"epochs": 8}, "mlnt-1": {"epochs": 11}, "mlnt-2": {"epochs": 11}},  # 30 in all
    },
    "pencil": {
        "method": {"label_lr": 5000.0},
        "stages": {"ce": {"epochs": 8, **HIGH}, "labels": {"epochs": 15, **HIGH}, "classify": {"epochs": 10}},
    },
}
CORES = {"lr": 0.1, "momentum": 0.0, "weight_decay": 0.0, "schedule": "step"}  # the authors'
DIGITS_PLAN = {"epochs": 60, "lr": 0.05, "schedule": "cosine"}
DIGITS_ADAM = {"epochs": 60, "optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0}
DIGITS: dict[str, dict[str, Any]] = {
    **{name: {} for name in METHODS},
    "co-teaching": {"train": DIGITS_ADAM, "method": {"noise_rate": "oracle"}},
    "jocor": {"train": DIGITS_ADAM, "method": {"noise_rate": "oracle"}},
    "nlnl": {"method": {"complements": "exhaustive"}},
    "jnpl": {"method": {"complements": "exhaustive"}},
    "jnpl-stable": {"method": {"complements": "exhaustive", "pl_weight": 0.09}},  # the paper's 0.01 beside one of nine
    "refined-nl": {"train": {**DIGITS_PLAN, "epochs": 40}, "stages": {"refine": {"epochs": 20}}},
    "forward": {"stages": {"ce": {"epochs": 10}}},
    "limit": {"train": DIGITS_ADAM, "method": {"beta": 10.0}},
    "joint-optim": {"stages": {"labels": {"epochs": 40, **HIGH}}},
    "mlnt": {
        "method": {"iterations": 2, "label_sets": 3, "inner_lr": 0.2, "warm_up_steps": 22, "ramp_steps": 110},
        "stages": {"ce": {"epochs": 10}, "mlnt-1": {"epochs": 20}, "mlnt-2": {"epochs": 20}},
    },
    "pencil": {
        "method": {"label_lr": 3000.0},
        "stages": {"ce": {"epochs": 10, **HIGH}, "labels": {"epochs": 40, **HIGH}, "classify": {"epochs": 20}},
    },
    "co-teaching-plus": {"train": DIGITS_ADAM, "method": {"noise_rate": "oracle"}},
    "cores2": {"train": {"epochs": 60, **CORES, "milestones": [30]}},
    "elr-plus": {"method": {"average_steps": 330}},  # half of the training
    "sop": {"method": {"lr_u": 40.0, "lr_v": 40.0}},  # u and v have 60 steps in place of 300
    "sop-plus": {"method": {"lr_u": 40.0, "lr_v": 40.0}},
    "gce-truncated": {"method": {"name": "gce", "truncated": True, "prune_from": 24, "prune_every": 6}},
    "forward-oracle": {"method": {"name": "forward", "matrix": "oracle"}},
    "m-correction-sh": {
        "method": {"name": "m-correction", "variant": "MD-DYR-SH", "dynamic_epochs": 4, "temperature_epochs": 35},
    },
    "limit-l": {"train": DIGITS_ADAM, "method": {"name": "limit", "kind": "L", "beta": 10.0}},
    "limit-beta0": {"train": DIGITS_ADAM, "method": {"name": "limit"}},
    "nl-plus": {"method": {"name": "jnpl", "complements": "exhaustive", "pl_weight": 0.0}},
    "nl": {"method": {"name": "jnpl", "complements": "exhaustive", "pl_weight": 0.0, "gamma": 0.0}},
}
ONE_NETWORK = ("mae", "gce", "sce", "nce-rce", "nfl-rce", "jnpl")  # at most 1.05 times the epoch of ce
TWO_NETWORKS = ("co-teaching", "jocor")  # at most 2.1 times
LIMITS = dict.fromkeys(ONE_NETWORK, 1.05) | dict.fromkeys(TWO_NETWORKS, 2.1)
SETTINGS = {"cifar10": CIFAR, "digits": DIGITS}
FILES = {"cifar10": HERE / "results/rivals.jsonl", "digits": HERE / "results/digits.jsonl"}


class RivalRun(Settings):
    """A method on one data set with 40 % wrong labels. Its name has no hash: all settings are in its line."""

    method: str
    data: Literal["cifar10", "digits"] = "cifar10"
    noise: Literal["symm", "asymm"] = "symm"
    seed: int = 0

    @property
    def name(self) -> str:
        """The name of its line."""
        return f"{self.method}-{self.noise}-{self.seed}" if self.data == "cifar10" else f"{self.method}-{self.seed}"

    def recipe(self) -> Recipe:
        """All settings of its training."""
        own, images = SETTINGS[self.data][self.method], self.data == "cifar10"
        return parse_recipe(
            {
                "model": "resnet8" if images else "mlp",
                "train": PLAN if images else DIGITS_PLAN,
                "data": {"padding": 2} if images else {},
                "engine": {"accelerator": "cpu", "workers": 0},
                **own,
                "method": {"name": self.method, **own.get("method", {})},
            }
        )

    def source(self, root: Path | None) -> Source:
        """Its data: of digits one split for all seeds."""
        if self.data == "digits":
            whole = open_source("digits")
            return replace(whole, labels=noise.symmetric(whole.labels, RATE, 10, seed=self.seed))
        size: dict[str, Any] = {"images": IMAGES, "test_images": TEST, "pixels": 16}
        same: dict[str, Any] = {"data": self.data, "noise": self.noise, "rate": RATE, "seed": self.seed}
        return run_data.load(RunSpec(variant="ce", **same, **size), root)


def train_run(spec: RivalRun, root: Path | None, folder: Path) -> dict[str, Any]:
    """Train one run, or resume it if it was killed; returns its line of the file of results.

    `jnpl` and `nlnl` go on with their pseudo-labels.
    """
    torch.set_num_threads(1)
    recipe, source, every = spec.recipe(), spec.source(root), CheckpointInterval(seconds=60)
    run = run_recipe(
        source, recipe, folder, seed=spec.seed, every=every, strict=False, report=Reporter(), classify=True
    )
    if run is None or source.test is None:
        raise RuntimeError("only the first of several processes has results, and only with test data")
    figures = {key: value for key, value in run.results.items() if key != "run"}
    last_10 = statistics.mean(line["test_accuracy"] for line in run.history[-10:])
    return {
        **spec.model_dump(),
        "name": spec.name,
        "rate": RATE,
        "images": len(source),
        "test_images": len(source.test),
        "pixels": 16 if spec.data == "cifar10" else None,
        "versions": {"jnpl": __version__, "torch": torch.__version__},
        "commit": provenance.commit(),
        "settings": recipe.model_dump(mode="json", exclude={"engine", "description"}),
        "results": {**figures, "last_10_accuracy": last_10},
    }


def fill(data: Literal["cifar10", "digits"], args: argparse.Namespace) -> dict[str, str]:
    """Run all runs of a data set that have no line yet; returns those that failed with the reason."""
    names = sorted(args.methods or SETTINGS[data], key=lambda name: name not in METHODS)  # variants come last
    specs = [
        RivalRun(method=name, data=data, noise=kind, seed=seed)
        for seed in range(args.seeds or (1 if data == "cifar10" else 3))
        for name in names
        for kind in (NOISES if data == "cifar10" else NOISES[:1])
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    return run_all(specs, FILES[data], args.work / data, args.jobs, args.data_root, module="rivals")


class BeginEpoch(LoopCallback):
    """Lets the method prepare for an epoch, as a run does: part of its cost."""

    def __init__(self, method: Method, training_set: TrainingSet) -> None:
        self.method, self.training_set = method, training_set

    def before_epoch(self) -> None:
        """Called by the loop."""
        self.method.begin_epoch(self.training_set)


def cost(root: Path, rounds: int, names: list[str]) -> None:
    """Seconds of an epoch of 2,560 images in a method's main stage, methods in turn, `rounds` times.

    The results of methods that are not in `names` are kept.
    """
    names = ["ce", *(name for name in names if name != "ce")]  # ce beside itself shows how precise the ratios are
    torch.set_num_threads(1)
    few = replace(split.part(RivalRun(method="ce").source(root), np.arange(2560)), true_labels=None, test=None)
    epochs = {name: _epoch(few, name) for name in names}
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number in range(rounds + 1):  # the first warms up
        for name in names:  # each just before or just after cross-entropy: a busy machine slows both
            order = ("ce", name) if number % 2 else (name, "ce")
            first, second = (epochs[each]() for each in order)
            if number:
                pairs[name].append((second, first) if number % 2 else (first, second))
    ratios = {name: statistics.median(own / ce for own, ce in pairs[name]) for name in names}
    facts: dict[str, Any] = {"images": 2560, "pixels": 16, "rounds": rounds}
    facts |= {"versions": {"torch": torch.__version__}, "commit": provenance.commit()}
    measured = {name: {"ratio": ratio, "seconds": pairs[name]} for name, ratio in ratios.items()}
    results.add(COST, *({"name": name, **facts, "results": each} for name, each in measured.items()))
    for name, ratio in ratios.items():
        limit = f"  (limit: {LIMITS[name]}, {'met' if ratio <= LIMITS[name] else 'missed'})" if name in LIMITS else ""
        print(f"{name:16} {ratio:6.2f} x CE{limit}")


def _epoch(source: Source, name: str) -> Any:
    """Return a function that trains an epoch and returns its seconds."""
    recipe = RivalRun(method=name).recipe()
    fabric = make_fabric(recipe.engine)
    feeds = make_feeds(source, recipe, fabric, 0, print, strict=False)

    def network(number: int) -> torch.nn.Module:
        net = build("resnet8", num_classes=10, input_shape=feeds.shape, seed=number)
        return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    method = registry.make(
        Task(network, torch.from_numpy(source.labels), 10, noise_rate=RATE, transition=torch.eye(10)), recipe.method
    )
    method.stage = min(1, len(method.stages) - 1)
    plan = recipe.plan(method.stages[method.stage].name)
    learner = Learner(method, plan, fabric)
    records = SampleRecords(Ledger(len(source), 10))
    feed = replace(feeds.train, group_size=method.group_size)
    training_set = TrainingSet(feed, records.ledger, fabric)
    # Half-way through its stage, warm-ups are over.
    method.epochs = plan.epochs
    if isinstance(counter := getattr(method, "iteration", None), torch.Tensor):
        counter.fill_(1_000_000)  # past MLNT's warm-up
    state = {"epoch": plan.epochs // 2}

    def epoch() -> float:
        start = time.perf_counter()
        method.epoch = state["epoch"]
        one = plan.model_copy(update={"epochs": state["epoch"] + 1})
        if not records.ledger.seen.any():  # some methods use recorded predictions
            every = torch.arange(len(source))
            records.ledger.record(every, torch.full((len(source), 10), 0.1), 0)
        train(
            learner.wrapped,
            learner.wrapped_optimizer,
            feed,
            records,
            one,
            fabric,
            Position(epoch=state["epoch"]),
            BeginEpoch(method, training_set),
        )
        state["epoch"] += 1
        return time.perf_counter() - start

    return epoch


def page() -> str:
    """docs/results/rivals.md from the results."""
    specs = list(results.read(FILES["cifar10"]).values())
    ratios = {name: line["results"]["ratio"] for name, line in results.read(COST).items()}
    rows = []
    for name in CIFAR:
        texts = []
        for kind in NOISES:
            own = [spec["results"] for spec in specs if (spec["method"], spec["noise"]) == (name, kind)]
            texts += [spread([result[key] for result in own]) for key in ("test_accuracy", "best_test_accuracy", "ap")]
        epochs = [spec["results"]["epochs"] for spec in specs if spec["method"] == name]
        if epochs:
            rows.append([name, *texts, str(epochs[0]), f"{ratios[name]:.2f}" if name in ratios else "-"])
    head = [
        "method",
        "symm: accuracy",
        "(best epoch)",
        "AP",
        "asymm: accuracy",
        "(best epoch)",
        "AP",
        "epochs",
        "time per epoch / CE's",
    ]
    digits: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in results.read(FILES["digits"]).values():
        for key, value in line["results"].items():
            digits[line["method"]][key].append(value)
    small = [
        [name, *(spread(own[key]) for key in ("test_accuracy", "best_test_accuracy", "ap")), f"{min(own['ap']):.3f}"]
        for name, own in digits.items()
    ]
    text = (PAGE.parents[1] / "templates/results/rivals.md").read_text("utf-8")
    text = text.replace("{table}", markdown_table([head, *rows]))
    text = text.replace(
        "{digits}", markdown_table([["method", "accuracy", "(best epoch)", "AP", "AP, worst seed"], *small])
    )
    seeds = sorted({spec["seed"] for spec in specs})
    return text.replace("{seeds}", ", ".join(map(str, seeds)))


def main() -> int:
    """Command line; with a run's JSON, as the experiment calls it, it runs that run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", type=Path, nargs="?", help="JSON of one run to train; jnpl.experiments uses this")
    parser.add_argument(
        "--data", "--data-root", dest="data_root", type=Path, help="folder with CIFAR-10's binary version"
    )
    parser.add_argument("--work", type=Path, default=Path("runs/rivals"), help="run folders and logs")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--seeds", type=int, help="default: 1, on digits 3")
    parser.add_argument("--methods", nargs="*", choices=[*CIFAR, *(name for name in DIGITS if name not in CIFAR)])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--digits", action="store_true")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    if args.table:
        PAGE.write_text(page(), "utf-8")
        return 0
    if args.data_root is None and not (args.digits or args.settings):
        parser.error("--data DIR is needed: the folder with CIFAR-10's binary version")
    failed: dict[str, str] = {}
    try:
        if args.settings:
            spec = RivalRun.model_validate_json(args.settings.read_text("utf-8"))
            line = train_run(spec, args.data_root, args.settings.parent / "run")
            write_text(args.settings.parent / RESULT, json.dumps(line) + "\n")
        elif args.cost:
            cost(args.data_root, args.rounds, args.methods or list(CIFAR))
        else:
            failed = fill("digits" if args.digits else "cifar10", args)
            PAGE.write_text(page(), "utf-8")
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        return stop.code
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
