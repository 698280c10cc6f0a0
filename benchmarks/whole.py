"""Where the time of one `jnpl find` goes, and how soon it begins: 10,000 images in memory, recipe fast.

    python benchmarks/whole.py [--data DIR] [--images 10000] [--pixels 32] [--epochs 2]     # results/whole.json

Parts are timed from inside one run, one thread. `network` is the network's own arithmetic: forward, backward, the
optimiser's step and the look at the end. Everything else is asked to take at most 5 % each. The start is the time from
`python` to the first batch, another process each, the median of `--starts`. Without --data the images are noise: the
arithmetic is the same.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jnpl import __version__, checkpoint
from jnpl import train as loop
from jnpl.average import Average
from jnpl.config import load_recipe
from jnpl.data import cifar, prepare
from jnpl.data.augment import CropFlip
from jnpl.data.opening import open_source
from jnpl.findings import Findings
from jnpl.look import TrainingSet
from jnpl.losses import JNPLLoss
from jnpl.models.resnet import ResNet
from jnpl.progress import Reporter
from jnpl.run import Every, find
from jnpl.run_folder import RunFolder

RESULTS = Path(__file__).parent / "results" / "whole.json"
MOST, START = 0.05, 3.0  # asked: a part's share, seconds to the first batch
FIRST_BATCH = """
import os, time
from jnpl.train import Books
from jnpl.cli import main
def seen(self, batch, output, epoch, fabric):
    print("first", time.time() - float(os.environ["BEGAN"]), flush=True)
    os._exit(0)
Books.record = seen
main()
"""


class Clock:
    """Seconds by part; a part inside another is taken out of it."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = defaultdict(float)
        self._open: list[float] = []  # time of inner parts, by depth

    def around(self, owner: Any, name: str, part: str) -> None:
        """Time every call of `owner.name` as `part`."""
        inner = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            self._open.append(0.0)
            try:
                return inner(*args, **kwargs)
            finally:
                spent = time.perf_counter() - start
                self.parts[part] += spent - self._open.pop()
                if self._open:
                    self._open[-1] += spent

        setattr(owner, name, timed)


def images(root: Path | None, count: int, pixels: int, place: Path) -> Path:
    """An .npz of CIFAR-10's first images, or of noise."""
    if root is None:
        rng = np.random.default_rng(0)
        x, y = rng.integers(0, 256, (count, pixels, pixels, 3), np.uint8), rng.integers(0, 10, count)
    else:
        whole = cifar.load("cifar10", root, download=False)
        x, y = np.asarray(whole.inputs.values[:count]), whole.labels[:count]  # type: ignore[attr-defined]
        if pixels == 16:
            x = x.reshape(count, 16, 2, 16, 2, 3).mean((2, 4)).round().astype(np.uint8)
    np.savez(place / "images.npz", x=x, y=y)
    return place / "images.npz"


def shares(data: Path, epochs: int, out: Path) -> dict[str, float]:
    """Shares of the run's time by part, and its seconds."""
    torch.set_num_threads(1)
    clock = Clock()
    clock.around(ResNet, "forward", "network")
    clock.around(torch.Tensor, "backward", "network")
    clock.around(torch.optim.SGD, "step", "network")
    clock.around(CropFlip, "train", "augmentation")
    clock.around(CropFlip, "evaluate", "augmentation")
    clock.around(JNPLLoss, "terms", "loss")
    clock.around(Average, "update", "mean of the weights")
    clock.around(loop.Books, "record", "ledger")
    clock.around(TrainingSet, "probabilities", "look at the end")
    clock.around(Findings, "save", "findings")
    clock.around(checkpoint, "save", "checkpoints")
    clock.around(RunFolder, "log", "log")
    clock.around(prepare, "prepare", "preparing data")
    recipe = load_recipe("fast", [f"train.epochs={epochs}", f"train.milestones=[{epochs // 2}]",
                                  'engine.accelerator="cpu"'])  # fmt: skip
    start = time.perf_counter()
    source = open_source(str(data))
    clock.parts["reading data"] += time.perf_counter() - start
    find(source, recipe, out, seed=0, every=Every(), strict=True, report=Reporter())
    total = time.perf_counter() - start
    known = sum(clock.parts.values())
    return {**{part: spent / total for part, spent in clock.parts.items()}, "rest": 1 - known / total, "seconds": total}


def first_batch(data: Path, place: Path, number: int) -> float:
    """Seconds from the start of Python to the first batch of `jnpl find`."""
    command = [sys.executable, "-c", FIRST_BATCH, "find", str(data), "-o", str(place / f"start-{number}"), "--recipe",
               "fast", "--threads", "1"]  # fmt: skip
    told = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "BEGAN": str(time.time()), "OMP_NUM_THREADS": "1"})  # fmt: skip
    lines = [line for line in told.stdout.splitlines() if line.startswith("first")]
    if not lines:
        raise SystemExit(told.stderr)
    return float(lines[0].split()[1])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with CIFAR-10's binary version")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--pixels", type=int, choices=(16, 32), default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--starts", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        data = images(args.data, args.images, args.pixels, place)
        starts = [first_batch(data, place, number) for number in range(args.starts)]
        told = shares(data, args.epochs, place / "run")
    facts = {"images": args.images, "pixels": args.pixels, "epochs": args.epochs, "jnpl": __version__,
             "torch": torch.__version__, "shares": told, "starts": starts}  # fmt: skip
    RESULTS.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
    for part, share in sorted(told.items(), key=lambda each: -each[1]):
        if part != "seconds":
            missed = share > MOST and part != "network"
            print(f"{part:20} {share:6.1%}{'  (asked: 5 %, missed)' if missed else ''}")
    median = statistics.median(starts)
    print(f"first batch after {median:.1f} s (asked: {START:.0f}, {'met' if median <= START else 'missed'})")


if __name__ == "__main__":
    main()
