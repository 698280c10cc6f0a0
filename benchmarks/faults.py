"""Kill commands with SIGKILL at random moments, repeat each until it ends, and compare with undisturbed ones.

    python benchmarks/faults.py [--kills 105] [--seed 0] [--only NAME] [--log FILE]

The commands are embed, find, train, bench, apply, export, check, audit and review, on small data. A killed command is
given again, as a user would, until it ends by itself. Then its results must be those of a command that was never
killed, byte for byte where they hold no times, its inputs untouched, and no draft left beside them. The server of
`jnpl review` is killed while it saves decisions and learns from them; in the end every decision must be there, and the
corrected labels must be those of a server that was never killed.

Of find and train the log has the epochs that were done at every kill. A moment is an amount of CPU time of the process
and its children, so that other work on the machine does not matter: at least a third of what the undisturbed command
takes, because the first third loads PyTorch. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from collections.abc import Callable, Iterator

import review

RESULTS = Path(__file__).parent / "results" / "faults.jsonl"
QUICK = ("--set", "train.epochs=60", "--set", "train.batch_size=32", "--threads", "1", "--checkpoint-every", "1")
FOUND = ("findings.parquet", "findings.csv", "model.safetensors", "metrics.jsonl", "data.json")
GRID = ("--data", "iris", "--rows", "ce", "--seeds", "1", "--epochs", "20", "--jobs", "1")
INPUTS = ("photos", "vectors.npz", "new.npz", "answers.csv", "done", "vector-run")
IN_A_ROW = 4  # kills before the command is left in peace
DECISIONS = 300
_TICKS = os.sysconf("SC_CLK_TCK")


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
    "bench": Fault(("bench", "-o", "grid", *GRID), ()),
    "apply": Fault(
        ("apply", "done", "--copy", "tree", "-o", "corrected.csv", "--overwrite"), ("corrected.csv", "tree")
    ),
    "export": Fault(("export", "vector-run", "--to", "onnx", "-o", "model.onnx", "--overwrite"), ("model.onnx",)),
    "check": Fault(
        ("check", "vector-run", "new.npz", "-o", "checked", "--threads", "1", "--sarif", "out.sarif"),
        ("checked/findings.parquet", "checked/findings.csv", "checked/check.json", "out.sarif"),
    ),
    "audit": Fault(
        ("audit", "audited", "--answers", "answers.csv"),
        ("audited/findings.parquet", "audited/findings.csv", "audited/audit.json"),
    ),
    "review": Fault(("apply", "vector-run", "-o", "reviewed.csv"), ("reviewed.csv",)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=105, help="of all commands together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(FAULTS))
    parser.add_argument("--log", type=Path, default=RESULTS, help="JSON Lines with the results by command")
    args = parser.parse_args()
    names, moments = [args.only] if args.only else list(FAULTS), random.Random(args.seed)
    each = -(-args.kills // len(names))
    stored_lines = args.log.read_text("utf-8").splitlines() if args.log.exists() else []
    lines = {line["command"]: line for line in map(json.loads, stored_lines)}
    with tempfile.TemporaryDirectory() as base:
        template = Path(base) / "template"
        prepare(template)
        for name in names:
            trial = disturb_review if name == "review" else disturb
            lines[name] = {"command": name, **trial(name, template, Path(base) / name, each, moments)}
            print(json.dumps(lines[name]), flush=True)
            done = [lines[name] for name in FAULTS if name in lines]
            total = {key: sum(line[key] for line in done) for key in ("kills", "rounds", "differences")}
            text = "".join(json.dumps(line) + "\n" for line in [*done, {"command": "all", **total}])
            args.log.write_text(text, "utf-8")
    return 1 if total["differences"] else 0


def prepare(folder: Path) -> None:
    """Write the data, and two finished runs."""
    drawn = np.random.default_rng(0)
    for name in ("cat", "dog", "eel"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(20):
            pixels = drawn.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "photos" / name / f"{number}.png")
    labels = drawn.integers(0, 3, 600)
    x = drawn.normal(size=(600, 8)) + 2 * np.eye(8)[labels]
    given = np.where(drawn.random(600) < 0.3, drawn.integers(0, 3, 600), labels)
    np.savez(folder / "vectors.npz", x=x.astype(np.float32), y=given)
    np.savez(folder / "new.npz", x=x[:300].astype(np.float32) + 0.1, y=given[300:])
    quick = ("--set", "train.epochs=2", "--threads", "1")
    check(folder, "find", "photos", "-o", "done", "--backbone", "none", "--workers", "0", *quick)
    check(folder, "find", "vectors.npz", "-o", "vector-run", *quick)
    shutil.copytree(folder / "vector-run", folder / "audited")
    check(folder, "audit", "audited", "-n", "200", "-o", "asked.csv")
    asked = pd.read_csv(folder / "asked.csv")
    asked.assign(label=drawn.choice(["0", "1", "2", "wrong", "unsure"], len(asked))).to_csv(
        folder / "answers.csv", index=False
    )


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "jnpl", *args]


def check(folder: Path, *args: str) -> float:
    """Run a command to its end; returns its CPU seconds."""
    before = os.times()
    done = subprocess.run(command(*args), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"jnpl {' '.join(args)}: exit code {done.returncode}: {done.stderr[-500:]}")
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def kill_at(process: subprocess.Popen[Any], cpu: float) -> bool:
    """Kill a process and its children when they have used so much CPU time; returns whether it was still there."""
    while process.poll() is None:
        if _cpu(process.pid) >= cpu:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return process.returncode == -signal.SIGKILL
        time.sleep(0.03)
    return False


def _cpu(process: int) -> float:
    """Return the CPU seconds of a process and its children, of ended ones too."""
    with suppress(OSError):
        words = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text("utf-8").split()
        return sum(map(int, words[11:15])) / _TICKS + sum(_cpu(int(child)) for child in children)
    return 0.0


def rounds(template: Path, base: Path, kills: int) -> Iterator[tuple[Path, int]]:
    """Yield a fresh folder and the number of kills to come there, until there have been enough."""
    for number in range(0, kills, IN_A_ROW):
        folder = Path(shutil.copytree(template, base / f"round-{number}"))
        yield folder, min(IN_A_ROW, kills - number)
        shutil.rmtree(folder)


def disturb(name: str, template: Path, base: Path, kills: int, moments: random.Random) -> dict[str, Any]:
    """Kill a command so often; returns counts."""
    fault = FAULTS[name]
    peace = Path(shutil.copytree(template, base / "peace"))
    takes = check(peace, *fault.args)
    wanted, done, differences, ended, repeats = contents(peace, fault), 0, 0, 0, 0
    epochs: list[int] = []
    for folder, wished in rounds(template, base, kills):
        hit = 0
        while hit < wished:
            process = subprocess.Popen(
                command(*fault.args),
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            if kill_at(process, moments.uniform(0.33, 1.0) * takes):
                hit += 1
                log = folder / "run" / "metrics.jsonl"
                epochs.append(log.read_bytes().count(b"\n") if log.is_file() else 0)
                continue
            ended += 1  # before the moment came: what it leaves must be right, and the next kills begin anew
            differences += compare(name, wanted, contents(folder, fault))
            shutil.rmtree(folder)
            shutil.copytree(template, folder)
        if name == "apply" and (folder / "tree").is_dir():  # killed after all was written: no tree is written twice
            shutil.rmtree(folder / "tree")
        check(folder, *fault.args)
        done, repeats = done + hit, repeats + 1
        differences += compare(name, wanted, contents(folder, fault))
    return {
        "kills": done,
        "rounds": repeats,
        "ended_before": ended,
        "differences": differences,
        "cpu_seconds_undisturbed": round(takes, 1),
        **({"epochs": epochs} if name in ("find", "train") else {}),
    }


def disturb_review(name: str, template: Path, base: Path, kills: int, moments: random.Random) -> dict[str, Any]:
    """Kill the server of a review while it saves decisions and learns; returns counts."""
    fault = FAULTS[name]
    peace = Path(shutil.copytree(template, base / "peace"))
    with review.served(peace / "vector-run") as (_, port):
        decide(port, set())
    check(peace, *fault.args)
    wanted, done, differences, lost, repeats = contents(peace, fault), 0, 0, 0, 0
    for folder, wished in rounds(template, base, kills):
        acknowledged: set[int] = set()
        for _ in range(wished):
            with review.served(folder / "vector-run") as (process, port):
                timer = threading.Timer(moments.uniform(0.0, 2.0), process.kill)
                timer.start()
                decide(port, acknowledged, slowly=True)
                process.wait()
            done += 1
            lost += len(acknowledged - stored(folder / "vector-run"))
        with review.served(folder / "vector-run") as (_, port):
            decide(port, acknowledged)
        check(folder, *fault.args)
        differences, repeats = differences + compare(name, wanted, contents(folder, fault)), repeats + 1
    return {"kills": done, "rounds": repeats, "lost_decisions": lost, "differences": differences + lost}


def decide(port: int, acknowledged: set[int], *, slowly: bool = False) -> None:
    """Decide all samples that are not yet acknowledged, and learn; `slowly`: until the server ends.

    A decision that was saved, but not acknowledged, is a conflict: it is the one that is wanted.
    """
    with suppress(OSError, http.client.HTTPException):
        client = review.Client(port)
        for position in range(DECISIONS):
            if position in acknowledged:
                continue
            made = {"position": position, "action": "relabel", "label": position % 3, "seen": 0}
            with suppress(RuntimeError):
                client.json("/api/decide", {"tab": "t", "reviewer": "r", "decisions": [made]})
            acknowledged.add(position)
            if position % 20 == 10:
                client.json("/api/learn", {"tab": "t"})
        while slowly:
            client.json("/api/learn", {"tab": "t"})
            time.sleep(0.1)


def stored(run: Path) -> set[int]:
    """Return the samples with a decision; the file must be whole."""
    with closing(sqlite3.connect(run / "review.sqlite")) as connection:
        if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
            return set()
        return {row[0] for row in connection.execute("SELECT position FROM current")}


def compare(name: str, wanted: dict[str, str], found: dict[str, str]) -> int:
    """Return 1, and say what differs, if something does."""
    different = [path for path in wanted if found.get(path) != wanted[path]]
    if different:
        print(f"{name}: {different}: {[found.get(path) for path in different]}", file=sys.stderr)
    return int(bool(different))


def contents(folder: Path, fault: Fault) -> dict[str, str]:
    """Return what must be the same: the results, the inputs, and that no draft is there."""
    reviewed: Callable[[Path], bool] = lambda file: file.name.startswith("review.sqlite")  # noqa: E731
    found = {name: digest(folder / name, reviewed) for name in INPUTS}
    found |= {name: digest(folder / name) for name in fault.same}
    if fault.args[0] == "bench":
        lines = [json.loads(line) for line in (folder / "grid" / "results.jsonl").read_text("utf-8").splitlines()]
        found["results"] = json.dumps(sorted((line["name"], line["results"]["ap"]) for line in lines))
    found["drafts"] = json.dumps(sorted(path.name for path in folder.rglob(".*.tmp")))
    return found


def digest(path: Path, without: Callable[[Path], bool] = lambda _: False) -> str:
    whole = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file() and not without(file):
            whole.update(str(file.relative_to(path)).encode() + b"\0")
            content = file.read_bytes()
            if file.name == "data.json":  # it names folders, which are others
                content = json.dumps({**json.loads(content), "root": None, "options": None}).encode()
            elif file.name == "audit.json":  # of answers that were given twice the last one counts
                facts = json.loads(content)
                counting = {each["position"]: each["label"] for each in facts["answers"]}
                content = json.dumps([facts["positions"], sorted(counting.items())]).encode()
            whole.update(content)
    return whole.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
