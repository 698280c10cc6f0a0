"""The progress of an experiment, from its files and locks alone: while it runs, after a kill, and when it is done."""

import re
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from jnpl.experiments.execute import FACTS, FORMAT
from jnpl.experiments.process import RunProcess
from jnpl.internal import locks
from jnpl.internal.errors import InputError
from jnpl.internal.files import require_file
from jnpl.internal.json_files import StoredFacts, check_facts, read_json
from jnpl.training.reporting import in_words

_SHOWN = 5  # names of waiting runs
_EPOCH = re.compile(r"^epoch (\d+)/(\d+) ", re.MULTILINE)


@dataclass
class Status:
    """The runs of an experiment by their state."""

    engine: str
    at_work: bool  # a command is running
    done: list[str] = field(default_factory=list)
    running: dict[str, float] = field(default_factory=dict)  # seconds since it began
    epochs: dict[str, tuple[int, int]] = field(default_factory=dict)  # of the running, by their logs: done, of how many
    waiting: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)  # of the waiting: stopped in the middle, they go on from there
    failed: dict[str, dict[str, str]] = field(default_factory=dict)  # error, log
    seconds_left: float | None = None  # None: not known yet

    def facts(self) -> dict[str, Any]:
        """The status as JSON; `cells` is the number of runs."""
        runs = len(self.done) + len(self.running) + len(self.waiting) + len(self.failed)
        return {"cells": runs, **asdict(self)}

    def text(self) -> str:
        """The status as text."""
        counts = f"{len(self.done)} of {self.facts()['cells']} done, {len(self.running)} running"
        lines = [f"{counts}, {len(self.waiting)} waiting, {len(self.failed)} failed"]
        for name, seconds in self.running.items():
            done, whole = self.epochs.get(name, (0, 0))
            lines.append(f"running  {name}, for {in_words(seconds)}" + (f", epoch {done} of {whole}" if done else ""))
        lines += [f"waiting  {name}{', begun' if name in self.begun else ''}" for name in self.waiting[:_SHOWN]]
        if len(self.waiting) > _SHOWN:
            lines.append(f"waiting  and {len(self.waiting) - _SHOWN} more")
        lines += [f"failed   {name}: {why['error']} (see {why['log']})" for name, why in self.failed.items()]
        if self.running or self.waiting:
            left = "not known yet" if self.seconds_left is None else f"about {in_words(self.seconds_left)}"
            lines.append(f"time left: {left}")
            if not self.at_work:
                lines.append("no experiment is running here: run the same command again to continue")
        return "\n".join(lines)


def read(folder: Path) -> Status:
    """The status of the experiment in `folder` (its output, with work/ in it, or its work folder itself)."""
    work, facts = _find(folder)
    status = Status(facts["engine"], locks.is_held(work / ".experiment.lock", together=True))
    took: list[float] = []
    for name in facts["runs"]:
        run = RunProcess(name, "", (work / facts["results"]).resolve(), work / name, "", None, "")
        times = {key: value for key, value in run.facts().items() if isinstance(value, int | float)}
        # The order matters: a run that ends meanwhile must count as done.
        if locks.is_held(run.lock) and not run.is_done():
            status.running[name] = max(time.time() - times.get("began", time.time()), 0.0)
            if (epochs := _epochs(run.log)) is not None:
                status.epochs[name] = epochs
        elif run.is_done():
            status.done.append(name)
            took += [max(times["ended"] - times["began"], 0.0)] if {"began", "ended"} <= times.keys() else []
        elif (run.folder / "failed").is_file():
            error = (run.folder / "failed").read_text("utf-8").strip()
            status.failed[name] = {"error": error, "log": str(run.log)}
        else:
            status.waiting.append(name)
            status.begun += [name] if "began" in times else []
    if not took:  # by the progress of those that are running
        took = [status.running[name] * whole / done for name, (done, whole) in status.epochs.items()]
    at_a_time = facts["jobs"] or max(len(status.running), 1)
    status.seconds_left = _left(took, list(status.running.values()), len(status.waiting), at_a_time)
    return status


class ExperimentFacts(StoredFacts):
    """experiment.json."""

    results: str
    engine: str
    jobs: Annotated[int, Field(ge=1)] | None
    runs: list[Annotated[str, Field(pattern=r"^[^/\\]{1,200}$")]]  # each has a folder of its name


def _find(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The work folder of an experiment, and what its experiment.json says."""
    for work in (folder / "work", folder):
        file = work / FACTS
        if not file.is_file():
            continue
        try:
            facts = read_json(file)
            if facts["format"] == FORMAT:
                return work, check_facts(facts, ExperimentFacts, repr(str(file))).model_dump()
        except InputError:
            raise
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise InputError(f"{str(file)!r} cannot be read: {type(error).__name__}") from error
        raise InputError(f"{str(file)!r} is not of an experiment that this version knows")
    raise InputError(
        f"there is no experiment in {str(folder)!r} (no work/{FACTS}): "
        "name the folder that was given to jnpl bench or jnpl reproduce as --out"
    )


def _epochs(log: Path) -> tuple[int, int] | None:
    """The last "epoch 7/45" in the log of a run."""
    try:
        lines = _EPOCH.findall(require_file(log).read_text("utf-8", errors="replace"))
    except (OSError, InputError):
        return None
    return (int(lines[-1][0]), int(lines[-1][1])) if lines else None


def _left(took: list[float], elapsed: list[float], waiting: int, at_a_time: int) -> float | None:
    """Seconds until all is done, if runs take what they took so far on average.

    >>> _left([10.0, 20.0], [5.0], waiting=3, at_a_time=2)
    27.5
    """
    if not elapsed and not waiting:
        return 0.0
    if not took:
        return None
    mean = sum(took) / len(took)
    work = waiting * mean + sum(max(mean - seconds, 0.0) for seconds in elapsed)
    return work / min(at_a_time, waiting + len(elapsed))
