"""Embeddings shortened to 256 numbers: searches among them take a fifth of the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from jnpl.data.source import Array, Labels

Floats: TypeAlias = npt.NDArray[np.float32]

WIDTH, _WHOLE = 256, 1 << 22  # numbers of a vector; numbers of all vectors up to which they stay as they are
_FITTED = 2_560  # samples that the directions are fitted to
_PARALLEL = 0.3  # cosine that the rests of two neighbours are taken to have; 0.03 to 0.2 in photographs
BLOCK = 4096  # samples


@dataclass(frozen=True, eq=False)
class ShortVectors:
    """Vectors of N samples, divided by their length, in the directions in which they vary most.

    Attributes:
        values: float16 (N, K + 1), the last number from the length of the rest that the K directions leave out. Inner
            products estimate those of the whole vectors, as if the rests of two samples had a cosine of 0.3.
        basis: (F, K) the directions, orthonormal columns.
    """

    values: npt.NDArray[np.float16]
    basis: Floats

    @classmethod
    def of(cls, values: Array, rows: Labels, seed: int = 0) -> ShortVectors | None:
        """Shorten embeddings (N, V, F) or (N, F), of which `rows` (M,) can be read; None if they are few or short."""
        if not len(rows) or not is_long(len(values), values.shape[-1]):
            return None
        random = np.random.default_rng(seed)
        drawn = np.sort(random.choice(rows, min(len(rows), _FITTED), replace=False))
        basis = directions(unit(mean_views(values, drawn)), random)
        short = np.empty((len(values), WIDTH + 1), np.float16)
        for start in range(0, len(values), BLOCK):
            whole = mean_views(values, slice(start, start + BLOCK))
            lengths = _lengths(whole)
            part = whole @ basis / np.where(lengths > 0, lengths, 1)
            rest = np.maximum((lengths > 0) - np.square(part).sum(axis=1, keepdims=True), 0)
            short[start : start + BLOCK] = np.hstack([part, np.sqrt(_PARALLEL * rest)])
        return cls(short, basis)

    def lower_bound(self, distances: Floats, rests: Floats) -> Floats:
        """Return what `1 - inner product` would be, were the rests parallel, by the product of their last numbers."""
        return distances - (1 / _PARALLEL - 1) * rests


def directions(values: Floats, random: np.random.Generator) -> Floats:
    """Return orthonormal columns (F, 256), the directions of the largest numbers of (M, F), by subspace iteration."""
    basis = random.normal(size=(values.shape[1], WIDTH)).astype(np.float32)
    for _ in range(2):
        basis = np.asarray(np.linalg.qr(values.T @ (values @ basis))[0], np.float32)
    return basis


def is_long(samples: int, width: int) -> bool:
    """Return whether so many vectors of so many numbers are shortened."""
    return samples * width > _WHOLE and width > WIDTH


def mean_views(values: Array, rows: Labels | slice) -> Floats:
    """Return the mean (M, F) of the views of some rows of (N, V, F), or those rows of (N, F)."""
    chosen = values[rows].astype(np.float32, copy=False)
    mean: Floats = chosen.mean(axis=1) if chosen.ndim == 3 else chosen
    return mean


def unit(values: Floats) -> Floats:
    """Return vectors (N, F) of length 1; those of length 0 stay as they are."""
    lengths = _lengths(values)
    return np.asarray(values / np.where(lengths > 0, lengths, 1), np.float32)


def _lengths(values: Floats) -> Floats:
    """Return (N, 1) lengths of (N, F)."""
    lengths: Floats = np.sqrt(np.einsum("nf,nf->n", values, values))[:, None]
    return lengths
