"""Data sets that ship with scikit-learn."""

import numpy as np
import pytest

from jnpl.data.sources import bundled
from jnpl.internal.errors import InputError


@pytest.mark.parametrize("name", list(bundled.TEST_SIZES))
def test_a_set_is_split_by_class(name):
    source = bundled.load(name, seed=1)
    share = len(source.test) / (len(source) + len(source.test))
    train = np.bincount(source.labels) / len(source)
    assert share == pytest.approx(0.25 if name != "digits" else 397 / 1797, abs=0.01)
    np.testing.assert_allclose(np.bincount(source.test.labels) / len(source.test), train, atol=0.03)
    assert (source.labels == source.true_labels).all()
    assert source.kind == "vector"


def test_the_split_depends_on_the_seed_and_the_size():
    first = bundled.load("iris", seed=0)
    assert first.fingerprint() == bundled.load("iris", seed=0).fingerprint()
    assert first.fingerprint() != bundled.load("iris", seed=1).fingerprint()
    assert len(bundled.load("iris", seed=0, test_size=30).test) == 30
    assert first.class_names == ("setosa", "versicolor", "virginica")
    assert bundled.load("digits").class_names == tuple(range(10))


def test_another_name_is_refused():
    with pytest.raises(InputError, match="scikit-learn has digits, wine, breast-cancer, iris, not 'moons'"):
        bundled.load("moons")
