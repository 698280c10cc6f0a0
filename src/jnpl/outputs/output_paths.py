"""Which files a command may write: never files of a run or its input, other existing files only with --overwrite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.run_folder import RunFolder


def refuse_target(
    out: Path, run: RunFolder, *, overwrite: bool, read: str | Path | None = None, called: str = "data"
) -> None:
    """Raise InputError if `out` exists, unless `overwrite`; always if it is a file of a run, or the file that the
    command reads, which the message calls `called`."""
    from jnpl.run_folder import OWN_FILES, RunFolder  # noqa: PLC0415 - imports numpy, and `jnpl --help` is quick

    if out.name.casefold() in OWN_FILES and (_is_same(out.parent, run.path) or RunFolder(out.parent).is_run()):
        raise InputError(f"{str(out)!r} is a file of the run itself; name another file")
    if not out.exists():
        return
    if read is not None and _is_same(out, Path(read)):
        raise InputError(f"{str(out)!r} is the {called} itself; name another file")
    if not overwrite:
        raise InputError(f"{str(out)!r} is there already; name another file, or give --overwrite")


def _is_same(path: Path, other: Path) -> bool:
    return path.exists() and other.exists() and path.samefile(other)
