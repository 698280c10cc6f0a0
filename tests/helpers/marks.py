"""Marks that tests of several rooms share."""

import sys

import pytest

# Signals, locks, pipes, links, permissions, and processes that are launched by torchrun.
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has not what POSIX has here")
