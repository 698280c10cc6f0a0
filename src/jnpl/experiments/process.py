"""A run as a process: its files, its lock, how it is started and how it ended.

`python -m jnpl.experiments.process MODULE ARGUMENTS` runs a module, and stops it when the parent process ends: its
standard input is a pipe that nobody writes to, which ends with the process that holds the other end. The module gets
SIGTERM, which makes a run save itself and stop.
"""

import json
import os
import platform
import runpy
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from jnpl.experiments import results
from jnpl.internal import locks
from jnpl.internal.files import make_folder, write_text
from jnpl.internal.json_files import read_json

RESULT = "result.json"
STARTS = 4  # how often one command starts a run whose process is killed
PATIENCE = 20.0  # seconds that a process has to save and stop: on a busy machine it takes five
_PAUSE = 0.1
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class RunOutcome(NamedTuple):
    """How a run's process ended: killed from outside, or failed by itself; busy: another command has the run."""

    state: Literal["done", "failed", "killed", "busy"]
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class RunProcess:
    """A run of an experiment: small, and the same on every machine that sees the folders."""

    name: str
    settings: str  # as JSON
    results: Path  # the file of results that its line goes to
    folder: Path  # settings.json, result.json, log, process.json, failed, and what the run keeps while it trains
    module: str  # `python -m MODULE SETTINGS.json` trains it and writes result.json beside SETTINGS.json
    data_root: Path | None
    command: str  # the id of the call that it belongs to, which counts how often the run was started

    @property
    def lock(self) -> Path:
        """Held by the process as long as it lives."""
        return self.results.parent / f".{self.name}.lock"

    @property
    def log(self) -> Path:
        """What the process printed."""
        return self.folder / "log"

    def is_done(self) -> bool:
        """Whether its result is there."""
        return (self.folder / RESULT).is_file() or results.contains(self.results, self.name)

    def store(self) -> None:
        """Move the result that its process wrote, if there is one, to the file of results."""
        with suppress(FileNotFoundError):  # another command has stored it
            line = json.loads((self.folder / RESULT).read_text("utf-8"))
            results.add(self.results, {"name": self.name, **line})
            write_text(self.folder / "process.json", json.dumps({**self.facts(), "ended": time.time()}) + "\n")
            (self.folder / RESULT).unlink()
        self.lock.unlink(missing_ok=True)  # a command that still waits for it finds the result

    def fail(self, reason: str) -> None:
        """Note that it failed, for `jnpl bench status`."""
        make_folder(self.folder)
        write_text(self.folder / "failed", reason + "\n")

    def facts(self) -> dict[str, Any]:
        """Its newest process: command, start (counted from 1), began, host, pid, parent, ended; {} without one."""
        with suppress(OSError, ValueError):
            facts = read_json(self.folder / "process.json")
            if isinstance(facts, dict):
                return facts
        return {}

    def starts(self) -> int:
        """How often this command has started it."""
        facts = self.facts()
        return int(facts["start"]) if facts.get("command") == self.command else 0

    def attend(self, gpus: float | None = None, stop: threading.Event | None = None) -> RunOutcome:
        """Start its process, on Ray with so many `gpus`, and wait for the end.

        `stop`, as an exception in this thread (Ray's way to cancel), ends the process, which saves itself.
        """
        lock = locks.take(self.lock)
        if lock is None:  # of another command, or of a process that lost its parent and saves itself
            time.sleep(10 * _PAUSE)
            return RunOutcome("busy")
        with lock:
            if self.is_done():
                return RunOutcome("done")
            if self.starts() >= STARTS:  # Ray would repeat a task that runs out of memory for ever
                return RunOutcome("failed", f"its process or its worker was killed {STARTS} times")
            began, process = time.monotonic(), self._start(lock, gpus)
        try:
            while process.poll() is None and not (stop is not None and stop.is_set()):
                time.sleep(_PAUSE)
        finally:
            _stop(process)
        return self._outcome(process.returncode, time.monotonic() - began)

    def _start(self, lock: IO[bytes], gpus: float | None) -> subprocess.Popen[bytes]:
        """Start a process, which inherits `lock` and holds it as long as it lives, whatever happens to this process.

        In a session of its own it does not get the terminal's Ctrl-C: this process stops it, and if this process ends,
        so does its standard input, and `main` stops it.
        """
        make_folder(self.folder)
        (self.folder / "failed").unlink(missing_ok=True)
        write_text(self.folder / "settings.json", self.settings + "\n")
        command = [sys.executable, "-m", "jnpl.experiments.process", self.module]
        command.append(str(self.folder / "settings.json"))
        if self.data_root is not None:
            command += ["--data-root", str(self.data_root)]
        # Ray shows a task the GPU that it was given; one that has none must see none.
        place = {None: {}, True: {"JNPL_BENCH_ACCELERATOR": "auto"}, False: {"CUDA_VISIBLE_DEVICES": ""}}
        again, began = self.starts(), time.time()
        with self.log.open("wb") as log:
            process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **_ONE_THREAD, **place[None if gpus is None else gpus > 0]},
                start_new_session=True,
                pass_fds=(lock.fileno(),) if locks.AVAILABLE else (),
            )
        facts = {
            "command": self.command,
            "start": again + 1,
            "began": self.facts()["began"] if again else began,
            "host": platform.node(),
            "pid": process.pid,
            "parent": os.getpid(),
        }
        write_text(self.folder / "process.json", json.dumps(facts) + "\n")
        return process

    def _outcome(self, code: int, seconds: float) -> RunOutcome:
        """What the exit code of its process means; a negative one is a signal's, as is one above 128."""
        if self.is_done():
            return RunOutcome("done", seconds=seconds)
        if code < 0 or code > 128:
            return RunOutcome("killed", f"its process was ended by signal {-code if code < 0 else code - 128}")
        lines = self.log.read_text("utf-8", errors="replace").split("\n") if self.log.is_file() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {code}")
        return RunOutcome("failed", last, seconds)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to save and stop, if it still runs; kill it if it does not within `PATIENCE`."""
    with suppress(OSError):
        process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def main() -> None:
    """Run the module of the command line as a program."""
    module = sys.argv.pop(1)
    threading.Thread(target=_wait_for_parent, daemon=True).start()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _wait_for_parent() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)
    os._exit(128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
