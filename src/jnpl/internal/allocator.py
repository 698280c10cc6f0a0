"""Memory that a network has freed is kept for its next layer, instead of going back to the system."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # of malloc.h
# Largest first: some versions of glibc allow no threshold above 32 MiB.
_MMAP_THRESHOLDS = (256 * 2**20, 32 * 2**20)
_ENVIRONMENT = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")


@cache
def keep_freed_memory() -> bool:
    """Let glibc keep freed blocks below 256 MiB; return whether it does. Elsewhere, nothing changes.

    By default, glibc returns the outputs of a network's layers, which are tens of megabytes, to the system when they are
    freed, and the system fills their pages with zeros when the next layer needs them: a third of the time of
    EfficientNet-Lite0, and a sixth of a training step of a small ResNet. Settings of the user (`MALLOC_...`,
    `GLIBC_TUNABLES`) stay as they are.
    """
    if sys.platform != "linux" or any(name in os.environ for name in _ENVIRONMENT):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # another C library
        return False
    kept = any(mallopt(_MMAP_THRESHOLD, size) == 1 for size in _MMAP_THRESHOLDS)
    kept &= mallopt(_TRIM_THRESHOLD, 2**31 - 1) == 1
    # Threads share one pool (as long as none was started before): those of their own end at 64 MiB.
    kept &= mallopt(_TOP_PAD, 64 * 2**20) == 1 and mallopt(_ARENA_MAX, 1) == 1
    return kept
