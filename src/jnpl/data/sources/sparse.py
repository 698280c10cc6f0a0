"""Sparse matrices, such as TF-IDF: their first singular vectors make them dense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jnpl.data.source import Array

# As of the backbone tfidf. On 3,000 texts of AG News the AP is 0.555, with all 10,387 columns of words 0.521.
WIDTH = 256


def is_sparse(x: Any) -> bool:
    """Return whether x is a sparse matrix or array of SciPy, without importing SciPy for what it is not."""
    return type(x).__module__.startswith("scipy.sparse")


def sparse_basis(x: Any) -> Array:
    """Return the directions (F, 256) onto which a sparse matrix (N, F) is projected; few columns stay as they are."""
    rows, columns = x.shape
    if columns <= WIDTH:
        return np.eye(columns, dtype=np.float32)
    from sklearn.utils.extmath import randomized_svd  # noqa: PLC0415 - slow to import

    _, _, right = randomized_svd(x.astype(np.float32), min(WIDTH, rows), n_iter=4, random_state=0)
    return np.ascontiguousarray(right.T, np.float32)
