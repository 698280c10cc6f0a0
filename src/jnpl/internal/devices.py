"""Devices by name: `auto`, `cpu`, `gpu`, `cuda`, `mps`, or one of PyTorch's; and the threads of a piece of work."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from jnpl.internal.errors import InputError


def available_device(name: str = "auto") -> torch.device:
    """Return the GPU that `name` allows ("auto" and "gpu" allow any) if this machine has it, else the CPU.

    >>> available_device("cpu")
    device(type='cpu')
    """
    if name in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        return torch.device("cuda")
    if name in ("auto", "gpu", "mps") and torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def checked_device(name: str | torch.device) -> torch.device:
    """Return the device of PyTorch with this name, or the best one for "auto"; one that is missing is an InputError."""
    try:
        device = available_device() if name == "auto" else torch.device(name)
        torch.empty(1, device=device).item()  # fails if this machine has no such device; "meta" has no values
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"device must be auto, cpu, cuda, cuda:1 or mps, and be available; got {str(name)!r}: {reason}"
        ) from error
    return device


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
