"""Where the time of one `jnpl find` goes, and how soon it begins: 10,000 images in memory, recipe fast.

    python benchmarks/whole.py [--data DIR] [--images 10000] [--pixels 16] [--epochs 30]     # results/whole.jsonl

Parts are timed from inside one command, after its imports, one thread. `network` is the network's own arithmetic:
forward, backward (that of the loss is in it), the optimiser's step and the predictions at the end. The limit for every
other part is 5 %. The start is the time from `python` to the first batch, a new process each time, the minimum
and the median of `--starts`. Without --data the images are noise: the arithmetic is the same. Results are stored only
with --data and the default sizes.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jnpl import pipeline as engine
from jnpl.cli import app as cli
from jnpl.data import opening
from jnpl.data.loading.augment import CropFlip
from jnpl.data.loading.feed import Feed
from jnpl.data.sources import cifar
from jnpl.data.sources.arrays import downsample
from jnpl.experiments import results
from jnpl.internal import provenance
from jnpl.internal.errors import InputError
from jnpl.judging import Findings, scoring
from jnpl.losses import JNPLLoss
from jnpl.methods.extended_jnpl import ExtendedJNPL
from jnpl.models.resnet import ResNet
from jnpl.run_folder import RunFolder
from jnpl.training import checkpoint, feeds, loop, records
from jnpl.training.evaluation import TrainingSet
from jnpl.training.learner import AveragedWeights
from jnpl.training.run_callback import RunCallback

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS, README = Path(__file__).parent / "results" / "whole.jsonl", Path(__file__).parent / "README.md"
BLOCK = re.compile(r"(<!-- whole: generated -->\n).*?(<!-- end -->)", re.DOTALL)
MOST, START = 0.05, 3.0  # limits: a part's share, seconds to the first batch
FIRST_BATCH = """
import os, time
from jnpl.training.records import SampleRecords
from jnpl.cli.app import main
def seen(self, batch, output, epoch, fabric):
    print("first", time.time() - float(os.environ["BEGAN"]), flush=True)
    os._exit(0)
SampleRecords.record = seen
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
            with self._counted(part):
                return inner(*args, **kwargs)

        setattr(owner, name, timed)

    def along(self, owner: Any, name: str, part: str) -> None:
        """Time every item that the iterator of `owner.name` gives, as `part`."""
        inner = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            items = iter(inner(*args, **kwargs))
            while True:
                with self._counted(part):
                    item = next(items, self)
                if item is self:
                    return
                yield item

        setattr(owner, name, timed)

    @contextmanager
    def _counted(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        self._open.append(0.0)
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.parts[part] += spent - self._open.pop()
            if self._open:
                self._open[-1] += spent


def images(root: Path | None, count: int, pixels: int, place: Path) -> Path:
    """An .npz of CIFAR-10's first images, or of noise."""
    if root is None:
        rng = np.random.default_rng(0)
        x, y = rng.integers(0, 256, (count, pixels, pixels, 3), np.uint8), rng.integers(0, 10, count)
    else:
        whole = downsample(cifar.load("cifar10", root, download=False), pixels)
        x, y = np.asarray(whole.inputs.values[:count]), whole.labels[:count]  # type: ignore[attr-defined]
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
    clock.along(Feed, "epoch", "batches")
    clock.around(engine, "make_fabric", "starting Fabric")
    clock.around(ExtendedJNPL, "step", "the method beside its loss")
    clock.around(loop.Position, "add", "sums for the log")
    clock.around(RunCallback, "after_step", "after a step")
    clock.around(scoring, "final_probs", "posterior")
    clock.around(JNPLLoss, "terms", "loss")
    clock.around(AveragedWeights, "update", "mean of the weights")
    clock.around(records.SampleRecords, "record", "ledger")
    clock.around(TrainingSet, "probabilities", "look at the end")
    clock.around(Findings, "save", "findings")
    clock.around(checkpoint, "save", "checkpoints")
    clock.around(RunFolder, "log", "log")
    clock.around(feeds, "prepare", "preparing data")
    clock.around(opening, "open_source", "reading data")
    clock.around(RunFolder, "write_data", "data of the report")
    words = [
        "find",
        str(data),
        "-o",
        str(out),
        "--recipe",
        "fast",
        "--set",
        f"train.epochs={epochs}",
        "--accelerator",
        "cpu",
        "--threads",
        "1",
    ]
    start = time.perf_counter()
    try:
        cli.main(words)
    except SystemExit as done:
        if done.code:
            raise
    total = time.perf_counter() - start
    known = sum(clock.parts.values())
    return {**{part: spent / total for part, spent in clock.parts.items()}, "rest": 1 - known / total, "seconds": total}


def first_batch(data: Path, place: Path, number: int) -> float:
    """Seconds from the start of Python to the first batch of `jnpl find`."""
    command = [
        sys.executable,
        "-c",
        FIRST_BATCH,
        "find",
        str(data),
        "-o",
        str(place / f"start-{number}"),
        "--recipe",
        "fast",
        "--threads",
        "1",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "BEGAN": str(time.time()), "OMP_NUM_THREADS": "1"},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("first")]
    if not lines:
        raise SystemExit(done.stderr)
    return float(lines[0].split()[1])


def pytorch() -> float:
    """Seconds to load PyTorch: the largest part of a start that is not ours."""
    start, env = time.perf_counter(), {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", "import os, torch; os._exit(0)"], check=True, env=env)
    return time.perf_counter() - start


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with CIFAR-10's binary version")
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--pixels", type=int, choices=(16, 32), default=16)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--starts", type=int, default=5)
    args = parser.parse_args()
    whole = all(getattr(args, name) == parser.get_default(name) for name in ("images", "pixels", "epochs"))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        try:
            data = images(args.data, args.images, args.pixels, place)
        except InputError as error:
            parser.error(str(error))
        starts, limits = [], []
        for number in range(args.starts):  # in turns: a busy machine slows both
            starts.append(first_batch(data, place, number))
            limits.append(pytorch())
        parts = shares(data, args.epochs, place / "run")
    facts = {
        "images": args.images,
        "pixels": args.pixels,
        "epochs": args.epochs,
        "data": args.data is not None,
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "shares": parts,
        "starts": starts,
        "limits": limits,
    }
    if whole and args.data is not None:  # else it is only a test
        results.add(RESULTS, {"name": "find", "results": facts})
        text = BLOCK.sub(lambda match: match[1] + block(facts) + match[2], README.read_text("utf-8"))
        README.write_text(text, "utf-8")
    print(block(facts))


def block(facts: dict[str, Any]) -> str:
    """Return the part of README.md that is generated."""
    data = "CIFAR-10" if facts["data"] else "noise"
    parts = {part: share for part, share in facts["shares"].items() if part != "seconds"}
    starts, limits = ([min(facts[name]), statistics.median(facts[name])] for name in ("starts", "limits"))
    most = max(share for part, share in parts.items() if part != "network")
    begun = "met" if starts[1] <= START else "met by the best start only" if starts[0] <= START else "not met"
    head = (
        f"{facts['images']:,} images of {data} in memory, {facts['pixels']} pixels, resnet8, {facts['epochs']} epochs, "
        f"one thread. The first batch starts {starts[0]:.1f} s after the start of Python in the best of "
        f"{len(facts['starts'])} starts (median {starts[1]:.1f}); loading PyTorch alone takes {limits[0]:.1f} s "
        f"(median {limits[1]:.1f}). Limit: {START:.0f} s, {begun}. Shares of the time (limit for each part but the "
        f"network: {MOST:.0%}, {'met' if most <= MOST else 'not met'}):"
    )
    rows = [f"| {part} | {parts[part]:.1%} |" for part in sorted(parts, key=lambda part: -parts[part])]
    lines = [head, "", "| part | share |", "|---|---|", *rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
