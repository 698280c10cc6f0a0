"""Parts of a source: some of its samples, held-out test samples, and test data from elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.data.source import Array, Labels, Source


def part(source: Source, positions: Labels) -> Source:
    """Return the samples at some positions (M,), without test and validation data."""
    place = {int(position): number for number, position in enumerate(positions)}
    broken = {place[at]: why for at, why in (source.unreadable or {}).items() if at in place}

    def taken(values: Array | None) -> Array | None:
        return None if values is None else values[positions]

    return replace(
        source,
        inputs=source.inputs.select(positions),
        pictures=None if source.pictures is None else source.pictures.select(positions),
        labels=source.labels[positions],
        ids=source.ids[positions],
        true_labels=taken(source.true_labels),
        weights=taken(source.weights),
        decided=taken(source.decided),
        texts=taken(source.texts),
        unreadable=broken or None,
        test=None,
        validation=None,
    )


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

    The test labels are the true labels where known, else those that a person decided on, else the given ones, which are
    as noisy as the others.
    """
    test = part(source, positions)
    if test.true_labels is not None:
        test = replace(test, labels=test.true_labels, true_labels=None)
    if test.decided is not None:
        test = replace(test, labels=np.where(test.decided >= 0, test.decided, test.labels), decided=None)
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
    ours, theirs = source.inputs.array(), test.inputs.array()
    if ours is None and theirs is None:
        return
    if ours is None or theirs is None:
        one, other = ("files" if values is None else "an array" for values in (ours, theirs))
        raise InputError(f"{source.name} comes as {one}, {test.name} as {other}: test data must have the same form")
    if ours.shape[1:] != theirs.shape[1:]:
        raise InputError(f"{test.name} has samples of shape {theirs.shape[1:]}, but {source.name} of {ours.shape[1:]}")
