"""The two draws of instance-dependent noise: how likely each sample changes, and to which class.

Everything here is exact on every platform: sums are over integers, or over floats that hold integers below
2**53, so that no order of summation, BLAS or SIMD width can change a label.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from jnpl.noise.noisy_labels import FloatArray, IntArray

PARTS = 32  # random projections that stand for the "parts" of Xia et al. 2020
FEATURE_STEPS = 4095  # a feature is a whole number of steps between its smallest and its largest value
MAX_FEATURES = 2**20  # 2**12 steps x 2**20 gain x 2**20 features stays below 2**53
SPREAD = 0.1  # standard deviation of the per-sample flip rates (Xia et al. 2020, Algorithm 2)


def flip_rates(rate: float, uniforms: FloatArray) -> FloatArray:
    """Per-sample flip rates in [0, 1], a truncated normal with mean `rate`: (N,) uniforms -> (N,).

    Xia et al. cut the normal at 0 and 1 only, which moves its mean (rate 0 would give 8 % noise). Here both
    sides are cut at the nearer of the two, so that the mean stays `rate`, and rates 0 and 1
    change no label and all labels.
    """
    half: FloatArray = SPREAD * np.array([round(quantile) for quantile in quantiles_65536()]) / 65536
    offsets: FloatArray = np.concatenate([half, -half])
    offsets = offsets[np.abs(offsets) <= min(rate, 1 - rate)]
    if offsets.size == 0:
        return np.full(uniforms.size, rate)
    drawn: FloatArray = rate + offsets[np.floor(uniforms * offsets.size).astype(np.int64)]
    return drawn.clip(0.0, 1.0)


def quantiles_65536() -> list[float]:
    """Return the lower half of 4,096 quantiles of N(0, 1), times 65536; none so near to .5 that libms round apart."""
    return [NormalDist().inv_cdf((k + 0.5) / 4096) * 65536 for k in range(2048)]


def odds_2_30() -> list[float]:
    """Return exp(-k / 64) times 2**30, k = 0..1024; none so near to .5 that libms round apart."""
    return [math.exp(-k / 64) * 2**30 for k in range(1025)]


def feature_parts(features: npt.NDArray[Any], bits: np.random.PCG64) -> IntArray:
    """Standardised random projections in steps of 1/64: (N, ...) features -> (N, PARTS).

    Only chunks of the features are ever converted, so memory stays small beside the features themselves.
    """
    samples, width = len(features), math.prod(features.shape[1:])
    if features.dtype.kind not in "buif":
        raise InputError(f"features must be numbers, got dtype {features.dtype}")
    if not 1 <= width <= MAX_FEATURES:
        raise InputError(f"features must have 1 to {MAX_FEATURES} values per sample, got shape {features.shape}")
    rows = max(1, 2**19 // width)  # about 4 MB of float64: stays in the cache
    chunks = [slice(start, start + rows) for start in range(0, samples, rows)]

    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    for chunk in chunks:
        block = features[chunk].reshape(-1, width)
        low, high = np.minimum(low, block.min(0)), np.maximum(high, block.max(0))
    with np.errstate(over="ignore", invalid="ignore"):
        span = high - low
    if not np.isfinite(span).all():  # a NaN or an infinity anywhere ends up here
        raise InputError("features must be finite numbers, got NaN, infinity or a range beyond float64")
    varies = span > 1e-290  # a constant feature gets no weight
    step = np.where(varies, FEATURE_STEPS / np.where(varies, span, 1.0), 0.0)

    def in_steps(chunk: slice) -> FloatArray:
        block = features[chunk].reshape(-1, width).astype(np.float64)
        block -= low
        block *= step
        return np.rint(block, out=block)

    total, squares = np.zeros(width), np.zeros(width)
    for chunk in chunks:
        block = in_steps(chunk)
        total += block.sum(0)
        squares += np.einsum("ij,ij->j", block, block)
    deviation = np.sqrt(np.maximum(squares / samples - (total / samples) ** 2, 1.0))
    gain = np.where(varies, np.rint(2**20 / deviation), 0.0)  # the weights are divided, not the data

    words = bits.random_raw(-(-width * PARTS // 64)).astype("<u8").view(np.uint8)
    signs = np.unpackbits(words, count=width * PARTS, bitorder="little").reshape(width, PARTS) * 2.0 - 1.0
    weights = signs * gain[:, None]  # (D, PARTS)
    parts = np.concatenate([in_steps(chunk) @ weights for chunk in chunks]).astype(np.int64)
    return _standardised(parts)


def _standardised(parts: IntArray) -> IntArray:
    """Columns with mean 0 and deviation 64, cut at 8 deviations: (N, K) -> (N, K)."""
    parts = parts - parts.min(0)
    shift = np.array([max(0, int(top).bit_length() - 16) for top in parts.max(0)])
    parts >>= shift  # 16 bits are plenty, and their squares add up without overflow
    mean, squares = parts.sum(0) / len(parts), (parts * parts).sum(0) / len(parts)
    deviation = np.sqrt(np.maximum(squares - mean**2, 0.0))
    scaled: FloatArray = (parts - mean) * 64 / np.where(deviation > 0, deviation, 1.0)
    return np.rint(scaled).clip(-512, 512).astype(np.int64)


def instance_targets(
    parts: IntArray, labels: IntArray, uniforms: FloatArray, num_classes: int, bits: np.random.PCG64
) -> IntArray:
    """Draw a wrong class for each sample from its parts: (N, K), (N,), (N,) uniforms -> (N,), not the label.

    Every class has its own random projection of the parts; a softmax over the other classes (logits of
    deviation about 3) gives the odds, so that similar samples of a class get the same wrong class.
    """
    odds_table = np.array([round(odds) for odds in odds_2_30()], dtype=np.int64)
    targets = np.empty_like(labels)
    for label in range(num_classes):
        words = bits.random_raw(PARTS * num_classes).reshape(PARTS, num_classes)
        members = np.flatnonzero(labels == label)
        if members.size == 0:
            continue  # after the draw: the stream must not depend on which classes occur
        weights = (words >> np.uint64(56)).astype(np.float64) * 2 - 255  # odd whole numbers -255..255
        logits = (parts[members] @ weights).astype(np.int64) >> 8
        logits[:, label] = np.iinfo(np.int64).min // 2
        below_best = np.minimum(logits.max(1, keepdims=True) - logits, 1024)
        odds = odds_table[below_best]
        odds[:, label] = 0
        reach = odds.cumsum(1)
        drawn = np.floor(uniforms[members] * reach[:, -1]).astype(np.int64)
        targets[members] = (reach <= drawn[:, None]).sum(1)
    return targets
