"""Label noise: clean labels and a seed in, noisy labels out.

The same seed gives the same bytes on every platform and with every numpy: only the raw words of PCG64 are
used, whose stream numpy guarantees, and all arithmetic on them is exact or rounded once (IEEE 754). With one
seed, the samples that change at a low rate are among those that change at a higher one, and `symmetric`,
`asymmetric` and `pair_flip` pick the same samples.

"Rate" is within the classes that can change: "asymm 40 %" on CIFAR-10 changes 20 % of all labels, because
only five of the ten classes are sources.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from jnpl.internal.errors import InputError, checked_seed
from jnpl.noise.instance import feature_parts, flip_rates, instance_targets
from jnpl.noise.kinds import ALIASES, KINDS, ClassMap, class_map, classes_of_map
from jnpl.noise.noisy_labels import BoolArray, FloatArray, IntArray, NoisyLabels, as_array, labels_and_size

Count: TypeAlias = Literal["exact", "bernoulli"]


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

    Args:
        labels: clean labels (N,), whole numbers 0..num_classes-1.
        rate: share of the labels of every class to change, 0 to 1.
        num_classes: number of classes C.
        seed: the same seed gives the same labels on every platform.
        count: "exact" changes exactly floor(n * rate) of the n samples of every class, as NLNL's generator does
            (a product within 1e-6 below a whole number counts as that number: 0.29 * 100 is 29, not 28);
            "bernoulli" decides for each sample on its own.
        inclusive: whether the draw may return the true class, as in some papers. The share that really changes is
            then rate * (C - 1) / C.

    Returns:
        Noisy labels (N,), int64.

    Example:
        >>> noisy = symmetric([0] * 10 + [1] * 10, 0.4, num_classes=3)
        >>> int((noisy[:10] != 0).sum()), int((noisy[10:] != 1).sum())
        (4, 4)
    """
    clean, size = labels_and_size(labels, num_classes)
    pick, draw = _uniforms(np.random.PCG64(checked_seed(seed)), clean.size, 2)
    flip = _chosen(clean, size, _checked_rate(rate), pick, count)
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

    The rate is within source classes: "asymm 40 %" on CIFAR-10 changes 20 % of all labels, because only five
    classes are sources. Targets are looked up by the clean label: no label changes twice.

    Args:
        labels: clean labels (N,), whole numbers.
        rate: share of every source class to change, 0 to 1.
        mapping: a dict {source: target}, or a name:
            "cifar10": truck->automobile, bird->airplane, deer->horse, cat<->dog;
            "cifar100": the next class of the same super-class, circularly by fine id;
            "cifar100-blocks": the next within blocks of five fine ids, which older code took for super-classes;
            "cifar100-next": the next of all 100;
            "pairflip": i -> i + 1 mod C.
        seed: the same seed gives the same labels on every platform.
        num_classes: number of classes; by default the highest label is the last class.
        count: as in `symmetric`.

    Returns:
        Noisy labels (N,), int64.

    Example:
        >>> asymmetric([3, 3, 5, 5, 8, 8], 1.0, "cifar10")
        array([5, 5, 3, 3, 8, 8])
    """
    clean, size = labels_and_size(labels, classes_of_map(mapping) if num_classes is None else num_classes)
    target = np.arange(size)
    for source, to in class_map(mapping, size).items():
        target[source] = to
    (pick,) = _uniforms(np.random.PCG64(checked_seed(seed)), clean.size, 1)
    return np.where(_chosen(clean, size, _checked_rate(rate), pick, count), target[clean], clean)


def pair_flip(
    labels: npt.ArrayLike, rate: float, num_classes: int, seed: int = 0, *, count: Count = "exact"
) -> IntArray:
    """Move a share `rate` of each class to the next one, i -> i + 1 mod C: (N,) -> (N,).

    Args:
        labels: clean labels (N,), whole numbers 0..num_classes-1.
        rate: share of every class to change, 0 to 1.
        num_classes: number of classes C.
        seed: the same seed gives the same labels on every platform.
        count: as in `symmetric`.

    Returns:
        Noisy labels (N,), int64.

    Example:
        >>> pair_flip([0, 1, 2], 1.0, num_classes=3)
        array([1, 2, 0])
    """
    return asymmetric(labels, rate, "pairflip", seed, num_classes=num_classes, count=count)


def transition(
    labels: npt.ArrayLike,
    matrix: npt.ArrayLike,
    seed: int = 0,
    *,
    num_classes: int | None = None,
    count: Count = "bernoulli",
) -> IntArray:
    """Draw noisy labels from T[i, j] = P(noisy = j | clean = i): (N,), (C, C) -> (N,).

    Args:
        labels: clean labels (N,), whole numbers 0..C-1.
        matrix: the transition matrix T (C, C); each row sums to 1.
        seed: the same seed gives the same labels on every platform.
        num_classes: if given, it must be the C of the matrix.
        count: "bernoulli" draws each sample on its own; "exact" gives every class its row of T in whole numbers
            (largest remainders), on randomly chosen samples.

    Returns:
        Noisy labels (N,), int64.

    Example:
        >>> transition([0, 0, 0, 0, 1, 1], [[0.5, 0.5], [0.0, 1.0]], count="exact")
        array([1, 1, 0, 0, 1, 1])
    """
    rows = stochastic_matrix(matrix)
    if num_classes not in (None, len(rows)):
        raise InputError(f"matrix is {len(rows)} x {len(rows)}, but there are {num_classes} classes")
    clean, size = labels_and_size(labels, len(rows))
    (pick,) = _uniforms(np.random.PCG64(checked_seed(seed)), clean.size, 1)
    exact = _is_exact(count)
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
    """Change about a share `rate` of the labels, depending on the features: (N, ...), (N,) -> (N,).

    After Xia et al. 2020 (part-dependent noise): each sample has its own flip rate, from a truncated normal around
    `rate` (deviation 0.1), and its wrong class comes from a softmax over the other classes of a random projection of
    its features, one projection per true class. Features are flattened and standardised; their projections are exact
    whole numbers, whatever the order of the sums.

    Args:
        features: finite numbers (N, ...), such as images or embeddings.
        labels: clean labels (N,), whole numbers.
        rate: mean share of the labels to change, 0 to 1.
        seed: the same seed gives the same labels on every platform.
        num_classes: number of classes; by default the highest label is the last class.

    Returns:
        Noisy labels (N,), int64.

    Example:
        >>> instance_dependent([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1], rate=1.0)
        array([1, 1, 0, 0])
    """
    clean, size = labels_and_size(labels, num_classes)
    table = as_array(features, "features")
    if table.ndim == 0 or len(table) != clean.size:
        raise InputError(f"features must have one row for each of the {clean.size} labels, got shape {table.shape}")
    bits = np.random.PCG64(checked_seed(seed))
    spread, pick, draw = _uniforms(bits, clean.size, 3)
    flip = pick < flip_rates(_checked_rate(rate), spread)
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
    """Make noisy labels of a kind given by name, and keep the recipe: (N,) -> NoisyLabels.

    Args:
        labels: clean labels (N,), whole numbers.
        kind: a name of `jnpl.noise.KINDS`: "symm" (or "symmetric"), "asymm" (or "asymmetric"), "pairflip", "matrix" or
            "instance".
        rate: share of the labels to change, 0 to 1; matrix noise takes none.
        num_classes: number of classes; by default the highest label is the last class.
        mapping: for asymm, as in `asymmetric`.
        matrix: for matrix, as in `transition`.
        features: for instance, as in `instance_dependent`.
        seed: the same seed gives the same labels on every platform.
        count: "exact" (default) or "bernoulli" (default of matrix noise); instance noise takes none.
        inclusive: for symm, as in `symmetric`.
        class_names: names of the C classes, kept with the result.

    Returns:
        The noisy labels with the clean ones, the arguments and a hash.

    Example:
        >>> corrupt([3, 3, 5, 5, 8, 8], "asymm", 0.5, mapping="cifar10").rate_realised
        0.3333333333333333
    """
    kind = ALIASES.get(kind, kind)
    if kind not in KINDS:
        raise InputError(f"unknown kind of noise {kind!r}; use one of {', '.join(KINDS)}")
    chosen = KINDS[kind]
    table = None if matrix is None else stochastic_matrix(matrix)
    values = {"rate": rate, "mapping": mapping, "matrix": table, "features": features, "count": count}
    noise_settings: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    noise_settings |= {"inclusive": True} if inclusive else {}
    for name in noise_settings:
        if name not in chosen.arguments:
            raise InputError(f"{kind} noise takes no {name}; it takes {', '.join(chosen.arguments)}")
    for name in chosen.needs:
        if name not in noise_settings:
            raise InputError(f"{kind} noise needs {'a table of features' if name == 'features' else f'a {name}'}")
    classes = len(class_names) if num_classes is None and class_names is not None else num_classes
    if classes is None:
        classes = classes_of_map(mapping) if table is None else len(table)
    clean, size = labels_and_size(labels, classes)
    if mapping is not None and not isinstance(mapping, str):
        noise_settings["mapping"] = mapping = class_map(mapping, size)
    how = cast("Count", count or chosen.count)
    if "count" in chosen.options:
        noise_settings["count"] = how
    function: Callable[..., IntArray] = globals()[chosen.function]
    noisy = function(labels=clean, num_classes=size, seed=seed, **noise_settings)
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


def _uniforms(bits: np.random.PCG64, samples: int, rows: int) -> FloatArray:
    """Uniform numbers in [0, 1) from the top 53 bits of each raw word: -> (rows, samples)."""
    words = bits.random_raw(rows * samples)  # Generator's own methods may change between numpy versions
    return ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53).reshape(rows, samples)


def _chosen(clean: IntArray, size: int, rate: float, pick: FloatArray, count: Count) -> BoolArray:
    """Which samples change: (N,), (N,) uniforms -> (N,)."""
    if not _is_exact(count):
        return pick < rate
    per_class = np.bincount(clean, minlength=size)
    quota = np.floor(per_class * rate + 1e-6).astype(np.int64)
    order = np.lexsort((pick, clean))  # by class, then by uniform number; stable
    rank = np.empty_like(clean)
    rank[order] = np.arange(clean.size) - (per_class.cumsum() - per_class)[clean[order]]
    chosen: BoolArray = rank < quota[clean]
    return chosen


def _checked_rate(rate: float) -> float:
    try:
        share = float(rate)
    except (TypeError, ValueError):
        raise InputError(f"rate must be a number from 0 to 1, got {rate!r}") from None
    if not 0 <= share <= 1:
        raise InputError(f"rate must be from 0 to 1, got {share:g}")
    return share


def _is_exact(count: str) -> bool:
    if count not in ("exact", "bernoulli"):
        raise InputError(f"count must be 'exact' or 'bernoulli', got {count!r}")
    return count == "exact"
