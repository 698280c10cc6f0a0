"""Export targets by name. A new target is a module here with a function `export`, and a line in TARGETS.

Nothing heavy is imported: the command line builds its help from this table.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jnpl.internal.errors import InputError
from jnpl.outputs.export.targets import refuse_target

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class ExportTarget:
    """What a target writes, the module that does it, and which options it takes."""

    module: str
    description: str
    options: tuple[str, ...] = ()  # of OPTIONS
    folder: bool = False  # it writes a folder, and checks by itself whether it may replace one


@dataclass(frozen=True)
class ExportRequest:
    """Everything `export` of a target needs: the run, the target's name, the path to write, and the options."""

    run: Path
    target: str
    out: Path
    issues: bool = False
    image_prefix: str | None = None
    data: str | None = None
    root: Path | None = None
    overwrite: bool = False


OPTIONS = ("issues", "image_prefix", "data", "root")
_TABLE = ExportTarget("findings", "the findings as a table", ("issues",))
TARGETS = {
    "csv": _TABLE,
    "parquet": _TABLE,
    "json": _TABLE,
    "label-studio": ExportTarget(
        "label_studio", "tasks with predictions for Label Studio (.json)", ("issues", "image_prefix", "data")
    ),
    "cleanlab": ExportTarget("cleanlab", "a .csv with cleanlab's columns"),
    "hf": ExportTarget("hf", "a folder for datasets.load_from_disk, with corrected labels", ("root",), folder=True),
    "torchscript": ExportTarget("torchscript", "the model, checked against the network", ("data", "root")),
    "onnx": ExportTarget("onnx", "the model, checked against the network", ("data", "root")),
}


def targets_with(option: str) -> str:
    """Return the names of the targets that take an option.

    >>> targets_with("image_prefix")
    'label-studio'
    """
    return ", ".join(name for name, target in TARGETS.items() if option in target.options)


def export(request: ExportRequest) -> dict[str, Any]:
    """Write a run, or its model, in the form of one target; return facts to print, such as the number of rows."""
    if request.target not in TARGETS:
        raise InputError(f"--to is one of {', '.join(TARGETS)}, got {request.target!r}")
    target = TARGETS[request.target]
    for option in OPTIONS:
        if getattr(request, option) not in (None, False) and option not in target.options:
            flag = f"--{option.replace('_', '-')}"
            raise InputError(f"{flag} is for {targets_with(option)}, not for {request.target}")
    refuse_target(request.out, request.run, overwrite=request.overwrite or target.folder, read=request.data)
    facts: dict[str, Any] = importlib.import_module(f"jnpl.outputs.export.{target.module}").export(request)
    return facts
