"""Run `jnpl find` on large generated data, and record time, memory and progress.

    python benchmarks/load.py vectors [--samples 1000000] [--classes 100] [--width 128] [--epochs 20 10] [--folder DIR]
    python benchmarks/load.py images [--samples 100000] [--folder DIR]

vectors: an .npz of float32, a normal cloud around each class centre, 20 % of the labels drawn anew; the default
settings of `jnpl find`, which takes vectors of 128 numbers or more for embeddings. images: PNG files of 32 pixels in 10
folders, each class a colour with noise, 20 % of the folders drawn anew. They are embedded by `pooled_pixels`
below, because the default backbone would take most of an hour on two cores and is measured by embedding.py speed.

The command is a process of its own. Twice a second its memory and that of its workers is read from /proc: VmRSS, and
RssAnon without pages of files. A line of results/load.jsonl has their peaks, the largest RssAnon of each epoch, and the
longest time without a line of progress. The lines of progress must count up. Data stay in DIR for the next time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image
from torch import nn

from jnpl.experiments import results
from jnpl.internal import provenance

RESULTS = Path(__file__).parent / "results" / "load.jsonl"
NOISE, PIXELS, IMAGE_CLASSES = 0.2, 32, 10
SIZES = {"vectors": 1_000_000, "images": 100_000}
EVERY = 0.5  # seconds between two readings of the memory


def pooled_pixels() -> nn.Module:
    """Return a backbone that takes a moment: means of 8 x 8 pixels, 48 numbers."""
    network = nn.Sequential(nn.AvgPool2d(8), nn.Flatten())
    network.size = PIXELS  # type: ignore[assignment]
    return network


def write_vectors(path: Path, samples: int, classes: int, width: int) -> None:
    drawn = np.random.default_rng(0)
    centres = drawn.standard_normal((classes, width), np.float32) * np.float32(0.6)
    true = drawn.integers(0, classes, samples)
    given = np.where(drawn.random(samples) < NOISE, drawn.integers(0, classes, samples), true)
    x = np.empty((samples, width), np.float32)
    for start in range(0, samples, 100_000):
        own = true[start : start + 100_000]
        x[start : start + len(own)] = centres[own] + drawn.standard_normal((len(own), width), np.float32)
    np.savez(path, x=x, y=given, y_true=true)


def write_images(folder: Path, samples: int) -> None:
    drawn = np.random.default_rng(0)
    colours = drawn.integers(60, 196, (IMAGE_CLASSES, 4, 4, 3))
    draft = folder.with_name(f".{folder.name}")
    for label in range(IMAGE_CLASSES):
        (draft / f"class-{label}").mkdir(parents=True, exist_ok=True)
    for number in range(samples):
        true = number % IMAGE_CLASSES
        given = int(drawn.integers(IMAGE_CLASSES)) if drawn.random() < NOISE else true
        smooth = colours[true].repeat(PIXELS // 4, 0).repeat(PIXELS // 4, 1)
        pixels = (smooth + drawn.normal(0, 40, smooth.shape)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(draft / f"class-{given}" / f"{number:06}-{true}.png", compress_level=1)
    draft.rename(folder)


class Watch:
    """Memory of a process and its children, and its lines, with the seconds since its start."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.started = process, time.monotonic()
        self.memory: list[tuple[float, float, float]] = []  # seconds, MiB of VmRSS, MiB of RssAnon
        self.lines: list[tuple[float, str]] = []

    def run(self) -> None:
        """Watch the process until it ends."""
        reader = threading.Thread(target=self._read)
        reader.start()
        while self.process.poll() is None:
            pids = [self.process.pid, *_children(self.process.pid)]
            found = [_memory(pid) for pid in pids]
            self.memory.append((self._now(), sum(each[0] for each in found), sum(each[1] for each in found)))
            time.sleep(EVERY)
        reader.join()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            self.lines.append((self._now(), line.rstrip()))
            print(f"{self._now():7.0f} s  {line.rstrip()}", file=sys.stderr, flush=True)

    def _now(self) -> float:
        return time.monotonic() - self.started

    def anonymous_by_epoch(self) -> dict[int, int]:
        """Return the largest RssAnon between the lines of one epoch and the next."""
        ends = [(at, int(match[1])) for at, line in self.lines if (match := re.match(r"epoch (\d+)/", line))]
        found = {}
        for (start, _), (end, number) in pairwise(ends):
            if inside := [anonymous for at, _, anonymous in self.memory if start < at <= end]:
                found[number] = round(max(inside))
        return found

    def longest_silence(self) -> float:
        """Return the longest time without a line."""
        times = [0.0, *(at for at, _ in self.lines), self._now()]
        return max(after - before for before, after in pairwise(times))

    def counts_up(self) -> bool:
        """Return whether samples embedded, epochs and shares only grow; epochs reach their number and shares 100 %."""
        shares = (r"judging the labels, (\d+)%", r"looking for duplicates and outliers, (\d+)%")
        for pattern in (r"embedded ([\d,]+) of", r"epoch (\d+)/", *shares):
            text = [match[1] for _, line in self.lines if (match := re.search(pattern, line))]
            numbers = [int(each.replace(",", "")) for each in text]
            if numbers != sorted(numbers) or (pattern in shares and numbers and numbers[-1] != 100):
                return False
        last = [match for _, line in self.lines if (match := re.match(r"epoch (\d+)/(\d+)", line))][-1]
        return last[1] == last[2]


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()]
    return []


def _memory(pid: int) -> tuple[float, float]:
    """Return VmRSS and RssAnon of a process in MiB; 0 if it has ended."""
    found = {"VmRSS": 0.0, "RssAnon": 0.0}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0]) / 1024
    return found["VmRSS"], found["RssAnon"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=list(SIZES))
    parser.add_argument("--samples", type=int)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--epochs", type=int, nargs=2, help="of both stages of a head; by default those of jnpl find")
    parser.add_argument("--folder", type=Path, help="for the data; by default a temporary one")
    parser.add_argument("--results", type=Path, default=RESULTS)
    args = parser.parse_args()
    samples = args.samples or SIZES[args.kind]
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        words = ["-o", str(Path(temporary) / "run"), "--json", "--verbose", "--threads", "1"]
        if args.kind == "vectors":
            data = folder / f"vectors-{samples}-{args.classes}-{args.width}.npz"
            facts = {"classes": args.classes, "width": args.width}
            if not data.exists():
                write_vectors(data, samples, args.classes, args.width)
        else:
            data = folder / f"images-{samples}"
            facts = {"classes": IMAGE_CLASSES, "pixels": PIXELS}
            if not data.exists():
                write_images(data, samples)
            cache = str(Path(temporary) / "cache")
            words += ["--backbone", "load:pooled_pixels", "--views", "1", "--workers", "1", "--cache", cache]
        for stage, epochs in zip(("train", "stages.refine"), args.epochs or (), strict=False):
            words += ["--set", f"{stage}.epochs={epochs}"]
        process = subprocess.Popen(
            [sys.executable, "-m", "jnpl", "find", str(data.resolve()), *words],
            cwd=Path(__file__).parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        watch = Watch(process)
        watch.run()
        if process.returncode:
            raise SystemExit(f"jnpl find ended with exit code {process.returncode}")
        told = json.loads((process.stdout or sys.stdin).read())
        size = sum(file.stat().st_size for file in ([data] if data.is_file() else data.rglob("*.png")))
    measured = {
        "versions": provenance.versions(),
        "commit": provenance.commit(),
        "samples": samples,
        **facts,
        "data_mib": round(size / 2**20),
        **{name: told[name] for name in ("issues", "noise_rate", "epochs", "seconds", "ap") if name in told},
        "peak_rss_mib": round(max(rss for _, rss, _ in watch.memory)),
        "peak_anonymous_mib": round(max(anonymous for _, _, anonymous in watch.memory)),
        "anonymous_mib_by_epoch": watch.anonymous_by_epoch(),
        "longest_silence_seconds": round(watch.longest_silence()),
        "progress_counts_up": watch.counts_up(),
    }
    print(json.dumps(measured))
    results.add(args.results, {"name": f"{args.kind}-{samples}", "results": measured})
    return 0


if __name__ == "__main__":
    sys.exit(main())
