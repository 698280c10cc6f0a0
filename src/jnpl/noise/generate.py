"""Label noise: clean labels and a seed in, noisy labels out.

The same seed gives the same bytes on every platform and with every numpy: only the raw words of PCG64 are
used, whose stream numpy guarantees, and all arithmetic on them is exact or rounded once (IEEE 754). With one
seed, the samples that change at a low rate are among those that change at a higher one, and `symmetric`,
`asymmetric` and `pair_flip` pick the same samples.

"Rate" is within the classes that can change: "asymm 40 %" on CIFAR-10 changes 20 % of all labels, because
only five of the ten classes are sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from jnpl.internal.checks import checked_seed
from jnpl.internal.errors import InputError
from jnpl.noise._checks import as_array, checked_rate, is_exact, labels_and_size, needed
from jnpl.noise.class_maps import (
    CLASSES_OF_MAP,
    MAP_NAMES,
    BoolArray,
    ClassMap,
    FloatArray,
    IntArray,
    class_map,
    feature_parts,
    flip_rates,
    instance_targets,
    stochastic_matrix,
    whole_numbers,
)
from jnpl.noise.noisy_labels import NoisyLabels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

__all__ = [
    "KINDS",
    "MAP_NAMES",
    "NoisyLabels",
    "asymmetric",
    "corrupt",
    "instance_dependent",
    "pair_flip",
    "symmetric",
    "transition",
]

Count: TypeAlias = Literal["exact", "bernoulli"]

_TAKES = {  # what each kind of noise is made from; anything else that is given is a mistake worth telling
    "symm": ("rate", "count", "inclusive"),
    "asymm": ("rate", "count", "mapping"),
    "pairflip": ("rate", "count"),
    "matrix": ("matrix", "count"),
    "instance": ("rate", "features"),
}
KINDS = tuple(_TAKES)


def symmetric(
    labels: npt.ArrayLike,
    rate: float,
    num_classes: int,
    seed: int = 0,
    *,
    count: Count = "exact",
    inclusive: bool = False,
) -> IntArray:
    """Replace a share `rate` of the labels by a uniform draw over the other classes: (N,) -> (N,).

    `count="exact"` changes exactly floor(n * rate) of the n samples of every class, as NLNL's generator does
    (a product within 1e-6 below a whole number counts as that number: 0.29 * 100 is 29, not 28); "bernoulli"
    decides for each sample on its own. `inclusive=True` lets the draw return the true class, as some papers
    do: the share that really changes is then rate * (C - 1) / C.

    >>> noisy = symmetric([0] * 10 + [1] * 10, 0.4, num_classes=3)
    >>> int((noisy[:10] != 0).sum()), int((noisy[10:] != 1).sum())
    (4, 4)
    """
    clean, size = labels_and_size(labels, num_classes)
    pick, draw = _uniforms(np.random.PCG64(checked_seed(seed)), clean.size, 2)
    flip = _chosen(clean, size, checked_rate(rate), pick, count)
    if inclusive:
        return np.where(flip, np.floor(draw * size).astype(np.int64), clean)
    other = np.floor(draw * (size - 1)).astype(np.int64)
    return np.where(flip, other + (other >= clean), clean)


def asymmetric(
    labels: npt.ArrayLike,
    rate: float,
    mapping: ClassMap,
    seed: int = 0,
    *,
    num_classes: int | None = None,
    count: Count = "exact",
) -> IntArray:
    """Move a share `rate` of each source class to its target class: (N,) -> (N,).

    `mapping` is a dict {source: target}, or a name:
    "cifar10": truck->automobile, bird->airplane, deer->horse, cat<->dog;
    "cifar100": the next class of the same super-class, circularly by fine id;
    "cifar100-blocks": the next within blocks of five fine ids, which older code took for super-classes;
    "cifar100-next": the next of all 100; "pairflip": i -> i + 1 mod C.

    The rate is within source classes: "asymm 40 %" on CIFAR-10 changes 20 % of all labels, because only five
    classes are sources. Targets are looked up by the clean label, so that no cat turns dog and cat again.
    `count` is as in `symmetric`. Without `num_classes` the highest label is the last class.

    >>> asymmetric([3, 3, 5, 5, 8, 8], 1.0, "cifar10")
    array([5, 5, 3, 3, 8, 8])
    """
    clean, size = labels_and_size(labels, _size_known(num_classes, mapping))
    target = np.arange(size)
    for source, to in class_map(mapping, size).items():
        target[source] = to
    (pick,) = _uniforms(np.random.PCG64(checked_seed(seed)), clean.size, 1)
    return np.where(_chosen(clean, size, checked_rate(rate), pick, count), target[clean], clean)


def pair_flip(
    labels: npt.ArrayLike, rate: float, num_classes: int, seed: int = 0, *, count: Count = "exact"
) -> IntArray:
    """Move a share `rate` of each class to the next one, i -> i + 1 mod C: (N,) -> (N,).

    >>> pair_flip([0, 1, 2], 1.0, num_classes=3)
    array([1, 2, 0])
    """
    return asymmetric(labels, rate, "pairflip", seed, num_classes=num_classes, count=count)


def transition(labels: npt.ArrayLike, matrix: npt.ArrayLike, seed: int = 0, *, count: Count = "bernoulli") -> IntArray:
    """Draw noisy labels from T[i, j] = P(noisy = j | clean = i): (N,), (C, C) -> (N,).

    `count="bernoulli"` draws each sample on its own; "exact" gives every class its row of T in whole numbers
    (largest remainders), on randomly chosen samples.

    >>> transition([0, 0, 0, 0, 1, 1], [[0.5, 0.5], [0.0, 1.0]], count="exact")
    array([1, 1, 0, 0, 1, 1])
    """
    rows = stochastic_matrix(matrix)
    clean, size = labels_and_size(labels, len(rows))
    (pick,) = _uniforms(np.random.PCG64(checked_seed(seed)), clean.size, 1)
    exact = is_exact(count)
    noisy = clean.copy()
    ends = np.bincount(clean, minlength=size).cumsum()
    for label, members in enumerate(np.split(np.lexsort((pick, clean)), ends[:-1])):  # each class, shuffled
        if exact:
            noisy[members] = np.repeat(np.arange(size), whole_numbers(rows[label], members.size))
        else:
            reach = rows[label].cumsum()
            noisy[members] = np.searchsorted(reach / reach[-1], pick[members], side="right")
    return noisy


def instance_dependent(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    rate: float,
    seed: int = 0,
    *,
    num_classes: int | None = None,
) -> IntArray:
    """Change about a share `rate` of the labels, in ways the features decide: (N, ...), (N,) -> (N,).

    In the spirit of Xia et al. 2020 (part-dependent noise): each sample has its own flip rate, from a
    truncated normal around `rate` (deviation 0.1), and its wrong class comes from a softmax over the other
    classes of a random projection of its features, one projection per true class. Features are flattened and
    standardised; their projections are exact whole numbers, whatever the order of the sums.

    >>> instance_dependent([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1], rate=1.0)
    array([1, 1, 0, 0])
    """
    clean, size = labels_and_size(labels, num_classes)
    table = as_array(features, "features")
    if table.ndim == 0 or len(table) != clean.size:
        raise InputError(f"features must have one row for each of the {clean.size} labels, got shape {table.shape}")
    bits = np.random.PCG64(checked_seed(seed))
    spread, pick, draw = _uniforms(bits, clean.size, 3)
    flip = pick < flip_rates(checked_rate(rate), spread)
    parts = feature_parts(table, bits)
    noisy = clean.copy()
    noisy[flip] = instance_targets(parts[flip], clean[flip], draw[flip], size, bits)
    return noisy


def corrupt(
    labels: npt.ArrayLike,
    kind: str,
    rate: float | None = None,
    *,
    num_classes: int | None = None,
    mapping: ClassMap | None = None,
    matrix: npt.ArrayLike | None = None,
    features: npt.ArrayLike | None = None,
    seed: int = 0,
    count: Count | None = None,
    inclusive: bool = False,
    class_names: Sequence[str] | None = None,
) -> NoisyLabels:
    """Corrupt labels by the kind of noise named, and keep the recipe: (N,) -> NoisyLabels.

    Kinds: "symm" (or "symmetric"), "asymm" (or "asymmetric", needs `mapping`), "pairflip", "matrix" (needs
    `matrix`, takes no rate) and "instance" (needs `features`). `count` defaults to "exact", for matrix noise
    to "bernoulli"; instance noise has no other. Without `num_classes` the highest label is the last class.

    >>> corrupt([3, 3, 5, 5, 8, 8], "asymm", 0.5, mapping="cifar10").rate_realised
    0.3333333333333333
    """
    kind = {"symmetric": "symm", "asymmetric": "asymm"}.get(kind, kind)
    if kind not in KINDS:
        raise InputError(f"unknown kind of noise {kind!r}; use one of {', '.join(KINDS)}")
    told = {"rate": rate, "mapping": mapping, "matrix": matrix, "features": features, "count": count}
    for name in (*(name for name, value in told.items() if value is not None), *["inclusive"] * inclusive):
        if name not in _TAKES[kind]:
            raise InputError(f"{kind} noise takes no {name}; it takes {', '.join(_TAKES[kind])}")
    if num_classes is None and class_names is not None:
        num_classes = len(class_names)
    table = None if matrix is None else stochastic_matrix(matrix)
    if table is not None and num_classes not in (None, len(table)):
        raise InputError(f"matrix is {len(table)} x {len(table)}, but there are {num_classes} classes")
    known = _size_known(num_classes, mapping) if table is None else len(table)
    clean, size = labels_and_size(labels, known)
    how: Count = count or ("bernoulli" if kind in ("matrix", "instance") else "exact")
    if kind == "symm":
        noisy = symmetric(clean, needed(rate, "rate", kind), size, seed, count=how, inclusive=inclusive)
    elif kind == "asymm":
        pairs = None if mapping is None else class_map(mapping, size)
        classes = needed(pairs, "mapping", kind)
        noisy = asymmetric(clean, needed(rate, "rate", kind), classes, seed, num_classes=size, count=how)
        mapping = mapping if isinstance(mapping, str) else pairs
    elif kind == "pairflip":
        noisy = pair_flip(clean, needed(rate, "rate", kind), size, seed, count=how)
    elif kind == "matrix":
        noisy = transition(clean, needed(table, "matrix", kind), seed, count=how)
    else:
        inputs = needed(None if features is None else as_array(features, "features"), "table of features", kind)
        noisy = instance_dependent(inputs, clean, needed(rate, "rate", kind), seed, num_classes=size)
    return NoisyLabels(
        labels=noisy,
        clean_labels=clean,
        num_classes=size,
        kind=kind,
        rate=None if rate is None else float(rate),
        seed=checked_seed(seed),
        count=how,
        inclusive=inclusive,
        mapping=mapping,
        requested_matrix=table,
        class_names=None if class_names is None else tuple(class_names),
    )


def _uniforms(bits: np.random.PCG64, samples: int, rows: int) -> FloatArray:
    """Uniform numbers in [0, 1) from the top 53 bits of each raw word: -> (rows, samples)."""
    words = bits.random_raw(rows * samples)  # Generator's own methods may change between numpy versions
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(rows, samples)


def _chosen(clean: IntArray, size: int, rate: float, pick: FloatArray, count: Count) -> BoolArray:
    """Which samples change: (N,), (N,) uniforms -> (N,)."""
    if not is_exact(count):
        return pick < rate
    per_class = np.bincount(clean, minlength=size)
    quota = np.floor(per_class * rate + 1e-6).astype(np.int64)
    order = np.lexsort((pick, clean))  # by class, then by uniform number; stable
    rank = np.empty_like(clean)
    rank[order] = np.arange(clean.size) - (per_class.cumsum() - per_class)[clean[order]]
    chosen: BoolArray = rank < quota[clean]
    return chosen


def _size_known(num_classes: int | None, mapping: ClassMap | None) -> int | None:
    return CLASSES_OF_MAP.get(mapping) if num_classes is None and isinstance(mapping, str) else num_classes
