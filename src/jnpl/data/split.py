"""Parts of a source: some of its samples, held-out test samples, and test data from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from jnpl.data.source import EmbeddedInputs, InMemory, Source, Texts
from jnpl.data.sources.image_bytes import ImageBytes
from jnpl.data.sources.images import ImageFiles
from jnpl.internal.allocator import scratch_zeros
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.data.source import Array, Inputs, Kind, Labels

_ROWS = 4096  # embeddings copied at a time


@dataclass(frozen=True)
class ChosenInputs:
    """Some of the samples of other inputs, by position."""

    inputs: Inputs
    positions: Labels

    @property
    def kind(self) -> Kind:
        """Images or vectors."""
        return self.inputs.kind

    def __len__(self) -> int:
        return len(self.positions)

    def read(self, position: int, size: int | None = None) -> Array:
        """Return the sample at `position`."""
        return self.inputs.read(int(self.positions[position]), size)

    def sizes(self) -> Labels:
        """Return the bytes of each sample (N,)."""
        return self.inputs.sizes()[self.positions]


def part(source: Source, positions: Labels) -> Source:
    """Return the samples at some positions (M,), without test and validation data."""
    place = {int(position): number for number, position in enumerate(positions)}
    broken = {place[at]: why for at, why in (source.unreadable or {}).items() if at in place}

    def taken(values: Array | None) -> Array | None:
        return None if values is None else values[positions]

    return replace(
        source,
        inputs=_chosen(source.inputs, positions),
        pictures=None if source.pictures is None else _chosen(source.pictures, positions),
        labels=source.labels[positions],
        ids=source.ids[positions],
        true_labels=taken(source.true_labels),
        weights=taken(source.weights),
        texts=taken(source.texts),
        unreadable=broken or None,
        test=None,
        validation=None,
    )


def _chosen(inputs: Inputs, positions: Labels) -> Inputs:
    if isinstance(inputs, InMemory | Texts):
        return replace(inputs, values=inputs.values[positions])
    if isinstance(inputs, EmbeddedInputs):
        values = scratch_zeros((len(positions), *inputs.values.shape[1:]), inputs.values.dtype)
        for start in range(0, len(positions), _ROWS):
            values[start : start + _ROWS] = inputs.values[positions[start : start + _ROWS]]
        return EmbeddedInputs(values, f"{inputs.key} {positions.tolist()}")
    if isinstance(inputs, ImageFiles):
        return ImageFiles([inputs.path(position) for position in positions.tolist()])
    if isinstance(inputs, ImageBytes):
        return inputs.part(positions)
    return ChosenInputs(inputs, positions)


def to_hold_out(source: Source, share: float, seed: int) -> Labels:
    """Return random positions (M,) of `share` of every class; a class of one sample keeps it."""
    if not 0 < share < 1:
        raise InputError(f"the share to hold out lies between 0 and 1, got {share:g}")
    if source.test is not None:
        raise InputError(f"{source.name} has test data of its own; there is nothing to hold out")
    random = np.random.default_rng([seed, 0x7E57])
    aside = np.zeros(len(source), bool)
    for label in range(len(source.class_names)):
        members = np.flatnonzero(source.labels == label)
        count = min(round(share * len(members)), len(members) - 1)
        aside[random.permutation(members)[: max(count, 0)]] = True
    if not aside.any():
        raise InputError(f"{share:g} of {len(source)} samples is not one; hold out more")
    return np.flatnonzero(aside)


def hold_out(source: Source, positions: Labels) -> Source:
    """Return the source with the samples at these positions (M,) moved to its test data.

    The test labels are the true labels where known, else the given ones, which are as noisy as the others.
    """
    test = part(source, positions)
    if test.true_labels is not None:
        test = replace(test, labels=test.true_labels, true_labels=None)
    rest = part(source, np.setdiff1d(np.arange(len(source)), positions))
    return replace(rest, test=replace(test, name=f"{source.name}/held out"), validation=source.validation)


def with_test(source: Source, test: Source) -> Source:
    """Return the source with test data from elsewhere, which must have the same kind of input and known classes."""
    if test.kind != source.kind:
        raise InputError(f"{test.name} holds {test.kind}s, but {source.name} {source.kind}s")
    _same_shape(source, test)
    known = {str(name): number for number, name in enumerate(source.class_names)}
    strange = [str(name) for name in test.class_names if str(name) not in known]
    if strange:
        shown = ", ".join(map(str, source.class_names[:10]))
        raise InputError(f"{test.name} has a class {strange[0]!r} that {source.name} has not ({shown})")
    numbers = np.array([known[str(name)] for name in test.class_names], np.int64)
    return replace(
        source,
        test=replace(
            test,
            labels=numbers[test.labels],
            class_names=source.class_names,
            test=None,
            true_labels=None,
            validation=None,
        ),
    )


def _same_shape(source: Source, test: Source) -> None:
    ours, theirs = (getattr(each.inputs, "values", None) for each in (source, test))
    if ours is None and theirs is None:
        return
    if ours is None or theirs is None:
        one, other = ("files" if values is None else "an array" for values in (ours, theirs))
        raise InputError(f"{source.name} comes as {one}, {test.name} as {other}: test data must have the same form")
    if ours.shape[1:] != theirs.shape[1:]:
        raise InputError(f"{test.name} has samples of shape {theirs.shape[1:]}, but {source.name} of {ours.shape[1:]}")
