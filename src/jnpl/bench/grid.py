"""Many cells, a process each, a few at a time; what is done stays done, and the same call goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from jnpl.files import make_folder, write_text
from jnpl.interrupt import Interrupted, watch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from jnpl.bench.cell import Cell

try:
    import fcntl
except ImportError:  # Windows: no lock
    fcntl = None  # type: ignore[assignment]

_PATIENCE = 10.0  # seconds that a child has to stop
_PAUSE = 0.1


@dataclass
class Grid:
    """Cells that wait, run and have failed; `say` is told a line at a time."""

    results: Path
    work: Path
    data_root: Path | None
    say: Callable[[str], None]
    waiting: list[Cell]
    module: str = "jnpl.bench.run"  # what a process runs: `python -m MODULE CELL.json --results DIR [--data-root DIR]`
    running: dict[str, tuple[subprocess.Popen[bytes], float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def is_done(self, cell: Cell) -> bool:
        """Whether its JSON is there."""
        return (self.results / f"{cell.name}.json").is_file()

    def start_next(self) -> bool:
        """Start the first waiting cell that nobody else has in hand; False if there is none."""
        for cell in list(self.waiting):
            lock = self._lock(cell)
            if lock is None:
                continue
            with lock:
                self.waiting.remove(cell)
                if self.is_done(cell):  # by another grid, meanwhile
                    self._unlock(cell.name)
                    continue
                self.running[cell.name] = self._start(cell, lock), time.monotonic()
                return True
        return False

    def _lock(self, cell: Cell) -> IO[bytes] | None:
        """A file that only one grid holds; None if another does."""
        file = (self.results / f".{cell.name}.lock").open("ab")
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                return None
        return file

    def _unlock(self, name: str) -> None:
        """Only where the JSON is there: who still waits for the old lock finds the cell done."""
        (self.results / f".{name}.lock").unlink(missing_ok=True)

    def _start(self, cell: Cell, lock: IO[bytes]) -> subprocess.Popen[bytes]:
        folder = make_folder(self.work / cell.name)
        write_text(folder / "cell.json", cell.model_dump_json(indent=1) + "\n")
        command = [sys.executable, "-m", self.module, str(folder / "cell.json"), "--results", str(self.results)]
        if self.data_root is not None:
            command += ["--data-root", str(self.data_root)]
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        # The child inherits the lock and holds it as long as it lives, whatever happens to the grid. In a session of
        # its own it does not hear the terminal's Ctrl-C: the grid stops it.
        held = () if fcntl is None else (lock.fileno(),)
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **threads},
                start_new_session=True, pass_fds=held,
            )  # fmt: skip

    def collect(self) -> list[tuple[str, float]]:
        """Names and seconds of cells that have ended since; a failed one is told and noted."""
        ended = [(name, began) for name, (process, began) in self.running.items() if process.poll() is not None]
        for name, _ in ended:
            code = self.running.pop(name)[0].returncode
            if (self.results / f"{name}.json").is_file():
                self._unlock(name)
            else:
                self.failed[name] = _last_line(self.work / name / "log") or f"exit code {code}"
                self.say(f"{name}: FAILED, {self.failed[name]} (see {self.work / name / 'log'})")
                write_text(self.work / "failed.json", json.dumps(self.failed, indent=1) + "\n")
        return [(name, time.monotonic() - began) for name, began in ended]

    def stop(self) -> None:
        """Stop all children; their cells begin anew next time."""
        for process, _ in self.running.values():
            with suppress(OSError):
                process.terminate()
        limit = time.monotonic() + _PATIENCE
        for process, _ in self.running.values():
            try:
                process.wait(max(limit - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:  # noqa: PERF203 - each may be stubborn alone
                process.kill()
                process.wait()


def run_cells(
    cells: Sequence[Cell],
    results: Path,
    work: Path,
    jobs: int,
    data_root: Path | None,
    say: Callable[[str], None] = print,
    module: str = "jnpl.bench.run",
) -> dict[str, str]:
    """Run all cells that have no JSON in `results`, in order, `jobs` at a time; returns those that failed, and why.

    A cell that another grid has in hand is waited for. SIGINT and SIGTERM stop the children and raise `Interrupted`.
    """
    make_folder(results)
    make_folder(work)
    grid = Grid(results, work, data_root, say, [], module)
    grid.waiting = [cell for cell in cells if not grid.is_done(cell)]
    total, began, ended = len(grid.waiting), time.monotonic(), 0
    say(f"{len(cells)} cells, {len(cells) - total} done before")
    (work / "failed.json").unlink(missing_ok=True)
    try:
        with watch() as wish:
            while grid.waiting or grid.running:
                while len(grid.running) < jobs and grid.start_next():
                    pass
                time.sleep(_PAUSE)
                for name, seconds in grid.collect():
                    ended += 1
                    left = len(grid.waiting) + len(grid.running)
                    if name not in grid.failed:
                        rest = (time.monotonic() - began) / ended * left
                        say(f"{name}: done in {seconds:.0f} s; {total - left} of {total}, {_time(rest)} left")
                if wish.signal:
                    raise Interrupted("stopped; the same command goes on with the cells that are left", wish.signal)
    finally:
        grid.stop()
    return grid.failed


def _last_line(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").split("\n") if log.is_file() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _time(seconds: float) -> str:
    """In words: "40 s", "12 min", "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
