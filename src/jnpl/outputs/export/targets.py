"""Where a command may write: never over a run's own files or over what it reads, over others only if it is told to."""

from __future__ import annotations

import json
from pathlib import Path

from jnpl.internal.errors import InputError

# Without one of these a run is lost, or says what it did not find. (report.html can be made again.)
OWN = frozenset(
    {
        "run.json",
        "data.json",
        "metrics.jsonl",
        "thumbnails.parquet",
        "findings.csv",
        "findings.json",
        "findings.parquet",
        "model.json",
        "model.safetensors",
    }
)
_MARKS = {"run.json": "format", "findings.json": "kind"}  # where a run says that it is one


def refuse_target(
    out: Path, run: Path, *, overwrite: bool, read: str | Path | None = None, called: str = "data"
) -> None:
    """Raise InputError for a file that is there, unless `overwrite`; always for one of a run, and for `read` itself.

    `run` is a run whatever its folder says; `called` is what `read` holds.
    """
    if out.name.casefold() in OWN and _is_run(out.parent, run):
        raise InputError(f"{str(out)!r} is a file of the run itself; name another file")
    if not out.exists():
        return
    if read is not None and Path(read).exists() and out.samefile(read):
        raise InputError(f"{str(out)!r} is the {called} itself; name another file")
    if not overwrite:
        raise InputError(f"{str(out)!r} is there already; name another file, or give --overwrite")


def _is_run(folder: Path, run: Path) -> bool:
    """Whether a folder is this run, or another one."""
    if folder.exists() and run.exists() and folder.samefile(run):
        return True
    for name, key in _MARKS.items():
        try:
            if str(json.loads((folder / name).read_text("utf-8"))[key]).startswith("jnpl"):
                return True
        except (OSError, ValueError, LookupError, TypeError):  # noqa: PERF203 - not there, or somebody else's
            continue
    return False
