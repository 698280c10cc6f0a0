"""Cells on a Ray cluster: a task each, whose worker starts the same process as `LocalEngine` does.

The folders must lie on storage that all machines see. A task whose worker or machine dies is run again by Ray; its cell
resumes at its checkpoint, which lies in the cell's folder.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jnpl.experiments.job import PATIENCE, STARTS, End, stop
from jnpl.internal import locks
from jnpl.internal.errors import InputError
from jnpl.internal.importing import require
from jnpl.internal.ray_cluster import connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from jnpl.experiments.job import Job

_PAUSE = 0.1
_STORE = 80 * 2**20  # bytes: the least that Ray takes; what passes through it is a name and an error


def run_job(job: Job, gpus: float) -> End:
    """In a worker: run a cell's process and wait for its end."""
    began = time.monotonic()
    # The process of a worker that was killed notices that within a moment, and saves before it stops.
    while (lock := locks.take(job.lock)) is None:
        if time.monotonic() - began > 2 * PATIENCE:
            return End(job.name, "busy")
        time.sleep(_PAUSE)
    with lock:
        if job.is_done():
            job.remove_lock()
            return End(job.name, "done")
        if job.starts() >= STARTS:  # Ray would repeat a task that runs out of memory for ever
            return End(job.name, "killed", f"its process or its worker was killed {STARTS} times")
        # Ray shows a task the GPU that it was given; one that has none must see none.
        env = {"JNPL_BENCH_ACCELERATOR": "auto"} if gpus else {"CUDA_VISIBLE_DEVICES": ""}
        began = time.monotonic()
        process = job.start(lock, watch_parent=True, env=env)
    try:
        while process.poll() is None:
            time.sleep(_PAUSE)
    finally:  # Ray cancels a task by a KeyboardInterrupt
        if process.poll() is None:
            stop([process])
        if process.stdin is not None:
            process.stdin.close()
    return job.ended(process.returncode, time.monotonic() - began)


@dataclass
class RayEngine:
    """A cluster at `address`, or one on this machine that lives as long as the grid; CPUs and GPUs are of a cell."""

    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    name: str = "ray"
    jobs: int | None = None
    running: dict[Any, Job] = field(default_factory=dict)  # by reference to its task
    _ray: Any = None
    _task: Any = None
    _own: bool = False  # connected by this engine, which disconnects at the end

    def open(self, jobs: int | None, report: Callable[[str], None]) -> None:
        """Connect, or start a cluster with room for so many jobs (None: one a core)."""
        self._ray, self.jobs = require("ray", "ray"), jobs
        if not self._ray.is_initialized():
            self._connect()
            self._own = True
        room: dict[str, float] = self._ray.cluster_resources()
        for kind, wanted in (("CPU", self.cpus), ("GPU", self.gpus)):
            if room.get(kind, 0.0) < wanted:
                lack = f"a cell needs {wanted:g} {kind}, the Ray cluster has {room.get(kind, 0.0):g}"
                if self.address is None and self._own:
                    self.close()
                    raise InputError(f"{lack}: name a cluster that has them by --address, or ask for less")
                report(f"{lack}: cells wait until it has more")
        self._task = self._ray.remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=STARTS - 1)(run_job)

    def _connect(self) -> None:
        own: dict[str, Any] = {"object_store_memory": _STORE}
        if self.jobs is not None:
            own["num_cpus"] = max(1, round(self.jobs * self.cpus))
        connect(self._ray, self.address, **own)

    def is_full(self) -> bool:
        """Ray queues what it has no room for."""
        return self.jobs is not None and len(self.running) >= self.jobs

    def start(self, job: Job) -> bool:
        """Hand a task to Ray."""
        root = job.data_root or os.environ.get("JNPL_DATA")  # a worker does not have our environment
        there = replace(
            job,
            results=job.results.resolve(),
            folder=job.folder.resolve(),
            data_root=None if root is None else Path(root).resolve(),
        )
        self.running[self._task.remote(there, self.gpus)] = job
        return True

    def ended(self) -> list[End]:
        """Tasks that have ended."""
        if not self.running:
            return []
        ready, _ = self._ray.wait(list(self.running), num_returns=len(self.running), timeout=0)
        return [self._end(self.running.pop(reference), reference) for reference in ready]

    def _end(self, job: Job, reference: Any) -> End:
        errors = self._ray.exceptions
        try:
            end: End = self._ray.get(reference)
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.OutOfMemoryError) as error:
            return End(job.name, "killed", f"its worker was lost ({type(error).__name__})")
        except errors.RayError as error:  # jnpl is not installed there, say
            lines = [line.strip() for line in str(error).split("\n") if line.strip()]
            return End(job.name, "failed", f"on Ray: {lines[-1] if lines else type(error).__name__}")
        return end

    @property
    def busy(self) -> int:
        """Tasks that Ray has."""
        return len(self.running)

    def close(self) -> None:
        """Cancel all tasks, give their processes time to save, and disconnect."""
        references = list(self.running)
        with suppress(Exception):  # the cluster may be gone
            for reference in references:
                self._ray.cancel(reference)
            if references:
                self._ray.wait(references, num_returns=len(references), timeout=PATIENCE + 5)
        self.running.clear()
        if self._own:
            self._ray.shutdown()
            self._own = False
