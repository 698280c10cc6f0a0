"""Files that are written whole or not at all: a draft beside the target takes its place when it is complete."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jnpl.internal.errors import InputError, UnwritableError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty draft beside `path`; it takes the place of `path` if the block ends well, else it goes.

    What the system says against the path (no permission, no space, a directory) is an InputError.

    >>> with replacing("no/such/folder/labels.txt") as draft:
    ...     size = draft.write_text("0\\n1\\n")
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.UnwritableError: cannot write 'no/such/folder/labels.txt': No such file or directory
    """
    target = Path(path)
    draft = target.parent / f".{target.name}.{os.getpid()}.tmp"
    try:
        draft.touch()  # a path that is no good is told before the work
        yield draft
        with draft.open("rb+") as file:  # Windows flushes only what is open for writing
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        elsewhere = error.filename is not None and str(error.filename) not in (str(draft), str(target))
        if elsewhere or isinstance(error, InputError):
            raise  # the block stumbled over another file: that message is the useful one
        reason = " ".join(str(error.strerror or error).split())
        raise UnwritableError(f"cannot write {os.fspath(path)!r}: {reason}") from error
    finally:
        with suppress(OSError):  # gone already, or never made: what went wrong before is the news
            draft.unlink()
    sync_folder(target.parent)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder, and those above it, unless it is there."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableError(f"cannot make the folder {os.fspath(path)!r}: {error.strerror or error}") from error
    return Path(path)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text whole or not at all, with the line ends it has."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def sync_folder(folder: Path) -> None:
    """Make the new name last through a power cut, where a folder can be flushed (not on Windows)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
