"""Many runs, a few at a time, on this machine or on a Ray cluster. Runs that are done are not run again.

A thread of `concurrent.futures`, or a Ray task, attends to each run's process (`process`). In a pool of processes, as
joblib has it, a worker that is killed takes the others with it; here it is one process that is started again.
"""

import json
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from jnpl.experiments.process import PATIENCE, STARTS, RunOutcome, RunProcess
from jnpl.internal import locks
from jnpl.internal.errors import InputError, Interrupted
from jnpl.internal.files import make_folder, write_text
from jnpl.internal.importing import require
from jnpl.internal.json_files import read_json
from jnpl.internal.ray_cluster import check_engine, connect
from jnpl.training.interrupt import StopRequest, watch
from jnpl.training.reporting import in_words

FORMAT, FACTS = "jnpl experiment 1", "experiment.json"
JOBS = 2
_PAUSE = 0.1
_STORE = 80 * 2**20  # bytes: the least that Ray takes; what passes through it is a name and an error


class NamedRun(Protocol):
    """What an experiment needs of a run: a name that stands for its settings, and the settings."""

    @property
    def name(self) -> str:
        """The name of its line in the file of results."""

    def model_dump_json(self, *, indent: int | None = None) -> str:
        """The settings."""


@dataclass(frozen=True)
class RunEngine:
    """Where runs are trained: processes of this machine ("local"), or a cluster at `address` ("ray").

    Without an address, Ray starts a cluster on this machine that lives as long as the experiment. A run has one CPU
    there, and `gpus` GPUs. The folders must lie on storage that all machines see; a task whose worker or machine dies
    is run again by Ray, and its run resumes at its checkpoint, which lies in its folder.
    """

    name: str = "local"
    address: str | None = None
    gpus: float | None = None

    def __post_init__(self) -> None:
        check_engine(self.name, self.address, self.gpus)

    def at_a_time(self, jobs: int | None) -> int | None:
        """Runs at a time; None: Ray chooses."""
        return jobs or (JOBS if self.name == "local" else None)

    @contextmanager
    def opened(
        self, jobs: int | None, report: Callable[[str], None]
    ) -> Iterator[Callable[[RunProcess], Future[RunOutcome]]]:
        """Yield a function that begins to run; at the end of the block, stop what runs, which saves itself first."""
        if self.name == "ray":
            with self._cluster(jobs, report) as ray:
                yield from _ray_tasks(ray, self.gpus or 0.0)
            return
        stop = threading.Event()
        with ThreadPoolExecutor(self.at_a_time(jobs)) as pool:
            try:
                yield lambda run: pool.submit(run.attend, stop=stop)
            finally:
                stop.set()

    @contextmanager
    def _cluster(self, jobs: int | None, report: Callable[[str], None]) -> Iterator[Any]:
        """Connect to Ray, or start a cluster with room for so many jobs (None: one a core)."""
        ray: Any = require("ray", "ray")
        connected_here = not ray.is_initialized()
        if connected_here:
            connect(ray, self.address, object_store_memory=_STORE, **({} if jobs is None else {"num_cpus": jobs}))
        try:
            room: dict[str, float] = ray.cluster_resources()
            for kind, wanted in (("CPU", 1.0), ("GPU", self.gpus or 0.0)):
                if room.get(kind, 0.0) < wanted:
                    lack = f"a run needs {wanted:g} {kind}, the Ray cluster has {room.get(kind, 0.0):g}"
                    if self.address is None and connected_here:
                        raise InputError(f"{lack}: name a cluster that has them by --address, or ask for less")
                    report(f"{lack}: runs wait until it has more")
            yield ray
        finally:
            if connected_here:
                ray.shutdown()


def _ray_tasks(ray: Any, gpus: float) -> Iterator[Callable[[RunProcess], Future[RunOutcome]]]:
    """Yield a function that hands a run to Ray; then cancel all tasks, and give their processes time to save."""
    task = ray.remote(num_cpus=1.0, num_gpus=gpus, max_retries=STARTS - 1)(RunProcess.attend)
    references: list[Any] = []

    def submit(run: RunProcess) -> Future[RunOutcome]:
        root = run.data_root or os.environ.get("JNPL_DATA")  # a worker does not have our environment
        run = replace(
            run,
            results=run.results.resolve(),
            folder=run.folder.resolve(),
            data_root=None if root is None else Path(root).resolve(),
        )
        references.append(task.remote(run, gpus))
        future: Future[RunOutcome] = references[-1].future()
        return future

    try:
        yield submit
    finally:
        with suppress(Exception):  # the cluster may be gone
            for reference in references:
                ray.cancel(reference)
            if references:
                ray.wait(references, num_returns=len(references), timeout=PATIENCE + 5)


class _Progress:
    """Runs that wait and have failed; `report` gets a line at a time."""

    def __init__(self, waiting: list[RunProcess], total: int, report: Callable[[str], None]) -> None:
        self.waiting, self.total, self.report, self.failed = waiting, total, report, dict[str, str]()
        self._began, self._ended, self._lost = time.monotonic(), 0, Counter[str]()

    def attend(self, submit: Callable[[RunProcess], Future[RunOutcome]], jobs: int, stop_request: StopRequest) -> None:
        """Hand runs to the engine, so many at a time, until none waits."""
        running: dict[Future[RunOutcome], RunProcess] = {}
        while self.waiting or running:
            while self.waiting and len(running) < jobs:
                run = self.waiting.pop(0)
                running[submit(run)] = run
            for future in wait(running, _PAUSE, FIRST_COMPLETED).done:
                run = running.pop(future)
                self.note(run, _outcome_of(future), len(running))
            if number := stop_request.signal:
                raise Interrupted("stopped; run the same command again to continue with the remaining runs", number)

    def note(self, run: RunProcess, outcome: RunOutcome, busy: int) -> None:
        """Store and report what has become of a run; a killed one is run again, a failed one is noted."""
        if outcome.state == "done":
            try:
                run.store()
            except OSError as error:  # a full disk, say: the same command stores it later
                outcome = RunOutcome("failed", f"its result could not be stored: {error}")
        elif outcome.state == "busy":
            self.waiting.append(run)
            return
        elif outcome.state == "killed":
            self._lost[run.name] += 1  # a worker can be lost before it starts the process that counts
            if max(run.starts(), self._lost[run.name]) < STARTS:
                self.report(f"{run.name}: {outcome.reason}; it is started again and resumes")
                self.waiting.insert(0, run)
                return
        self._ended += 1
        if outcome.state == "done":
            left = len(self.waiting) + busy
            rest = in_words((time.monotonic() - self._began) / self._ended * left)
            self.report(
                f"{run.name}: done in {outcome.seconds:.0f} s; {self.total - left} of {self.total}, {rest} left"
            )
        else:
            self.failed[run.name] = outcome.reason
            with suppress(OSError):
                run.fail(outcome.reason)
            self.report(f"{run.name}: FAILED, {outcome.reason} (see {run.log})")


def run_all(
    specs: Sequence[NamedRun],
    results: Path,
    work: Path,
    jobs: int | None,
    data_root: Path | None,
    report: Callable[[str], None] = print,
    module: str = "jnpl.experiments.runner",
    engine: RunEngine | None = None,
) -> dict[str, str]:
    """Train all runs that have no line in the file `results`, in order; return those that failed -> the reason.

    A run that another command has in hand is waited for; one whose process is killed is started again. SIGINT and
    SIGTERM stop the processes, which save themselves, and raise `Interrupted`. `python -m MODULE SETTINGS.json
    [--data-root DIR]` trains one run; without `jobs` there are as many at a time as the engine chooses.
    """
    make_folder(results.parent)
    make_folder(work)
    engine, command = engine or RunEngine(), uuid.uuid4().hex
    runs = [
        RunProcess(spec.name, spec.model_dump_json(indent=1), results, work / spec.name, module, data_root, command)
        for spec in specs
    ]
    for run in runs:
        if run.is_done():  # perhaps the command before was killed before it could store it
            run.store()
    waiting = [run for run in runs if not run.is_done()]
    report(f"{len(specs)} runs, {len(specs) - len(waiting)} done before")
    with _registered(runs, results, work, engine, jobs):
        for run in waiting:
            (run.folder / "failed").unlink(missing_ok=True)
        if not waiting:
            return {}
        progress = _Progress(waiting, len(runs), report)
        with watch() as stop_request, engine.opened(jobs, report) as submit:
            progress.attend(submit, engine.at_a_time(jobs) or len(runs), stop_request)
    return progress.failed


def _outcome_of(future: Future[RunOutcome]) -> RunOutcome:
    """The outcome of a run, whatever became of the thread or the Ray task that attended to it."""
    error = future.exception()
    if error is None:
        return future.result()
    kind = type(error).__name__
    if kind in ("WorkerCrashedError", "NodeDiedError", "OutOfMemoryError"):  # of Ray, which need not be installed
        return RunOutcome("killed", f"its worker was lost ({kind})")
    if isinstance(error, OSError) and type(error).__module__ == "builtins":  # no process, or no file for its log
        return RunOutcome("failed", f"it could not be started: {error}")
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]  # jnpl is not installed there, say
    return RunOutcome("failed", f"{kind}: {lines[-1] if lines else 'no reason'}")


@contextmanager
def _registered(
    runs: Sequence[RunProcess], results: Path, work: Path, engine: RunEngine, jobs: int | None
) -> Iterator[None]:
    """Write experiment.json for `jnpl bench status`, and hold a lock as long as the command runs."""
    names, file = [run.name for run in runs], work / FACTS
    with locks.alone(work / ".experiment.write"):  # two that start together must not lose each other's runs
        lock, first = locks.join(work / ".experiment.lock")
        if not first and file.is_file():  # another command runs in the same folder: its runs count too
            names = list(dict.fromkeys([*read_json(file).get("runs", []), *names]))
        facts = {
            "format": FORMAT,
            "began": time.time(),
            "engine": engine.name,
            "jobs": engine.at_a_time(jobs),
            "results": os.path.relpath(results, work),
            "runs": names,
        }
        write_text(file, json.dumps(facts, indent=1) + "\n")
    with lock:
        yield
