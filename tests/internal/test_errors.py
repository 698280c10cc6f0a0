"""What exceptions mean, and how they are shown."""

import numpy as np
import pytest
import torch

from jnpl.internal.errors import (
    InputError,
    MissingExtraError,
    UnwritableError,
    checked_seed,
    is_out_of_memory,
    one_line,
    whole,
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
            True,
        ),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("shapes do not fit"), False),
        (ValueError("not enough memory"), False),
    ],
)
def test_missing_memory_has_many_names(error, expected):
    assert is_out_of_memory(error) is expected


def test_an_error_in_one_line():
    assert one_line(ValueError("two\n  lines")) == "ValueError: two lines"
    assert one_line(ValueError("x" * 300)) == f"ValueError: {'x' * 185}..."


def test_errors_of_input_are_also_what_python_calls_them():
    assert issubclass(MissingExtraError, InputError)
    assert issubclass(MissingExtraError, ImportError)
    assert issubclass(UnwritableError, InputError)
    assert issubclass(UnwritableError, OSError)
    assert issubclass(InputError, ValueError)


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
