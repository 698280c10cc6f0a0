"""Sparse matrices become dense: as they are, or along their first singular vectors."""

import numpy as np
import pytest
from scipy import sparse

from jnpl.data.new_data import open_new
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import InputError

Y = [0, 1, 0]


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.coo_array])
def test_sparse_matrices(make):
    few = np.array([[0, 1.5], [2, 0], [0, 0]], np.float32)
    assert from_arrays(make(few), Y).inputs.values.tolist() == few.tolist()
    many = np.random.default_rng(0).normal(size=(3, 400)) * (np.arange(400) % 3 == 0)
    values = from_arrays(make(many), Y).inputs.values
    assert values.shape == (3, 3)
    np.testing.assert_allclose(values @ values.T, many @ many.T, rtol=1e-4, atol=1e-3)  # the rank is 3
    with pytest.raises(InputError, match="x is a sparse matrix: find_label_issues and JNPLClassifier take it"):
        open_new(make(few), Y, kind="vector")
    with pytest.raises(InputError, match="x_test is sparse"):
        from_arrays(few, Y, x_test=make(few), y_test=Y)
    with pytest.raises(InputError, match="x must be a sparse matrix of numbers"):
        from_arrays(make(few.astype(complex)), Y)
