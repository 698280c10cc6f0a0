"""The data of a run: training samples with wrong labels, their true labels beside them, and a test set."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.data.opening import open_source
from jnpl.data.source import Array, Labels, Source
from jnpl.data.sources import bundled
from jnpl.data.sources.arrays import downsample
from jnpl.data.split import part
from jnpl.experiments import features
from jnpl.experiments.scales import SCALES
from jnpl.internal.errors import InputError
from jnpl.noise import generate as noise

if TYPE_CHECKING:
    from jnpl.experiments.spec import RunSpec


def load(spec: RunSpec, root: Path | None) -> Source:
    """Return the samples of a run with given and true labels, and its test set as `test`.

    Sets of scikit-learn are split by the run's seed; at a scale all runs have one split.
    """
    size = spec if spec.scale is None else SCALES[spec.scale]
    if spec.scale is not None and (how := SCALES[spec.scale].features) is not None:
        clean = features.load(spec.data, root, size.images, how, note=partial(print, file=sys.stderr))
        return replace(clean, name=f"{spec.data}-features+{spec.noise}{spec.rate:g}", labels=given_labels(clean, spec))
    if spec.data in bundled.TEST_SIZES:
        whole = bundled.load(spec.data, seed=spec.seed if spec.scale is None else 0)
    else:
        val_size = spec.recipe().data.val_size if spec.data.startswith("cifar") else 0
        whole = open_source(spec.data, root=root, val_size=val_size)
    if whole.test is None:
        raise InputError(f"{spec.data} has no test set")
    images = size.images if spec.scale is None or size.images is None else min(size.images, len(whole))
    pixels = "" if size.pixels is None else f"-{size.pixels}px"
    test = downsample(first(whole.test, spec.test_images), size.pixels)
    clean = replace(downsample(first(whole, images), size.pixels), test=test, validation=whole.validation)
    return replace(clean, name=f"{spec.data}{pixels}+{spec.noise}{spec.rate:g}", labels=given_labels(clean, spec))


def check(specs: Sequence[RunSpec], root: Path | None) -> None:
    """Report wrong settings before anything is trained, and download missing data once for all runs."""
    for spec in specs:
        spec.recipe()
    for spec in {spec.data: spec for spec in specs}.values():
        load(spec, root)


def given_labels(source: Source, spec: RunSpec) -> Labels:
    """(N,) labels with the run's noise, by its seed."""
    if spec.noise in ("human", "none"):
        return source.labels
    clean, classes = true_labels(source), len(source.class_names)
    if spec.noise == "symm":
        return noise.symmetric(clean, spec.rate, classes, spec.seed)
    if spec.noise == "asymm":
        # At a scale digits have the map of CIFAR-10, by number: 3 <-> 5 for cat <-> dog.
        maps = {"cifar10": "cifar10", "cifar100": "cifar100"} | ({} if spec.scale is None else {"digits": "cifar10"})
        return noise.asymmetric(clean, spec.rate, maps.get(spec.data, "pairflip"), spec.seed, num_classes=classes)
    return noise.instance_dependent(values_of(source), clean, spec.rate, spec.seed, num_classes=classes)


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
        raise InputError(f"a run needs {count:,} samples of {source.name}, there are {len(source):,}")
    return source if count in (None, len(source)) else part(source, np.arange(count))
