"""The run folder: its files, and which run it belongs to."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from jnpl import __version__
from jnpl.internal import locks
from jnpl.internal.errors import InputError, UnwritableError
from jnpl.internal.files import create_new, draft_of, make_folder, reason_of, require_file, write_text
from jnpl.internal.json_files import parse_json, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

_FORMAT = "jnpl run 1"
_LOCK = ".lock"
_DRAFT = re.compile(
    r"\.(run|metrics|findings|model|backbone|data|neighbours|thumbnails|report|tracking)\.\w+\.\d+\.tmp"
)  # as internal.files names them


@dataclass(frozen=True)
class RunFolder:
    """`run.json` (settings, seed, versions, fingerprint, results), `metrics.jsonl`, `checkpoint/`, findings, model."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / "checkpoint"

    def open(self, identity: dict[str, Any]) -> dict[str, Any] | None:
        """Check that the run of this `identity` (settings, seed, data) may begin or resume here.

        A folder with another run, or with anything else in it, is an InputError, unless that run has no checkpoint yet
        (it had a wrong setting, say), or is a finished `jnpl find` that this `jnpl train` continues.

        Returns:
            The results of the run if it is finished, else None.
        """
        self.check_place()
        saved = self._saved()
        if saved is None:
            make_folder(self.path)
            return None
        for key, value in identity.items():
            if saved.get(key) != value:
                if self._makes_room(saved, identity):
                    return None
                self._refuse(_difference(key, saved.get(key), value), identity)
        results = saved.get("results")
        return dict(results) if saved.get("status") == "finished" and results else None

    def check_data(self, identity: dict[str, Any], samples: int, classes: int) -> None:
        """Refuse a folder with a run of other data, as far as that can be seen before they are embedded.

        Args:
            identity: what is known of it: seed, name of the data.
            samples: number of samples, without held-out ones.
            classes: number of classes.
        """
        saved = self._saved()
        if saved is None:
            return
        for key, value in identity.items():
            if saved.get(key) != value:
                if self._makes_room(saved, identity):
                    return
                self._refuse(_difference(key, saved.get(key), value), identity)
        found = saved.get("results") or {}
        if saved.get("status") == "finished" and (found.get("samples"), found.get("classes")) != (samples, classes):
            theirs = f"{found.get('samples')} samples of {found.get('classes')} classes"
            self._refuse(f"other data: {theirs}, not {samples} of {classes}", identity)

    def _saved(self) -> dict[str, Any] | None:
        """Return what run.json says; None if there is none."""
        file = self.path / "run.json"
        if not file.is_file():
            return None
        try:
            saved = read_json(file)
        except (ValueError, OSError) as error:
            raise InputError(f"{str(file)!r} cannot be read: {error}") from None
        if not isinstance(saved, dict) or saved.get("format") != _FORMAT:
            raise InputError(f"{str(self.path)!r} holds something else than a run; name an empty or a new folder")
        if not isinstance(saved.get("results") or {}, dict):
            raise InputError(f"{str(file)!r} cannot be used: results: it must be an object")
        return saved

    def _refuse(self, differs: str, identity: dict[str, Any]) -> NoReturn:
        raise InputError(
            f"{str(self.path)!r} holds a run with {differs}; name another folder, or "
            f"{self._how_to_repeat(second=identity.get('second') is not None)}"
        )

    def check_place(self) -> None:
        """Refuse a file, and a folder that holds something else than a run; nothing is created."""
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"the run folder {str(self.path)!r} is a file; name a folder")
        # A kill before the first run.json is complete leaves its draft, which is ours.
        if (
            self.path.is_dir()
            and not (self.path / "run.json").is_file()
            and any(at.name != _LOCK and not _DRAFT.fullmatch(at.name) for at in self.path.iterdir())
        ):
            raise InputError(f"{str(self.path)!r} holds something else than a run; name an empty or a new folder")

    def check_writable(self) -> None:
        """Refuse a folder that cannot be made or written; what is made to find out is removed."""
        missing = [each for each in (self.path, *self.path.parents) if not each.exists()]
        draft = draft_of(self.path / "run.json")
        try:
            make_folder(self.path)
            create_new(draft)
            draft.unlink()
        except OSError as error:
            if isinstance(error, InputError):
                raise
            raise UnwritableError(f"cannot write to the folder {str(self.path)!r}: {reason_of(error)}") from error
        finally:
            with suppress(OSError):
                for each in missing:
                    each.rmdir()

    def check_outside(self, data: str | os.PathLike[str]) -> None:
        """Refuse a run folder inside a folder of images: the next command would take it for a class."""
        own, base = (Path(os.path.realpath(path)) for path in (self.path, data))  # never fails, unlike `resolve`
        inside = own.relative_to(base).parts if base in own.parents else ()
        if inside and Path(data).is_dir() and not any(part.startswith(".") for part in inside):
            raise InputError(
                f"the run folder {str(self.path)!r} lies inside the data folder {str(data)!r}, where every folder is a "
                "class; name one outside it"
            )

    def _makes_room(self, saved: dict[str, Any], identity: dict[str, Any]) -> bool:
        """Return whether no work is lost: there is no checkpoint, or only pseudo-labels are added to a finished run."""
        reached = any(self.checkpoints.glob("[0-9]*"))
        if saved.get("status") != "finished" and not reached:
            return True
        same = all(saved.get(key) == value for key, value in identity.items() if key != "second")
        return reached and same and saved.get("second", ...) is None

    def _how_to_repeat(self, *, second: bool) -> str:
        """Return the command that the run was made with; for pseudo-labels after `jnpl find`, that of `jnpl train`."""
        try:
            command = read_json(self.path / "data.json")["command"]
            if command[1] == "find" and second:
                return f"go on from it: {shlex.join(['jnpl', 'train', *command[2:]])}"
            return f"repeat its command: {shlex.join(command)}"
        except (OSError, ValueError, LookupError, TypeError):
            return "repeat the command it was made with"

    def begin(self, identity: dict[str, Any]) -> None:
        """Mark the run as running, once the folder is locked and data and settings are checked."""
        self.write(identity, status="running")

    def remove_unused(self) -> None:
        """Remove a folder that was made for a run which could not begin."""
        if not (self.path / "run.json").exists():
            with suppress(OSError):  # somebody else has put something into it
                (self.path / _LOCK).unlink(missing_ok=True)
                self.path.rmdir()

    def _sweep(self) -> None:
        """Remove the drafts that killed runs left."""
        for left in self.path.iterdir():
            if _DRAFT.fullmatch(left.name):
                left.unlink(missing_ok=True)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder: two runs at once would overwrite each other's files. The lock ends with the process."""
        file = locks.take(require_file(self.path / _LOCK))
        if file is None:
            raise InputError(f"another run is using {str(self.path)!r}; wait for it, or stop it")
        with file:
            self._sweep()
            yield

    def write(self, identity: dict[str, Any], status: str, results: dict[str, Any] | None = None) -> None:
        """Write run.json."""
        versions = {"jnpl": __version__, "torch": torch.__version__, "python": platform.python_version()}
        facts = {"format": _FORMAT, "status": status, "versions": versions, **identity, "results": results}
        write_text(self.path / "run.json", json.dumps(facts, indent=1) + "\n")

    def log(self, line: dict[str, Any]) -> None:
        """Add a line to metrics.jsonl."""
        path = self.path / "metrics.jsonl"
        try:
            with require_file(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())  # the checkpoint after it is synced too
        except OSError as error:
            raise UnwritableError(f"cannot write {str(path)!r}: {reason_of(error)}") from error

    def cut_log(self, epochs: int, stages: list[str] | None = None) -> list[dict[str, Any]]:
        """Drop the lines from epoch `epochs` on, which will be written again, and return those before.

        `stages`, one an epoch, are added to lines of a run that had but one stage when they were written.
        """
        kept = [
            line if stages is None or "stage" in line else {"epoch": 0, "stage": stages[line["epoch"]], **line}
            for line in self.read_log()
            if line["epoch"] < epochs
        ]
        write_text(self.path / "metrics.jsonl", "".join(json.dumps(line) + "\n" for line in kept))
        return kept

    def read_log(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl, up to a torn one."""
        file = self.path / "metrics.jsonl"
        lines: list[dict[str, Any]] = []
        for text in file.read_text("utf-8", "replace").splitlines() if file.is_file() else []:
            try:
                lines.append(parse_json(text))
            except ValueError:
                break
        return lines


def _difference(key: str, theirs: Any, ours: Any) -> str:
    """Return the first difference between two settings, in words."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for name in {**theirs, **ours}:
            if theirs.get(name) != ours.get(name):
                return _difference(f"{key}.{name}", theirs.get(name), ours.get(name))
    if key == "fingerprint":
        return "other data"
    if key == "data":
        return f"the data {theirs!r}, not {ours!r}"
    if key == "second" and (theirs is None or ours is None):
        return "no second part (jnpl find)" if theirs is None else "a second part, pseudo-labels (jnpl train)"
    return f"{key} = {json.dumps(theirs)}, not {json.dumps(ours)}"
