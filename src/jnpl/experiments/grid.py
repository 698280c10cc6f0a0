"""Many cells, a few at a time, here or on a cluster. Cells that are done are not run again."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from jnpl.experiments.engines import JOBS, GridEngine, LocalEngine
from jnpl.experiments.job import STARTS, End, Job
from jnpl.internal import locks
from jnpl.internal.files import make_folder, write_text
from jnpl.internal.json_files import read_json
from jnpl.training.interrupt import Interrupted, watch
from jnpl.training.reporting import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

FORMAT = "jnpl grid 2"
_PAUSE = 0.1


class NamedCell(Protocol):
    """What a grid needs of a cell: a name that stands for its settings, and the settings."""

    @property
    def name(self) -> str:
        """The name of its line in the file of results."""

    def model_dump_json(self, *, indent: int | None = None) -> str:
        """The settings."""


@dataclass
class Grid:
    """Jobs that wait and have failed, and the engine that runs them; `report` gets a line at a time."""

    engine: GridEngine
    report: Callable[[str], None]
    waiting: list[Job]
    before: int = 0  # cells that were done before this call
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.total, self.began, self.finished = self.before + len(self.waiting), time.monotonic(), 0
        self._jobs = {job.name: job for job in self.waiting}
        self._kills: Counter[str] = Counter()

    def start(self) -> None:
        """Start waiting jobs that no other grid runs, while there is room."""
        for job in list(self.waiting):
            if self.engine.is_full():
                return
            try:
                if job.is_done():  # by another grid, meanwhile
                    job.collect()
                elif not self.engine.start(job):
                    continue
                self.waiting.remove(job)
            except OSError as error:  # no process, or no file for its log, can be made
                self.waiting.remove(job)
                self._failed(job, End(job.name, "failed", f"it could not be started: {error}"))

    def collect(self) -> None:
        """Store and report what has ended since; a killed job is run again, a failed one is noted."""
        for end in self.engine.ended():
            job = self._jobs[end.name]
            if end.state == "done":
                self._done(job, end)
            elif end.state == "busy":
                self.waiting.append(job)
            elif end.state == "killed" and self._may_restart(job):
                self.report(f"{end.name}: {end.reason}; it is started again and resumes")
                self.waiting.insert(0, job)
            else:
                self._failed(job, end)

    def _may_restart(self, job: Job) -> bool:
        """Whether a killed job may be run again; a worker can be lost before it starts the process that counts."""
        self._kills[job.name] += 1
        return max(job.starts(), self._kills[job.name]) < STARTS

    def _done(self, job: Job, end: End) -> None:
        try:
            job.collect()
        except OSError as error:  # a full disk, say: the same command collects it later
            self._failed(job, End(job.name, "failed", f"its result could not be stored: {error}"))
            return
        self.finished += 1
        left = len(self.waiting) + self.engine.busy
        rest = (time.monotonic() - self.began) / self.finished * left
        self.report(
            f"{end.name}: done in {end.seconds:.0f} s; {self.total - left} of {self.total}, {in_words(rest)} left"
        )

    def _failed(self, job: Job, end: End) -> None:
        self.finished += 1
        self.failed[end.name] = end.reason
        with suppress(OSError):  # a full disk, say: the line below is reported all the same
            job.fail(end.reason)
        self.report(f"{end.name}: FAILED, {end.reason} (see {job.log})")


def run_cells(
    cells: Sequence[NamedCell],
    results: Path,
    work: Path,
    jobs: int | None,
    data_root: Path | None,
    report: Callable[[str], None] = print,
    module: str = "jnpl.experiments.runner",
    engine: GridEngine | None = None,
) -> dict[str, str]:
    """Run all cells that have no line in the file `results`, in order.

    A cell that another grid runs is waited for; one whose process is killed is run again. SIGINT and SIGTERM stop the
    running cells, which save themselves, and raise `Interrupted`.

    Args:
        cells: what to run.
        results: the file of results.
        work: a folder for logs, checkpoints and the state of the grid.
        jobs: cells at a time; None: as many as the engine chooses.
        data_root: the folder of named data sets.
        report: called with each line about the progress.
        module: `python -m MODULE CELL.json [--data-root DIR]` runs one cell.
        engine: where cells run; by default as processes of this machine.

    Returns:
        Cells that failed -> the reason.
    """
    make_folder(results.parent)
    make_folder(work)
    engine, call = engine or LocalEngine(), uuid.uuid4().hex
    every = [
        Job(cell.name, cell.model_dump_json(indent=1), results, work / cell.name, module, data_root, call)
        for cell in cells
    ]
    for job in every:
        if job.result.is_file():  # the grid before was killed before it could store it
            job.collect()
    waiting = [job for job in every if not job.is_done()]
    report(f"{len(cells)} cells, {len(cells) - len(waiting)} done before")
    at_a_time = jobs or (JOBS if engine.name == LocalEngine.name else None)  # Ray chooses by itself
    with _registered(every, results, work, engine.name, at_a_time):
        for job in waiting:
            (job.folder / "failed").unlink(missing_ok=True)
        if not waiting:
            return {}
        engine.open(jobs, report)
        try:
            return _run(Grid(engine, report, waiting, len(cells) - len(waiting)))
        finally:
            engine.close()


def _run(grid: Grid) -> dict[str, str]:
    with watch() as stop_request:
        while grid.waiting or grid.engine.busy:
            grid.start()
            time.sleep(_PAUSE)
            grid.collect()
            if stop_request.signal:
                raise Interrupted(
                    "stopped; run the same command again to continue with the remaining cells", stop_request.signal
                )
    return grid.failed


@contextmanager
def _registered(jobs: Sequence[Job], results: Path, work: Path, engine: str, at_a_time: int | None) -> Iterator[None]:
    """Write grid.json for `jnpl bench status`, and hold a lock as long as the grid runs."""
    names = [job.name for job in jobs]
    with locks.alone(work / ".grid.write"):  # two that start together must not lose each other's cells
        lock, first = locks.join(work / ".grid.lock")
        if not first:  # another grid runs in the same folder: its cells count too
            known = read_json(work / "grid.json") if (work / "grid.json").is_file() else {}
            names = list(dict.fromkeys([*known.get("cells", []), *names]))
        facts = {
            "format": FORMAT,
            "began": time.time(),
            "engine": engine,
            "jobs": at_a_time,
            "results": os.path.relpath(results, work),
            "cells": names,
        }
        write_text(work / "grid.json", json.dumps(facts, indent=1) + "\n")
    with lock:
        yield
