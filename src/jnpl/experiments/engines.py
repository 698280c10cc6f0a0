"""Where cells run: as processes of this machine, or on a Ray cluster (`ray_engine`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from jnpl.experiments.job import End, stop
from jnpl.internal import locks
from jnpl.internal.errors import InputError
from jnpl.internal.importing import require

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from jnpl.experiments.job import Job

ENGINES = ("local", "ray")
JOBS = 2


class GridEngine(Protocol):
    """Runs jobs, a few at a time."""

    name: str

    def open(self, jobs: int | None, report: Callable[[str], None]) -> None:
        """Prepare for so many jobs at a time (None: the engine chooses)."""

    def is_full(self) -> bool:
        """Whether nothing more should be started now."""

    def start(self, job: Job) -> bool:
        """Start a job; False if another grid runs it."""

    def ended(self) -> list[End]:
        """Return the jobs that have ended since the last call."""

    @property
    def busy(self) -> int:
        """Jobs that were started and have not ended."""

    def close(self) -> None:
        """Stop all jobs; each saves itself first."""


class LocalEngine:
    """Runs each job as a process of this machine."""

    name = "local"

    def __init__(self) -> None:
        self.running: dict[str, tuple[Job, subprocess.Popen[bytes], float]] = {}
        self.jobs = JOBS

    def open(self, jobs: int | None, report: Callable[[str], None]) -> None:  # noqa: ARG002 (nothing to report)
        """Nothing to prepare."""
        self.jobs = jobs or JOBS

    def is_full(self) -> bool:
        """Whether `jobs` processes are running."""
        return len(self.running) >= self.jobs

    def start(self, job: Job) -> bool:
        """Start a process, unless another grid runs the cell, or has just done it."""
        lock = locks.take(job.lock)
        if lock is None:
            return False
        with lock:
            if job.is_done():
                job.remove_lock()
                return False
            self.running[job.name] = job, job.start(lock), time.monotonic()
        return True

    def ended(self) -> list[End]:
        """Processes that have ended."""
        ends = []
        for job, process, began in list(self.running.values()):
            code = process.poll()
            if code is not None:
                del self.running[job.name]
                ends.append(job.ended(code, time.monotonic() - began))
        return ends

    @property
    def busy(self) -> int:
        """Running processes."""
        return len(self.running)

    def close(self) -> None:
        """Stop all processes."""
        stop([process for _, process, _ in self.running.values()])


def make_engine(name: str = "local", address: str | None = None, gpus: float | None = None) -> GridEngine:
    """The engine of `--engine`, `--address` and `--gpus`; InputError if they do not go together."""
    if name not in ENGINES:
        raise InputError(f"--engine must be {' or '.join(ENGINES)}, got {name!r}")
    if name == "local":
        for option, value in (("--address", address), ("--gpus", gpus)):
            if value is not None:
                raise InputError(f"{option} goes with --engine ray, got {option} {value} with --engine local")
        return LocalEngine()
    if gpus is not None and not (0 <= gpus <= 1 or (gpus > 1 and gpus.is_integer())):
        raise InputError(f"--gpus is a share of a GPU, such as 0.5, or a whole number of them, got {gpus:g}")
    require("ray", "ray")
    from jnpl.experiments.ray_engine import RayEngine  # noqa: PLC0415 (an extra)

    return RayEngine(address, gpus=gpus or 0.0)
