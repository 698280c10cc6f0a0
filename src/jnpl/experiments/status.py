"""The progress of a grid, from its files and locks alone: while it runs, after a kill, and when it is done."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from jnpl.experiments.grid import FORMAT
from jnpl.experiments.job import Job
from jnpl.internal import locks
from jnpl.internal.errors import InputError
from jnpl.internal.json_files import StoredFacts, check_facts, read_json
from jnpl.training.reporting import in_words

if TYPE_CHECKING:
    from pathlib import Path

_SHOWN = 5  # names of waiting cells
_EPOCH = re.compile(r"^epoch (\d+)/(\d+) ", re.MULTILINE)


@dataclass(frozen=True)
class Status:
    """The cells of a grid by their state."""

    engine: str
    at_work: bool  # a grid is running
    done: list[str]
    running: dict[str, float]  # seconds since it began
    epochs: dict[str, tuple[int, int]]  # of those that are running, by their logs: epochs done, of how many
    waiting: list[str]
    begun: list[str]  # of those that wait: stopped in the middle, they go on from there
    failed: dict[str, dict[str, str]]  # error, log
    seconds_left: float | None  # None: not known yet

    def facts(self) -> dict[str, Any]:
        """The status as JSON."""
        cells = len(self.done) + len(self.running) + len(self.waiting) + len(self.failed)
        return {"cells": cells, **asdict(self)}

    def text(self) -> str:
        """The status as text."""
        total = self.facts()["cells"]
        counts = [f"{len(self.done)} of {total} done", f"{len(self.running)} running", f"{len(self.waiting)} waiting"]
        lines = [f"{', '.join(counts)}, {len(self.failed)} failed"]
        for name, seconds in self.running.items():
            done, whole = self.epochs.get(name, (0, 0))
            lines.append(f"running  {name}, for {in_words(seconds)}" + (f", epoch {done} of {whole}" if done else ""))
        lines += [f"waiting  {name}{', begun' if name in self.begun else ''}" for name in self.waiting[:_SHOWN]]
        if len(self.waiting) > _SHOWN:
            lines.append(f"waiting  and {len(self.waiting) - _SHOWN} more")
        for name, failure in self.failed.items():
            lines.append(f"failed   {name}: {failure['error']} (see {failure['log']})")
        if self.running or self.waiting:
            left = "not known yet" if self.seconds_left is None else f"about {in_words(self.seconds_left)}"
            lines.append(f"time left: {left}")
        if not self.at_work and (self.running or self.waiting):
            lines.append("no grid is running here: run the same command again to continue")
        return "\n".join(lines)


def read(folder: Path) -> Status:
    """The status of the grid in `folder` (its output, with work/ in it, or its work folder itself)."""
    work, facts = _grid(folder)
    results = (work / facts["results"]).resolve()
    done, failed, running, epochs, waiting = [], {}, {}, {}, []
    began: dict[str, float] = {}
    ended: dict[str, float] = {}
    for name in facts["cells"]:
        job = Job(name, "", results, work / name, "", None, "")
        process = job.process()
        began.update({name: float(process["began"])} if isinstance(process.get("began"), int | float) else {})
        ended.update({name: float(process["ended"])} if isinstance(process.get("ended"), int | float) else {})
        # The order matters: a cell that ends meanwhile must count as done.
        if locks.is_held(job.lock) and not job.is_done():
            running[name] = max(time.time() - began.get(name, time.time()), 0.0)
            epochs.update({name: seen} if (seen := _epochs(job.log)) is not None else {})
        elif job.is_done():
            done.append(name)
        elif (job.folder / "failed").is_file():
            failed[name] = {"error": (job.folder / "failed").read_text("utf-8").strip(), "log": str(job.log)}
        else:
            waiting.append(name)
    took = [max(ended[name] - began[name], 0.0) for name in done if name in began and name in ended]
    if not took:  # by the progress of those that are running
        took = [running[name] * whole / seen for name, (seen, whole) in epochs.items()]
    at_a_time = facts["jobs"] or max(len(running), 1)
    left = _left(took, list(running.values()), len(waiting), at_a_time)
    return Status(
        facts["engine"],
        locks.is_held(work / ".grid.lock", together=True),
        done,
        running,
        epochs,
        waiting,
        [name for name in waiting if name in began],
        failed,
        left,
    )


class GridFacts(StoredFacts):
    """grid.json."""

    results: str
    engine: str
    jobs: Annotated[int, Field(ge=1)] | None
    cells: list[Annotated[str, Field(pattern=r"^[^/\\]{1,200}$")]]  # each has a folder of its name


def _grid(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The work folder of a grid, and what its grid.json says."""
    for work in (folder / "work", folder):
        file = work / "grid.json"
        if not file.is_file():
            continue
        try:
            facts = read_json(file)
            if facts["format"] == FORMAT:
                return work, check_facts(facts, GridFacts, repr(str(file))).model_dump()
        except InputError:
            raise
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise InputError(f"{str(file)!r} cannot be read: {type(error).__name__}") from error
        raise InputError(f"{str(file)!r} is not of a grid that this version knows")
    raise InputError(
        f"there is no grid in {str(folder)!r} (no work/grid.json): "
        "name the folder that was given to jnpl bench or jnpl reproduce as --out"
    )


def _epochs(log: Path) -> tuple[int, int] | None:
    """The last "epoch 7/45" in the log of a cell."""
    try:
        found = _EPOCH.findall(log.read_text("utf-8", errors="replace"))
    except OSError:
        return None
    return (int(found[-1][0]), int(found[-1][1])) if found else None


def _left(took: list[float], elapsed: list[float], waiting: int, at_a_time: int) -> float | None:
    """Seconds until all is done, if cells take what they took so far on average.

    >>> _left([10.0, 20.0], [5.0], waiting=3, at_a_time=2)
    27.5
    """
    if not elapsed and not waiting:
        return 0.0
    if not took:
        return None
    mean = sum(took) / len(took)
    work = waiting * mean + sum(max(mean - each, 0.0) for each in elapsed)
    return work / min(at_a_time, waiting + len(elapsed))
