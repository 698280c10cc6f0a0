"""What tests of the grid share."""

from __future__ import annotations

import json
import time

import pytest
import torch

from jnpl.experiments.runner import run_cell

TIMES = {"seconds", "cpu_seconds", "total_seconds", "total_cpu_seconds", "seconds_per_epoch", "curve_seconds"}


@pytest.fixture
def tally():
    """The module of a cell that only counts."""
    return "tests.helpers.tally"


@pytest.fixture
def wait():
    """Wait until something is so; half an hour at most."""

    def until(asked, process=None):
        limit = time.monotonic() + 1800
        while not asked():
            assert time.monotonic() < limit
            assert process is None or process.poll() is None
            time.sleep(0.02)

    return until


@pytest.fixture(scope="session")
def figures():
    """Results that a cell's JSON tells, but for times."""

    def of(told):
        return {name: value for name, value in told["results"].items() if name not in TIMES}

    return of


@pytest.fixture(scope="session")
def alone(tmp_path_factory, figures):
    """Results of a cell that nobody disturbs, in this process, but for times."""

    def run(cell):
        threads = torch.get_num_threads()
        try:
            return figures(json.loads(json.dumps(run_cell(cell, tmp_path_factory.mktemp("alone") / "run", None))))
        finally:
            torch.set_num_threads(threads)

    return run
