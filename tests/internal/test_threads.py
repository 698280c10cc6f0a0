"""Threads by the size of the work."""

from __future__ import annotations

import pytest
import torch
from threadpoolctl import threadpool_info

from jnpl.internal.threads import threads_for


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
