"""Run short commands many times, more at once than there are cores, and check every exit code: none may abort.

    python benchmarks/exits.py [--runs 1000] [--together 4] [--log runs.jsonl] [--results exits.jsonl] [--before FILE]

Every command of `jnpl` does some work here, and some get wrong input. Right ones must exit with 0, wrong ones with 2,
stopped ones with 130 or 143. Each run is a line of the log, with which the same command continues after a stop. Exit
code 1 if an exit code was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

QUICK = ("--set", "train.epochs=1", "--threads", "1", "--top", "0")
LONG = ("--set", "train.epochs=100000", "--threads", "1", "--no-report")
GRID = ("--data", "iris", "--rows", "ce", "--seeds", "1", "--epochs", "1", "--jobs", "1")


class Run(NamedTuple):
    """A command, its exit code, and the signal that it gets when it is at work (at its first line with `ready`)."""

    words: tuple[str, ...]
    code: int = 0
    signal: int | None = None
    ready: str = ""


# "new" is a folder of the run's own. `run` and `image-run` are there before.
RUNS = (
    Run(("find", "vectors.npz", "-o", "new/run", *QUICK)),
    Run(("find", "vectors.npz", "-o", "new/run", "--no-report", *QUICK)),
    Run(("find", "table.csv", "-o", "new/run", *QUICK)),
    Run(("find", "photos", "-o", "new/run", "--backbone", "none", "--workers", "1", *QUICK)),
    Run(("find", "texts.csv", "--text-column", "text", "-o", "new/run", *QUICK)),
    Run(("train", "vectors.npz", "-o", "new/run", *QUICK)),
    Run(("embed", "photos", "--cache", "new/cache", "--workers", "1", "-o", "new/photos.npz")),
    Run(("embed", "texts.csv", "--text-column", "text", "--backbone", "tfidf", "-o", "new/texts.npz")),
    Run(("predict", "run", "vectors.npz", "-o", "new/out.parquet")),
    Run(("predict", "image-run", "photos", "-o", "new/out.csv")),
    Run(("report", "image-run", "-o", "new/report.html")),
    Run(("apply", "run", "-o", "new/corrected.parquet")),
    Run(("apply", "image-run", "-o", "new/corrected.csv", "--copy", "new/tree")),
    Run(("export", "run", "--to", "parquet", "-o", "new/export.parquet")),
    Run(("export", "run", "--to", "onnx", "-o", "new/model.onnx")),
    Run(("corrupt", "vectors.npz", "--rate", "0.4", "-o", "new/noisy.npz")),
    Run(("bench", "-o", "new/grid", *GRID)),
    Run(("bench", "status", "grid")),
    Run(("reproduce", "fig1", "--scale", "tiny", "--only-draw", "-o", "figures")),
    Run(("methods",)),
    Run(("recipes", "fast")),
    Run(("datasets", "--json")),
    Run(("backbones",)),
    Run(("doctor",)),
    Run(("review", "run", "--no-open", "--port", "0"), 0, signal.SIGINT, "review: "),
    Run(("review", "image-run", "--no-open", "--port", "0"), 0, signal.SIGTERM, "review: "),
    Run(("find", "vectors.npz", "-o", "new/run", *LONG), 130, signal.SIGINT, "epoch"),
    Run(("train", "vectors.npz", "-o", "new/run", *LONG), 143, signal.SIGTERM, "epoch"),
    Run(("find", "none.npz", "-o", "new/run"), 2),
    Run(("find", "broken.npz", "-o", "new/run", *QUICK), 2),
    Run(("predict", "run", "none.parquet"), 2),
    Run(("review", "photos"), 2),
)
DEMO = Run(("demo", "-o", "new/demo"))
DEMO_EVERY = 200  # runs: a demo takes half a minute


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="of all commands together")
    parser.add_argument("--together", type=int, default=4, help="runs at a time, to keep all cores busy")
    parser.add_argument("--log", type=Path, default=Path("exits-runs.jsonl"), help="a line for each run, appended")
    parser.add_argument("--results", type=Path, help="also write the summary to this file, as JSON Lines")
    parser.add_argument("--before", type=Path, help="a summary of earlier runs: begin after them, and count them in")
    args = parser.parse_args()
    done = [json.loads(line) for line in args.log.read_text("utf-8").splitlines()] if args.log.exists() else []
    before = [json.loads(line) for line in args.before.read_text("utf-8").splitlines()] if args.before else []
    first = before[-1]["runs"] if before else 0
    missing = [number for number in range(first, args.runs) if number not in {each["number"] for each in done}]
    writing = threading.Lock()
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        prepare(base)

        def one(number: int) -> None:
            line = {"number": number, **execute(base, number)}
            with writing:
                done.append(line)
                with args.log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                if len(done) % 50 == 0:
                    print(f"{len(done)} runs, {sum(not each['right'] for each in done)} wrong", file=sys.stderr)

        with ThreadPoolExecutor(args.together) as pool:
            list(pool.map(one, missing))
    lines = summary(done, before)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    print(text, end="")
    if args.results is not None:
        args.results.write_text(text, "utf-8")
    return 1 if lines[-1]["wrong"] else 0


def summary(done: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return runs and wrong exit codes of each command, and of all, with those of an earlier summary."""
    groups: dict[tuple[str, int], list[tuple[int, int, float]]] = defaultdict(list)  # runs, wrong ones, seconds
    for line in before[:-1]:
        seconds = line["runs"] * line["mean_seconds"]
        groups[line["command"], line["exit_code"]].append((line["runs"], line["wrong"], seconds))
    for line in done:
        groups[line["command"], line["expected"]].append((1, int(not line["right"]), line["seconds"]))
    lines = []
    for (command, code), own in sorted(groups.items()):
        runs, wrong, total = map(sum, zip(*own, strict=True))
        same = {"command": command, "exit_code": code, "runs": runs, "wrong": wrong}
        lines.append({**same, "mean_seconds": round(total / runs, 1)})
    return [*lines, {"command": "all", **{name: sum(line[name] for line in lines) for name in ("runs", "wrong")}}]


def execute(base: Path, number: int) -> dict[str, Any]:
    """Run a command in the folder; returns what it was and whether its exit code was right."""
    run = DEMO if number % DEMO_EVERY == DEMO_EVERY - 1 else RUNS[number % len(RUNS)]
    own = base / f"new-{number}"
    own.mkdir()
    words = [sys.executable, "-m", "jnpl", *(word.replace("new/", f"{own.name}/") for word in run.words)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "JNPL_CACHE": str(own / "cache")}
    started = time.monotonic()
    process = subprocess.Popen(
        words, cwd=base, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said = []
    for line in process.stdout or ():
        said.append(line)
        if run.signal is not None and run.ready in line and process.poll() is None:
            process.send_signal(run.signal)
            break
    said.append(process.communicate()[0])
    right = process.returncode == run.code
    if not right:
        print(f"{run.words}: exit code {process.returncode}: {''.join(said)[-400:]}", file=sys.stderr)
    shutil.rmtree(own)
    return {
        "command": run.words[0],
        "expected": run.code,
        "exit_code": process.returncode,
        "right": right,
        "seconds": round(time.monotonic() - started, 2),
    }


def prepare(base: Path) -> None:
    """Write small data, two finished runs, a grid and figures."""
    drawn = np.random.default_rng(0)
    labels = np.arange(60) % 3
    x = drawn.normal(size=(60, 4)) + 2 * np.eye(4)[labels]
    np.savez(base / "vectors.npz", x=x.astype(np.float32), y=labels)
    (base / "broken.npz").write_bytes((base / "vectors.npz").read_bytes()[:300])
    rows = [f"{','.join(f'{v:.4f}' for v in row)},{label}" for row, label in zip(x, labels, strict=True)]
    (base / "table.csv").write_text("\n".join(["a,b,c,d,label", *rows]) + "\n", "utf-8")
    vocabulary = (("red", "apple", "pear"), ("blue", "car", "bus"), ("green", "tree", "oak"))
    texts = [f"{' '.join(drawn.choice(vocabulary[label], 5))},{label}" for label in labels]
    (base / "texts.csv").write_text("\n".join(["text,label", *texts]) + "\n", "utf-8")
    for number, label in enumerate(labels[:18]):
        folder = base / "photos" / ("cat", "dog", "eel")[label]
        folder.mkdir(parents=True, exist_ok=True)
        pixels = drawn.integers(80 * label, 80 * label + 80, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    for words in (
        ("find", "vectors.npz", "-o", "run", *QUICK),
        ("find", "photos", "-o", "image-run", "--cache", "cache", "--workers", "0", *QUICK),
        ("bench", "-o", "grid", *GRID),
        ("reproduce", "fig1", "--scale", "tiny", "-o", "figures"),
    ):
        subprocess.run([sys.executable, "-m", "jnpl", *words], cwd=base, check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
