"""Two data sets of one kind as one: the data of a run, and new ones after them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from jnpl.data.source import Array, InMemory, Inputs, Kind, Labels, Source, Texts
from jnpl.internal.errors import InputError


@dataclass(frozen=True, eq=False)
class _Joined(Inputs):
    """The samples of two inputs that are read one by one."""

    first: Inputs
    second: Inputs

    @property
    def kind(self) -> Kind:
        return self.first.kind

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def _place(self, position: int) -> tuple[Inputs, int]:
        start = len(self.first)
        return (self.first, position) if position < start else (self.second, position - start)

    def read(self, position: int, size: int | None = None) -> Array:
        inputs, at = self._place(position)
        return inputs.read(at, size)

    def sizes(self) -> Labels:
        return np.concatenate([self.first.sizes(), self.second.sizes()])

    def digest(self) -> bytes:
        return self.first.digest() + self.second.digest()

    def modified_times(self) -> Labels:
        return np.concatenate([self.first.modified_times(), self.second.modified_times()])

    def side(self, position: int) -> int:
        inputs, at = self._place(position)
        return inputs.side(at)

    def path(self, position: int) -> Path | None:
        inputs, at = self._place(position)
        return inputs.path(at)

    def content(self, position: int) -> Any:
        inputs, at = self._place(position)
        return inputs.content(at)


def with_classes_of(names: Sequence[Any], source: Source) -> Source:
    """Return a source, without test and validation data, with these classes first, then those that they lack."""
    number = {str(name): at for at, name in enumerate(names)}
    strange = [str(name) for name in source.class_names if str(name) not in number]
    classes = tuple(names) if not strange else (*map(str, names), *strange)
    number |= {name: len(number) + at for at, name in enumerate(strange)}
    of_class = np.array([number[str(name)] for name in source.class_names], np.int64)
    true = None if source.true_labels is None else of_class[source.true_labels]
    decided = None if source.decided is None else np.append(of_class, -1)[source.decided]
    of_samples: dict[str, Any] = {"labels": of_class[source.labels], "true_labels": true, "decided": decided}
    return replace(source, **of_samples, class_names=classes, test=None, validation=None)


def join(old: Source, new: Source) -> Source:
    """Return the samples of a source and, after them, new ones; test and validation data are those of the first.

    Ids that are paths start at the common folder of both; rows of the new data are counted on from those of the old.

    Example:
        >>> from jnpl.data.opening import open_source
        >>> old = open_source(([[0.0], [1.0]], ["cat", "dog"]))
        >>> both = join(old, open_source(([[2.0], [3.0]], ["eel", "cat"])))
        >>> both.class_names, both.labels.tolist(), both.ids.tolist()
        (('cat', 'dog', 'eel'), [0, 1, 2, 0], [0, 1, 2, 3])
    """
    if new.kind != old.kind:
        raise InputError(f"{new.name} holds {new.kind}s, but {old.name} {old.kind}s")
    if old.tags is not None or new.tags is not None:
        raise InputError(f"{new.name} or {old.name} has several tags per sample: only single labels can be joined")
    new = with_classes_of(old.class_names, new)
    ids, root = _ids(old, new)
    test, validation = (
        None if other is None else replace(other, class_names=new.class_names) for other in (old.test, old.validation)
    )
    cells = None
    if old.cells is not None and new.cells is not None:
        import pandas as pd  # noqa: PLC0415 - not needed for images

        cells = pd.concat([old.cells, new.cells], ignore_index=True)

    def both(name: str) -> Array | None:
        values = getattr(old, name), getattr(new, name)
        return None if values[0] is None or values[1] is None else np.concatenate(values)

    def either(first: Array | None, second: Array | None, missing: Any) -> Array | None:
        """Return values of all samples, `missing` where there are none; None if there are none at all."""
        if first is None and second is None:
            return None
        none = [np.full(len(source), missing, getattr(missing, "dtype", object)) for source in (old, new)]
        return np.concatenate([none[0] if first is None else first, none[1] if second is None else second])

    def columns(first: dict[str, Array] | None, second: dict[str, Array] | None, missing: Any) -> dict[str, Any] | None:
        one, other = first or {}, second or {}
        return {name: either(one.get(name), other.get(name), missing) for name in {**one, **other}} or None

    unreadable = (old.unreadable or {}) | {len(old) + at: why for at, why in (new.unreadable or {}).items()}
    return replace(
        old,
        name=f"{old.name} and {new.name}",
        inputs=_inputs(old, new),
        labels=np.concatenate([old.labels, new.labels]),
        class_names=new.class_names,
        ids=ids,
        true_labels=both("true_labels"),
        weights=either(old.weights, new.weights, np.float32(1)),
        decided=either(old.decided, new.decided, np.int64(-1)),
        texts=both("texts"),
        groups=columns(old.groups, new.groups, None),
        votes=columns(old.votes, new.votes, np.int64(-1)),
        unreadable=unreadable or None,
        cells=cells,
        root=root,
        test=test,
        validation=validation,
    )


def based(ids: Array, root: str | None, folder: str | None) -> Array:
    """Return ids that are paths from `root` as paths from `folder`."""
    if root == folder or root is None or folder is None:
        return ids
    names = [PurePath(os.path.relpath(os.path.join(root, name), folder)).as_posix() for name in ids.tolist()]  # noqa: PTH118
    return np.array(names, object)


def _ids(old: Source, new: Source) -> tuple[Array, str | None]:
    """Return the ids (N,) of both, and the folder that ids which are paths are relative to."""
    are_names = [source.ids.dtype == object for source in (old, new)]
    if are_names[0] != are_names[1]:
        raise InputError(f"the samples of {new.name} have {'names' if are_names[1] else 'numbers'}, unlike {old.name}")
    if not are_names[0]:
        start = len(old.cells) if old.cells is not None else int(old.ids.max()) + 1
        return np.concatenate([old.ids, start + new.ids]), old.root
    root = old.root
    if old.root is not None and new.root is not None and old.root != new.root:
        root = os.path.commonpath([old.root, new.root])
    ids = np.concatenate([based(source.ids, source.root, root) for source in (old, new)])
    if shared := sorted(set(ids[: len(old)].tolist()) & set(ids[len(old) :].tolist())):
        raise InputError(f"{new.name} has {len(shared):,} samples that are in {old.name} already, first {shared[0]!r}")
    return ids, root


def _inputs(old: Source, new: Source) -> Inputs:
    first, second = old.inputs, new.inputs
    arrays = first.array(), second.array()
    if arrays[0] is not None and arrays[1] is not None and isinstance(first, InMemory):
        if arrays[0].shape[1:] != arrays[1].shape[1:]:
            shapes = arrays[1].shape[1:], arrays[0].shape[1:]
            raise InputError(f"{new.name} has samples of shape {shapes[0]}, but {old.name} of {shapes[1]}")
        return replace(first, values=np.concatenate([arrays[0], arrays[1]]))
    texts = first.texts(), second.texts()
    if texts[0] is not None and texts[1] is not None:
        return Texts(np.concatenate([texts[0], texts[1]]))
    return _Joined(first, second)
