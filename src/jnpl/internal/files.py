"""Atomic writes: a temporary file beside the target replaces it when it is complete."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jnpl.internal.errors import InputError, UnwritableError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty temporary file; it replaces `path` if the block succeeds, and is deleted otherwise.

    If `path` cannot be written (no permission, no space, a directory), the error is an InputError.

    >>> with replacing("no/such/folder/labels.txt") as draft:
    ...     size = draft.write_text("0\\n1\\n")
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.UnwritableError: cannot write 'no/such/folder/labels.txt': No such file or directory
    """
    target = Path(path)
    draft = target.parent / f".{target.name}.{os.getpid()}.tmp"
    try:
        draft.touch()  # a path that cannot be written fails before the work is done
        yield draft
        with draft.open("rb+") as file:  # Windows flushes only files that are open for writing
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        elsewhere = error.filename is not None and str(error.filename) not in (str(draft), str(target))
        if elsewhere or isinstance(error, InputError):
            raise  # the error is about another file: keep its message
        reason = " ".join(str(error.strerror or error).split())
        raise UnwritableError(f"cannot write {os.fspath(path)!r}: {reason}") from error
    finally:
        with suppress(OSError):  # already moved, or never created; an earlier error is more useful than this one
            draft.unlink()
    sync_folder(target.parent)


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder and its parents, unless it exists; return its path."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableError(f"cannot make the folder {os.fspath(path)!r}: {error.strerror or error}") from error
    return Path(path)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text atomically, with its line ends unchanged."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def user_cache() -> Path:
    """Return the folder `jnpl` in the user's cache folder, which need not exist."""
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "jnpl"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "jnpl"
        chosen = os.environ.get("XDG_CACHE_HOME", "")
        # The standard ignores relative paths.
        return (Path(chosen) if chosen.startswith("/") else Path.home() / ".cache") / "jnpl"
    except RuntimeError as error:  # a user without a home
        raise InputError("there is no home folder to keep data in: name a folder, or set JNPL_DATA") from error


def printable(name: str) -> str:
    """Return the name with bytes that are not Unicode escaped: reports and tables cannot hold them."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def sync_folder(folder: Path) -> None:
    """Flush a folder, so that a renamed file survives a power cut (not possible on Windows)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
