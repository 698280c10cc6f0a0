"""The data of a cell: training samples with wrong labels, their true labels beside them, and a test set."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.downsample import downsample
from jnpl.data.opening import open_source
from jnpl.data.sources import bundled
from jnpl.data.split import part
from jnpl.experiments import features
from jnpl.experiments.reproduce.scales import SCALES
from jnpl.internal.errors import InputError
from jnpl.noise import generate as noise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jnpl.data.source import Array, Labels, Source
    from jnpl.experiments.cell import Cell

HELD_OUT = 0.2  # of CIFAR's training images, the last, take the place of the test set where settings are chosen


def load(cell: Cell, root: Path | None) -> Source:
    """Return the samples of a cell with given and true labels, and its test set as `test`.

    Sets of scikit-learn are split by the cell's seed; at a scale all cells have one split.
    """
    size = cell if cell.scale is None else SCALES[cell.scale]
    if cell.scale is not None and (how := SCALES[cell.scale].features) is not None:
        clean = features.load(cell.data, root, size.images, how, note=partial(print, file=sys.stderr))
        return replace(clean, name=f"{cell.data}-features+{cell.noise}{cell.rate:g}", labels=given_labels(clean, cell))
    if cell.data in bundled.TEST_SIZES:
        whole = bundled.load(cell.data, seed=cell.seed if cell.scale is None else 0)
    else:
        val_size = cell.recipe().data.val_size if cell.data.startswith("cifar") else 0
        whole = open_source(cell.data, root=root, val_size=val_size)
    if whole.test is None:
        raise InputError(f"{cell.data} has no test set")
    images = len(whole) - cell.start if size.images is None else size.images
    images = images if cell.scale is None else min(images, len(whole))
    end = cell.start + images
    if not cell.start < end <= len(whole):
        raise InputError(f"a cell needs samples {cell.start:,} to {end:,}, {cell.data} has {len(whole):,}")
    kept = whole if images == len(whole) else part(whole, np.arange(cell.start, end))
    test = first(_held_out(whole, end) if cell.start else whole.test, cell.test_images)
    pixels = "" if size.pixels is None else f"-{size.pixels}px"
    clean = replace(downsample(kept, size.pixels), test=downsample(test, size.pixels), validation=whole.validation)
    return replace(clean, name=f"{cell.data}{pixels}+{cell.noise}{cell.rate:g}", labels=given_labels(clean, cell))


def check(cells: Sequence[Cell], root: Path | None) -> None:
    """Report wrong settings before anything is trained, and download missing data once for all cells."""
    for cell in cells:
        cell.recipe()
    for cell in {cell.data: cell for cell in cells}.values():
        load(cell, root)


def given_labels(source: Source, cell: Cell) -> Labels:
    """(N,) labels with the cell's noise, by its seed."""
    if cell.noise in ("human", "none"):
        return source.labels
    clean, classes = true_labels(source), len(source.class_names)
    if cell.noise == "symm":
        return noise.symmetric(clean, cell.rate, classes, cell.seed)
    if cell.noise == "asymm":
        # At a scale digits have the map of CIFAR-10, by number: 3 <-> 5 for cat <-> dog.
        maps = {"cifar10": "cifar10", "cifar100": "cifar100"} | ({} if cell.scale is None else {"digits": "cifar10"})
        return noise.asymmetric(clean, cell.rate, maps.get(cell.data, "pairflip"), cell.seed, num_classes=classes)
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
    values = source.inputs.array()
    if values is None:
        raise InputError(f"{source.name} is not an array")
    return values


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
