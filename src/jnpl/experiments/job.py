"""A cell as a process: its files, its lock, how it is started and how it ended."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple

from jnpl.experiments import results
from jnpl.internal import locks
from jnpl.internal.files import make_folder, write_text
from jnpl.internal.json_files import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

RESULT = "result.json"
STARTS = 4  # how often one call starts a cell whose process is killed
PATIENCE = 20.0  # seconds that a process has to save and stop: on a busy machine it takes five
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class End(NamedTuple):
    """How a cell's process ended: killed from outside, or failed by itself; busy: another grid runs it."""

    name: str
    state: Literal["done", "failed", "killed", "busy"]
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Job:
    """A cell to run: small, and the same on every machine that sees the folders."""

    name: str
    cell: str  # its JSON
    results: Path  # the file of results that its line goes to
    folder: Path  # its own: cell.json, result.json, log, process.json, failed, and what it keeps while it runs
    module: str  # `python -m MODULE CELL.json [--data-root DIR]` runs it and writes result.json beside CELL.json
    data_root: Path | None
    grid: str  # the call it belongs to, which counts how often it was started

    @property
    def lock(self) -> Path:
        """Held by the cell's process as long as it lives."""
        return self.results.parent / f".{self.name}.lock"

    @property
    def log(self) -> Path:
        """What its process printed."""
        return self.folder / "log"

    @property
    def result(self) -> Path:
        """What its process writes when it is done."""
        return self.folder / RESULT

    def is_done(self) -> bool:
        """Whether its result is there."""
        return self.result.is_file() or results.contains(self.results, self.name)

    def collect(self) -> None:
        """Move the result that its process wrote to the file of results."""
        with suppress(FileNotFoundError):  # another grid has collected it
            results.add(self.results, {"name": self.name, **json.loads(self.result.read_text("utf-8"))})
            write_text(self.folder / "process.json", json.dumps({**self.process(), "ended": time.time()}) + "\n")
            self.result.unlink()
        self.remove_lock()

    def remove_lock(self) -> None:
        """Remove the lock of a cell that is done: a grid that still waits for it finds the result."""
        self.lock.unlink(missing_ok=True)

    def process(self) -> dict[str, Any]:
        """What is known of its newest process: grid, start (counted from 1), began, host, pid, parent, ended."""
        with suppress(OSError, ValueError):
            facts = read_json(self.folder / "process.json")
            if isinstance(facts, dict):
                return facts
        return {}

    def starts(self) -> int:
        """How often this call has started it."""
        facts = self.process()
        return int(facts["start"]) if facts.get("grid") == self.grid else 0

    def start(
        self, lock: IO[bytes], *, watch_parent: bool = False, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start its process, which inherits `lock`; with `watch_parent` it stops when this process ends."""
        make_folder(self.folder)
        (self.folder / "failed").unlink(missing_ok=True)
        write_text(self.folder / "cell.json", self.cell + "\n")
        head = ["jnpl.experiments.parent_watch", self.module] if watch_parent else [self.module]
        command = [sys.executable, "-m", *head, str(self.folder / "cell.json")]
        if self.data_root is not None:
            command += ["--data-root", str(self.data_root)]
        # The child inherits the lock and holds it as long as it lives, whatever happens to this process. In a session
        # of its own it does not get the terminal's Ctrl-C: this process stops it.
        held = (lock.fileno(),) if locks.AVAILABLE else ()
        began, before = time.time(), self.process()
        with self.log.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.PIPE if watch_parent else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **_ONE_THREAD, **(env or {})},
                start_new_session=True,
                pass_fds=held,
            )
        same = before.get("grid") == self.grid
        facts = {
            "grid": self.grid,
            "start": before["start"] + 1 if same else 1,
            "began": before["began"] if same else began,
            "host": platform.node(),
            "pid": process.pid,
            "parent": os.getpid(),
        }
        write_text(self.folder / "process.json", json.dumps(facts) + "\n")
        return process

    def ended(self, code: int, seconds: float) -> End:
        """What the exit code of its process means; a negative one is a signal's, as is one above 128."""
        if self.is_done():
            return End(self.name, "done", seconds=seconds)
        if code < 0 or code > 128:
            return End(self.name, "killed", f"its process was ended by signal {-code if code < 0 else code - 128}")
        return End(self.name, "failed", last_line(self.log) or f"exit code {code}", seconds)

    def fail(self, reason: str) -> None:
        """Note that it failed, for `jnpl bench status`."""
        make_folder(self.folder)
        write_text(self.folder / "failed", reason + "\n")


def stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask processes to save and stop; those that do not within `PATIENCE` are killed."""
    for process in processes:
        with suppress(OSError):
            process.terminate()
    limit = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(limit - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def last_line(log: Path) -> str:
    """The last line of a log that is not empty."""
    lines = log.read_text("utf-8", errors="replace").split("\n") if log.is_file() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
