"""All methods on 10,000 real CIFAR-10 images with 40 % wrong labels: last-epoch accuracy, filter AP, cost of an epoch.

    python benchmarks/rivals.py --data DIR            # fill results/rivals.jsonl, resumable; write docs/rivals.md
    python benchmarks/rivals.py --data DIR --cost     # seconds of an epoch, side by side, in results/rivals-cost.jsonl
    python benchmarks/rivals.py --table               # docs/rivals.md from the results alone

Scale, the same for all: the first 10,000 training images at 16 pixels (2 x 2 means), resnet8, the first 5,000 test
images, batches of 128, one thread a cell. A cell is a method, a noise and a seed; its line holds every setting.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from jnpl import __version__, noise
from jnpl.data.source import InMemory, Source
from jnpl.data.sources import cifar
from jnpl.experiments import results
from jnpl.findings.ledger import Ledger
from jnpl.methods import registry
from jnpl.methods.base import Task
from jnpl.methods.registry import METHODS
from jnpl.models.build import build
from jnpl.recipes.schema import Recipe, parse_recipe
from jnpl.training.evaluation import TrainingSet
from jnpl.training.feeds import make_feeds
from jnpl.training.learner import Learner
from jnpl.training.loop import LoopCallback, Position, train
from jnpl.training.processes import make_fabric
from jnpl.training.records import SampleRecords
from jnpl.training.reporting import Reporter
from jnpl.training.run import CheckpointInterval, find

if TYPE_CHECKING:
    from jnpl.methods.base import Method

HERE = Path(__file__).parent
RESULTS, COST, PAGE = HERE / "results/rivals.jsonl", HERE / "results/rivals-cost.jsonl", HERE.parent / "docs/rivals.md"
DIGITS = HERE / "results/digits.jsonl"
NOISES = ("symm", "asymm")
RATE, IMAGES, TEST = 0.4, 10_000, 5_000

PLAN = {"epochs": 30, "lr": 0.1, "schedule": "cosine"}  # SGD, momentum 0.9, weight decay 1e-4
ROBUST = {**PLAN, "lr": 0.01}  # their papers' rate
HIGH = {"lr": 0.05, "schedule": "constant"}  # label-correcting methods hold the rate high
ADAM = {**PLAN, "optimizer": "adam", "lr": 1e-3, "weight_decay": 0.0}
SETTINGS: dict[str, dict[str, Any]] = {
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
ONE_NETWORK = ("mae", "gce", "sce", "nce-rce", "nfl-rce", "jnpl")  # at most 1.05 times the epoch of ce
TWO_NETWORKS = ("co-teaching", "jocor")  # at most 2.1 times
LIMITS = dict.fromkeys(ONE_NETWORK, 1.05) | dict.fromkeys(TWO_NETWORKS, 2.1)


def recipe_of(name: str) -> Recipe:
    """The settings of a row as a recipe."""
    own = SETTINGS[name]
    method = {"name": name, **own.get("method", {})}
    plan = own.get("train", PLAN)
    return parse_recipe(
        {
            "model": "resnet8",
            "train": plan,
            "stages": own.get("stages", {}),
            "method": method,
            "pseudo": own.get("pseudo"),
            "data": {"padding": 2},
            "engine": {"accelerator": "cpu", "workers": 0},
        }
    )


def data_of(root: Path, kind: str, seed: int) -> Source:
    """CIFAR-10 at 16 pixels with wrong labels; true labels travel beside them."""
    whole = cifar.load("cifar10", root, download=False)
    if whole.test is None:
        raise SystemExit("CIFAR-10 without its test set")
    train_part, test_part = _smaller(whole, IMAGES), _smaller(whole.test, TEST)
    if kind == "symm":
        given = noise.symmetric(train_part.labels, RATE, 10, seed=seed)
    else:
        given = noise.asymmetric(train_part.labels, RATE, "cifar10", seed=seed)
    return replace(train_part, name=f"cifar10-16px+{kind}40", labels=given, test=test_part)


def _commit() -> str:
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _smaller(source: Source, count: int) -> Source:
    if not isinstance(source.inputs, InMemory):
        raise TypeError("CIFAR-10 is an array")
    pixels = source.inputs.values[:count].reshape(count, 16, 2, 16, 2, 3).mean((2, 4)).round().astype("uint8")
    labels = source.labels[:count]
    return replace(
        source, inputs=InMemory(pixels), labels=labels, true_labels=labels.copy(), ids=source.ids[:count], test=None
    )


def run_cell(root: Path, name: str, kind: str, seed: int, work: Path) -> None:
    """Train one cell, where a killed one stopped, and write its line."""
    torch.set_num_threads(1)
    recipe, folder = recipe_of(name), work / f"{name}-{kind}-{seed}"
    result = find(
        data_of(root, kind, seed),
        recipe,
        folder,
        seed=seed,
        every=CheckpointInterval(seconds=60),
        strict=False,
        report=Reporter(),
        classify=True,
    )
    if result is None:
        return
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    late = [line["test_accuracy"] for line in lines[-10:]]
    told = {key: value for key, value in result.results.items() if key != "run"} | {
        "last_10_accuracy": statistics.mean(late)
    }
    settings = recipe.model_dump(mode="json", exclude={"engine", "description"})
    facts = {
        "name": f"{name}-{kind}-{seed}",
        "method": name,
        "noise": kind,
        "rate": RATE,
        "seed": seed,
        "images": IMAGES,
        "pixels": 16,
        "test_images": TEST,
        "versions": {"jnpl": __version__, "torch": torch.__version__},
        "commit": _commit(),
        "settings": settings,
        "results": told,
    }
    results.add(RESULTS, facts)


def run_all(args: argparse.Namespace) -> None:
    """All cells that have no line yet, `--jobs` at a time; one that fails is told and does not stop the others."""
    names = sorted(args.methods or SETTINGS, key=lambda name: name not in METHODS)  # variants come last
    cells = [
        (name, kind, seed)
        for seed in range(args.seeds)
        for name in names
        for kind in NOISES
        if not results.contains(RESULTS, f"{name}-{kind}-{seed}")
    ]
    args.work.mkdir(parents=True, exist_ok=True)
    running: dict[subprocess.Popen[bytes], str] = {}
    while cells or running:
        while cells and len(running) < args.jobs:
            name, kind, seed = cells.pop(0)
            cell = f"{name}-{kind}-{seed}"
            command = [
                sys.executable,
                __file__,
                "--data",
                str(args.data),
                "--work",
                str(args.work),
                "--cell",
                name,
                kind,
                str(seed),
            ]
            with (args.work / f"{cell}.log").open("ab") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
            running[process] = cell
        time.sleep(1)
        for process in [process for process in running if process.poll() is not None]:
            cell = running.pop(process)
            print(f"{cell}: {'done' if process.returncode == 0 else f'FAILED, see {args.work / cell}.log'}", flush=True)


class Timed(LoopCallback):
    """Lets the method look around before an epoch, as a run does."""

    def __init__(self, method: Method, look: TrainingSet) -> None:
        self.method, self.look = method, look

    def before_epoch(self) -> None:
        """Part of the method's cost."""
        self.method.begin_epoch(self.look)


def cost(root: Path, rounds: int, names: list[str]) -> None:
    """Seconds of an epoch of 2,560 images in a method's main stage, methods in turn, `rounds` times.

    Some methods alone (beside cross-entropy) leave what is known of the others.
    """
    names = ["ce", *(name for name in names if name != "ce")]  # ce beside itself shows what the measure is worth
    torch.set_num_threads(1)
    whole = data_of(root, "symm", 0)
    if not isinstance(whole.inputs, InMemory):
        raise TypeError("CIFAR-10 is an array")
    few = replace(
        whole,
        inputs=InMemory(whole.inputs.values[:2560]),
        labels=whole.labels[:2560],
        ids=whole.ids[:2560],
        true_labels=None,
        test=None,
    )
    epochs = {name: _epoch(few, name) for name in names}
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number in range(rounds + 1):  # the first warms up
        for name in names:  # each beside cross-entropy, now before it and now after: the machine's moods hit both
            own, ce = (0.0, 0.0)
            if number % 2:
                ce = epochs["ce"]()
            own = epochs[name]()
            if not number % 2:
                ce = epochs["ce"]()
            if number:
                pairs[name].append((own, ce))
    ratios = {name: statistics.median(own / ce for own, ce in pairs[name]) for name in names}
    facts: dict[str, Any] = {"images": 2560, "pixels": 16, "rounds": rounds}
    facts |= {"versions": {"torch": torch.__version__}, "commit": _commit()}
    measured = {name: {"ratio": ratio, "seconds": pairs[name]} for name, ratio in ratios.items()}
    results.add(COST, *({"name": name, **facts, "results": each} for name, each in measured.items()))
    for name, ratio in ratios.items():
        limit = f"  (limit: {LIMITS[name]}, {'met' if ratio <= LIMITS[name] else 'missed'})" if name in LIMITS else ""
        print(f"{name:16} {ratio:6.2f} x CE{limit}")


def _epoch(source: Source, name: str) -> Any:
    """A function that trains an epoch and says how long it took."""
    recipe = recipe_of(name)
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
    books = SampleRecords.make(Ledger(len(source), 10))
    feed = replace(feeds.train, group_size=method.group_size)
    look = TrainingSet(feed, books.ledger, fabric)
    # Half-way through its stage a method does what it is for.
    method.epochs = plan.epochs
    if isinstance(counter := getattr(method, "iteration", None), torch.Tensor):
        counter.fill_(1_000_000)  # past MLNT's warm-up
    state = {"epoch": plan.epochs // 2}

    def epoch() -> float:
        start = time.perf_counter()
        method.epoch = state["epoch"]
        one = plan.model_copy(update={"epochs": state["epoch"] + 1})
        if not books.ledger.seen.any():  # some look back: there must be something to see
            every = torch.arange(len(source))
            books.ledger.record(every, torch.full((len(source), 10), 0.1), 0)
        train(
            learner.wrapped,
            learner.wrapped_optimizer,
            feed,
            books,
            one,
            fabric,
            Position(epoch=state["epoch"]),
            Timed(method, look),
        )
        state["epoch"] += 1
        return time.perf_counter() - start

    return epoch


def page() -> str:
    """docs/rivals.md from the results."""
    cells = list(results.read(RESULTS).values())
    ratios = {name: line["results"]["ratio"] for name, line in results.read(COST).items()}
    rows = []
    for name in SETTINGS:
        texts = []
        for kind in NOISES:
            own = [cell["results"] for cell in cells if (cell["method"], cell["noise"]) == (name, kind)]
            texts += [_spread([result[key] for result in own]) for key in ("test_accuracy", "best_test_accuracy", "ap")]
        epochs = [cell["results"]["epochs"] for cell in cells if cell["method"] == name]
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
    for line in results.read(DIGITS).values():
        for key, value in line["results"].items():
            digits[line["method"]][key].append(value)
    small = [
        [name, *(_spread(own[key]) for key in ("test_accuracy", "best_test_accuracy", "ap")), f"{min(own['ap']):.3f}"]
        for name, own in digits.items()
    ]
    text = (PAGE.parent / "templates/rivals.md").read_text("utf-8")
    text = text.replace("{table}", _table([head, *rows]))
    text = text.replace("{digits}", _table([["method", "accuracy", "(best epoch)", "AP", "AP, worst seed"], *small]))
    seeds = sorted({cell["seed"] for cell in cells})
    return text.replace("{seeds}", ", ".join(map(str, seeds)))


def _table(rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]])


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    mean = f"{statistics.mean(values):.3f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.3f}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with CIFAR-10's binary version")
    parser.add_argument("--work", type=Path, default=Path("runs/rivals"), help="run folders and logs")
    parser.add_argument("--jobs", type=int, default=2, help="cells at a time")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--methods", nargs="*", choices=list(SETTINGS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cost", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--cell", nargs=3)
    args = parser.parse_args()
    if args.table:
        PAGE.write_text(page(), "utf-8")
        return
    if args.data is None:
        parser.error("--data DIR: where CIFAR-10's binary version lies")
    if args.cell:
        run_cell(args.data, args.cell[0], args.cell[1], int(args.cell[2]), args.work)
    elif args.cost:
        cost(args.data, args.rounds, args.methods or list(SETTINGS))
    else:
        run_all(args)
        PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
