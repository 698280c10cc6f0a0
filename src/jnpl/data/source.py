"""What a labelled data set is: inputs, given labels, and what else is known about the samples."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.allocator import scratch_zeros
from jnpl.internal.errors import InputError
from jnpl.noise.noisy_labels import transition_matrix

if TYPE_CHECKING:
    import pandas as pd

Array: TypeAlias = npt.NDArray[Any]
Labels: TypeAlias = npt.NDArray[np.int64]
Kind = Literal["image", "vector", "text"]

_ROWS = 4096  # embeddings copied at a time


class UnreadableError(Exception):
    """One sample cannot be read; training goes on without it."""


class Inputs(ABC):
    """N samples that can be read one at a time, in any order and from any process.

    A kind of inputs defines `kind`, `__len__`, `read` and `sizes`; the other answers are for inputs that are files,
    read one by one.
    """

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What `read` returns: an image, uint8 (H, W, 3) or (H, W, 1), a vector, float32 (F,), or a text, UTF-8."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, position: int, size: int | None = None) -> Array:
        """Return the sample at `position`; with `size`, an image resized to (size, size). Raises UnreadableError."""

    @abstractmethod
    def sizes(self) -> Labels:
        """Return the stored bytes of each sample (N,): part of the fingerprint of the data."""

    def select(self, positions: Labels) -> Inputs:
        """Return the samples at some positions (M,)."""
        return SelectedInputs(self, positions)

    def digest(self) -> bytes:
        """Return the SHA-256 of all samples in memory: arrays of one shape have the same sizes. Else no bytes."""
        return b""

    def array(self) -> Array | None:
        """Return all samples as one array (N, ...), in memory or in a memory map; None if they are read one by one."""
        return None

    def texts(self) -> Array | None:
        """Return all texts (N,), objects; None if the samples are something else."""
        return None

    def is_embedded(self) -> bool:
        """Whether the vectors are embeddings of a backbone, or the user says that they are embeddings."""
        return False

    def modified_times(self) -> Labels:
        """Return when the file of each sample was last changed (N,), in nanoseconds; 0 where there is no file."""
        return np.zeros(len(self), np.int64)

    def side(self, position: int) -> int:
        """Return the shorter side of the image at `position` in pixels. Raises UnreadableError."""
        return int(min(self.read(position).shape[:2]))

    def path(self, position: int) -> Path | None:  # noqa: ARG002
        """Return the file that holds the sample at `position` alone; None if there is none."""
        return None

    def are_parts(self) -> bool:
        """Whether samples are parts of files: their ids name a file and a place in it."""
        return False

    def content(self, position: int) -> Any:  # noqa: ARG002
        """Return bytes or a buffer, the same for equal samples in memory; None if samples cannot be compared."""
        return None


@dataclass(frozen=True)
class SelectedInputs(Inputs):
    """Some of the samples of other inputs, by position."""

    inputs: Inputs
    positions: Labels

    @property
    def kind(self) -> Kind:
        """What the other inputs are."""
        return self.inputs.kind

    def __len__(self) -> int:
        return len(self.positions)

    def read(self, position: int, size: int | None = None) -> Array:
        """Return the sample at `position`."""
        return self.inputs.read(int(self.positions[position]), size)

    def sizes(self) -> Labels:
        """Return the bytes of each sample (N,)."""
        return self.inputs.sizes()[self.positions]


@dataclass(frozen=True)
class InMemory(Inputs):
    """Inputs in one array: uint8 images (N, H, W, 1 or 3), or float32 vectors (N, F).

    `embedded`: the user says that the vectors are embeddings, of any width.
    """

    values: Array
    embedded: bool = False

    def __post_init__(self) -> None:
        image = self.values.dtype == np.uint8 and self.values.ndim == 4 and self.values.shape[3] in (1, 3)
        vector = self.values.dtype == np.float32 and self.values.ndim == 2
        if not (image or vector):
            shown = f"{self.values.dtype} of shape {self.values.shape}"
            raise InputError(f"inputs must be uint8 images (N, H, W, 1 or 3) or float32 vectors (N, F), not {shown}")

    @property
    def kind(self) -> Kind:
        """Images or vectors."""
        return "image" if self.values.ndim == 4 else "vector"

    def __len__(self) -> int:
        return len(self.values)

    def read(self, position: int, size: int | None = None) -> Array:
        """Return the sample at `position`; with `size`, an image resized to (size, size)."""
        if size is not None and self.kind == "image" and self.values.shape[1:3] != (size, size):
            from PIL import Image  # noqa: PLC0415 - not needed for arrays of the right size

            pixels = self.values[position]
            picture = Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)
            resized = np.asarray(picture.resize((size, size), Image.Resampling.BILINEAR))
            return resized.reshape(size, size, -1)
        sample: Array = self.values[position]
        return sample

    def sizes(self) -> Labels:
        """Return the bytes of each sample (N,)."""
        return np.full(len(self.values), self.values[:1].nbytes, np.int64)

    def select(self, positions: Labels) -> Inputs:
        """Return a copy of the samples at some positions (M,)."""
        return replace(self, values=self.values[positions])

    def digest(self) -> bytes:
        """Return the SHA-256 of all values."""
        digest = hashlib.sha256(f"{self.values.dtype.str} {self.values.shape}".encode())
        for start in range(0, len(self.values), 4096):
            digest.update(np.ascontiguousarray(self.values[start : start + 4096]).data)
        return digest.digest()

    def array(self) -> Array:
        """Return (N, H, W, 1 or 3) or (N, F)."""
        return self.values

    def is_embedded(self) -> bool:
        """Whether the user says that the vectors are embeddings."""
        return self.embedded

    def side(self, position: int) -> int:  # noqa: ARG002 - all images have one size
        """Return the shorter side of the images in pixels."""
        return int(min(self.values.shape[1:3]))

    def content(self, position: int) -> Any:
        """Return the values of the sample at `position`."""
        return np.ascontiguousarray(self.values[position]).data


@dataclass(frozen=True, eq=False)
class Texts(Inputs):
    """N texts. Training needs them as vectors: `jnpl.embedding.compute` embeds them."""

    values: Array  # (N,) object array of str

    kind = "text"

    def __len__(self) -> int:
        return len(self.values)

    def read(self, position: int, size: int | None = None) -> Array:  # noqa: ARG002 - a text has no size
        """Return the UTF-8 bytes of the text at `position`, as uint8."""
        return np.frombuffer(self.values[position].encode("utf-8", "backslashreplace"), np.uint8)

    def sizes(self) -> Labels:
        """Return the characters of each text (N,)."""
        return np.fromiter(map(len, self.values), np.int64, len(self.values))

    def select(self, positions: Labels) -> Inputs:
        """Return the texts at some positions (M,)."""
        return Texts(self.values[positions])

    def digest(self) -> bytes:
        """Return the SHA-256 of all texts."""
        whole = "\0".join(self.values.tolist())
        return hashlib.sha256(whole.encode("utf-8", "backslashreplace")).digest()

    def texts(self) -> Array:
        """Return all texts (N,)."""
        return self.values


@dataclass(frozen=True, eq=False)
class EmbeddedInputs(Inputs):
    """Embeddings (N, V, F) of V views of every sample, float16 in memory or in a memory map.

    `key` is a text that is the same for the same embeddings: of the backbone, the samples and the views.
    """

    values: Array
    key: str

    kind = "vector"

    def __len__(self) -> int:
        return len(self.values)

    def read(self, position: int, size: int | None = None) -> Array:  # noqa: ARG002 - a vector has no size
        """Return the mean embedding of the views of a sample: float32 (F,)."""
        mean: Array = self.values[position].astype(np.float32).mean(axis=0)
        return mean

    def sizes(self) -> Labels:
        """Return the bytes of each sample (N,)."""
        return np.full(len(self.values), self.values[:1].nbytes, np.int64)

    def select(self, positions: Labels) -> Inputs:
        """Return a copy of the embeddings at some positions (M,), in a temporary file if it is large."""
        values = scratch_zeros((len(positions), *self.values.shape[1:]), self.values.dtype)
        for start in range(0, len(positions), _ROWS):
            values[start : start + _ROWS] = self.values[positions[start : start + _ROWS]]
        return EmbeddedInputs(values, f"{self.key} {positions.tolist()}")

    def digest(self) -> bytes:
        """Return the SHA-256 of the key."""
        return hashlib.sha256(self.key.encode()).digest()

    def array(self) -> Array:
        """Return the embeddings of all views (N, V, F)."""
        return self.values

    def is_embedded(self) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, eq=False)
class BackboneRecord:
    """What a run keeps of the backbone that made its vectors, to embed new data in the same way."""

    facts: dict[str, Any]  # for model.json (`jnpl.embedding.compute.describe`)
    # arrays of a backbone that was fitted to these data, such as TF-IDF; None if its name is enough
    state: dict[str, Array] | None = None


@dataclass(frozen=True, eq=False)
class Source:
    """Inputs with their given labels, in a fixed order.

    `texts`, `encoding`, `cells`, `root`, `pictures` and `backbone` serve reports and predictions on new data; they are
    not part of the fingerprint.

    Attributes:
        name: of the data, for messages and reports.
        inputs: the N samples.
        labels: given labels (N,), class numbers.
        class_names: names of the C classes, strings or integers.
        ids: positions (N,), paths for files, or path and place for parts of files.
        true_labels: true labels (N,), where known. Only `metrics` uses them.
        test: data that are never trained on.
        unreadable: position -> reason, of samples that cannot be read and are left out of training.
        validation: data that are never trained on, but that methods may use to choose between networks.
        weights: how much each sample counts in training (N,), if not equally; their mean does not matter.
        groups: name of a column -> the group (N,) of each sample, None where it has none.
        votes: annotator -> class number (N,) of each sample, -1 where there is none; `labels` are the most frequent.
        decided: labels (N,) that a person has decided on, -1 where there is none. Training trusts them.
        tags: where a sample may have several tags, whether it has each of the C classes (N, C). `labels` are then 0.
        texts: the texts (N,) that the vectors were made from.
        encoding: how the columns of a table became vectors (`jnpl.data.sources.encoding.Encoding.to_dict`).
        cells: the table without its label columns. It stays whole in a part of the source: ids count its rows.
        root: the folder that ids which are paths are relative to.
        pictures: the images that the vectors were made from.
        backbone: what the vectors were made with.
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
    groups: dict[str, Array] | None = None  # (N,) object arrays
    votes: dict[str, Labels] | None = None
    decided: Labels | None = None  # (N,) class numbers, or -1
    tags: npt.NDArray[np.bool_] | None = None  # (N, C)
    texts: Array | None = None  # (N,) object array of str
    encoding: dict[str, Any] | None = None
    cells: pd.DataFrame | None = None
    root: str | None = None  # absolute
    pictures: Inputs | None = None
    backbone: BackboneRecord | None = None

    def __post_init__(self) -> None:
        samples, classes = len(self.inputs), len(self.class_names)
        if samples == 0:
            raise InputError(f"{self.name} holds no samples")
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
        self._require_length("decided labels", self.decided)
        if self.tags is not None and (self.tags.shape != (samples, classes) or self.tags.dtype != bool):
            description = f"{self.tags.dtype} {self.tags.shape}"
            raise InputError(f"tags of {self.name} must be booleans ({samples}, {classes}), not {description}")
        if (weights := self.weights) is not None:
            right = weights.shape == (samples,) and weights.dtype == np.float32
            if not (right and (weights > 0).all() and np.isfinite(weights).all()):
                description = f"{weights.dtype} {weights.shape}"
                raise InputError(f"weights of {self.name} must be {samples} finite float32 above 0, not {description}")

    def _require_length(self, what: str, values: Array | None) -> None:
        if values is not None and len(values) != len(self.inputs):
            raise InputError(f"{self.name} has {len(self.inputs)} samples but {len(values)} {what}")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def kind(self) -> Kind:
        """Images, vectors or texts."""
        return self.inputs.kind

    @property
    def paths(self) -> Array | None:
        """The ids (N,) where they are paths of files; else None."""
        is_files = self.ids.dtype == object and not (self.pictures or self.inputs).are_parts()
        return self.ids if is_files else None

    def realised_noise(self) -> tuple[float | None, npt.NDArray[np.float32] | None]:
        """Return the share of wrong labels and P(given = j | true = i) (C, C); None, None without true labels.

        For methods whose settings assume that they are known.
        """
        if self.true_labels is None:
            return None, None
        matrix = transition_matrix(self.true_labels, self.labels, len(self.class_names))
        return float((self.labels != self.true_labels).mean()), matrix.astype(np.float32)

    def fingerprint(self) -> str:
        """Return the SHA-256 of ids, labels, class names, inputs, weights, decided labels, test and validation data.

        A run resumes only on data with the same fingerprint.
        """
        digest = hashlib.sha256(repr(self.class_names).encode())
        digest.update(self.labels.astype("<i8").tobytes())
        digest.update(self.inputs_fingerprint().encode())
        if self.true_labels is not None:
            digest.update(self.true_labels.astype("<i8").tobytes())
        if self.weights is not None:
            digest.update(self.weights.astype("<f4").tobytes())
        if self.decided is not None:
            digest.update(b"decided" + self.decided.astype("<i8").tobytes())
        if self.tags is not None:
            digest.update(b"tags" + np.packbits(self.tags).tobytes())
        for other in (self.test, self.validation):
            if other is not None:
                digest.update(other.fingerprint().encode())
        return digest.hexdigest()

    def inputs_fingerprint(self) -> str:
        """Return the SHA-256 of ids and inputs (what is in memory, else the sizes of files), without labels."""
        digest = hashlib.sha256("\0".join(map(str, self.ids.tolist())).encode("utf-8", "backslashreplace"))
        digest.update(self.inputs.sizes().astype("<i8").tobytes())
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
    if whole and plain and not -(2**63) <= min(plain) <= max(plain) < 2**63:
        large = max(plain, key=abs)
        raise InputError(f"labels that are whole numbers must have at most 63 bits, got {large}: write them as names")
    keys: list[Any] = plain if whole else [str(name) for name in plain]
    classes = tuple(sorted(set(keys)))
    ids = {name: label for label, name in enumerate(classes)}
    return np.array([ids[key] for key in keys], np.int64), classes
