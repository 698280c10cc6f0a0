"""How fast batches arrive: images in memory against the usual loader, image files against bare decoding.

    python benchmarks/loader.py [--images 50000] [--data ROOT] [--files 2000] [--rounds 7] [--threads 1] [--json FILE]

In memory: one epoch of CIFAR-10 (or random bytes of its size, without --data) in batches of 128, cropped, flipped,
minus the mean, as float tensors. `per image` is the usual pipeline, a DataLoader with two workers over a data set that
makes a PIL image of every sample, pads, crops, flips and converts it; its workers are started before the clock.

Files: photo-like JPEGs of 256 pixels, read at 256. `prepare` decodes them into memory with two workers, `decode` hands
them over in batches of 64. The limit is a bare Pillow loop in two processes that hand nothing over. All three clocks
include the start of the processes; every file is read three times, so that it counts for no more than in a data set
of some size. What `prepare` does beyond `decode` is to fill fresh memory, at a price that the system sets.

Rivals take turns in every round, so that a busy machine slows them alike; ratios are of medians, in brackets the
least and the greatest of a round.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from jnpl.data.loading.augment import CropFlip
from jnpl.data.loading.feed import Feed
from jnpl.data.loading.prepare import decode, prepare
from jnpl.data.source import Array, InMemory, Source
from jnpl.data.sources import cifar
from jnpl.data.sources.images import ImageFiles
from jnpl.data.split import part
from jnpl.experiments.result_tables import markdown_table
from jnpl.internal import provenance

BATCH, WORKERS, SIDE, PADDING = 128, 2, 256, 4
PASSES = 3
MEMORY_TARGET, FILES_TARGET = 8.0, 0.85
Times = dict[str, list[float]]


class PerImage(Dataset["tuple[Tensor, int]"]):
    """What most training scripts do to CIFAR-10: a PIL image for every sample, one transformation after the other."""

    def __init__(self, images: Array, labels: Array, mean: Sequence[float]) -> None:
        self.images, self.labels = images, labels
        self.mean = torch.tensor(mean).view(3, 1, 1)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, at: int) -> tuple[Tensor, int]:
        picture = ImageOps.expand(Image.fromarray(self.images[at]), PADDING, 0)
        left, top = random.randint(0, 2 * PADDING), random.randint(0, 2 * PADDING)
        picture = picture.crop((left, top, left + 32, top + 32))
        if random.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        values = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()
        return values.float().div_(255).sub_(self.mean), int(self.labels[at])


def race(rivals: dict[str, Callable[[int], int]], rounds: int) -> Times:
    """Images per second of every rival, which takes the round's number and returns its images; one round warms up."""
    speeds: Times = {name: [] for name in rivals}
    order = list(rivals)
    for number in range(rounds + 1):
        for name in order:
            start = time.perf_counter()
            images = rivals[name](number)
            if number:
                speeds[name].append(images / (time.perf_counter() - start))
        order.append(order.pop(0))  # nobody always runs behind the same neighbour
    return speeds


def in_memory(source: Source, rounds: int) -> Times:
    values = source.inputs.array()
    if values is None:
        raise TypeError(f"{source.name} is not in memory")
    mean = tuple((values.mean((0, 1, 2), dtype=np.float64) / 255).tolist())
    prepared = prepare(source, 32, memory_limit=2**40)
    transform = CropFlip(mean, (1.0,) * 3, 32, PADDING)
    feed = Feed(prepared, source.labels, transform, BATCH, seed=0, device=torch.device("cpu"))
    usual = DataLoader(
        PerImage(values, source.labels, mean), BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True
    )
    return race(
        {
            "jnpl": lambda epoch: sum(len(batch.inputs) for batch in feed.epoch(epoch)),
            "per image": lambda _: sum(len(inputs) for inputs, _ in usual),
        },
        rounds,
    )


def bare(paths: list[str]) -> int:
    for path in paths:
        with Image.open(path) as picture:
            picture.draft("RGB", (SIDE, SIDE))
            pixels = picture.convert("RGB")
            np.asarray(pixels if pixels.size == (SIDE, SIDE) else pixels.resize((SIDE, SIDE)))
    return len(paths)


def files(paths: list[str], rounds: int) -> Times:
    inputs = ImageFiles(paths)
    labels = np.arange(len(paths)) % 2
    source = Source("files", inputs, labels, (0, 1), np.array(paths, object))
    batches = torch.split(torch.randperm(len(paths), generator=torch.Generator().manual_seed(0)), 64)

    def into_memory(_: int) -> int:
        return len(prepare(source, SIDE, memory_limit=2**40, workers=WORKERS).readable())

    def streamed(_: int) -> int:
        return sum(len(index) for index, _, _ in decode(inputs, batches, SIDE, WORKERS))

    def limit(_: int) -> int:
        with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
            return sum(pool.map(bare, [paths[start::WORKERS] for start in range(WORKERS)], chunksize=1))

    return race({"prepare": into_memory, "decode": streamed, "bare Pillow": limit}, rounds)


def synthetic(images: int) -> Source:
    generator = np.random.default_rng(0)
    values = generator.integers(0, 256, (images, 32, 32, 3), np.uint8)
    labels = generator.integers(0, 10, images)
    return Source("synthetic", InMemory(values), labels, tuple(range(10)), np.arange(images))


def cifar10(root: Path, images: int) -> Source:
    whole = cifar.load("cifar10", root, download=False)
    return part(whole, np.arange(min(images, len(whole))))


def photos(folder: Path, count: int) -> list[str]:
    """Smooth random fields plus noise: about as many bytes as a photograph of this size has."""
    generator = np.random.default_rng(0)
    paths = []
    for at in range(count):
        coarse = Image.fromarray(generator.integers(0, 256, (9, 9, 3), np.uint8))
        smooth = np.asarray(coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.int16)
        noisy = smooth + (8 * generator.standard_normal((SIDE, SIDE, 1), np.float32)).astype(np.int16)
        path = folder / f"{at:05}.jpg"
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)
        paths.append(str(path))
    return paths


def ratios(times: Times, rival: str, limit: str) -> dict[str, float]:
    rounds = [one / other for one, other in zip(times[rival], times[limit], strict=True)]
    median = statistics.median(times[rival]) / statistics.median(times[limit])
    return {"ratio": median, "least": min(rounds), "greatest": max(rounds)}


def report(memory: Times, decoding: Times) -> tuple[str, list[dict[str, Any]]]:
    compared = [
        ("in memory, batch 128", memory, "jnpl", "per image", MEMORY_TARGET),
        ("files into memory", decoding, "prepare", "bare Pillow", FILES_TARGET),
        ("files in batches of 64", decoding, "decode", "bare Pillow", FILES_TARGET),
    ]
    rows, judged = [], []
    for title, times, ours, other, target in compared:
        found = ratios(times, ours, other)
        met = found["ratio"] >= target
        judged.append({"path": title, "rival": other, "target": target, "met": met, **found})
        rows.append(
            [title]
            + [f"{statistics.median(times[name]):,.0f}" for name in (ours, other)]
            + [f"{found['ratio']:.2f}x ({found['least']:.2f} to {found['greatest']:.2f})"]
            + [f">= {target:g}x {other}: {'met' if met else '**missed**'}"]
        )
    return markdown_table([["path", "jnpl, images/s", "rival, images/s", "ratio", "target"], *rows]), judged


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--images", type=int, default=50_000, help="images in memory")
    parser.add_argument("--data", type=Path, help="folder of CIFAR-10's binary version; else random bytes")
    parser.add_argument("--files", type=int, default=2000, help="JPEGs to make and decode")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="of torch in this process, next to the two workers")
    parser.add_argument("--json", type=Path, help="also store everything here")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        decoding = files(PASSES * photos(Path(folder), arguments.files), arguments.rounds)
    source = cifar10(arguments.data, arguments.images) if arguments.data else synthetic(arguments.images)
    memory = in_memory(source, arguments.rounds)
    setup = {**vars(arguments), "data": source.name, **provenance.versions(), "commit": provenance.commit()}
    text, judged = report(memory, decoding)
    print(" · ".join(f"{key} {value}" for key, value in setup.items()), end="\n\n")
    print(text)
    if arguments.json:
        speeds = {"in_memory": memory, "files": decoding}
        facts = {"setup": setup, "judged": judged, "speeds": speeds}
        arguments.json.write_text(json.dumps(facts, indent=2, default=str) + "\n")


if __name__ == "__main__":
    main()
