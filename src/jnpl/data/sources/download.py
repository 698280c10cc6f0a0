"""Downloads that are complete and checked, the folder for data sets, and archives that are not trusted.

The library pooch is not used: it starts from the beginning when a connection breaks, where this goes on at the last
byte (CIFAR has 160 MB), tries again where the address or the checksum is wrong, and needs requests and five packages.
"""

import hashlib
import http.client
import os
import re
import sys
import tarfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import TypeAlias
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from jnpl._version import __version__
from jnpl.internal import locks
from jnpl.internal.errors import InputError, UnwritableError
from jnpl.internal.files import user_cache

Progress: TypeAlias = Callable[[int, int | None], None]  # bytes so far, total bytes if the server says

TRIES = 5
PAUSE = 0.5  # seconds before the second try; doubled for each further try
TIMEOUT = 30.0  # seconds without any byte
BLOCK = 2**18
DIGITS = {"md5": 32, "sha256": 64}  # hexadecimal digits of each digest


class _LostError(Exception):
    """The connection failed; `final` says that another try would not help."""

    def __init__(self, reason: object, *, final: bool = False) -> None:
        super().__init__(" ".join(str(reason).split()))
        self.final = final


def fetch(url: str, target: Path, *, digest: str, progress: Progress | None = None) -> Path:
    """Download a file, unless it is there already with the right digest.

    A partial download stays in `target.part`; the next try, in this call or another, resumes it.

    Args:
        digest: "md5:..." or "sha256:..." of the file.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise InputError(f"only http and https addresses can be downloaded, not {url!r}")
    algorithm, expected = parse_digest(digest)
    part = target.with_name(f"{target.name}.part")
    try:
        if file_digest(target, algorithm) == expected:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target), _reporter(target.name, progress) as report:
            if file_digest(target, algorithm) == expected:  # another process was faster
                return target
            if file_digest(part, algorithm) != expected:
                _download(url, part, report)
            got = file_digest(part, algorithm)
            part.replace(target) if got == expected else part.unlink(missing_ok=True)
    except _LostError as error:
        where = f"download it by hand and put it at {str(target)!r}"
        raise InputError(f"cannot download {url}: {error}; {where}") from error
    except OSError as error:
        raise UnwritableError(f"cannot write {str(target)!r}: {error.strerror or error}") from error
    if got != expected:
        raise InputError(f"{url} has the wrong {algorithm}: expected {expected}, got {got}; nothing was kept")
    return target


def parse_digest(digest: str) -> tuple[str, str]:
    """Return the algorithm and the hexadecimal digits of "md5:..." or "sha256:..."."""
    algorithm, _, expected = digest.lower().partition(":")
    if not re.fullmatch(r"[0-9a-f]+", expected) or DIGITS.get(algorithm) != len(expected):
        raise InputError(f"a digest reads 'md5:<32 digits>' or 'sha256:<64 digits>', not {digest!r}")
    return algorithm, expected


def file_digest(path: Path, algorithm: str) -> str | None:
    """Return the digest of a file in hexadecimal digits; None if there is no such file."""
    if not path.is_file():
        return None
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def safe_members(tar: tarfile.TarFile, *, limit: int = 2**32) -> Iterator[tarfile.TarInfo]:
    """Yield the regular files of an archive, in its order; an unsafe or broken archive is an InputError.

    Unsafe are paths outside the folder, links, devices, and more than `limit` bytes in total.
    """
    archive, total = str(tar.name), 0
    with reading(archive):
        for member in tar:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or re.search(r"[\\:\0]", member.name):
                raise InputError(f"{archive!r} is not safe: it holds the path {member.name!r}, outside its own folder")
            if member.isdir():
                continue
            if not member.isreg():
                raise InputError(f"{archive!r} is not safe: {member.name!r} is a link or a device, not a file")
            total += max(member.size, 0)
            if member.size < 0 or total > limit:
                size = f"{member.name!r} claims {member.size:,} bytes; all files together may have {limit:,}"
                raise InputError(f"{archive!r} is not safe: {size}")
            yield member


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of reading or unpacking the file at `path` into an InputError."""
    try:
        yield
    except InputError:
        raise
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else f"damaged or cut short ({error})"
        where = error.filename if isinstance(error, OSError) and error.filename else path
        raise InputError(f"cannot read {os.fspath(where)!r}: {reason}") from error


def data_root(explicit: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder for data sets: `explicit`, else $JNPL_DATA, else `jnpl` in the user's cache folder."""
    chosen = explicit or os.environ.get("JNPL_DATA")
    return Path(chosen).expanduser() if chosen else user_cache()


def _download(url: str, part: Path, report: Progress) -> None:
    """Download `url` to `part`, in at most `TRIES` tries."""
    for attempt in range(TRIES):
        time.sleep(PAUSE * 2 ** (attempt - 1) if attempt else 0)
        try:
            return _receive(url, part, report)
        except URLError as error:  # no connection: worth another try only if there was one before
            if attempt in (0, TRIES - 1):
                raise _LostError(error.reason) from error
        except _LostError as error:
            if error.final or attempt == TRIES - 1:
                raise
    return None


def _receive(url: str, part: Path, report: Progress) -> None:
    """Send one request and append to `part` what is missing, or start again if the server does not know ranges."""
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": f"jnpl/{__version__}"} | ({"Range": f"bytes={start}-"} if start else {})
    with _response(url, headers, part) as response:
        resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT
        if resumed and not str(response.headers.get("Content-Range")).startswith(f"bytes {start}-"):
            part.unlink(missing_ok=True)
            raise _LostError(f"the server answered with {response.headers.get('Content-Range')!r}")
        done, length = (start if resumed else 0), str(response.headers.get("Content-Length"))
        total = done + int(length) if length.isdecimal() else None
        with part.open("ab" if resumed else "wb") as file:
            report(done, total)
            while block := _block(response):
                file.write(block)
                done += len(block)
                report(done, total)
            file.flush()
            os.fsync(file.fileno())
    if total is not None and done < total:  # http.client does not report an early end when it reads in blocks
        raise _LostError(f"the connection broke after {done:,} of {total:,} bytes")


def _response(url: str, headers: dict[str, str], part: Path) -> http.client.HTTPResponse:
    opener = request.OpenerDirector()  # not build_opener, which would follow a redirection to ftp
    for handler in (
        request.ProxyHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPRedirectHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPErrorProcessor,
        request.UnknownHandler,
    ):
        opener.add_handler(handler())
    try:
        response: http.client.HTTPResponse = opener.open(request.Request(url, headers=headers), timeout=TIMEOUT)  # noqa: S310 - `fetch` checks
    except HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink(missing_ok=True)  # longer than the file: it belongs to something else
            raise _LostError("the server has no such range") from error
        temporary = error.code >= 500 or error.code in (408, 429)
        raise _LostError(f"{error.code} {error.reason}", final=not temporary) from error
    except URLError:
        raise
    except (OSError, http.client.HTTPException) as error:  # broken while the headers came
        raise _LostError(str(error) or type(error).__name__) from error
    return response


def _block(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(BLOCK)
    except (OSError, http.client.HTTPException) as error:
        raise _LostError(str(error) or type(error).__name__) from error


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """Let one process at a time download `target`: the workers of a machine start at the same time.

    On Windows, which has no such locks, two at once find a wrong digest and start again.
    """
    lock = target.with_name(f".{target.name}.lock")
    try:
        with locks.alone(lock):
            yield
    finally:
        with suppress(OSError):  # another process has removed it, or (on Windows) has it open
            lock.unlink()


@contextmanager
def _reporter(name: str, progress: Progress | None) -> Iterator[Progress]:
    if progress is not None:
        yield progress
    elif not sys.stderr.isatty():
        yield lambda _done, _total: None
    else:
        from rich import progress as bars  # noqa: PLC0415 - only for terminals
        from rich.console import Console  # noqa: PLC0415

        columns = (bars.TextColumn(name), bars.BarColumn(), bars.DownloadColumn(), bars.TimeRemainingColumn())
        with bars.Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(name, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
