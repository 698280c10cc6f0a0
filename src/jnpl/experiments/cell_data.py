"""The data of a cell: training samples with wrong labels, their true labels beside them, and a test set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.downsample import downsample
from jnpl.data.opening import open_source
from jnpl.data.source import InMemory
from jnpl.data.sources import bundled
from jnpl.data.split import part
from jnpl.internal.errors import InputError
from jnpl.noise import generate as noise

if TYPE_CHECKING:
    from pathlib import Path

    from jnpl.data.source import Array, Labels, Source
    from jnpl.experiments.cell import Cell, DataPart

HELD_OUT = 0.2  # of CIFAR's training images, the last, take the place of the test set where settings are chosen


def load(cell: Cell, root: Path | None) -> Source:
    """Return the samples of a cell with given and true labels, and its test set as `test`."""
    wanted = cell.data_part()
    if wanted.name in bundled.TEST_SIZES:
        whole = bundled.load(wanted.name, seed=wanted.split_seed)
    else:
        whole = open_source(wanted.name, root=root, val_size=wanted.val_size)
    if whole.test is None:
        raise InputError(f"{wanted.name} has no test set")
    images = len(whole) - wanted.start if wanted.images is None else wanted.images
    images = images if wanted.exact else min(images, len(whole))
    end = wanted.start + images
    if not wanted.start < end <= len(whole):
        raise InputError(f"a cell needs samples {wanted.start:,} to {end:,}, {wanted.name} has {len(whole):,}")
    kept = whole if images == len(whole) else part(whole, np.arange(wanted.start, end))
    test = first(_held_out(whole, end) if wanted.start else whole.test, wanted.test_images)
    size = "" if wanted.pixels is None else f"-{wanted.pixels}px"
    clean = replace(downsample(kept, wanted.pixels), test=downsample(test, wanted.pixels), validation=whole.validation)
    labels = given_labels(clean, cell, wanted)
    return replace(clean, name=f"{wanted.name}{size}+{cell.noise}{cell.rate:g}", labels=labels)


def given_labels(source: Source, cell: Cell, wanted: DataPart) -> Labels:
    """(N,) labels with the cell's noise, by its seed."""
    if cell.noise in ("human", "none"):
        return source.labels
    clean, classes = true_labels(source), len(source.class_names)
    if cell.noise == "symm":
        return noise.symmetric(clean, cell.rate, classes, cell.seed)
    if cell.noise == "asymm":
        return noise.asymmetric(clean, cell.rate, wanted.asymmetric, cell.seed, num_classes=classes)
    return noise.instance_dependent(values_of(source), clean, cell.rate, cell.seed, num_classes=classes)


def true_labels(source: Source) -> Labels:
    """(N,) true labels; InputError where they are not known."""
    if source.true_labels is None:
        raise InputError(f"the true labels of {source.name} are not known")
    return source.true_labels


def is_wrong(source: Source) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """(N,) whether a given label is not the true one."""
    wrong: np.ndarray[Any, np.dtype[np.bool_]] = source.labels != true_labels(source)
    return wrong


def values_of(source: Source) -> Array:
    """(N, ...) all inputs of a source that is an array."""
    if not isinstance(source.inputs, InMemory):
        raise InputError(f"{source.name} is not an array")
    return source.inputs.values


def first(source: Source, count: int | None) -> Source:
    """The first samples of a source; None: all."""
    if count is not None and count > len(source):
        raise InputError(f"a cell needs {count:,} samples of {source.name}, there are {len(source):,}")
    return source if count in (None, len(source)) else part(source, np.arange(count))


def _held_out(whole: Source, end: int) -> Source:
    """The last training images with their true labels, in place of the test set."""
    start = round((1 - HELD_OUT) * len(whole))
    if end > start:
        raise InputError(f"with a start, images from {start:,} on are held out; a cell needs images to {end:,}")
    held_out = part(whole, np.arange(start, len(whole)))
    return replace(held_out, labels=true_labels(held_out))
