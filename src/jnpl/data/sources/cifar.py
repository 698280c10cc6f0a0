"""CIFAR-10 and CIFAR-100 from their binary version, which needs no pickle."""

import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Literal

import numpy as np

from jnpl.data.source import Array, InMemory, Labels, Source
from jnpl.data.sources.download import data_root, fetch, reading, safe_members
from jnpl.internal.errors import InputError
from jnpl.internal.files import require_file

PIXELS = 3 * 32 * 32
CHUNK = 2_000  # records read at a time
LARGEST = 2**29  # bytes in an archive; the real ones unpack to less than 2**28

CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR100_NAMES = (
    *("apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl"),
    *("boy", "bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair"),
    *("chimpanzee", "clock", "cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin"),
    *("elephant", "flatfish", "forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp"),
    *("lawn_mower", "leopard", "lion", "lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain"),
    *("mouse", "mushroom", "oak_tree", "orange", "orchid", "otter", "palm_tree", "pear", "pickup_truck"),
    *("pine_tree", "plain", "plate", "poppy", "porcupine", "possum", "rabbit", "raccoon", "ray", "road"),
    *("rocket", "rose", "sea", "seal", "shark", "shrew", "skunk", "skyscraper", "snail", "snake", "spider"),
    *("squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank", "telephone", "television"),
    *("tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale", "willow_tree", "wolf"),
    *("woman", "worm"),
)
CIFAR100_COARSE_NAMES = (
    *("aquatic_mammals", "fish", "flowers", "food_containers", "fruit_and_vegetables"),
    *("household_electrical_devices", "household_furniture", "insects", "large_carnivores"),
    *("large_man-made_outdoor_things", "large_natural_outdoor_scenes", "large_omnivores_and_herbivores"),
    *("medium_mammals", "non-insect_invertebrates", "people", "reptiles", "small_mammals", "trees"),
    *("vehicles_1", "vehicles_2"),
)


@dataclass(frozen=True)
class _Layout:
    """The files of one data set as released; `names` has one entry per label byte, in their order."""

    title: str
    folder: str
    archive: str
    digest: str
    train: tuple[str, ...]
    test: str
    names: dict[str, tuple[str, tuple[str, ...]]]  # granularity -> file of class names, the names themselves

    @property
    def record(self) -> int:
        return len(self.names) + PIXELS

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.train, self.test)

    @property
    def url(self) -> str:
        return f"https://www.cs.toronto.edu/~kriz/{self.archive}"


_LAYOUTS = {
    "cifar10": _Layout(
        title="CIFAR-10",
        folder="cifar-10-batches-bin",
        archive="cifar-10-binary.tar.gz",
        digest="md5:c32a1d4ab5d03f1284b67883e8d87530",
        train=tuple(f"data_batch_{batch}.bin" for batch in range(1, 6)),
        test="test_batch.bin",
        names={"fine": ("batches.meta.txt", CIFAR10_NAMES)},
    ),
    "cifar100": _Layout(
        title="CIFAR-100",
        folder="cifar-100-binary",
        archive="cifar-100-binary.tar.gz",
        digest="md5:03b5dce01913d631647c71ecec9e9cb8",
        train=("train.bin",),
        test="test.bin",
        names={
            "coarse": ("coarse_label_names.txt", CIFAR100_COARSE_NAMES),
            "fine": ("fine_label_names.txt", CIFAR100_NAMES),
        },
    ),
}


@dataclass(frozen=True)
class _ReleasedFile:
    """One file of a release, in a folder or in an archive."""

    where: str
    size: int
    open: Callable[[], IO[bytes]]


def load(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    download: bool = True,
    labels: Literal["fine", "coarse"] = "fine",
    val_size: int = 0,
    part: Literal["train", "val"] = "train",
) -> Source:
    """Load "cifar10" or "cifar100": uint8 images (N, 32, 32, 3), labels (N,), with the test set as `test`.

    Args:
        name: "cifar10" or "cifar100".
        root: the folder or archive of the binary version, or the folder that holds one of them; by default
            `jnpl.data.sources.download.data_root()`. An archive is read without unpacking.
        download: whether to download the archive to `root` if it is missing.
        labels: "fine", or the "coarse" super-classes of CIFAR-100.
        val_size: number of images to hold out as `validation`: the last val_size / C of each fine class in the official
            order. With 5,000 of CIFAR-10, 4,500 per class are for training and 500 for validation, as in NLNL.
        part: "val" returns the validation images as the data.

    Returns:
        The source; its ids are positions in the official 50,000.
    """
    layout = _LAYOUTS.get(name)
    if layout is None:
        raise InputError(f"there is no CIFAR data set {name!r}; use {' or '.join(_LAYOUTS)}")
    if labels not in layout.names:
        raise InputError(f"{layout.title} has {' and '.join(layout.names)} labels, not {labels!r}")
    if part not in ("train", "val"):
        raise InputError(f"part must be 'train' or 'val', not {part!r}")
    with _opened(_place(layout, data_root(root), download=download)) as files:
        class_names = _class_names(files, *layout.names[labels])
        images, heads, test_images, test_heads = _read_all(files, layout)

    column, fine = list(layout.names).index(labels), list(layout.names).index("fine")
    sides = held_out(heads[:, fine].astype(np.int64), len(layout.names["fine"][1]), val_size)
    kept = sides[part == "val"]
    validation = None
    if part == "train" and val_size:
        other = sides[1]
        validation = _source(f"{name} validation", images[other].copy(), heads[other, column], class_names, other)
    images = images[kept] if part == "val" else _moved_up(images, kept)
    test = _source(f"{name} test", test_images, test_heads[:, column], class_names, np.arange(len(test_heads)))
    source = _source(name, images, heads[kept, column], class_names, kept, test)
    return replace(source, validation=validation)


def load_named(
    name: str, root: str | os.PathLike[str] | None = None, *, val_size: int = 0, coarse: bool = False
) -> Source:
    """Load "cifar10" or "cifar100" with the options of `open_source`."""
    return load(name, root, labels="coarse" if coarse else "fine", val_size=val_size)


def held_out(labels: Labels, num_classes: int, val_size: int) -> tuple[Labels, Labels]:
    """Split N positions by labels (N,) into train and validation: the last val_size / C of each class validate.

    >>> held_out(np.array([0, 1, 0, 1, 1, 0]), 2, 2)
    (array([0, 1, 2, 3]), array([4, 5]))
    """
    fewest = int(np.bincount(labels, minlength=num_classes).min())
    if val_size < 0 or val_size % num_classes or (val_size and val_size >= fewest * num_classes):
        most = f"below {fewest * num_classes:,}, since the smallest class has {fewest:,} samples"
        raise InputError(f"val_size must be 0 or a multiple of {num_classes} {most}; got {val_size}")
    per_class, validates = val_size // num_classes, np.zeros(len(labels), bool)
    for label in range(num_classes if per_class else 0):
        validates[np.flatnonzero(labels == label)[-per_class:]] = True
    return np.flatnonzero(~validates), np.flatnonzero(validates)


def _moved_up(images: Array, kept: Labels) -> Array:
    """Return the images at the ascending positions `kept`, moved to the front in place: no second copy is made."""
    if len(kept) < len(images):
        for start in range(0, len(kept), CHUNK):
            images[start : start + CHUNK][: len(kept) - start] = images[kept[start : start + CHUNK]]
    return images[: len(kept)]


def _source(
    name: str, images: Array, labels: Array, class_names: tuple[str, ...], ids: Labels, test: Source | None = None
) -> Source:
    class_numbers = labels.astype(np.int64)
    return Source(name, InMemory(images), class_numbers, class_names, ids, true_labels=class_numbers.copy(), test=test)


def is_there(name: str, root: str | os.PathLike[str] | None = None) -> bool:
    """Whether `root` seems to hold the data set."""
    try:
        _place(_LAYOUTS[name], data_root(root), download=False)
    except InputError:
        return False
    return True


def _place(layout: _Layout, root: Path, *, download: bool) -> Path:
    """Return the folder or archive that holds the data, downloaded if necessary."""
    if root.is_file():
        return root
    for folder in (root / layout.folder, root):
        if any((folder / file).is_file() for file in layout.files):
            return folder
    archive = root / layout.archive
    if archive.is_file():
        return archive
    if not download:
        wanted = f"{layout.folder}/ or {layout.archive} (from {layout.url})"
        raise InputError(f"no {layout.title} in {str(root)!r}: put {wanted} there, or allow the download")
    return fetch(layout.url, archive, digest=layout.digest)


@contextmanager
def _opened(place: Path) -> Iterator[dict[str, _ReleasedFile]]:
    """Yield the files of a folder or archive by name, in stored order."""
    with reading(place):
        if place.is_dir():
            paths = sorted(file for file in place.iterdir() if file.is_file())
            yield {file.name: _ReleasedFile(str(file), file.stat().st_size, _unpacked(file)) for file in paths}
            return
        with tarfile.open(require_file(place)) as tar:
            yield {
                PurePosixPath(member.name).name: _ReleasedFile(
                    f"{place}:{member.name}", member.size, _packed(tar, member)
                )
                for member in safe_members(tar, limit=LARGEST)
            }


def _unpacked(file: Path) -> Callable[[], IO[bytes]]:
    return lambda: file.open("rb")


def _packed(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def opened() -> IO[bytes]:
        stream = tar.extractfile(member)
        if stream is None:
            raise InputError(f"{str(tar.name)!r} holds {member.name!r}, which is not a file")
        return stream

    return opened


def _read_all(files: dict[str, _ReleasedFile], layout: _Layout) -> tuple[Array, Array, Array, Array]:
    """Train images (N, 32, 32, 3) and label bytes (N, L), then those of the test set; (L is 1, or 2 in CIFAR-100)."""
    counts = {file: _count(files, file, layout) for file in layout.files}
    images, heads = _empty(sum(counts[file] for file in layout.train), layout)
    test_images, test_heads = _empty(counts[layout.test], layout)
    targets, start = {layout.test: (test_images, test_heads)}, 0
    for file in layout.train:
        rows = slice(start, start + counts[file])
        targets[file] = images[rows], heads[rows]
        start += counts[file]
    for name, released in files.items():  # in stored order: a compressed archive is read from front to back
        if name in targets:
            _read(released, layout, *targets[name])
    return images, heads, test_images, test_heads


def _empty(count: int, layout: _Layout) -> tuple[Array, Array]:
    return np.empty((count, 32, 32, 3), np.uint8), np.empty((count, len(layout.names)), np.uint8)


def _count(files: dict[str, _ReleasedFile], name: str, layout: _Layout) -> int:
    file = files.get(name)
    if file is None:
        place = Path(next(iter(files.values())).where).parent if files else layout.folder
        raise InputError(f"{layout.title} is incomplete: there is no {name} in {str(place)!r}")
    if file.size == 0 or file.size % layout.record:
        record = f"{layout.record} ({len(layout.names)} for the label, {PIXELS} for the pixels)"
        raise InputError(f"{file.where!r} has {file.size} bytes, which is not a multiple of {record}")
    return file.size // layout.record


def _read(file: _ReleasedFile, layout: _Layout, images: Array, heads: Array) -> None:
    """Read one file into images (N, 32, 32, 3) and label bytes (N, L)."""
    with file.open() as stream:
        for start in range(0, len(heads), CHUNK):
            count = min(CHUNK, len(heads) - start)
            raw = stream.read(count * layout.record)
            if len(raw) != count * layout.record:
                raise InputError(f"{file.where!r} ends early, in record {start + len(raw) // layout.record}")
            block = np.frombuffer(raw, np.uint8).reshape(count, layout.record)
            heads[start : start + count] = block[:, : len(layout.names)]
            planes = block[:, len(layout.names) :].reshape(count, 3, 32, 32)
            images[start : start + count] = planes.transpose(0, 2, 3, 1)
    for column, (_, names) in enumerate(layout.names.values()):
        wrong = np.flatnonzero(heads[:, column] >= len(names))
        if wrong.size:
            wrong_label = f"label {heads[wrong[0], column]} in record {wrong[0]}"
            raise InputError(f"{file.where!r} has {wrong_label}; labels of {layout.title} lie in 0..{len(names) - 1}")


def _class_names(files: dict[str, _ReleasedFile], name: str, expected: tuple[str, ...]) -> tuple[str, ...]:
    if name not in files:
        return expected
    with files[name].open() as stream:
        text = stream.read(2**16).decode("utf-8", "replace")
    names = tuple(line.strip() for line in text.splitlines() if line.strip())
    if len(set(names)) != len(expected) or len(names) != len(expected):
        raise InputError(f"{files[name].where!r} must name {len(expected)} classes, one per line; it has {len(names)}")
    return names
