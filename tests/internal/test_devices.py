"""Which device a name means, with and without GPUs."""

import pytest
import torch
from threadpoolctl import threadpool_info

from jnpl.internal.devices import available_device, checked_device, threads_for
from jnpl.internal.errors import InputError


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [
        (False, False, {"auto": "cpu", "gpu": "cpu", "cuda": "cpu", "mps": "cpu", "cpu": "cpu"}),
        (True, False, {"auto": "cuda", "gpu": "cuda", "cuda": "cuda", "mps": "cpu", "cpu": "cpu"}),
        (False, True, {"auto": "mps", "gpu": "mps", "cuda": "cpu", "mps": "mps", "cpu": "cpu"}),
        (True, True, {"auto": "cuda", "gpu": "cuda", "cuda": "cuda", "mps": "mps", "cpu": "cpu"}),
    ],
)
def test_the_device_that_a_name_allows(monkeypatch, cuda, mps, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert {name: available_device(name).type for name in expected} == expected


def test_a_device_that_is_not_there():
    assert checked_device("cpu") == torch.device("cpu")
    assert checked_device(torch.device("cpu")) == torch.device("cpu")
    with pytest.raises(
        InputError, match=r"device must be auto, cpu, cuda, cuda:1 or mps, and be available; got 'abacus'"
    ):
        checked_device("abacus")


@pytest.mark.parametrize(("multiplications", "threads"), [(1e6, 1), (1e9, 2)])
def test_small_work_has_one_thread_everywhere(multiplications, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with threads_for(multiplications):
            assert torch.get_num_threads() == threads
            assert {pool["num_threads"] for pool in threadpool_info()} <= {1, threads}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
