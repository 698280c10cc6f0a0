"""Which files a command may write: never files of a run or its input, other existing files only with --overwrite."""

from __future__ import annotations

from pathlib import Path

from jnpl.internal.errors import InputError
from jnpl.internal.json_files import read_json

# Files that a run cannot do without. (report.html can be made again.)
OWN = frozenset(
    {
        "run.json",
        "backbone.safetensors",
        "data.json",
        "metrics.jsonl",
        "neighbours.parquet",
        "thumbnails.parquet",
        "findings.csv",
        "findings.json",
        "findings.parquet",
        "model.json",
        "model.safetensors",
        "review.sqlite",
        "review.sqlite-shm",
        "review.sqlite-wal",
    }
)
_MARKS = {"run.json": "format", "findings.json": "kind"}  # file -> key whose value starts with "jnpl" in a run folder


def refuse_target(
    out: Path, run: Path, *, overwrite: bool, read: str | Path | None = None, called: str = "data"
) -> None:
    """Raise InputError if `out` exists, unless `overwrite`; always if it is a file of a run, or `read` itself.

    Args:
        out: the file to write.
        run: the run folder of the command.
        overwrite: allow to replace an existing file.
        read: a file that the command reads, if any.
        called: what `read` is called in the message.
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
    """Whether a folder is the run folder of this run or of any other."""
    if folder.exists() and run.exists() and folder.samefile(run):
        return True
    for name, key in _MARKS.items():
        try:
            if str(read_json(folder / name)[key]).startswith("jnpl"):
                return True
        except (OSError, ValueError, LookupError, TypeError):
            continue
    return False
