"""For all tests: one thread in every process, the same random numbers every time, an unchanged priority."""

import atexit
import os
import shutil
import signal
import tempfile
import threading

# Before torch is imported, here and in the processes that tests start.
os.environ["OMP_NUM_THREADS"] = "1"
if "JNPL_CACHE" not in os.environ:  # the processes of pytest-xdist have it from the first one
    os.environ["JNPL_CACHE"] = tempfile.mkdtemp(prefix="jnpl-test-cache-")
    atexit.register(shutil.rmtree, os.environ["JNPL_CACHE"], ignore_errors=True)

import numpy as np
import pytest
import torch
from hypothesis import settings

from tests.helpers.paths import python_path

os.environ["PYTHONPATH"] = python_path()  # processes that tests start can import `tests.helpers`
# A failure seen once is seen again; `--hypothesis-profile default` tries new examples.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def _no_sync(descriptor):
    """Stand for `os.fsync`, for which a busy disk may take seconds: a kill does not need it, and no test cuts power."""
    os.fstat(descriptor)  # a file that is closed is an error here too


os.fsync = _no_sync


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    """Undo what the test before has set, before the fixtures of any scope run."""
    if threading.current_thread() is threading.main_thread():
        # Pools of processes are ended by SIGTERM: one that forks with another handler would wait for ever.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - libraries draw from the global state


@pytest.fixture(autouse=True)
def _same_priority(monkeypatch):
    """Fail what lowers the priority of this process: all tests after it would keep it."""

    def nice(increment):
        assert increment == 0, "os.nice belongs in a process of its own, not in the test process"
        return keep(0)

    keep = getattr(os, "nice", None)
    if keep is not None:
        monkeypatch.setattr(os, "nice", nice)


@pytest.fixture
def few_trees(monkeypatch):
    """Let quick trees judge tables: those that users get take four fifths of a fit, and are no matter of most tests."""
    for name, few in (("LEAVES", (1, 5)), ("TRIED_TREES", 5), ("TREES", 10), ("BOOSTING_SIZE", 0)):
        monkeypatch.setattr(f"jnpl.judging.trees.{name}", few)


@pytest.fixture(scope="session")
def checked_run(tmp_path_factory):
    """A finished run on a small table (`tests.helpers.checked`), which no test changes."""
    from tests.helpers.checked import make_run

    return make_run(tmp_path_factory.mktemp("checked"))
