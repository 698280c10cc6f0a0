"""The data of a cell: training samples with the paper's noise, their true labels beside them, and a test set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from jnpl.data.datasets import DATASETS
from jnpl.data.downsample import downsample
from jnpl.data.opening import open_source
from jnpl.data.sources import cifar, clothing1m
from jnpl.data.sources.download import data_root
from jnpl.data.split import part
from jnpl.experiments.reproduce.paper import DATA_NAMES
from jnpl.internal.errors import InputError
from jnpl.noise import generate as noise

if TYPE_CHECKING:
    from pathlib import Path

    from jnpl.data.source import Labels, Source
    from jnpl.experiments.reproduce.cell import Cell
    from jnpl.experiments.reproduce.scales import Scale

_MAPS = {"cifar10": "cifar10", "cifar100": "cifar100", "digits": "cifar10"}  # digits by number: 3 <-> 5 for cat <-> dog


def load(cell: Cell, root: Path | None) -> Source:
    """Given and true labels, and the whole test set as `test`."""
    # The held-out part depends on nothing but the recipe; digits are split by a seed, the same for all cells.
    held_out = cell.recipe().data.val_size if cell.data.startswith("cifar") else 0
    whole = open_source(cell.data, root=root, val_size=held_out)
    if whole.test is None:
        raise InputError(f"{cell.data} without its test set")
    images, pixels = cell.size.images, cell.size.pixels
    kept = whole if images is None else part(whole, np.arange(min(images, len(whole))))
    source = replace(downsample(kept, pixels), test=downsample(whole.test, pixels), validation=whole.validation)
    name = f"{cell.data}+{cell.noise}{cell.rate:g}"
    return replace(source, name=name, labels=given_labels(source, cell))


def given_labels(source: Source, cell: Cell) -> Labels:
    """(N,) labels with the cell's noise, by its seed."""
    if cell.noise == "none":
        return source.labels
    clean, classes = source.true_labels, len(source.class_names)
    if clean is None:
        raise InputError(f"the true labels of {source.name} are not known, and noise is made from them")
    if cell.noise == "symm":
        return noise.symmetric(clean, cell.rate, classes, cell.seed)
    return noise.asymmetric(clean, cell.rate, _MAPS[cell.data], cell.seed, num_classes=classes)


def first(source: Source, count: int | None) -> Source:
    """The first samples of a test set; None: all."""
    return source if count is None or count >= len(source) else part(source, np.arange(count))


def missing(scale: Scale, root: Path | None) -> dict[str, str]:
    """Data set of the paper -> that it is not there, and how to get it.

    CIFAR-10 is fetched if need be, as by any other command; the others are not, and the items do without them.
    """
    there = {"cifar100": cifar.is_there("cifar100", root), "clothing1m": clothing1m.is_there(data_root(root))}
    return {name: how_to_get(name, scale) for name in there if name not in scale.stands_for or not there[name]}


def how_to_get(name: str, scale: Scale) -> str:
    """One line for a data set that is not there."""
    origin = DATASETS[name].origin
    if name not in scale.stands_for:
        more = "; it is for --scale paper, and its authors give it" if name == "clothing1m" else ""
        return f"{DATA_NAMES[name]} is not part of scale {scale.name}{more} ({origin})"
    if name == "clothing1m":
        told = "put it into DIR/clothing1m, --data-root DIR"
        return f"Clothing1M is not there: ask its authors for it ({origin}) and {told}"
    told = "put cifar-100-binary.tar.gz, or the folder in it, into DIR, --data-root DIR"
    return f"The images of CIFAR-100 are not there: get the binary version ({origin}) and {told}"
