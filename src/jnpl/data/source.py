"""A labelled data set as it was found: inputs, given labels, and what is known beside them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError
from jnpl.noise.noisy_labels import transition_matrix

if TYPE_CHECKING:
    import pandas as pd

Array: TypeAlias = npt.NDArray[Any]
Labels: TypeAlias = npt.NDArray[np.int64]
Kind = Literal["image", "vector"]


class UnreadableError(Exception):
    """One sample cannot be read; the run goes on without it."""


class Inputs(Protocol):
    """N samples that can be read one by one, in any order and from any process."""

    @property
    def kind(self) -> Kind:
        """What `read` gives: an image, uint8 (H, W, 3) or (H, W, 1), or a vector, float32 (F,)."""

    def __len__(self) -> int: ...

    def read(self, position: int, size: int | None = None) -> Array:
        """Sample at `position`; an image resized to (size, size) if asked. Raises UnreadableError."""

    def sizes(self) -> Labels:
        """(N,) bytes of each sample where it is stored: changes when the data change."""


@dataclass(frozen=True)
class InMemory:
    """Inputs that are an array already: uint8 images (N, H, W, 1 or 3), or float32 vectors (N, F)."""

    values: Array

    def __post_init__(self) -> None:
        image = self.values.dtype == np.uint8 and self.values.ndim == 4 and self.values.shape[3] in (1, 3)
        vector = self.values.dtype == np.float32 and self.values.ndim == 2
        if not (image or vector):
            found = f"{self.values.dtype} of shape {self.values.shape}"
            raise InputError(f"inputs must be uint8 images (N, H, W, 1 or 3) or float32 vectors (N, F), not {found}")

    @property
    def kind(self) -> Kind:
        """Images or vectors."""
        return "image" if self.values.ndim == 4 else "vector"

    def __len__(self) -> int:
        return len(self.values)

    def read(self, position: int, size: int | None = None) -> Array:
        """Sample at `position`."""
        if size is not None and self.kind == "image" and self.values.shape[1:3] != (size, size):
            from PIL import Image  # noqa: PLC0415 (not needed for arrays of the right size)

            pixels = self.values[position]
            picture = Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)
            resized = np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR))
            return resized.reshape(size, size, -1)
        sample: Array = self.values[position]
        return sample

    def sizes(self) -> Labels:
        """(N,) bytes of each sample."""
        return np.full(len(self.values), self.values[:1].nbytes, np.int64)

    def digest(self) -> bytes:
        """SHA-256 of all values: arrays of one shape are of one size, and nothing else tells them apart."""
        digest = hashlib.sha256(f"{self.values.dtype.str} {self.values.shape}".encode())
        for start in range(0, len(self.values), 4096):
            digest.update(np.ascontiguousarray(self.values[start : start + 4096]).data)
        return digest.digest()


@dataclass(frozen=True, eq=False)
class Source:
    """Inputs with their given labels, in a fixed order.

    `ids` are positions, or paths for files. `true_labels`, where they are known, go to `metrics` and nowhere else.
    `unreadable` says why a sample is left out of training: position -> reason. `test` is data never trained on;
    `validation` neither, but methods that choose between their networks may look at it. `weights` say how much each
    sample counts in training, where that differs; their mean does not matter.
    `texts` are what vectors were made of, `encoding` how a table's columns became vectors
    (`encoding.Encoding.facts`), `cells` that table without the labels, whole, whose rows the ids count also
    in a part of it, `root` the folder that ids which are paths start from: these four are for people and for new data,
    and no part of the fingerprint.
    """

    name: str
    inputs: Inputs
    labels: Labels  # (N,) given labels as class numbers
    class_names: tuple[str, ...] | tuple[int, ...]
    ids: Array  # (N,) int64 positions, or object array of str
    true_labels: Labels | None = None
    test: Source | None = None
    unreadable: dict[int, str] | None = None
    validation: Source | None = None
    weights: npt.NDArray[np.float32] | None = None  # (N,) above 0
    texts: Array | None = None  # (N,) object array of str
    encoding: dict[str, Any] | None = None
    cells: pd.DataFrame | None = None
    root: str | None = None  # absolute

    def __post_init__(self) -> None:
        samples, classes = len(self.inputs), len(self.class_names)
        if samples == 0:
            raise InputError(f"{self.name} holds no samples")
        if classes < 2:
            raise InputError(f"{self.name} has {classes} class{'' if classes == 1 else 'es'}; at least 2 are needed")
        for field, labels in (("labels", self.labels), ("true_labels", self.true_labels)):
            if labels is None:
                continue
            if labels.shape != (samples,) or labels.dtype != np.int64:
                raise InputError(f"{field} of {self.name} must be {samples} int64, not {labels.dtype} {labels.shape}")
            if labels.min() < 0 or labels.max() >= classes:
                raise InputError(
                    f"{field} of {self.name} must lie in 0..{classes - 1}, not {labels.min()}..{labels.max()}"
                )
        self._require_length("ids", self.ids)
        self._require_length("texts", self.texts)
        if (weights := self.weights) is not None:
            right = weights.shape == (samples,) and weights.dtype == np.float32
            if not (right and (weights > 0).all() and np.isfinite(weights).all()):
                found = f"{weights.dtype} {weights.shape}"
                raise InputError(f"weights of {self.name} must be {samples} finite float32 above 0, not {found}")

    def _require_length(self, what: str, values: Array | None) -> None:
        if values is not None and len(values) != len(self.inputs):
            raise InputError(f"{self.name} has {len(self.inputs)} samples but {len(values)} {what}")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def kind(self) -> Kind:
        """Images or vectors."""
        return self.inputs.kind

    def realised_noise(self) -> tuple[float | None, npt.NDArray[np.float32] | None]:
        """Share of wrong labels, and P(given = j | true = i) as (C, C); None where true labels are not known.

        Oracles, for methods whose settings ask for them. The row of a class that nobody belongs to is the identity's.
        """
        if self.true_labels is None:
            return None, None
        matrix = transition_matrix(self.true_labels, self.labels, len(self.class_names))
        return float((self.labels != self.true_labels).mean()), matrix.astype(np.float32)

    def fingerprint(self) -> str:
        """SHA-256 of ids, labels, class names, inputs, weights and test data: a run resumes only on the same data."""
        digest = hashlib.sha256(repr(self.class_names).encode())
        digest.update(self.labels.astype("<i8").tobytes())
        digest.update(self.inputs_fingerprint().encode())
        if self.true_labels is not None:
            digest.update(self.true_labels.astype("<i8").tobytes())
        if self.weights is not None:
            digest.update(self.weights.astype("<f4").tobytes())
        for other in (self.test, self.validation):
            if other is not None:
                digest.update(other.fingerprint().encode())
        return digest.hexdigest()

    def inputs_fingerprint(self) -> str:
        """SHA-256 of ids and inputs (arrays: their values, else their sizes), whatever their labels."""
        digest = hashlib.sha256("\0".join(map(str, self.ids.tolist())).encode("utf-8", "backslashreplace"))
        digest.update(self.inputs.sizes().astype("<i8").tobytes())
        if isinstance(self.inputs, InMemory):
            digest.update(self.inputs.digest())
        return digest.hexdigest()


def number(names: list[Any]) -> tuple[Labels, tuple[str, ...] | tuple[int, ...]]:
    """Number class names in sorted order: N names -> (N,) labels, class names.

    Whole numbers sort as numbers and stay numbers; anything else is text.

    >>> number(["dog", "cat", "dog"])
    (array([1, 0, 1]), ('cat', 'dog'))
    """
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    whole = all(isinstance(name, int) and not isinstance(name, bool) for name in plain)
    keys: list[Any] = plain if whole else [str(name) for name in plain]
    classes = tuple(sorted(set(keys)))
    ids = {name: label for label, name in enumerate(classes)}
    return np.array([ids[key] for key in keys], np.int64), classes
