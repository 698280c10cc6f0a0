"""Data sets that ship with scikit-learn: digits, wine, breast-cancer and iris, as vectors, split by class."""

from typing import Any

import numpy as np

from jnpl.data.source import Array, InMemory, Labels, Source
from jnpl.internal.errors import InputError

TEST_SIZES: dict[str, int | float] = {"digits": 397, "wine": 0.25, "breast-cancer": 0.25, "iris": 0.25}


def load(name: str = "digits", *, seed: int = 0, test_size: float | None = None) -> Source:
    """Load a data set of scikit-learn: vectors (N, F), labels (N,), true labels, and a test set.

    Args:
        test_size: number of test samples, or their share if below 1; by default as in `TEST_SIZES`.

    Returns:
        The source; digits are scaled to 0..1.

    Example:
        >>> source = load("digits", seed=0)
        >>> source.inputs.values.shape, len(source.test)
        ((1400, 64), 397)
    """
    (train, labels), (test, test_labels), classes = load_arrays(name, seed=seed, test_size=test_size)
    held_out = Source(f"{name}/test", InMemory(test), test_labels, classes, np.arange(len(test)))
    ids = np.arange(len(train))
    return Source(name, InMemory(train), labels, classes, ids, true_labels=labels.copy(), test=held_out)


def load_arrays(
    name: str, *, seed: int, test_size: float | None = None
) -> tuple[tuple[Array, Labels], tuple[Array, Labels], tuple[Any, ...]]:
    """Return (x, y) to train on, (x, y) to test on, and the class names; the arguments are those of `load`."""
    from sklearn import datasets  # noqa: PLC0415 - slow to import
    from sklearn.model_selection import train_test_split  # noqa: PLC0415

    if name not in TEST_SIZES:
        raise InputError(f"scikit-learn has {', '.join(TEST_SIZES)}, not {name!r}")
    bunch: Any = getattr(datasets, f"load_{name.replace('-', '_')}")()
    values = (bunch.data / 16 if name == "digits" else bunch.data).astype(np.float32)
    target = bunch.target.astype(np.int64)
    size = TEST_SIZES[name] if test_size is None else test_size
    train, test, labels, test_labels = train_test_split(
        values, target, test_size=size, random_state=seed, stratify=target
    )
    return (train, labels), (test, test_labels), tuple(bunch.target_names.tolist())
