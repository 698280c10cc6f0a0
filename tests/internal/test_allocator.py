"""Memory that a network has freed is kept for its next layer; large arrays are files."""

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

from jnpl.internal.allocator import scratch_zeros

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="mallopt is of glibc")

# Page faults of twenty allocations of 40 MiB each, all of whose pages are written.
_FAULTS = """
import ctypes, resource
from jnpl.internal.allocator import keep_freed_memory
print(keep_freed_memory())
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    block = ctypes.c_void_p(libc.malloc(40 * 2**20))
    ctypes.memset(block, 1, 40 * 2**20)
    libc.free(block)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
_PAGES = 40 * 2**20 // 4096


def kept_and_faults(**environment: str) -> tuple[str, int]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", _FAULTS]
    done = subprocess.run(command, env=clean | environment, check=True, capture_output=True, text=True)
    kept, faults = done.stdout.split()
    return kept, int(faults)


def test_a_freed_block_is_used_again_without_page_faults():
    kept, faults = kept_and_faults()
    if kept == "False":
        pytest.skip("the C library is not glibc")
    assert faults < 2 * _PAGES


def test_settings_of_the_user_stay():
    kept, faults = kept_and_faults(MALLOC_MMAP_THRESHOLD_=str(2**20))
    assert kept == "False"
    assert faults > 15 * _PAGES


def test_a_large_array_is_a_file_and_a_small_one_is_in_memory():
    large, small = (scratch_zeros((size, 4), np.float32) for size in (2**23, 10))
    large[:] = 1
    assert large.sum() == large.size
    assert isinstance(large, np.memmap)
    assert not isinstance(small, np.memmap)


def test_without_space_for_the_file_a_large_array_is_in_memory(monkeypatch):
    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    values = scratch_zeros((2**24, 2), np.float32)
    assert values.shape == (2**24, 2)
    assert not isinstance(values, np.memmap)
