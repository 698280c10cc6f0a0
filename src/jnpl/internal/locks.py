"""Locks on files. They end with the process that holds them, however it ends. Windows has none of them.

The library filelock is not used: its locks are for one process alone and empty the file that they lock, while here a
draft is locked by all that may write it, on the draft itself, and is tested by others without waiting.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from jnpl.internal.errors import InputError
from jnpl.internal.files import abandoned_drafts, require_file

try:
    import fcntl
except ImportError:  # Windows: no lock
    fcntl = None  # type: ignore[assignment]

AVAILABLE = fcntl is not None
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


def take(path: Path) -> IO[bytes] | None:
    """The file, held by this process alone until it is closed; None if another has it."""
    file = require_file(path).open("a+b")
    if _refused(file, alone=True):
        file.close()
        return None
    return file


def join(path: Path) -> tuple[IO[bytes], bool]:
    """The file, held jointly with all processes that join, and whether this process is the first of them."""
    file = require_file(path).open("a+b")
    first = not _refused(file, alone=True)
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_SH)  # a process that holds it alone only tests it, and releases it at once
    return file, first


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Hold the file jointly while the block runs: `is_held` says so. Not on Windows, where open files stay in place."""
    if not AVAILABLE:
        yield
        return
    with join(path)[0]:
        yield


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the file as the only process; waits for those that hold it now."""
    with require_file(path).open("a+b") as file:
        if fcntl is not None:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def remove_abandoned_drafts(target: Path) -> None:
    """Remove the drafts of a file that killed processes left; one that a process of another machine holds stays."""
    for draft in abandoned_drafts(target):
        if not is_held(draft, together=True):
            draft.unlink(missing_ok=True)


def is_held(path: Path, *, together: bool = False) -> bool:
    """Whether a process holds the file, by `take` or (`together`) by `join`."""
    try:
        file = require_file(path).open("ab" if together else "rb")
    except (OSError, InputError):  # never made, not readable, or no file
        return False
    with file:
        return _refused(file, alone=together)


def _refused(file: IO[bytes], *, alone: bool) -> bool:
    """Try to hold a file, alone or together with others; a file system without locks refuses nothing."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD
    return False
