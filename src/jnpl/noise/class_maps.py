"""Where a wrong label goes: class maps, transition matrices, and the features-to-class map of instance noise.

Everything here is exact on every platform: sums are over integers, or over floats that hold integers below
2**53, so that no order of summation, BLAS or SIMD width can change a label.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

BoolArray: TypeAlias = npt.NDArray[np.bool_]
IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
ClassMap: TypeAlias = Mapping[int, int] | str

CIFAR10 = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}  # truck->automobile, bird->airplane, deer->horse, cat<->dog

# Super-class of each fine id, as in `coarse_labels` of CIFAR-100; both are numbered alphabetically by name.
CIFAR100_SUPERCLASS = (
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11),  # 0-19
    *(6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5),  # 20-39
    *(5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17),  # 40-59
    *(10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13),  # 60-79
    *(16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),  # 80-99
)

CLASSES_OF_MAP = {"cifar10": 10, "cifar100": 100, "cifar100-blocks": 100, "cifar100-next": 100}
MAP_NAMES = (*CLASSES_OF_MAP, "pairflip")

PARTS = 32  # random projections that stand for the "parts" of Xia et al. 2020
FEATURE_STEPS = 4095  # a feature is a whole number of steps between its smallest and its largest value
MAX_FEATURES = 2**20  # 2**12 steps x 2**20 gain x 2**20 features stays below 2**53
SPREAD = 0.1  # standard deviation of the per-sample flip rates (Xia et al. 2020, Algorithm 2)


def next_in_group(groups: Sequence[int]) -> dict[int, int]:
    """Map each class to the next member of its group, circularly: group of each class (C,) -> {class: class}.

    >>> next_in_group([0, 1, 0, 1, 0])
    {0: 2, 2: 4, 4: 0, 1: 3, 3: 1}
    """
    members: dict[int, list[int]] = {}
    for label, group in enumerate(groups):
        members.setdefault(group, []).append(label)
    return {a: b for group in members.values() for a, b in zip(group, [*group[1:], group[0]], strict=True)}


def class_map(mapping: ClassMap, num_classes: int) -> dict[int, int]:
    """Return a checked {source: target}, from a dict or from a name explained at `jnpl.noise.generate.asymmetric`.

    >>> class_map("pairflip", 3), class_map({0: 2}, 3)
    ({0: 1, 1: 2, 2: 0}, {0: 2})
    """
    if isinstance(mapping, str):
        return _named_map(mapping, num_classes)
    if not isinstance(mapping, Mapping):
        raise InputError(f"mapping must be a dict {{source: target}} or a name, got {type(mapping).__name__}")
    pairs = {_class_id(source, num_classes): _class_id(to, num_classes) for source, to in mapping.items()}
    for source, to in pairs.items():
        if source == to:
            raise InputError(f"mapping sends class {source} to itself; leave out the classes that stay")
    return pairs


def _class_id(label: int, num_classes: int) -> int:
    try:
        known = 0 <= operator.index(label) < num_classes
    except TypeError:
        known = False
    if not known:
        raise InputError(f"mapping names class {label!r}, but the classes are 0..{num_classes - 1}")
    return operator.index(label)


def _named_map(name: str, num_classes: int) -> dict[int, int]:
    if name not in MAP_NAMES:
        raise InputError(f"unknown mapping {name!r}; use a dict {{source: target}} or one of {', '.join(MAP_NAMES)}")
    size = CLASSES_OF_MAP.get(name, num_classes)
    if num_classes != size:
        raise InputError(f"mapping {name!r} is for {size} classes, got num_classes={num_classes}")
    if name == "cifar10":
        return dict(CIFAR10)
    if name == "cifar100":
        return next_in_group(CIFAR100_SUPERCLASS)
    if name == "cifar100-blocks":
        return next_in_group([label // 5 for label in range(size)])
    return next_in_group([0] * size)  # cifar100-next, pairflip


def transition_matrix(true_labels: IntArray, given_labels: IntArray, num_classes: int) -> FloatArray:
    """Return how often each true class was given each label, as shares: (N,), (N,) -> (C, C), rows sum to 1.

    The row of a class without samples is that of the identity.

    >>> transition_matrix(np.array([0, 0, 0, 0]), np.array([0, 0, 0, 1]), num_classes=2).tolist()
    [[0.75, 0.25], [0.0, 1.0]]
    """
    size = num_classes
    counts = np.bincount(true_labels * size + given_labels, minlength=size * size).reshape(size, size)
    matrix: FloatArray = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    empty = np.flatnonzero(counts.sum(axis=1) == 0)
    matrix[empty, empty] = 1
    return matrix


def stochastic_matrix(matrix: npt.ArrayLike) -> FloatArray:
    """Return a checked transition matrix, rows of which sum to 1: (C, C) -> (C, C).

    >>> stochastic_matrix([[0.9, 0.2], [0.0, 1.0]])
    Traceback (most recent call last):
        ...
    jnpl.internal.errors.InputError: row 0 of the matrix sums to 1.1; each row must sum to 1
    """
    try:
        table = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"matrix must be a square table of numbers: {error}") from error
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) < 2:
        raise InputError(f"matrix must be square, (C, C) with C >= 2, got shape {table.shape}")
    for row, values in enumerate(table):
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise InputError(f"row {row} of the matrix must hold probabilities, got {values.min():g}")
        if abs(math.fsum(values) - 1) > 1e-6:
            raise InputError(f"row {row} of the matrix sums to {math.fsum(values):g}; each row must sum to 1")
    return table


def whole_numbers(shares: FloatArray, total: int) -> IntArray:
    """Split `total` into whole numbers by shares, largest remainders first: (C,) -> (C,).

    >>> whole_numbers(np.array([0.5, 0.25, 0.25]), 5)
    array([3, 1, 1])
    """
    wanted = shares * (total / math.fsum(shares))
    parts = np.floor(wanted + 1e-6).astype(np.int64)
    first = np.argsort(parts - wanted, kind="stable")  # the largest remainder first, then the lower class
    parts[first[: total - int(parts.sum())]] += 1
    return parts


def flip_rates(rate: float, uniforms: FloatArray) -> FloatArray:
    """Per-sample flip rates in [0, 1], a truncated normal with mean `rate`: (N,) uniforms -> (N,).

    Xia et al. cut the normal at 0 and 1 only, which moves its mean (rate 0 would give 8 % noise). Here both
    sides are cut at the nearer of the two, so that the mean stays `rate`, and 0 and 1 are what they say.
    """
    half: FloatArray = SPREAD * np.array([round(quantile) for quantile in quantiles_65536()]) / 65536
    offsets: FloatArray = np.concatenate([half, -half])
    offsets = offsets[np.abs(offsets) <= min(rate, 1 - rate)]
    if offsets.size == 0:
        return np.full(uniforms.size, rate)
    drawn: FloatArray = rate + offsets[np.floor(uniforms * offsets.size).astype(np.int64)]
    return drawn.clip(0.0, 1.0)


def quantiles_65536() -> list[float]:
    """Lower half of 4,096 quantiles of N(0, 1), times 65536; all far enough from .5 for any libm to agree."""
    return [NormalDist().inv_cdf((k + 0.5) / 4096) * 65536 for k in range(2048)]


def odds_2_30() -> list[float]:
    """exp(-k / 64) times 2**30, k = 0..1024; all far enough from .5 for any libm to agree."""
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
    varies = span > 1e-290  # a constant feature says nothing and gets no weight
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
    deviation about 3) gives the odds, so that alike samples of a class are mistaken for the same other class.
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
