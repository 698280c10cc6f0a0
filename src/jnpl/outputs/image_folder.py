"""A folder CLASS/NAME of copies of or links to images, by their corrected labels.

The user's files are read, linked or copied. None is ever moved, changed, replaced or deleted.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

import numpy as np

from jnpl.internal.errors import InputError, UnwritableError
from jnpl.internal.files import abandoned_drafts, draft_of, make_folder, original, reason_of

if TYPE_CHECKING:
    from jnpl.judging.findings import Findings
    from jnpl.outputs.corrections import CorrectedLabels
    from jnpl.run_folder import RunFolder

How = Literal["copy", "link", "hard"]
NOT_FILES = "the data of this run are rows, not image files: only a table of labels can be written"
CROPS = (
    "the samples of this run are boxes in images: jnpl apply RUN --same-form FILE writes them with corrected classes"
)
# Errors that would stop every other file too.
_FATAL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EXDEV, errno.EPERM, errno.EROFS, errno.EMLINK, errno.EFBIG)


def data_root(run: RunFolder, root: Path | None = None) -> Path:
    """Return the folder of the images, which the paths of `with_places` start from: `root`, else as in data.json."""
    facts = run.require_data_facts()
    if run.has_tags:
        raise InputError("a sample with several tags has no folder of its class: take --same-form, or the table alone")
    if facts.are_crops:
        raise InputError(CROPS)
    if root is None:
        if facts.kind not in (None, "image"):
            raise InputError(NOT_FILES)
        if facts.root is None:
            raise InputError(f"{str(run.path)!r} does not say where its images lie; name the data folder with --root")
        root = Path(facts.images or facts.root)
    if not root.is_dir():
        raise InputError(f"the images' folder {str(root)!r} is not there; name it with --root")
    return root


def with_places(findings: Findings, run: RunFolder) -> Findings:
    """Return the findings with paths that start from the folder of the images (`data_root`).

    They differ from those of the findings where a table names images outside its own folder.
    """
    if findings.paths is None:
        return findings
    facts = run.require_data_facts()
    if facts.root is None or facts.images is None:
        return findings
    paths = [os.path.relpath(os.path.join(facts.root, path), facts.images) for path in findings.paths]  # noqa: PTH118
    return replace(findings, paths=np.array(paths, object))


def copy_image_folder(corrected: CorrectedLabels, root: Path, target: Path, how: How) -> list[tuple[str, str]]:
    """Copy or link every image to target/CLASS/NAME, by its corrected class; returns the ids that failed, and why.

    Their paths start from `root`. The target, a new or empty folder, is filled under a hidden name beside it first, so
    that it is complete or not there.
    """
    findings = corrected.findings
    if findings.paths is None:
        raise InputError(NOT_FILES)
    names = [str(name) for name in findings.names]
    if wrong := [name for name in names if not name or name[0] == "." or set(name) & set("/\\\0")]:
        raise InputError(f"the class {wrong[0]!r} cannot be the name of a folder")
    place, base = target.resolve(), root.resolve()
    if place == base or base in place.parents:
        raise InputError(f"{str(target)!r} lies inside the data folder {str(root)!r}; name one outside it")
    places = [(row, image_place(root, source), place) for row, source, place in _places(corrected, names)]
    with new_folder(target) as draft:
        return _fill(draft, corrected, names, places, root, how)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a hidden folder to fill; it takes the place of `target`, new or empty, when the block has succeeded."""
    if target.exists() and not target.is_dir():
        raise InputError(f"{str(target)!r} is a file; name a new or an empty folder")
    if target.is_dir() and (inside := next(target.iterdir(), None)) is not None:
        raise InputError(f"{str(target)!r} is not empty (it holds {inside.name!r}); name a new or an empty folder")
    target = Path(os.path.abspath(target))  # noqa: PTH100 - a name of its own, also for "."
    make_folder(target.parent)
    draft = draft_of(target)
    for left in {draft, *abandoned_drafts(target)}:  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)  # holds nothing but our own links and copies
    try:
        draft.mkdir()  # what is wrong with the place of the target is known now
        yield draft
        if target.is_dir():
            target.rmdir()  # it is empty
        draft.rename(target)
    except OSError as error:
        if isinstance(error, InputError):
            raise
        raise UnwritableError(f"cannot write {str(target)!r}: {reason_of(error)}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _fill(
    draft: Path,
    corrected: CorrectedLabels,
    names: list[str],
    places: list[tuple[int, Path, str]],
    root: Path,
    how: How,
) -> list[tuple[str, str]]:
    """Copy or link every image into `draft`; returns the ids that failed, and why."""
    findings, failed = corrected.findings, list[tuple[str, str]]()
    for label in sorted(set(corrected.labels.tolist())):
        make_folder(draft / names[label])
    for row, source, place in places:
        try:
            _place(source, draft / place, how)
        except OSError as error:
            if error.errno in _FATAL_ERRORS:
                verb = "copy" if how == "copy" else "link"
                hint = "; hard links stay within a file system: take --copy" if how == "hard" else ""
                raise InputError(f"cannot {verb} {str(source)!r}: {error.strerror}{hint}") from error
            reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
            failed.append((str(findings.ids[row]), reason or str(error)))
    if len(failed) == len(corrected.rows):
        raise InputError(f"none of the {len(failed)} images is in {str(root)!r}; name the data folder with --root")
    return failed


def _places(corrected: CorrectedLabels, names: list[str]) -> list[tuple[int, str, str]]:
    """Return (position, path, CLASS/NAME) of every sample; no two names are equal, even if case is ignored.

    Images that stay in their class come first and keep their names; where one is taken, -2, -3, ... is added.
    """
    paths = [] if corrected.findings.paths is None else corrected.findings.paths.tolist()
    taken, next_number, places = set[str](), dict[str, int](), []
    for at in np.argsort(corrected.changed, kind="stable").tolist():
        row, folder = int(corrected.rows[at]), names[int(corrected.labels[at])]
        path = PurePath(original(paths[row]))
        place, key = f"{folder}/{path.name}", _key(f"{folder}/{path.name}")
        number = next_number.get(key, 2)
        while _key(place) in taken:
            place = f"{folder}/{path.stem}-{number}{path.suffix}"
            number += 1
        next_number[key] = number
        taken.add(_key(place))
        places.append((row, paths[row], place))
    return places


def _key(place: str) -> str:
    return unicodedata.normalize("NFC", place).casefold()


def image_place(root: Path, path: str) -> Path:
    """Return the place of an image of the findings below `root`; one outside it, by ".." or from "/", is an InputError.

    A name with bytes that are not Unicode is escaped in the findings.
    """
    base, place = (os.path.abspath(folder) for folder in (root, root / path))  # noqa: PTH100 - keeps links of the user
    if os.path.commonpath([base, place]) != base:
        hint = "if they are your data, repeat the command of the run, which notes the folder of all images"
        hint = hint if ".." in PurePath(path).parts else "name it with --root"
        raise InputError(f"the image {path!r} lies outside the images' folder {str(root)!r}; {hint}")
    return Path(place) if Path(place).exists() else Path(os.path.abspath(root / original(path)))  # noqa: PTH100


def _place(source: Path, place: Path, how: How) -> None:
    if not stat.S_ISREG(source.stat().st_mode):
        raise OSError(errno.EINVAL, "not a file")
    if how == "copy":
        shutil.copy2(source, place)
    elif how == "link":
        place.symlink_to(source)
    else:
        os.link(source.resolve(), place)
