"""PyTorch-style data sets: objects with a length whose items are (input, label) pairs."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jnpl.data.source import Array, InMemory, Inputs, Kind, Labels, Source, UnreadableError
from jnpl.data.sources.arrays import as_inputs, as_labels, number_together
from jnpl.internal.errors import InputError

_ITEMS_TRIED = 20  # until one can be read
_COMPARED = 8  # samples by which data sets are told apart


class Indexable(Protocol):
    """A map-style data set, as PyTorch and torchvision have them."""

    def __len__(self) -> int: ...

    def __getitem__(self, position: int, /) -> Any: ...


@dataclass(frozen=True)
class DatasetInputs(Inputs):
    """The inputs of a data set's items, read on demand.

    A PIL image becomes uint8 RGB (H, W, 3). An array or tensor with one axis is a vector, float32 (F,); with two or
    three axes an image, (H, W), (H, W, C) or (C, H, W), of uint8 or of floats in 0..1. The data set should not augment:
    the run does.
    """

    dataset: Indexable
    item_kind: Kind

    @property
    def kind(self) -> Kind:
        """Images or vectors."""
        return self.item_kind

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, position: int, size: int | None = None) -> Array:
        """Return the input at `position`; with `size`, an image resized to (size, size). Raises UnreadableError."""
        sample = _input(self.dataset, position, size)
        if (sample.ndim == 1) != (self.kind == "vector"):
            raise UnreadableError(f"has shape {sample.shape}, where the others are {self.kind}s")
        return sample

    def sizes(self) -> Labels:
        """Return zeros (N,): sizes are not known without reading everything."""
        return np.zeros(len(self), np.int64)

    def digest(self) -> bytes:
        """Return the SHA-256 of a few samples, which tells two data sets apart without reading everything."""
        digest = hashlib.sha256()
        for position in np.linspace(0, len(self) - 1, min(_COMPARED, len(self))).astype(int).tolist():
            with suppress(UnreadableError):
                digest.update(np.ascontiguousarray(self.read(position)).data)
        return digest.digest()


def from_dataset(
    dataset: Indexable,
    *,
    labels: Any = None,
    class_names: Sequence[str] | Sequence[int] | None = None,
    name: str = "dataset",
) -> Source:
    """Open a data set of N (input, label) items.

    Args:
        labels: labels (N,); by default the data set's `targets` or `labels`, else the second part of every item, for
            which every item is read once.
        class_names: by default the data set's `classes`, else the labels that occur.

    Example:
        >>> source = from_dataset([([0.0, 1.0], "cat"), ([2.0, 3.0], "dog")])
        >>> source.inputs.read(1), source.labels
        (array([2., 3.], dtype=float32), array([0, 1]))
    """
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise InputError(f"a data set needs a length and items by position, which {type(dataset).__name__} has not")
    if len(dataset) == 0:
        raise InputError(f"{name} holds no samples")
    stored = labels if labels is not None else _stored_labels(dataset)
    names = as_labels(_read_labels(dataset) if stored is None else stored, "labels")
    if len(names) != len(dataset):
        raise InputError(f"{name} holds {len(dataset)} samples, but there are {len(names)} labels")
    if class_names is None:
        class_names = _stored_classes(dataset, names)
    numbered, classes = number_together({"labels": names}, class_names)
    return Source(name, DatasetInputs(dataset, _kind(dataset)), numbered["labels"], classes, np.arange(len(dataset)))


def convert(value: Any, position: int, size: int | None = None) -> Array:
    """Return one input as a uint8 image (H, W, 1 or 3) or a float32 vector (F,). Raises UnreadableError."""
    from PIL import Image  # noqa: PLC0415 - vectors do without

    if isinstance(value, Image.Image):
        from jnpl.data.sources.images import pixels  # noqa: PLC0415

        try:
            return pixels(value, size)
        except (OSError, ValueError) as error:  # a lazy picture is decoded only here
            raise UnreadableError(" ".join(str(error).split())[:160]) from error
    try:
        values = as_inputs([value] if isinstance(value, list | tuple) else value[None], f"item {position}")
    except InputError as error:
        raise UnreadableError(str(error)) from error
    except (TypeError, IndexError, KeyError) as error:
        kinds = "a picture, an array or a tensor"
        raise UnreadableError(f"item {position} holds {type(value).__name__}, not {kinds}") from error
    return InMemory(values).read(0, size)


def _input(dataset: Indexable, position: int, size: int | None = None) -> Array:
    try:
        item = dataset[position]
    except Exception as error:  # the user's data set may raise anything
        raise UnreadableError(" ".join(f"{type(error).__name__}: {error}".split())[:160]) from error
    return convert(_pair(item, position)[0], position, size)


def _kind(dataset: Indexable) -> Kind:
    """Return the kind of the first readable item."""
    first: UnreadableError | None = None
    for position in range(min(len(dataset), _ITEMS_TRIED)):
        try:
            return "vector" if _input(dataset, position).ndim == 1 else "image"
        except UnreadableError as error:
            first = first or error
    raise InputError(f"none of the first {min(len(dataset), _ITEMS_TRIED)} items can be read: {first}") from first


def _pair(item: Any, position: int) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise InputError(f"items must be (input, label) pairs, but item {position} is {type(item).__name__}")
    return item[0], item[1]


def _read_labels(dataset: Indexable) -> list[Any]:
    read = []
    for position in range(len(dataset)):
        try:
            item = dataset[position]
        except Exception as error:
            message = f"item {position} cannot be read for its label ({type(error).__name__}); give the labels"
            raise InputError(message) from error
        read.append(_pair(item, position)[1])
    return read


def _stored_labels(dataset: Any) -> Any:
    """Return the labels stored beside the items, or None; a torch Subset has those of its parent."""
    if getattr(dataset, "target_transform", None) is not None:
        return None  # the stored labels are not those of the items
    parent = _parent(dataset)
    if parent is not None:
        labels = _stored_labels(parent)
        if labels is None:
            return None
        of_parent = as_labels(labels, "labels")
        return [of_parent[position] for position in dataset.indices]
    for name in ("targets", "labels"):
        stored = getattr(dataset, name, None)
        if stored is not None and hasattr(stored, "__len__") and len(stored) == len(dataset):
            return stored
    return None


def _stored_classes(dataset: Any, labels: list[str] | list[int]) -> list[str] | None:
    parent = _parent(dataset)
    if parent is not None:
        return _stored_classes(parent, labels)
    stored = getattr(dataset, "classes", None)
    if not isinstance(stored, list | tuple) or not all(isinstance(name, str) for name in stored):
        return None
    allowed = set(stored) | set(range(len(stored)))
    return list(stored) if all(label in allowed for label in labels) else None


def _parent(dataset: Any) -> Any:
    return dataset.dataset if hasattr(dataset, "dataset") and hasattr(dataset, "indices") else None
