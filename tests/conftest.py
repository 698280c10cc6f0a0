"""For all tests: one thread in every process, the same random numbers every time, an unchanged priority."""

from __future__ import annotations

import os

# Before torch is imported, here and in the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests.helpers.paths import python_path

os.environ["PYTHONPATH"] = python_path()  # processes that tests start can import `tests.helpers`
# A failure seen once is seen again; `--hypothesis-profile default` tries new examples.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Undo what the test before has set, before the fixtures of any scope run."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - libraries draw from the global state


@pytest.fixture(autouse=True)
def _same_priority():
    """Fail the test that gives this process a lower priority: all tests after it would keep it."""
    if not hasattr(os, "nice"):
        yield
        return
    before = os.nice(0)
    yield
    assert os.nice(0) == before, "the test process was given another priority (os.nice)"
