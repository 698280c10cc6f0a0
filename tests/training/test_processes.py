"""Processes of several machines: who comes alone is told, and does not wait for ever."""

import subprocess
import sys

ALONE = """
from datetime import timedelta
from jnpl.training import processes
from jnpl.recipes.schema import Engine
processes.WAIT = timedelta(seconds=1)
processes.make_fabric(Engine(accelerator="cpu", num_nodes=2))
"""


def test_machines_that_do_not_come_are_named_after_a_stated_time():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False, timeout=120)
    assert "InputError: 2 machines did not meet within" in done.stderr
    assert "start the same command on all of them" in done.stderr
