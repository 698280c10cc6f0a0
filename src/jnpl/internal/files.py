"""Atomic writes: a temporary file beside the target replaces it when it is complete. Reads of ordinary files only."""

import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jnpl.internal.errors import InputError, UnwritableError

_LONG_NAME = 200  # bytes; names may have 255
_END = 64  # bytes at the end of a text file
_KINDS = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty temporary file; it replaces `path` if the block succeeds, and is deleted otherwise.

    Temporary files that killed processes have left for `path` go as well; one that is being written, by a process of
    another machine or container too, is held by a lock and stays.

    If `path` cannot be written (no permission, no space, a directory), the error is an InputError.

    >>> with replacing("no/such/folder/labels.txt") as draft:
    ...     size = draft.write_text("0\\n1\\n")
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.UnwritableError: cannot write 'no/such/folder/labels.txt': No such file or directory
    """
    from jnpl.internal import locks  # noqa: PLC0415 - which imports this module

    target = Path(path)
    draft = draft_of(target)
    try:
        create_new(draft)  # a path that cannot be written fails before the work is done
        with locks.holding(draft):
            yield draft
        with draft.open("rb+") as file:  # Windows flushes only files that are open for writing
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as error:
        elsewhere = error.filename is not None and str(error.filename) not in (str(draft), str(target))
        if elsewhere or isinstance(error, InputError):
            raise  # the error is about another file: keep its message
        reason = reason_of(error)
        raise UnwritableError(f"cannot write {os.fspath(path)!r}: {reason}") from error
    finally:
        with suppress(OSError):  # already moved, or never created; an earlier error is more useful than this one
            draft.unlink()
    sync_folder(target.parent)
    with suppress(OSError):
        locks.remove_abandoned_drafts(target)


def draft_of(target: Path) -> Path:
    """Return the temporary file or folder of this process beside `target`; its name fits wherever the target's does."""
    name = target.name
    if len(os.fsencode(name)) > _LONG_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return target.parent / f".{name}.{os.getpid()}.tmp"


def create_new(path: Path) -> None:
    """Create an empty file; whatever has its name is removed first, and a link with its name is not followed."""
    path.unlink(missing_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))


def reserve(path: Path) -> None:
    """Let the disk provide the whole length of a sparse file now: writing to a memory map of it cannot fail then."""
    with path.open("rb+") as file:
        size = os.fstat(file.fileno()).st_size
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
            return
        while block := file.read(1 << 20):  # macOS and Windows
            file.seek(-len(block), os.SEEK_CUR)
            file.write(block)


def abandoned_drafts(target: Path) -> list[Path]:
    """Return the drafts of `target` whose processes, on this machine, are gone."""
    start, drafts = draft_of(target).name.removesuffix(f"{os.getpid()}.tmp"), []
    for path in target.parent.iterdir():
        number = path.name.removeprefix(start).removesuffix(".tmp")
        if (
            path.name == f"{start}{number}.tmp"
            and number.isascii()
            and number.isdigit()
            and not _is_running(int(number))
        ):
            drafts.append(path)
    return drafts


def _is_running(process: int) -> bool:
    if sys.platform == "win32":
        return True  # there, a signal would end it
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def require_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of an ordinary file, or of nothing; a folder, pipe, socket or device is an InputError.

    Opening a pipe would wait for ever for somebody to write to it.
    """
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):  # reading it gives the reason
        return Path(path)
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS.items() if test(mode)), "a device")
        raise InputError(f"{os.fspath(path)!r} is {kind}, not a file")
    return Path(path)


def require_text_file(path: str | os.PathLike[str]) -> Path:
    """Return what `require_file` does; a file that ends in zeros, as sparse ones of gigabytes do, is an InputError."""
    file = require_file(path)
    if file.is_file():
        with file.open("rb") as stream:
            stream.seek(max(0, file.stat().st_size - _END))
            if stream.read().endswith(bytes(_END)):
                raise InputError(f"{os.fspath(path)!r} is no text file: it ends in bytes of zero")
    return file


def make_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder and its parents, unless it exists; return its path."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableError(f"cannot make the folder {os.fspath(path)!r}: {reason_of(error)}") from error
    return Path(path)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text atomically, with its line ends unchanged."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8", newline="\n")


def reason_of(error: OSError) -> str:
    """Return the operating system's reason, on one line and without the path."""
    return " ".join(str(error.strerror or error).split())


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


def original(name: str) -> str:
    r"""Return the name that `printable` escaped, with the bytes that are not Unicode as Python holds them.

    >>> printable(original(r"cat/\udcff.png"))
    'cat/\\udcff.png'
    """
    return re.sub(r"\\udc([89a-f][0-9a-f])", lambda escape: chr(0xDC00 + int(escape[1], 16)), name)


def sync_folder(folder: Path) -> None:
    """Flush a folder, so that a renamed file survives a power cut (not possible on Windows)."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
