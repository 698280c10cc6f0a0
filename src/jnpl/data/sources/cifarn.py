"""CIFAR-10N and CIFAR-100N (Wei et al. 2022): CIFAR with labels of human annotators."""

import io
import os
import re
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from jnpl.data.label_files import read_labels
from jnpl.data.source import Array, Labels, Source
from jnpl.data.sources import cifar
from jnpl.data.sources.download import data_root, reading
from jnpl.internal.errors import InputError
from jnpl.internal.files import require_file

# What a pickle of arrays of whole numbers names, written with numpy 2 or with numpy 1: nothing else is called.
_RECONSTRUCT: Any = np.empty(0).__reduce__()[0]
_WHOLE_NUMBERS: list[Any] = [
    (_RECONSTRUCT, "numpy._core.multiarray._reconstruct"),
    (_RECONSTRUCT, "numpy.core.multiarray._reconstruct"),
    np.ndarray,
    np.dtype,
    *{type(np.dtype(letter)) for letter in "bhilqBHILQ"},
]
LARGEST = 2**26  # bytes; the authors' files have less than 2**22
HOME = "https://github.com/UCSC-REAL/cifar-10-100n/tree/main/data"

_IMAGES = {"cifar10n": "cifar10", "cifar100n": "cifar100"}
_FILES = {  # the authors' file, and the same arrays as .npz
    "cifar10n": ("CIFAR-10_human.pt", "CIFAR-10_human.npz", "cifar-10n.npz"),
    "cifar100n": ("CIFAR-100_human.pt", "CIFAR-100_human.npz", "cifar-100n.npz"),
}
_NOISE = {  # the first is the default
    "cifar10n": {
        "worse": "worse_label",
        "aggre": "aggre_label",
        "random1": "random_label1",
        "random2": "random_label2",
        "random3": "random_label3",
    },
    "cifar100n": {"noisy": "noisy_label", "noisy_coarse": "noisy_coarse_label"},
}


def load(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    noise: str | None = None,
    labels_file: str | os.PathLike[str] | None = None,
    download: bool = True,
    val_size: int = 0,
    part: Literal["train", "val"] = "train",
) -> Source:
    """Load "cifar10n" or "cifar100n": CIFAR images with human labels (N,) given and clean labels (N,) true.

    Args:
        name: "cifar10n" or "cifar100n".
        root: as in `jnpl.data.sources.cifar.load`; also the folder of the human labels.
        noise: worse (default), aggre, random1, random2 or random3 for CIFAR-10N; noisy (default) or noisy_coarse for
            CIFAR-100N.
        labels_file: the human labels: the authors' `CIFAR-10_human.pt`, whose pickle is not run, or an .npz with the
            same arrays. They are not downloaded (CC BY-NC 4.0).
        download: as in `jnpl.data.sources.cifar.load`, like `val_size` and `part`.
        val_size: see `download`.
        part: see `download`.

    Returns:
        The source.
    """
    if name not in _NOISE:
        raise InputError(f"there is no data set {name!r} of human labels; use {' or '.join(_NOISE)}")
    kinds = _NOISE[name]
    chosen = next(iter(kinds)) if noise is None else noise
    if chosen not in kinds:
        raise InputError(f"noise of {name} is one of {', '.join(kinds)}, not {noise!r}")
    path = Path(labels_file).expanduser() if labels_file else _find(name, data_root(root))
    granularity: Literal["fine", "coarse"] = "coarse" if chosen == "noisy_coarse" else "fine"
    key, truth = kinds[chosen], "clean_coarse_label" if granularity == "coarse" else "clean_label"
    human, clean = read_human(path, key), read_human(path, truth)
    images = cifar.load(_IMAGES[name], root, download=download, labels=granularity, val_size=val_size, part=part)
    total = int(images.ids.max()) + 1 if val_size else len(images)
    for array, labels in ((truth, clean), (key, human)):
        if len(labels) < total or (not val_size and len(labels) != total):
            raise InputError(f"{array} in {str(path)!r} has {len(labels):,} labels for {total:,} images")
    clean, human = clean[images.ids], human[images.ids]
    wrong = np.flatnonzero(clean != images.labels)
    if wrong.size:
        place = f"at {images.ids[wrong[0]]} there is {clean[wrong[0]]}, the images say {images.labels[wrong[0]]}"
        raise InputError(f"{truth} in {str(path)!r} is not in the order of the images: {place}")
    if human.min() < 0 or human.max() >= len(images.class_names):
        span = f"0..{len(images.class_names) - 1}, not {human.min()}..{human.max()}"
        raise InputError(f"{key} in {str(path)!r} must lie in {span}")
    return replace(images, name=f"{name} {chosen}", labels=human, true_labels=clean)


def human_labels(name: str, root: str | os.PathLike[str] | None, clean: Labels) -> Labels:
    """Return the human labels (N,) of the first N training images, whose true labels are `clean`: the default kind.

    Args:
        name: "cifar10n" or "cifar100n".
        clean: true labels (N,), which the file has too: they show that it is in the order of the images.
    """
    path, key = _find(name, data_root(root)), next(iter(_NOISE[name].values()))
    human, truth = read_human(path, key), read_human(path, "clean_label")
    if len(human) < len(clean) or (truth[: len(clean)] != clean).any():
        raise InputError(f"{key} in {str(path)!r} is not in the order of the {len(clean):,} images")
    return human[: len(clean)]


def is_there(name: str, root: str | os.PathLike[str] | None = None) -> bool:
    """Whether `root` has the human labels of "cifar10n" or "cifar100n"."""
    try:
        _find(name, data_root(root))
    except InputError:
        return False
    return True


def read_human(path: Path, key: str) -> Labels:
    """Return the labels (N,) under `key` in an .npz, or in a dict of arrays saved by torch.save, without running it."""
    if path.suffix.lower() == ".npz":
        labels: Array = read_labels(path, key=key).labels
    else:
        arrays = _read_saved(path)
        if key not in arrays:
            raise InputError(
                f"{str(path)!r} has no array {key}; its arrays are {', '.join(str(name)[:40] for name in arrays)}"
            )
        labels = arrays[key]
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        shown = f"{labels.dtype} of shape {labels.shape}"
        raise InputError(f"{key} in {str(path)!r} must be whole numbers of shape (N,), not {shown}")
    return labels.astype(np.int64)


def _find(name: str, root: Path) -> Path:
    folder = root.parent if root.is_file() else root
    for file in _FILES[name]:
        if (folder / file).is_file():
            return folder / file
    wanted = " or ".join(_FILES[name])
    raise InputError(f"no human labels in {str(folder)!r}: put {wanted} there (the authors' files: {HOME})")


def _read_saved(path: Path) -> dict[Any, Array]:
    """Return the arrays of a file of torch.save by name."""
    with reading(path):
        if path.stat().st_size > LARGEST:
            raise InputError(f"{str(path)!r} has {path.stat().st_size:,} bytes; label files have below {LARGEST:,}")
        raw = require_file(path).read_bytes()
    expected = "a dict of whole-number arrays saved by torch.save; another file can be given as .npz"
    refused = f"{str(path)!r} is refused, and was not run: it holds {{}}, not {expected}"
    try:
        _refuse_large(raw)
        with torch.serialization.safe_globals(_WHOLE_NUMBERS):
            saved = torch.load(io.BytesIO(raw), weights_only=True)
    except InputError as error:
        raise InputError(refused.format(error)) from error
    except Exception as error:  # a broken or hostile file may raise anything
        if call := re.search(r"GLOBAL (\w[\w.]*)", str(error)):
            raise InputError(refused.format(f"a call of {call[1]}")) from error
        raise InputError(f"cannot read {str(path)!r}: it is not {expected}") from error
    if not isinstance(saved, dict):
        raise InputError(f"{str(path)!r} is not {expected}")
    for key, value in saved.items():
        if isinstance(value, list) and all(type(label) is int and 0 <= label < 2**31 for label in value):
            saved[key] = np.array(value, np.int64)  # as the coarse labels of CIFAR-100N are
        elif not isinstance(value, np.ndarray):
            raise InputError(f"{str(key)[:40]!r} in {str(path)!r} is {type(value).__name__}; it must be {expected}")
    return saved


def _refuse_large(raw: bytes) -> None:
    """Refuse a file of torch.save, which is a zip, with a pickle that is large when it is unpacked."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        for member in archive.infolist():
            if member.file_size > LARGEST:
                raise InputError(f"{member.file_size:,} bytes in {member.filename!r}")
