"""Memory of networks and of large arrays.

Memory that a network has freed is kept for its next layer, instead of going back to the system. Large arrays of a value
per sample are memory maps of temporary files.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import tempfile
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # of malloc.h
# Largest first: some versions of glibc allow no threshold above 32 MiB.
_MMAP_THRESHOLDS = (256 * 2**20, 32 * 2**20)
_ENVIRONMENT = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
_IN_MEMORY = 64 * 2**20  # bytes: larger arrays are in a file


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep freed blocks below 256 MiB; return whether it does. Elsewhere, nothing changes.

    By default, glibc returns the outputs of a network's layers, which are tens of megabytes, to the system when they
    are freed, and the system fills their pages with zeros when the next layer needs them
    (`benchmarks/embedding.py allocator`). Settings of the user (`MALLOC_...`, `GLIBC_TUNABLES`) stay as they are.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _ENVIRONMENT):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library
        return False
    kept = [any(mallopt(_MMAP_THRESHOLD, size) == 1 for size in _MMAP_THRESHOLDS)]
    # Threads share one pool (as long as none was started before): those of their own end at 64 MiB.
    for setting, value in ((_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 * 2**20), (_ARENA_MAX, 1)):
        kept.append(mallopt(setting, value) == 1)
    return all(kept)


def scratch_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an array of zeros, which the system may write to the disk if memory is scarce.

    From 64 MiB on it is a memory map of a file without a name in the temporary folder (`TMPDIR`), whose space is
    reserved first. If there is no space, and on systems without such files, the array is in memory.

    >>> scratch_zeros((2, 3), "float32").shape
    (2, 3)
    """
    import numpy as np  # noqa: PLC0415 - `jnpl --help` comes here too, for `keep_freed_memory`

    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size >= _IN_MEMORY and hasattr(os, "posix_fallocate"):
        try:
            with tempfile.TemporaryFile() as file:
                os.posix_fallocate(file.fileno(), 0, size)  # a write to a hole in a full disk would end the process
                return np.memmap(file, dtype, mode="r+", shape=shape)
        except OSError:
            pass
    return np.zeros(shape, dtype)
