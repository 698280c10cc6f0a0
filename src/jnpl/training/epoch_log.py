"""The lines of a run, one an epoch: kept, written to metrics.jsonl, printed, and sent to experiment trackers.

Each of TensorBoard, MLflow and Weights & Biases needs its extra. A tracker is a context manager that gives a function,
called with the numbers of each epoch. A new one is a function here and a line in TRACKERS. A run that resumes continues
its record there: tracking.json in the run folder has the ids.
"""

from __future__ import annotations

import os
import uuid
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from jnpl.internal.errors import InputError
from jnpl.internal.importing import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from jnpl.run_folder import RunFolder
    from jnpl.training.reporting import Reporter

    Log: TypeAlias = Callable[[Mapping[str, float], int], None]  # (numbers by name, epoch)
    Tracker: TypeAlias = Callable[[RunFolder, Mapping[str, Any], int], AbstractContextManager[Log]]


class EpochLog:
    """All lines so far. `folder` is None in all processes but the first, and for a run in memory."""

    def __init__(self, folder: RunFolder | None, report: Reporter) -> None:
        self.lines: list[dict[str, Any]] = []
        self._folder, self._report = folder, report
        self._send: Callable[[Mapping[str, Any]], None] | None = None

    def resume(self, epochs: int, stages: list[str] | None) -> None:
        """Read the lines of the first `epochs` epochs and drop those after them (see `RunFolder.cut_log`)."""
        if self._folder is not None:
            self.lines = self._folder.cut_log(epochs, stages)

    def add(self, line: dict[str, Any]) -> None:
        """Add the line of an epoch."""
        self.lines.append(line)
        if self._folder is not None:
            self._folder.log(line)
        if self._send is not None:
            self._send(line)
        self._report.epoch(line)

    @contextmanager
    def tracked(self, names: Sequence[str], settings: Mapping[str, Any], epoch: int) -> Iterator[None]:
        """Send the lines to experiment trackers, too, while the block runs; `epoch` is the first one."""
        if not names or self._folder is None:
            yield
            return
        with tracking(names, self._folder, settings, epoch) as self._send:
            yield
        self._send = None


_LONGEST = 500  # characters of an MLflow parameter


@contextmanager
def _tensorboard(folder: RunFolder, settings: Mapping[str, Any], epoch: int) -> Iterator[Log]:  # noqa: ARG001
    """Log to the folder `tensorboard` of the run; what was logged from `epoch` on is dropped."""
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (an extra)

    with SummaryWriter(str(folder.path / "tensorboard"), purge_step=epoch) as board:

        def log(numbers: Mapping[str, float], step: int) -> None:
            for name, value in numbers.items():
                board.add_scalar(name, value, step)

        yield log


@contextmanager
def _mlflow(folder: RunFolder, settings: Mapping[str, Any], epoch: int) -> Iterator[Log]:  # noqa: ARG001
    """Log to the server or folder of MLFLOW_TRACKING_URI."""
    import mlflow  # noqa: PLC0415 (an extra)

    run_id = folder.tracking_ids().get("mlflow")
    with mlflow.start_run(run_id=run_id, run_name=None if run_id else folder.path.resolve().name) as run:
        if run_id is None:
            folder.keep_tracking_id("mlflow", run.info.run_id)
            mlflow.log_params({name: str(value)[:_LONGEST] for name, value in settings.items()})
        yield lambda numbers, step: mlflow.log_metrics(dict(numbers), step=step)


@contextmanager
def _wandb(folder: RunFolder, settings: Mapping[str, Any], epoch: int) -> Iterator[Log]:  # noqa: ARG001
    """Log to the project WANDB_PROJECT, by default `jnpl`; offline with WANDB_MODE=offline."""
    import wandb  # noqa: PLC0415 (an extra)

    run_id = folder.tracking_ids().get("wandb") or folder.keep_tracking_id("wandb", uuid.uuid4().hex[:12])
    project = os.environ.get("WANDB_PROJECT", "jnpl")
    name = folder.path.resolve().name
    with wandb.init(
        project=project, id=run_id, resume="allow", name=name, config=dict(settings), dir=str(folder.path)
    ) as run:
        yield lambda numbers, step: run.log(dict(numbers), step=step)


TRACKERS: dict[str, tuple[Tracker, str]] = {  # name (also of the extra) -> tracker, the module that it needs
    "tensorboard": (_tensorboard, "tensorboard"),
    "mlflow": (_mlflow, "mlflow"),
    "wandb": (_wandb, "wandb"),
}


def check_trackers(names: Sequence[str], folder: RunFolder | None) -> None:
    """Raise an InputError for an unknown tracker, one that is not installed, and a run without a folder."""
    for name in names:
        if name not in TRACKERS:
            raise InputError(f"a tracker is one of {', '.join(TRACKERS)}, got {name!r}")
        require(TRACKERS[name][1], name)
    if names and folder is None:
        raise InputError(f"{names[0]} needs a run folder to log to; a run in memory has none")


@contextmanager
def tracking(
    names: Sequence[str], folder: RunFolder, settings: Mapping[str, Any], epoch: int
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Give a function that sends the line of an epoch to all trackers while the block runs.

    Args:
        epoch: the first epoch that will be logged.
    """
    with ExitStack() as opened:
        logs = [opened.enter_context(TRACKERS[name][0](folder, settings, epoch)) for name in names]

        def send(line: Mapping[str, Any]) -> None:
            numbers = {name: value for name, value in line.items() if isinstance(value, int | float)}
            for log in logs:
                log(numbers, line["epoch"])

        yield send
