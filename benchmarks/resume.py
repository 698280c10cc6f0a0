"""Kill a run with SIGKILL at random moments, resume it each time, and compare every bit with an undisturbed run.

    python benchmarks/resume.py [--kills 20] [--seed 0] [--every 1]

Kills fall inside and between epochs and while a checkpoint is being written (every second one waits for the draft of a
checkpoint and strikes then). Exit code 1 if weights, findings or the log differ.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from jnpl import noise

SAME = ("model.safetensors", "findings.parquet", "findings.csv", "metrics.jsonl")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", default="1", help="--checkpoint-every of the run")
    args = parser.parse_args()
    moments = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as base:
        data = write(Path(base) / "toy.npz")
        subprocess.run(command(data, Path(base) / "peace", args.every), check=True, capture_output=True)
        run = Path(base) / "killed"
        where = {"checkpoint write": 0, "elsewhere": 0}
        for kill in range(args.kills):
            before, stale = newest(run), drafts(run)
            process = subprocess.Popen(
                command(data, run, args.every), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            while process.poll() is None and newest(run) == before:
                time.sleep(0.001)  # let it get somewhere: a run that is always killed at once never ends
            if kill % 2:
                while process.poll() is None and not drafts(run) - stale:
                    time.sleep(0.0002)
            else:
                time.sleep(moments.uniform(0, 0.25))
            writing = bool(drafts(run) - stale)
            process.send_signal(signal.SIGKILL)
            if process.wait() == 0:
                print(f"kill {kill + 1}: the run was finished already")
                break
            where["checkpoint write" if writing else "elsewhere"] += 1
            print(f"kill {kill + 1}: {'while a checkpoint was written' if writing else 'between'}, at {position(run)}")
        subprocess.run(command(data, run, args.every), check=True, capture_output=True)
        different = [name for name in SAME if (run / name).read_bytes() != (Path(base) / "peace" / name).read_bytes()]
    print(json.dumps({"kills": sum(where.values()), **where, "different": different}))
    return 1 if different else 0


def write(path: Path, samples: int = 512) -> Path:
    random_numbers = np.random.default_rng(0)
    labels = random_numbers.integers(0, 3, samples)
    images = random_numbers.normal(90, 35, (samples, 12, 12, 3)) + 40 * labels[:, None, None, None]
    given = noise.symmetric(labels, 0.3, 3, seed=0)
    pixels = np.clip(images, 0, 255).astype(np.uint8)
    np.savez(path, x=pixels, y=given, y_true=labels, x_test=pixels[:60], y_test=labels[:60])
    return path


def command(data: Path, out: Path, every: str) -> list[str]:
    changes = (
        "train.epochs=120",
        "train.batch_size=32",
        "method.complements=sampled",
        "method.gamma=1.0",
        "method.pl_weight=0.01",
    )
    sets = [part for change in changes for part in ("--set", change)]
    base = [sys.executable, "-m", "jnpl", "find", str(data), "--out", str(out), "--threads", "1"]
    return [*base, "--checkpoint-every", every, *sets]


def drafts(run: Path) -> set[Path]:
    return set((run / "checkpoint").glob(".*.tmp"))


def newest(run: Path) -> str:
    return max((path.name for path in (run / "checkpoint").glob("[0-9]*")), default="")


def position(run: Path) -> str:
    log = run / "metrics.jsonl"
    return f"{len(log.read_text().splitlines()) if log.is_file() else 0} epochs done"


if __name__ == "__main__":
    sys.exit(main())
