"""Arrays as tensors, and plain numbers in checkpoints."""

import warnings

import numpy as np
import pytest
import torch

from jnpl.internal.tensors import PlainState, as_tensor


@pytest.mark.parametrize("writeable", [True, False])
def test_an_array_is_not_copied_and_nothing_warns(request, writeable):
    request.addfinalizer(lambda: torch.set_warn_always(False))
    torch.set_warn_always(True)  # else PyTorch warns once per process
    values = np.ones((4, 3), np.float32)
    values.flags.writeable = writeable
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert as_tensor(values).data_ptr() == values.ctypes.data


class Position(PlainState):
    state = ("steps", "share")

    def __init__(self, steps, share):
        super().__init__()
        self.steps, self.share = steps, share


def test_numbers_keep_their_type_in_checkpoints():
    again = Position(0, 0.0)
    again.load_state_dict(Position(2**40 + 1, 0.1).state_dict())
    assert (again.steps, again.share) == (2**40 + 1, 0.1)
    assert isinstance(again.steps, int)
