"""Run short commands many times while all cores are busy, and check every exit code: none may abort at its end.

    python benchmarks/exits.py [--runs 1000] [--busy 2] [--log FILE]

Commands that succeed must exit with 0, wrong ones with 2. Exit code 1 if one did not.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

QUICK = ("--set", "train.epochs=1", "--threads", "1", "--top", "0")
# What to run, and its exit code. The first two make what the others need.
COMMANDS = (
    (("find", "vectors.npz", "-o", "run", *QUICK), 0),
    (("find", "vectors.npz", "-o", "new-{}", "--no-report", *QUICK), 0),
    (("report", "run"), 0),
    (("predict", "run", "vectors.npz", "-o", "out-{}.parquet"), 0),
    (("apply", "run", "-o", "corrected-{}.parquet"), 0),
    (("export", "run", "--to", "parquet", "-o", "export-{}.parquet"), 0),
    (("corrupt", "vectors.npz", "--rate", "0.4", "-o", "noisy-{}.npz"), 0),
    (("methods",), 0),
    (("datasets", "--json"), 0),
    (("find", "none.npz", "-o", "none"), 2),
    (("predict", "run", "none.parquet"), 2),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="of all commands together")
    parser.add_argument("--busy", type=int, default=2, help="processes that keep the cores busy meanwhile")
    parser.add_argument("--log", type=Path, help="also write the summary to this file, as JSON Lines")
    args = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    busy = [context.Process(target=spin, daemon=True) for _ in range(args.busy)]
    for process in busy:
        process.start()
    counts: Counter[tuple[str, int]] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        random = np.random.default_rng(0)
        np.savez(Path(folder) / "vectors.npz", x=random.normal(size=(60, 4)), y=np.arange(60) % 3)
        for number in range(args.runs):
            command, code = COMMANDS[number % len(COMMANDS)]
            words = [sys.executable, "-m", "jnpl", *(word.format(number) for word in command)]
            done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
            counts[command[0], done.returncode] += 1
            if number % 100 == 99:
                print(f"{number + 1} runs, {wrong} wrong", file=sys.stderr)
            if done.returncode != code:
                wrong += 1
                print(f"{command}: exit code {done.returncode}: {done.stderr[-300:]}", file=sys.stderr)
    for process in busy:
        process.terminate()
    lines = [{"command": name, "exit_code": code, "runs": count} for (name, code), count in sorted(counts.items())]
    lines.append({"command": "all", "runs": args.runs, "wrong": wrong})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    print(text, end="")
    if args.log is not None:
        args.log.write_text(text)
    return 1 if wrong else 0


def spin() -> None:
    """Compute for ever."""
    while True:
        sum(range(100_000))


if __name__ == "__main__":
    sys.exit(main())
