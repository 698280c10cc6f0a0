"""The bundle that label noise gives: noisy labels, the clean ones and the recipe, in memory and as a file."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing
from jnpl.noise._checks import labels_and_size
from jnpl.noise.class_maps import transition_matrix

if TYPE_CHECKING:
    import os

    from jnpl.noise.class_maps import BoolArray, ClassMap, FloatArray, IntArray

_FORMAT = "jnpl noisy labels 1"

# what numpy, zipfile and json raise on a file that is damaged or of another kind
_UNREADABLE = (OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """Noisy labels with the clean ones and the recipe that made them: labels (N,), clean_labels (N,).

    `rate`, `count`, `inclusive`, `mapping` and `requested_matrix` are what was asked for; `is_noisy`,
    `matrix` and `rate_realised` are what came out. With `class_names` a saved file holds names, not numbers.

    >>> from jnpl.noise.generate import corrupt
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
            fixed.setflags(write=False)  # frozen means the contents too: the hash must stay true
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
        """Write `y`, `y_true`, `recipe` and `sha256` to an .npz whose bytes depend on the content alone."""
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
        """Read what `save` wrote and check its hash."""
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
                noisy, clean, recipe, told = (archive[key] for key in ("y", "y_true", "recipe", "sha256"))
            fields = json.loads(str(recipe))
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
        if loaded.sha256 != str(told):
            raise InputError(f"{str(path)!r} was changed after it was saved: its hash is {loaded.sha256}, not {told}")
        return loaded
