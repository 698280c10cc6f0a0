"""AP on small image folders from random weights (`--backbone none`): the default beside cross-entropy.

    python benchmarks/scratch.py --data DIR [--sets digits ...] [--seeds 1 2]    # resumable: done cells are kept

DIR holds cifar-10-batches-bin and flowers.tar; digits and clip-art need no file. `benchmarks/fast_page.py` puts the
results into docs/results/fast.md. Rows: `before`, the recipe `fast` without the choice for small image sets; `ce`, what
`--method ce` runs; `default`, what `jnpl find --backbone none` runs. The default was chosen with seed 0 (of noise and
training), which is not among the seeds of the table.
"""

from __future__ import annotations

import argparse
import sys
import tarfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageDraw
from sklearn.datasets import load_digits

from jnpl import metrics, noise
from jnpl.data.opening import open_source
from jnpl.data.source import Source
from jnpl.data.sources.arrays import from_arrays
from jnpl.experiments import results
from jnpl.pipeline import run_recipe
from jnpl.recipes.automatic import adapt_recipe
from jnpl.recipes.load import load_recipe
from jnpl.recipes.schema import Recipe
from jnpl.training.reporting import Reporter

FILE = Path(__file__).parent / "results" / "scratch.jsonl"
SHAPES = ("disc", "square", "triangle", "cross", "ring")
COLOURS = ((200, 60, 50), (60, 160, 70), (60, 90, 200), (220, 170, 40))
CIFAR_START = 20_000  # training images before this one are those of the decisive suite


class Images(NamedTuple):
    """Images (N, H, W, C) and their true labels (N,)."""

    pixels: Any
    labels: Any


class Set(NamedTuple):
    """A data set of the comparison: how it is made, and its noise rates in percent."""

    title: str
    load: Callable[[Path], Images]
    rates: tuple[int, ...]


def cifar10(data: Path, samples: int, side: int) -> Images:
    """Training images of CIFAR-10, from number 20,000 on."""
    source = open_source("cifar10", root=data)
    chosen = range(CIFAR_START, CIFAR_START + samples)
    return Images(np.stack([source.inputs.read(at, side) for at in chosen]), source.labels[list(chosen)])


def flowers(data: Path) -> Images:
    """2,000 photographs of flowers at 24 pixels."""
    with TemporaryDirectory() as place, tarfile.open(data / "flowers.tar") as archive:
        archive.extractall(place, filter="data")
        source = open_source(Path(place) / "flowers")
        return Images(np.stack([source.inputs.read(at, 24) for at in range(len(source))]), source.labels)


def digits(_data: Path) -> Images:
    """The 1,797 digits of scikit-learn as grey images of 8 x 8 pixels."""
    bunch = load_digits()
    return Images((bunch.images * 255 / 16).astype(np.uint8), bunch.target)


def clip_art(_data: Path, samples: int = 1500, side: int = 24) -> Images:
    """Drawings of 20 classes, a shape and a colour each, that vary in size, place, tint and background."""
    random = np.random.default_rng(0)
    labels = np.resize(np.arange(len(SHAPES) * len(COLOURS)), samples)
    return Images(np.stack([_drawing(int(label), side, random) for label in labels]), labels)


def _drawing(label: int, side: int, random: np.random.Generator) -> Any:
    shape, colour = SHAPES[label % len(SHAPES)], np.array(COLOURS[label // len(SHAPES)])
    image = Image.new("RGB", (4 * side, 4 * side), tuple(random.integers(0, 256, 3).tolist()))
    draw = ImageDraw.Draw(image)
    for _ in range(3):  # clutter
        at, size = random.integers(0, 4 * side, 2), random.integers(2, side, 2)
        draw.rectangle([*at.tolist(), *(at + size).tolist()], fill=tuple(random.integers(0, 256, 3).tolist()))
    radius = float(random.uniform(0.7, 1.5)) * side
    x, y = random.uniform(radius, 4 * side - radius, 2).tolist()
    tint = tuple((colour + random.integers(-50, 50, 3)).clip(0, 255).tolist())
    box = (x - radius, y - radius, x + radius, y + radius)
    turn = float(random.uniform(0, 360))
    if shape == "disc":
        draw.ellipse(box, fill=tint)
    elif shape == "ring":
        draw.ellipse(box, outline=tint, width=max(int(radius / 3), 2))
    elif shape == "cross":
        thick = radius / 4
        draw.rectangle((x - radius, y - thick, x + radius, y + thick), fill=tint)
        draw.rectangle((x - thick, y - radius, x + thick, y + radius), fill=tint)
    else:
        draw.regular_polygon((x, y, radius), 4 if shape == "square" else 3, rotation=turn, fill=tint)
    return np.asarray(image.resize((side, side), Image.Resampling.BOX))


SETS = {
    "digits": Set("digits, 1,797 at 8 px", digits, (20, 40)),
    "clip-art": Set("clip-art, 1,500 drawings of 20 classes at 24 px", clip_art, (20,)),
    "cifar10-500": Set("CIFAR-10, 500 at 32 px", lambda data: cifar10(data, 500, 32), (20,)),
    "cifar10-2000": Set("CIFAR-10, 2,000 at 16 px", lambda data: cifar10(data, 2000, 16), (20, 40)),
    "flowers": Set("flowers, 2,000 at 24 px", flowers, (20,)),
}


def before(source: Source) -> Recipe:
    """Return the recipe `fast` with the batch size, network and resolution of `jnpl find`, and nothing else changed."""
    found = adapt_recipe(source, None, None, {}).recipe
    return load_recipe("fast", {"model": found.model, "train.batch_size": found.train.batch_size})


ROWS: dict[str, Callable[[Source], Recipe]] = {
    "before": before,
    "ce": lambda source: adapt_recipe(source, None, "ce", {}).recipe,
    "default": lambda source: adapt_recipe(source, None, None, {}).recipe,
}


@lru_cache(maxsize=2)
def _loaded(name: str, data: Path) -> Images:
    return SETS[name].load(data)


def noisy(name: str, rate: int, seed: int, data: Path) -> Source:
    """Return a set with symmetric noise."""
    pixels, labels = _loaded(name, data)
    classes = int(labels.max()) + 1
    given = noise.symmetric(labels, rate / 100, classes, seed=seed)
    return from_arrays(pixels, given, y_true=labels, class_names=list(range(classes)), name=name)


def run(source: Source, recipe: Recipe, seed: int) -> dict[str, Any]:
    """Train on the set and judge its labels."""
    report = Reporter()
    report.quiet(True)
    began = time.perf_counter()
    result = run_recipe(source, recipe, seed=seed, report=report)
    if result is None or source.true_labels is None:
        raise RuntimeError("no result in this process")
    wrong = source.labels != source.true_labels
    ap = metrics.average_precision(result.findings.label_quality, wrong)
    return {"ap": round(float(ap), 4), "seconds": round(time.perf_counter() - began, 1)}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--out", type=Path, default=FILE)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.sets:
        for cell in ((rate, seed, row) for rate in SETS[name].rates for seed in args.seeds for row in args.rows):
            rate, seed, row = cell
            label = f"{name}/symm{rate}/{row}/{seed}"
            if results.contains(args.out, label):
                continue
            source = noisy(name, rate, seed, args.data)
            found = run(source, ROWS[row](source), seed)
            results.add(args.out, {"name": label, "results": found})
            print(label, found, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
