"""Images of half the width and height, for short benchmarks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jnpl.data.source import InMemory, Source
from jnpl.internal.errors import InputError


def downsample(source: Source, pixels: int | None) -> Source:
    """Return the source with images of `pixels` x `pixels`, by means of 2 x 2; unchanged if they have that size.

    None, and a source without images in memory, also return the source unchanged.
    """
    values = source.inputs.array()
    if pixels is None or values is None or values.ndim != 4 or values.shape[1:3] == (pixels, pixels):
        return source
    if values.shape[1:3] != (2 * pixels, 2 * pixels):
        raise InputError(f"{source.name} has images of {values.shape[1:3]} pixels; {pixels} needs {2 * pixels}")
    means = values.reshape(len(values), pixels, 2, pixels, 2, -1).mean((2, 4), dtype=np.float32)
    return replace(source, inputs=InMemory(means.round().astype(np.uint8)))
