"""Kill commands with SIGKILL at random moments, repeat each until it ends, and compare with undisturbed ones.

    python benchmarks/faults.py [--kills 100] [--seed 0] [--only NAME] [--log FILE]

The commands are embed, find, train, bench, apply and export, on small data. A killed command is given again, as a user
would, until it ends by itself. Then its results must be those of a command that was never killed, byte for byte where
they hold no times, its inputs untouched, and no draft left beside them. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

QUICK = ("--set", "train.epochs=60", "--set", "train.batch_size=32", "--threads", "1", "--checkpoint-every", "1")
FOUND = ("findings.parquet", "findings.csv", "model.safetensors", "metrics.jsonl", "data.json")


@dataclass(frozen=True)
class Fault:
    """A command to kill: its arguments, and the files whose content must be the same afterwards."""

    args: tuple[str, ...]
    same: tuple[str, ...]


FAULTS = {
    "embed": Fault(
        ("embed", "photos", "--cache", "cache", "--workers", "0", "-o", "out.npz", "--overwrite"), ("out.npz",)
    ),
    "find": Fault(("find", "vectors.npz", "-o", "run", *QUICK), tuple(f"run/{name}" for name in FOUND)),
    "train": Fault(("train", "vectors.npz", "-o", "run", *QUICK), tuple(f"run/{name}" for name in FOUND)),
    "bench": Fault(("bench", "-o", "grid", "--data", "iris", "--rows", "ce,gce", "--seeds", "2", "--epochs", "20"), ()),
    "apply": Fault(
        ("apply", "done", "--copy", "tree", "-o", "corrected.csv", "--overwrite"), ("corrected.csv", "tree")
    ),
    "export": Fault(("export", "vector-run", "--to", "torchscript", "-o", "model.pt", "--overwrite"), ("model.pt",)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of all commands together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(FAULTS))
    parser.add_argument("--log", type=Path, help="also write the summary to this file, as JSON Lines")
    args = parser.parse_args()
    names, moments = [args.only] if args.only else list(FAULTS), random.Random(args.seed)
    each, lines = -(-args.kills // len(names)), []
    with tempfile.TemporaryDirectory() as base:
        template = Path(base) / "template"
        prepare(template)
        for name in names:
            lines.append({"command": name, **disturb(name, template, Path(base) / name, each, moments)})
            print(json.dumps(lines[-1]), flush=True)
    total = {"command": "all", **{key: sum(line[key] for line in lines) for key in ("kills", "repeats", "differences")}}
    print(json.dumps(total))
    if args.log is not None:
        args.log.write_text("".join(json.dumps(line) + "\n" for line in [*lines, total]))
    return 1 if total["differences"] else 0


def prepare(folder: Path) -> None:
    """Write the data, and two finished runs."""
    drawn = np.random.default_rng(0)
    for name in ("cat", "dog", "eel"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(200):
            pixels = drawn.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    labels = drawn.integers(0, 3, 600)
    x = drawn.normal(size=(600, 8)) + 2 * np.eye(8)[labels]
    given = np.where(drawn.random(600) < 0.3, drawn.integers(0, 3, 600), labels)
    np.savez(folder / "vectors.npz", x=x.astype(np.float32), y=given)
    quick = ("--set", "train.epochs=2", "--threads", "1")
    check(folder, "find", "photos", "-o", "done", "--backbone", "none", "--workers", "0", *quick)
    check(folder, "find", "vectors.npz", "-o", "vector-run", *quick)


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "jnpl", *args]


def check(folder: Path, *args: str) -> None:
    done = subprocess.run(command(*args), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"jnpl {' '.join(args)}: exit code {done.returncode}: {done.stderr[-500:]}")


def disturb(name: str, template: Path, base: Path, kills: int, moments: random.Random) -> dict[str, Any]:
    """Kill a command so often, from the start again whenever it has ended; returns counts."""
    fault = FAULTS[name]
    peace = copied(template, base / "peace")
    started = time.monotonic()
    check(peace, *fault.args)
    takes = time.monotonic() - started
    wanted, done, repeats, differences, rounds = contents(peace, fault), 0, 0, 0, 0
    while done < kills:
        folder, rounds = copied(template, base / f"round-{rounds}"), rounds + 1
        for _ in range(min(5, kills - done)):
            process = subprocess.Popen(
                command(*fault.args),
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            time.sleep(moments.uniform(0.3, 1.05) * takes)
            ended = process.poll() is not None
            os.killpg(process.pid, signal.SIGKILL) if not ended else None
            process.wait()
            if ended:
                break
            done += 1
        if name == "apply" and (folder / "tree").is_dir():  # it had ended: a tree is never written twice
            shutil.rmtree(folder / "tree")
        check(folder, *fault.args)
        repeats += 1
        found = contents(folder, fault)
        if found != wanted:
            differences += 1
            print(f"{name}: {[path for path in wanted if found.get(path) != wanted[path]]}", file=sys.stderr)
        shutil.rmtree(folder)
    shutil.rmtree(peace)
    return {"kills": done, "repeats": repeats, "differences": differences, "seconds_undisturbed": round(takes, 1)}


def copied(template: Path, folder: Path) -> Path:
    shutil.copytree(template, folder)
    return folder


def contents(folder: Path, fault: Fault) -> dict[str, str]:
    """Return what must be the same: the results, the inputs, and that no draft is there."""
    found = {name: digest(folder / name) for name in ("photos", "vectors.npz", "done", "vector-run")}
    for name in fault.same:
        found[name] = digest(folder / name)
    if fault.args[0] == "bench":
        lines = [json.loads(line) for line in (folder / "grid" / "results.jsonl").read_text("utf-8").splitlines()]
        found["results"] = json.dumps(sorted((line["name"], line["results"]["ap"]) for line in lines))
    drafts = [path.name for path in folder.rglob(".*.tmp") if f".{os.getpid()}." not in path.name]
    found["drafts"] = json.dumps(sorted(name.split(".")[1] for name in drafts))
    return found


def digest(path: Path) -> str:
    whole = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            whole.update(str(file.relative_to(path)).encode() + b"\0")
            content = file.read_bytes()
            if file.name == "data.json":  # the command line names this process's arguments
                content = json.dumps({**json.loads(content), "root": None}).encode()
            whole.update(content)
    return whole.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
