"""A folder of images with one sub-folder per class."""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jnpl.data.options import ModelInputs
from jnpl.data.source import Source
from jnpl.data.sources.images import ImageFiles, extensions
from jnpl.internal.errors import InputError
from jnpl.internal.files import printable

TRAIN = "train"
TEST = ("test", "val", "valid", "validation")  # the first one found is the test data, the next the validation data
_NO_CLASSES = frozenset({"__MACOSX"})  # what unpacking a zip leaves behind
_LOG = logging.getLogger("jnpl")


class WalkedFile(NamedTuple):
    """A file of a folder: its path relative to the root, with forward slashes, and what the one look at it told."""

    path: str
    size: int  # bytes; 0 for a broken link
    modified: int  # when it was last changed, in nanoseconds


@dataclass(frozen=True)
class _ClassFolders:
    """Images of one folder, and the class of each."""

    files: list[WalkedFile]
    labels: list[str]
    classes: tuple[str, ...]


def load(path: str | Path) -> Source:
    """Open a folder of images with one sub-folder per class; images may be deeper inside them.

    Every file with the extension of an image counts; hidden files and folders and all other files are ignored. Classes
    are sorted by name, and files by path within their class, the same on every system. Links to folders are followed,
    each folder once per class.

    If `train` and one or more of `test`, `val`, `valid` and `validation` are the only sub-folders, each of them holds
    the class folders: `train` is the data, the first of the others, in this order, the test data, and the next the
    validation data.

    Returns:
        The source; its ids are paths relative to `path`, with forward slashes.
    """
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"{str(path)!r} is not a folder" if root.exists() else f"no such folder: {str(path)!r}")
    name = root.resolve().name or str(root)
    splits = {entry.name.casefold(): entry.name for entry in _folders(root)}
    tests = [split for split in TEST if split in splits]
    if TRAIN not in splits or not tests or len(splits) > 1 + len(tests):
        return _source(name, root, _find(root, ""))
    _refuse_loose_images(root)
    if unused := [splits[split] for split in tests[2:]]:
        used = f"{splits[tests[0]]} and {splits[tests[1]]} are the test and validation data"
        _LOG.warning("%s: %s, and %s is left out", path, used, ", ".join(unused))
    train = _find(root, splits[TRAIN])
    held_out = [
        _source(f"{name}/{splits[split]}", root, _find(root, splits[split], allowed=train.classes))
        for split in tests[:2]
    ]
    source = _source(name, root, train, test=held_out[0])
    return replace(source, validation=held_out[1]) if len(held_out) > 1 else source


def load_new(path: str | Path, model: ModelInputs) -> dict[str, Any]:
    """Return all files of a folder that are not hidden, or one file, as `open_new` takes them."""
    root = Path(path)
    model.refuse_part(repr(str(root)))
    if not root.is_dir():
        paths, inputs, name = [root.name], ImageFiles([root]), root.name
    elif files := sorted(walk(root)):
        paths, inputs, name = [file.path for file in files], files_in(root, files), root.resolve().name or str(root)
    else:
        raise InputError(f"the folder {str(root)!r} holds no files")
    ids, classes = np.array([printable(path) for path in paths], object), set(map(str, model.classes))
    labels = [next((step for step in path.split("/")[:-1] if step in classes), None) for path in ids.tolist()]
    return {"inputs": inputs, "name": name, "ids": ids, "labels": labels}


def _source(name: str, root: Path, images: _ClassFolders, *, test: Source | None = None) -> Source:
    numbers = {label: position for position, label in enumerate(images.classes)}
    return Source(
        name=name,
        inputs=files_in(root, images.files),
        labels=np.array([numbers[label] for label in images.labels], np.int64),
        class_names=tuple(printable(label) for label in images.classes),
        ids=np.array([printable(file.path) for file in images.files], object),
        test=test,
        root=os.path.abspath(root),  # noqa: PTH100 - links stay as the user has them
    )


def _find(root: Path, split: str, allowed: tuple[str, ...] | None = None) -> _ClassFolders:
    """Find the images of every class folder in `root / split`; `allowed` are the classes that it may have."""
    base = root / split
    _refuse_loose_images(base)
    classes = tuple(sorted(entry.name for entry in _folders(base)))
    if not classes:
        raise InputError(f"{str(base)!r} holds no folders; one sub-folder of images per class is needed")
    if len(classes) == 1 and allowed is None and len(inner := _folders(base / classes[0])) > 1:
        names = _listed([entry.name for entry in inner])
        raise InputError(
            f"{str(base)!r} has one class, {classes[0]!r}, which holds the folders {names}: if those are the classes, "
            f"name {str(base / classes[0])!r}"
        )
    strange = [name for name in classes if allowed is not None and name not in allowed]
    if strange:
        raise InputError(f"{str(base)!r} has the class {strange[0]!r}, which is not among {_listed(allowed or ())}")
    is_image = partial(_is_image, endings=extensions())
    files: list[WalkedFile] = []
    labels: list[str] = []
    empty: list[str] = []
    for label in classes:
        start = f"{split}/{label}" if split else label
        inside = sorted(walk(root, start, {_identity(root), _identity(base)}, is_image))
        if not inside:
            empty.append(label)
        files += inside
        labels += [label] * len(inside)
    if len(classes) - len(empty) < min(len(classes), 2):
        raise InputError(f"class folder {str(base / empty[0])!r} holds no images; add some or remove it")
    if empty and allowed is None:
        _LOG.warning("%s: no images in %s, which is left out", base, _listed(empty))
    return _ClassFolders(files, labels, allowed or tuple(label for label in classes if label not in empty))


def walk(
    root: Path,
    start: str = "",
    seen: set[tuple[int, int]] | None = None,
    keep: Callable[[os.DirEntry[str]], bool] = lambda _: True,
) -> Iterator[WalkedFile]:
    """Yield the files in folder `start` of `root` that are not hidden.

    Links to folders are followed; no folder is entered twice, and none that `seen` holds (device and inode). `keep`
    says which files count.
    """
    waiting, seen = [start], set() if seen is None else seen
    while waiting:
        folder = waiting.pop()
        identity = _identity(root / folder)
        if identity in seen:
            continue
        seen.add(identity)
        for entry in _entries(root / folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if _is_folder(entry):
                waiting.append(path)
            elif keep(entry):
                yield WalkedFile(path, *_stat(entry))


def files_in(root: Path, files: Sequence[WalkedFile]) -> ImageFiles:
    """Return the images of a folder that `walk` has found."""
    stats = np.array([(file.size, file.modified) for file in files], np.int64).reshape(-1, 2)
    return ImageFiles([file.path for file in files], root, stats)


def _stat(entry: os.DirEntry[str]) -> tuple[int, int]:
    try:
        stats = entry.stat()
    except OSError:  # a broken link
        return 0, 0
    return stats.st_size, stats.st_mtime_ns


def _folders(folder: Path) -> list[os.DirEntry[str]]:
    return [entry for entry in _entries(folder) if _is_folder(entry)]


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder that are not hidden, sorted by name."""
    try:
        with os.scandir(folder) as entries:
            kept = [entry for entry in entries if not entry.name.startswith(".") and entry.name not in _NO_CLASSES]
    except OSError as error:
        raise InputError(f"cannot read the folder {str(folder)!r}: {error.strerror}") from error
    return sorted(kept, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_image(entry: os.DirEntry[str], endings: frozenset[str]) -> bool:
    """Whether a file has the extension of an image; a broken link counts, and is unreadable later."""
    if os.path.splitext(entry.name)[1].lower() not in endings:  # noqa: PTH122 - a million times
        return False
    return entry.is_symlink() or entry.is_file()


def _identity(folder: Path) -> tuple[int, int]:
    try:
        stats = folder.stat()
    except OSError as error:
        raise InputError(f"cannot read the folder {str(folder)!r}: {error.strerror}") from error
    return stats.st_dev, stats.st_ino


def _refuse_loose_images(folder: Path) -> None:
    endings = extensions()
    loose = next((entry for entry in _entries(folder) if not _is_folder(entry) and _is_image(entry, endings)), None)
    if loose is not None:
        raise InputError(
            f"{str(folder)!r} holds images outside any class, such as {loose.name!r}; "
            "one sub-folder per class is needed, with the images inside"
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(printable(name) for name in names[:20])
    return shown if len(names) <= 20 else f"{shown}, ... ({len(names)} in all)"
