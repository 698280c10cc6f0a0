"""Clothing1M (Xiao et al. 2015) as released: a million shop photographs, labelled by their surrounding text.

```
images/7/42/1234567890,123456789.jpg, ...
noisy_train_key_list.txt, clean_train_key_list.txt, clean_val_key_list.txt, clean_test_key_list.txt: a path per line
noisy_label_kv.txt, clean_label_kv.txt: a path and a label per line
```
"""

import os
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np

from jnpl.data.source import Array, Labels, Source
from jnpl.data.sources.download import data_root, reading
from jnpl.data.sources.images import ImageFiles
from jnpl.internal.errors import InputError
from jnpl.internal.files import require_file

CLASS_NAMES = (
    *("T-shirt", "Shirt", "Knitwear", "Chiffon", "Sweater", "Hoodie", "Windbreaker"),
    *("Jacket", "Down Coat", "Suit", "Shawl", "Dress", "Vest", "Underwear"),
)
SPLITS = ("noisy_train", "clean_train", "clean_val", "clean_test")
Split = Literal["noisy_train", "clean_train", "clean_val", "clean_test"]

_LABELS = {str(label): label for label in range(len(CLASS_NAMES))}


def load(
    root: str | os.PathLike[str],
    *,
    split: Split = "noisy_train",
    balanced: bool = False,
    per_class: int | None = None,
    seed: int = 0,
) -> Source:
    """Load Clothing1M from `root`: N image files, labels (N,) in 14 classes, ids their paths, clean test as `test`.

    Images are opened when they are read: a missing or broken one is an unreadable sample.

    Args:
        split: "noisy_train" has the labels of the shops, no true labels, and `clean_val` as `validation`; the other
            splits have labels checked by people.
        balanced: whether to keep equally many samples of each class, as many as the smallest class has.
        per_class: with `balanced`, the number of samples of each class.
    """
    folder = Path(root).expanduser()
    if split not in SPLITS:
        raise InputError(f"Clothing1M has the splits {', '.join(SPLITS)}, not {split!r}")
    if per_class is not None and not balanced:
        raise InputError(f"per_class={per_class} says how to balance; it needs balanced=True")
    clean = _read_labels(folder / "clean_label_kv.txt")
    keys, labels = _read_split(folder, split, clean)
    if balanced:
        kept = balanced_subset(labels, len(CLASS_NAMES), per_class=per_class, seed=seed)
        keys, labels = keys[kept], labels[kept]
    test = None if split == "clean_test" else _source(folder, "clean_test", *_read_split(folder, "clean_test", clean))
    source = _source(folder, split, keys, labels, test)
    if split != "noisy_train" or not (folder / "clean_val_key_list.txt").is_file():
        return source
    return replace(source, validation=_source(folder, "clean_val", *_read_split(folder, "clean_val", clean)))


def load_named(
    _name: str, root: str | os.PathLike[str] | None = None, *, balanced: bool = False, seed: int = 0
) -> Source:
    """Load the data set from a data root, with the options of `open_source`."""
    return load(folder_in(data_root(root)), balanced=balanced, seed=seed)


def folder_in(root: Path) -> Path:
    """Return the folder of the data set in a data root, or the root itself."""
    return next((root / name for name in ("clothing1m", "Clothing1M") if (root / name).is_dir()), root)


def is_there(root: Path) -> bool:
    """Whether a data root seems to hold the data set."""
    return (folder_in(root) / "clean_label_kv.txt").is_file()


def balanced_subset(labels: Labels, num_classes: int, *, per_class: int | None = None, seed: int = 0) -> Labels:
    """Return ascending positions of equally many samples of each class: (N,) -> (per_class * C,).

    >>> balanced_subset(np.array([0, 0, 0, 1]), 2).size
    2
    """
    counts = np.bincount(labels, minlength=num_classes)
    smallest = int(counts.argmin())
    drawn_per_class = int(counts[smallest]) if per_class is None else per_class
    if not 0 < drawn_per_class <= counts[smallest]:
        most = f"class {smallest} has {counts[smallest]} samples"
        raise InputError(f"cannot take {drawn_per_class} samples of each class: {most}; per_class must lie in 1..that")
    generator = np.random.default_rng(seed)
    drawn = [generator.choice(np.flatnonzero(labels == c), drawn_per_class, replace=False) for c in range(num_classes)]
    return np.sort(np.concatenate(drawn))


def _source(root: Path, split: Split, keys: Array, labels: Labels, test: Source | None = None) -> Source:
    truth = None if split == "noisy_train" else labels.copy()
    inputs = ImageFiles(keys.tolist(), root)
    return Source(f"clothing1m {split}", inputs, labels, CLASS_NAMES, keys, true_labels=truth, test=test)


def _read_split(root: Path, split: Split, clean: dict[str, int]) -> tuple[Array, Labels]:
    """Return the paths (N,), relative to `root`, and labels (N,) of a split."""
    file = root / f"{split}_key_list.txt"
    source = root / ("noisy_label_kv.txt" if split == "noisy_train" else "clean_label_kv.txt")
    label_of = _read_labels(source) if split == "noisy_train" else clean
    keys = [key for line in _text(file).splitlines() if (key := line.strip())]
    _check_paths(keys, file)
    try:
        labels = np.fromiter(map(label_of.__getitem__, keys), np.int64, len(keys))
    except KeyError as error:
        raise InputError(f"{str(source)!r} has no label for {error.args[0]!r} of {file.name}") from error
    ids = np.empty(len(keys), object)
    ids[:] = keys
    return ids, labels


def _read_labels(file: Path) -> dict[str, int]:
    """Return {path: label} of a `*_label_kv.txt`; a million lines take about a second."""
    text = _text(file)
    words, lines = text.split(), len(text.splitlines())
    labels: dict[str, int] = {}
    if len(words) == 2 * lines and set(words[1::2]) <= set(_LABELS):
        labels = dict(zip(words[::2], map(_LABELS.__getitem__, words[1::2]), strict=True))
    if len(labels) < lines:  # something is unusual: reading line by line finds out what
        labels = _read_unusual(text, file)
    return labels


def _read_unusual(text: str, file: Path) -> dict[str, int]:
    """Return {path: label} of a file with empty lines, spaces in paths, repeated paths, or mistakes."""
    labels: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        key, _, word = line.strip().rpartition(" ")
        label = _LABELS.get(word)
        if not line.strip():
            continue
        if label is None or not key.strip():
            wanted = f"a path, a space and a label in 0..{len(CLASS_NAMES) - 1}"
            raise InputError(f"line {number} of {str(file)!r} must be {wanted}, not {line[:80]!r}")
        if labels.setdefault(key.strip(), label) != label:
            raise InputError(f"line {number} of {str(file)!r} gives a second label to {key.strip()[:80]!r}")
    return labels


def _check_paths(keys: list[str], file: Path) -> None:
    """Refuse paths outside the folder."""
    for key in keys:
        if ".." in key or key[0] == "/" or "\\" in key or ":" in key or "\0" in key:  # rare: check closely
            if ".." not in PurePosixPath(key).parts and key[0] != "/" and not set(key) & set("\\:\0"):
                continue
            raise InputError(f"{str(file)!r} has the path {key[:80]!r}, which may lead out of {str(file.parent)!r}")


def _text(file: Path) -> str:
    with reading(file):
        try:
            return require_file(file).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{str(file)!r} is not a text file in UTF-8: byte {error.start} is not") from error
