"""A whole training epoch against the bare limit, and JNPL's against cross-entropy's, on CIFAR-10 with resnet8.

    python benchmarks/step.py --data FOLDER_WITH_CIFAR10 [--images 2560] [--rounds 7] [--threads 1] [--json FILE]

The limit is forward, cross-entropy, backward and optimiser step on one batch that never changes; the epoch adds data,
augmentation, the JNPL loss, the ledger and the loop. Rivals take turns within every round, so that a busy machine hits
them alike; medians over rounds are compared. Without --data, random pixels of the same size are used.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric

from jnpl.data.loading.augment import CropFlip
from jnpl.data.loading.feed import Feed
from jnpl.data.loading.prepare import Prepared
from jnpl.data.source import InMemory
from jnpl.data.sources import cifar
from jnpl.experiments.result_tables import markdown_table
from jnpl.judging.ledger import Ledger
from jnpl.methods import registry
from jnpl.methods.base import Task
from jnpl.models.build import build
from jnpl.recipes.schema import Training
from jnpl.training.learner import make_optimizer
from jnpl.training.loop import LoopCallback, Position, train
from jnpl.training.records import SampleRecords


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the binary CIFAR-10")
    parser.add_argument("--images", type=int, default=2560)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    fabric = Fabric(accelerator="cpu", devices=1)
    pixels, labels = pixels_and_labels(args.data, args.images)
    inputs = InMemory(pixels)
    transform = CropFlip((0.49, 0.48, 0.45), (1.0, 1.0, 1.0), 32)
    feed = Feed(Prepared(inputs, None, pixels, {}), labels, transform, 128, 0, fabric.device)
    plan = Training(epochs=1, batch_size=128, lr=0.01)
    runs = {name: Rival(name, feed, plan, fabric) for name in ("limit", "ce", "jnpl")}
    for rival in runs.values():
        rival.seconds()  # warm
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, rival in runs.items():
            times[name].append(rival.seconds())
    median = {name: statistics.median(values) for name, values in times.items()}
    ratios = {"jnpl / limit": median["jnpl"] / median["limit"], "jnpl / ce": median["jnpl"] / median["ce"]}
    targets = {"jnpl / limit": 1.06, "jnpl / ce": 1.03}
    print(f"{args.images} images, batch 128, resnet8, {args.threads} thread(s), {args.rounds} rounds, medians\n")
    rows = [[name, f"{each:.3f}", f"{args.images / each:,.0f}"] for name, each in median.items()]
    print(markdown_table([["", "seconds an epoch", "images/s"], *rows]), end="\n\n")
    rows = [
        [name, f"{ratio:.3f}", f"{targets[name]}", "met" if ratio <= targets[name] else "missed"]
        for name, ratio in ratios.items()
    ]
    print(markdown_table([["ratio", "measured", "target", ""], *rows]))
    if args.json:
        facts = {"torch": torch.__version__, "images": args.images, "threads": args.threads, "data": bool(args.data)}
        args.json.write_text(json.dumps({**facts, "seconds": times, "ratios": ratios}, indent=1) + "\n")


class Rival:
    """One contender: an epoch of a method, or as many steps on one resident batch."""

    def __init__(self, name: str, feed: Feed, plan: Training, fabric: Fabric) -> None:
        model = build("resnet8", num_classes=10, input_shape=(3, 32, 32), seed=0)
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.limit, self.feed, self.plan, self.fabric = name == "limit", feed, plan, fabric
        task = Task(lambda _: model, torch.from_numpy(feed.labels), 10)
        self.method = registry.make(task, registry.settings_class("ce" if self.limit else name).model_validate({}))
        self.setup, self.optimizer = fabric.setup(self.method, make_optimizer(self.method, plan))
        self.batch = next(iter(feed.epoch(0)))
        self.records = SampleRecords(Ledger(len(feed.labels), 10))
        self.epoch = 0

    def seconds(self) -> float:
        """Time one epoch."""
        start = time.perf_counter()
        if self.limit:
            self.method.train()
            inputs, labels, optimizer = self.batch.inputs, self.batch.labels, self.optimizer.optimizer
            for _ in range(self.feed.steps()):
                loss = torch.nn.functional.cross_entropy(self.method.predict(inputs), labels)
                torch.autograd.backward(loss)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        else:
            plan = self.plan.model_copy(update={"epochs": self.epoch + 1})
            at = Position(epoch=self.epoch)
            train(self.setup, self.optimizer, self.feed, self.records, plan, self.fabric, at, LoopCallback())
            self.epoch += 1
        return time.perf_counter() - start


def pixels_and_labels(root: Path | None, images: int) -> tuple[np.ndarray, np.ndarray]:
    """Real CIFAR-10, or noise of its size."""
    if root is not None:
        source = cifar.load("cifar10", root, download=False)
        values = source.inputs.values[:images]  # type: ignore[attr-defined]
        return np.ascontiguousarray(values), source.labels[:images]
    random = np.random.default_rng(0)
    return random.integers(0, 256, (images, 32, 32, 3), np.uint8), random.integers(0, 10, images)


if __name__ == "__main__":
    main()
