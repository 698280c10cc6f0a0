"""Experiment trackers that a run also logs to: TensorBoard, MLflow, Weights & Biases. Each needs its extra.

A tracker is a context manager that gives a function, called with the numbers of each epoch. A new one is a function
here and a line in TRACKERS. A run that resumes continues its record there: tracking.json in the run folder has the ids.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from jnpl.internal.errors import InputError
from jnpl.internal.files import write_text
from jnpl.internal.importing import require
from jnpl.internal.json_files import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    Log: TypeAlias = Callable[[Mapping[str, float], int], None]  # (numbers by name, epoch)
    Tracker: TypeAlias = Callable[[Path, Mapping[str, Any], int], AbstractContextManager[Log]]

_FILE = "tracking.json"
_LONGEST = 500  # characters of an MLflow parameter


@contextmanager
def _tensorboard(folder: Path, settings: Mapping[str, Any], epoch: int) -> Iterator[Log]:  # noqa: ARG001
    """Log to the folder `tensorboard` of the run; what was logged from `epoch` on is dropped."""
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (an extra)

    with SummaryWriter(str(folder / "tensorboard"), purge_step=epoch) as board:

        def log(numbers: Mapping[str, float], step: int) -> None:
            for name, value in numbers.items():
                board.add_scalar(name, value, step)

        yield log


@contextmanager
def _mlflow(folder: Path, settings: Mapping[str, Any], epoch: int) -> Iterator[Log]:  # noqa: ARG001
    """Log to the server or folder of MLFLOW_TRACKING_URI."""
    import mlflow  # noqa: PLC0415 (an extra)

    run_id = _ids(folder).get("mlflow")
    with mlflow.start_run(run_id=run_id, run_name=None if run_id else folder.resolve().name) as run:
        if run_id is None:
            _keep_id(folder, "mlflow", run.info.run_id)
            mlflow.log_params({name: str(value)[:_LONGEST] for name, value in settings.items()})
        yield lambda numbers, step: mlflow.log_metrics(dict(numbers), step=step)


@contextmanager
def _wandb(folder: Path, settings: Mapping[str, Any], epoch: int) -> Iterator[Log]:  # noqa: ARG001
    """Log to the project WANDB_PROJECT, by default `jnpl`; offline with WANDB_MODE=offline."""
    import wandb  # noqa: PLC0415 (an extra)

    run_id = _ids(folder).get("wandb") or _keep_id(folder, "wandb", uuid.uuid4().hex[:12])
    project = os.environ.get("WANDB_PROJECT", "jnpl")
    name = folder.resolve().name
    with wandb.init(
        project=project, id=run_id, resume="allow", name=name, config=dict(settings), dir=str(folder)
    ) as run:
        yield lambda numbers, step: run.log(dict(numbers), step=step)


TRACKERS: dict[str, tuple[Tracker, str]] = {  # name (also of the extra) -> tracker, the module that it needs
    "tensorboard": (_tensorboard, "tensorboard"),
    "mlflow": (_mlflow, "mlflow"),
    "wandb": (_wandb, "wandb"),
}


def check_trackers(names: Sequence[str], folder: Path | None) -> None:
    """Raise an InputError for an unknown tracker, one that is not installed, and a run without a folder."""
    for name in names:
        if name not in TRACKERS:
            raise InputError(f"a tracker is one of {', '.join(TRACKERS)}, got {name!r}")
        require(TRACKERS[name][1], name)
    if names and folder is None:
        raise InputError(f"{names[0]} needs a run folder to log to; a run in memory has none")


@contextmanager
def tracking(
    names: Sequence[str], folder: Path, settings: Mapping[str, Any], epoch: int
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Give a function that sends the line of an epoch to all trackers while the block runs.

    Args:
        names: of `TRACKERS`.
        folder: the run folder.
        settings: settings of the run by dotted name, stored once.
        epoch: the first epoch that will be logged.
    """
    with ExitStack() as opened:
        logs = [opened.enter_context(TRACKERS[name][0](folder, settings, epoch)) for name in names]

        def send(line: Mapping[str, Any]) -> None:
            numbers = {name: value for name, value in line.items() if isinstance(value, int | float)}
            for log in logs:
                log(numbers, line["epoch"])

        yield send


def _ids(folder: Path) -> dict[str, str]:
    file = folder / _FILE
    try:
        stored = read_json(file) if file.exists() else {}
    except (OSError, ValueError) as error:
        raise InputError(
            f"{str(file)!r} cannot be read: {error}; remove it to log to a new run of the tracker"
        ) from error
    return {str(name): str(value) for name, value in stored.items()} if isinstance(stored, dict) else {}


def _keep_id(folder: Path, name: str, value: str) -> str:
    write_text(folder / _FILE, json.dumps(_ids(folder) | {name: value}) + "\n")
    return value
