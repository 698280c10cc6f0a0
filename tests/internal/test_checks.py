"""Checks of single numbers."""

import numpy as np
import pytest

from jnpl.internal.checks import checked_seed, whole
from jnpl.internal.errors import InputError


@pytest.mark.parametrize("number", [3, np.int8(3), np.uint64(3)])
def test_whole_numbers_of_any_type_become_integers(number):
    assert (whole(number, "size"), checked_seed(number)) == (3, 3)
    assert type(whole(number, "size")) is type(checked_seed(number)) is int


@pytest.mark.parametrize("number", [3.0, "3", None, [3]])
def test_other_numbers_are_named(number):
    with pytest.raises(InputError, match=r"^size must be a whole number, got "):
        whole(number, "size")


def test_a_seed_is_not_negative():
    with pytest.raises(InputError, match=r"^seed must not be negative, got -1$"):
        checked_seed(-1)
