"""The data of a cell: training samples with wrong labels, their true labels beside them, and a test set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from jnpl.data.downsample import downsample
from jnpl.data.opening import open_source
from jnpl.data.source import Array, InMemory, Labels, Source
from jnpl.data.sources import bundled
from jnpl.experiments.bench.cell import CIFAR, Cell
from jnpl.internal.errors import InputError
from jnpl.noise import generate as noise

if TYPE_CHECKING:
    from pathlib import Path

HELD_OUT = 0.2  # of CIFAR's training images, the last, where settings are chosen: those from 40,000 on


def load(cell: Cell, root: Path | None) -> Source:
    """Samples with given and true labels, and all of the cell's test images as `test`."""
    clean = _cifar(cell, root) if cell.data in CIFAR else _table(cell)
    return replace(clean, name=f"{clean.name}+{cell.noise}{cell.rate:g}", labels=given_labels(clean, cell))


def given_labels(source: Source, cell: Cell) -> Labels:
    """(N,) labels with the cell's noise, by its seed."""
    clean, classes = true_labels(source), len(source.class_names)
    if cell.noise == "symm":
        return noise.symmetric(clean, cell.rate, classes, cell.seed)
    if cell.noise == "asymm":  # outside CIFAR a ring: class c turns c + 1
        mapping = "cifar10" if cell.data == "cifar10" else "pairflip"
        return noise.asymmetric(clean, cell.rate, mapping, cell.seed, num_classes=classes)
    if cell.noise == "instance":
        return noise.instance_dependent(values_of(source), clean, cell.rate, cell.seed, num_classes=classes)
    return source.labels  # people's, or the true ones


def true_labels(source: Source) -> Labels:
    """(N,) labels that a benchmark cannot do without."""
    if source.true_labels is None:
        raise InputError(f"the true labels of {source.name} are not known: nothing can be measured")
    return source.true_labels


def subset(source: Source, positions: Labels, labels: Labels | None = None) -> Source:
    """Some samples of a source, without its test set; `labels` (M,) take the place of the given ones."""
    given = source.labels[positions] if labels is None else labels
    return replace(
        source,
        inputs=InMemory(values_of(source)[positions]),
        labels=given,
        ids=source.ids[positions],
        test=None,
        true_labels=None if source.true_labels is None else source.true_labels[positions],
    )


def values_of(source: Source) -> Array:
    """(N, ...) all inputs of a source that is an array."""
    if not isinstance(source.inputs, InMemory):
        raise InputError(f"{source.name} is not an array")
    return source.inputs.values


def _cifar(cell: Cell, root: Path | None) -> Source:
    whole = open_source(cell.data, root=root)
    if whole.test is None:
        raise InputError(f"{cell.data} without its test set")
    end = len(whole) if cell.images is None else cell.start + cell.images
    if not cell.start < end <= len(whole):
        raise InputError(f"images {cell.start} to {end} are asked for, {cell.data} has {len(whole):,}")
    train = subset(whole, np.arange(cell.start, end))
    test = _first(_held_out(whole, end) if cell.start else whole.test, cell.test_images)
    name = f"{cell.data}-{cell.pixels}px"
    return replace(downsample(train, cell.pixels), name=name, test=downsample(test, cell.pixels))


def _held_out(whole: Source, end: int) -> Source:
    """What takes the place of the test set where settings are chosen: the last training images, with true labels."""
    first = round((1 - HELD_OUT) * len(whole))
    if end > first:
        raise InputError(f"with a start, images from {first:,} on are held out, and images to {end:,} are asked for")
    positions = np.arange(first, len(whole))
    return subset(whole, positions, true_labels(whole)[positions])


def _first(source: Source, count: int | None) -> Source:
    if count is not None and count > len(source):
        raise InputError(f"{count:,} samples of {source.name} are asked for, there are {len(source):,}")
    return subset(source, np.arange(len(source) if count is None else count))


def _table(cell: Cell) -> Source:
    whole = bundled.load(cell.data, seed=cell.seed)
    test = None if whole.test is None else _first(whole.test, cell.test_images)
    return replace(_first(whole, cell.images), test=test)
