"""What tests of the experiment share."""

import json
import time

import pytest
import torch

from jnpl.experiments.runner import train_run

TIMES = {"seconds", "cpu_seconds", "total_seconds", "total_cpu_seconds", "seconds_per_epoch", "curve_seconds"}


@pytest.fixture
def tally():
    """The module of a run that only counts."""
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
    """The results of a line, but for times."""

    def of(line):
        return {name: value for name, value in line["results"].items() if name not in TIMES}

    return of


@pytest.fixture(scope="session")
def timeless():
    """The line of a run of the paper, but for times: what another training of the same run may not change."""

    def without(facts):
        return {name: value for name, value in facts.items() if name not in TIMES}

    def of(line):
        stages = {name: without(facts) for name, facts in line["stages"].items()}
        return {**line, "results": without(line["results"]), "stages": stages}

    return of


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def alone(tmp_path_factory, figures):
    """Results of a run that nobody disturbs, in this process, but for times."""

    def run(spec):
        threads = torch.get_num_threads()
        try:
            return figures(json.loads(json.dumps(train_run(spec, tmp_path_factory.mktemp("alone") / "run", None))))
        finally:
            torch.set_num_threads(threads)

    return run
