"""Parts of a source: some of its samples, held-out test samples, rows that a column names, test data from elsewhere."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jnpl.data.source import Array, Labels, Source
from jnpl.data.tags import Tags, with_names
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_NAME = "split"
_PARTS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("test", "testing"), "test"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
}


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
        tags=taken(source.tags),
        texts=taken(source.texts),
        votes=None if source.votes is None else {name: values[positions] for name, values in source.votes.items()},
        groups=None if source.groups is None else {name: values[positions] for name, values in source.groups.items()},
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
    number_of = {str(name): number for number, name in enumerate(source.class_names)}
    strange = [str(name) for name in test.class_names if str(name) not in number_of]
    if strange:
        shown = ", ".join(map(str, source.class_names[:10]))
        raise InputError(f"{test.name} has a class {strange[0]!r} that {source.name} has not ({shown})")
    if (source.tags is None) != (test.tags is None):
        one, other = ("several tags" if data.tags is not None else "one label" for data in (source, test))
        raise InputError(f"{source.name} has {one} per sample, but {test.name} {other}")
    numbers = np.array([number_of[str(name)] for name in test.class_names], np.int64)
    tags = None
    if test.tags is not None:
        tags = with_names(Tags(test.tags, tuple(map(str, test.class_names))), source.class_names).given
    return replace(
        source,
        test=replace(
            test,
            labels=numbers[test.labels] if tags is None else test.labels,
            class_names=source.class_names,
            tags=tags,
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


class SplitColumn(NamedTuple):
    """The name of the column, and the rows (M,) of each part: train, and test, validation or both."""

    name: str
    rows: dict[str, Labels]


def find_split(frame: pd.DataFrame, used: Collection[str | None] = ()) -> SplitColumn | None:
    """Return the split of a table; None if it has no such column, or other values or only one part in it.

    Args:
        used: columns that the user names for something else.

    >>> import pandas as pd
    >>> find_split(pd.DataFrame({"split": ["train", "test", "train"]})).rows["train"]
    array([0, 2])
    """
    column = next((str(name) for name in frame.columns if str(name).casefold() == _NAME and name not in used), None)
    if column is None:
        return None
    parts = np.array([_part(cell) for cell in frame[column].tolist()], object)
    names = set(parts.tolist())
    if None in names or "train" not in names or len(names) == 1:
        return None
    return SplitColumn(column, {name: np.flatnonzero(parts == name) for name in ("train", "test", "validation")})


def _part(cell: Any) -> str | None:
    return _PARTS.get(cell.strip().casefold()) if isinstance(cell, str) else None


def divide(whole: Source, rows: dict[str, Labels]) -> Source:
    """Return the training rows of a source, with the others as test and validation data; validation alone is a test."""
    others = {
        name: replace(part(whole, rows[name]), name=f"{whole.name}/{name}", true_labels=None)
        for name in ("test", "validation")
        if len(rows[name])
    }
    test = others.get("test", others.get("validation"))
    validation = others.get("validation") if "test" in others else None
    return replace(part(whole, rows["train"]), test=test, validation=validation)
