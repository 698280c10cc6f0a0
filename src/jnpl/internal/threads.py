"""How many threads suit a piece of work: several threads wait for each other longer than they compute little."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

# Multiplications of one step, from which a second thread helps. On a busy machine threads wait for those that do not
# run: a table of 178 rows took 147 s with two threads, and 5.6 s with one.
_SHARED_FROM = 5e7


@contextmanager
def threads_for(multiplications: float) -> Iterator[None]:
    """Inside, PyTorch, BLAS and OpenMP use one thread if a step multiplies little, else as many as PyTorch has."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415 - looks for libraries, which takes a moment

    before = torch.get_num_threads()
    threads = before if multiplications >= _SHARED_FROM else 1
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)
