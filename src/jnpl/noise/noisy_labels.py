"""The result of `jnpl.noise.corrupt`: noisy labels, the clean ones and the recipe, in memory and as a file."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError, whole
from jnpl.internal.files import replacing, require_file
from jnpl.internal.json_files import parse_json
from jnpl.noise.kinds import ClassMap

BoolArray: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]

_FORMAT = "jnpl noisy labels 1"

# what numpy, zipfile and json raise on a file that is damaged or of another kind
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,  # an encrypted member
    SyntaxError,  # a header that is no Python
    OverflowError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """Noisy labels with the clean ones and the recipe that made them: labels (N,), clean_labels (N,).

    `kind`, `rate`, `seed`, `count`, `inclusive`, `mapping` and `requested_matrix` are the arguments of
    `jnpl.noise.corrupt`; `is_noisy`, `matrix` and `rate_realised` describe the result. With `class_names`, a saved file
    holds names, not numbers.

    Example:
        >>> from jnpl.noise import corrupt
        >>> bundle = corrupt([0, 0, 1, 1], "symm", 0.5, num_classes=2)
        >>> bundle.rate_realised, bundle.matrix.tolist()
        (0.5, [[0.5, 0.5], [0.5, 0.5]])
    """

    labels: IntArray
    clean_labels: IntArray
    num_classes: int
    kind: str
    rate: float | None = None
    seed: int = 0
    count: str = "exact"
    inclusive: bool = False
    mapping: ClassMap | None = None
    requested_matrix: FloatArray | None = None
    class_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        size, names = self.num_classes, self.class_names
        for field in ("labels", "clean_labels"):
            fixed = labels_and_size(getattr(self, field), size)[0].copy()
            fixed.setflags(write=False)  # frozen with their contents: the hash must stay valid
            object.__setattr__(self, field, fixed)
        if self.labels.size != self.clean_labels.size:
            raise InputError(f"{self.labels.size} labels do not fit {self.clean_labels.size} clean_labels")
        if names is not None and not len(set(names)) == len(names) == size:
            raise InputError(f"class_names must be {size} different names, got {names!r}")

    @property
    def is_noisy(self) -> BoolArray:
        """Where the noisy label differs from the clean one: (N,)."""
        changed: BoolArray = self.labels != self.clean_labels
        return changed

    @property
    def rate_realised(self) -> float:
        """Share of all labels that changed."""
        return float(self.is_noisy.mean())

    @property
    def matrix(self) -> FloatArray:
        """Realised P(noisy = j | clean = i): (C, C); a class without samples has the identity row."""
        return transition_matrix(self.clean_labels, self.labels, self.num_classes)

    @property
    def sha256(self) -> str:
        """Hash of the labels, the clean labels (little-endian int64) and the recipe (canonical JSON)."""
        digest = hashlib.sha256(self._recipe().encode())
        digest.update(self.labels.astype("<i8").tobytes() + self.clean_labels.astype("<i8").tobytes())
        return digest.hexdigest()

    def _recipe(self) -> str:
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__ if not name.endswith("labels")}
        if self.requested_matrix is not None:
            fields["requested_matrix"] = self.requested_matrix.tolist()
        return json.dumps({"format": _FORMAT, **fields}, sort_keys=True, separators=(",", ":"))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `y`, `y_true`, `recipe` and `sha256` to an .npz whose bytes depend on the content alone.

        Args:
            path: the file to write, ending in .npz.

        Returns:
            The path.

        Example:
            >>> import tempfile
            >>> from jnpl.noise import corrupt
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = corrupt([0, 0, 1, 1], "symm", 0.5).save(Path(folder, "noisy.npz"))
            ...     NoisyLabels.load(path).rate_realised
            0.5
        """
        target = Path(path)
        if target.suffix.lower() != ".npz":
            raise InputError(f"noisy labels are saved as .npz, got {str(target)!r}")
        names = None if self.class_names is None else np.array(self.class_names).astype("<U")
        arrays = {
            "y": self.labels.astype("<i8") if names is None else names[self.labels],
            "y_true": self.clean_labels.astype("<i8") if names is None else names[self.clean_labels],
            "recipe": np.array(self._recipe()).astype("<U"),
            "sha256": np.array(self.sha256).astype("<U"),
        }
        with replacing(target) as draft, zipfile.ZipFile(draft, "w") as archive:
            for name, array in arrays.items():
                content = io.BytesIO()
                np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
                entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                entry.create_system = 3  # Unix on every system: one more byte that must not vary
                archive.writestr(entry, content.getvalue())
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NoisyLabels:
        """Read what `save` wrote and check its hash.

        Args:
            path: an .npz of `save` or of `jnpl corrupt`.

        Returns:
            The noisy labels. A file that was changed after it was saved is an InputError.
        """
        try:
            with require_file(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
                noisy, clean, recipe, stored_hash = (archive[key] for key in ("y", "y_true", "recipe", "sha256"))
            fields = parse_json(str(recipe))
            if fields.pop("format") != _FORMAT:
                raise ValueError("another format")
            if fields["class_names"] is not None:
                fields["class_names"] = tuple(fields["class_names"])
                ids = {name: label for label, name in enumerate(fields["class_names"])}
                noisy, clean = (np.array([ids[name] for name in array.tolist()]) for array in (noisy, clean))
            if isinstance(fields["mapping"], dict):
                fields["mapping"] = {int(source): to for source, to in fields["mapping"].items()}
            if fields["requested_matrix"] is not None:
                fields["requested_matrix"] = np.array(fields["requested_matrix"], dtype=np.float64)
            loaded = cls(noisy, clean, **fields)
        except FileNotFoundError:
            raise InputError(f"no such file: {str(path)!r}") from None
        except _UNREADABLE as error:
            raise InputError(f"{str(path)!r} is not a file of noisy labels saved by jnpl") from error
        if loaded.sha256 != str(stored_hash):
            shown = f"its hash is {loaded.sha256}, not {stored_hash}"
            raise InputError(f"{str(path)!r} was changed after it was saved: {shown}")
        return loaded


def transition_matrix(true: IntArray, given: IntArray, num_classes: int) -> FloatArray:
    """Count P(given = j | true = i): (N,), (N,) -> (C, C). The row of a class without samples is that of the identity.

    >>> transition_matrix(np.array([0, 0, 1]), np.array([0, 1, 1]), 3).tolist()
    [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    counts = np.bincount(true * num_classes + given, minlength=num_classes**2).reshape(num_classes, num_classes)
    total = counts.sum(1, keepdims=True)
    return np.where(total > 0, counts / np.maximum(total, 1), np.eye(num_classes))


def labels_and_size(labels: npt.ArrayLike, num_classes: int | None) -> tuple[IntArray, int]:
    """Return checked labels (N,) and the number of classes, by default one more than the highest label."""
    raw = as_array(labels, "labels")
    if raw.ndim != 1 or raw.size == 0:
        raise InputError(f"labels must be a non-empty list of one label per sample, got shape {raw.shape}")
    if raw.dtype.kind not in "buif":
        raise InputError(f"labels must be whole numbers 0..C-1, got dtype {raw.dtype}")
    if num_classes is not None and whole(num_classes, "num_classes") < 2:
        raise InputError(f"num_classes must be at least 2, got {num_classes}")
    wrong = (raw != np.floor(raw)) if raw.dtype.kind == "f" else np.zeros(raw.shape, dtype=np.bool_)
    # Labels of a million or more are probably not class numbers: they are accepted only with `num_classes`.
    wrong |= ~((raw >= 0) & (raw < (10**6 if num_classes is None else num_classes)))
    if wrong.any():
        where = int(wrong.argmax())
        top = "C-1" if num_classes is None else num_classes - 1
        raise InputError(f"labels must be whole numbers 0..{top}, got {raw[where]} at position {where}")
    clean = raw.astype(np.int64)
    return clean, max(2, int(clean.max()) + 1) if num_classes is None else int(num_classes)


def as_array(values: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    """Return array-like values as an array of any shape."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged lists; tensors on a GPU or with a gradient
        raise InputError(f"{name} cannot be read as an array: {str(error).splitlines()[0]}") from error
