"""Export targets by name. A new target is a module here with a function `export`, and a line in TARGETS.

Nothing heavy is imported: the command line builds its help from this table.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jnpl.internal.errors import InputError
from jnpl.outputs.output_paths import refuse_target

if TYPE_CHECKING:
    from jnpl.run_folder import RunFolder


@dataclass(frozen=True)
class ExportTarget:
    """A format that `jnpl export` writes."""

    module: str  # module of this folder, imported when the target is used
    description: str  # for the help text
    options: tuple[str, ...] = ()  # the options that the target takes, of `OPTIONS`
    folder: bool = False  # the target is a folder, and its module checks whether it may be replaced


@dataclass(frozen=True)
class ExportRequest:
    """What to export, and where to."""

    run: RunFolder  # the run
    target: str  # a name in `TARGETS`
    out: Path  # the file or folder to write
    issues: bool = False  # only the label issues, worst first
    image_prefix: str | None = None  # text before the paths of images
    data: str | None = None  # the run's own table, or data to check a model on
    root: Path | None = None  # the folder of the images, if it is not where it was during the run
    overwrite: bool = False  # replace `out` if it exists
    trust_code: bool = False  # allow a model that is code of the user's own


OPTIONS = ("issues", "image_prefix", "data", "root")
_TABLE = ExportTarget("findings_table", "the findings as a table", ("issues",))
TARGETS = {
    "csv": _TABLE,
    "parquet": _TABLE,
    "json": _TABLE,
    "label-studio": ExportTarget(
        "label_studio", "tasks with predictions for Label Studio (.json)", ("issues", "image_prefix", "data")
    ),
    "fiftyone": ExportTarget("fiftyone", "a data set of images for FiftyOne (.json)", ("issues",)),
    "cleanlab": ExportTarget("findings_table", "a .csv with cleanlab's columns"),
    "hf": ExportTarget(
        "hf_dataset", "a folder for datasets.load_from_disk, with corrected labels", ("root",), folder=True
    ),
    "onnx": ExportTarget("onnx", "the model, checked against the network", ("data", "root")),
}


def targets_with(option: str) -> str:
    """Return the names of the targets that take an option.

    >>> targets_with("image_prefix")
    'label-studio'
    """
    return ", ".join(name for name, target in TARGETS.items() if option in target.options)


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the export; returns counts and other results by name. A wrong request is an InputError before any work."""
    if request.target not in TARGETS:
        raise InputError(f"--to is one of {', '.join(TARGETS)}, got {request.target!r}")
    target = TARGETS[request.target]
    for option in OPTIONS:
        if getattr(request, option) not in (None, False) and option not in target.options:
            flag = f"--{option.replace('_', '-')}"
            raise InputError(f"{flag} is for {targets_with(option)}, not for {request.target}")
    if request.target in ("label-studio", "fiftyone") and request.run.data_facts.are_crops:
        from jnpl.outputs.image_folder import CROPS  # noqa: PLC0415 - imports numpy

        raise InputError(CROPS)
    if request.run.has_tags and target is not _TABLE:
        reason = "is for one label per sample; samples with several tags are written as csv, parquet or json"
        raise InputError(f"--to {request.target} {reason}")
    refuse_target(request.out, request.run, overwrite=request.overwrite or target.folder, read=request.data)
    results: dict[str, Any] = importlib.import_module(f"jnpl.outputs.export.{target.module}").export(request)
    return results
