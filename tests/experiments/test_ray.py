"""Runs on a real Ray cluster of two machines, as it were, both of them here; killed in the middle, they go on."""

import builtins
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from tests.helpers.clusters import two_nodes
from tests.helpers.tally import Tally

from jnpl.experiments import status
from jnpl.experiments.execute import RunEngine, run_all
from jnpl.experiments.results import read
from jnpl.experiments.spec import RunSpec
from jnpl.internal import locks
from jnpl.internal.errors import InputError

ray = pytest.importorskip("ray", reason="Ray is not installed: it comes with the extra `ray`")
pytestmark = [pytest.mark.ray, pytest.mark.slow]

DIGITS = {"data": "digits", "images": 400, "noise": "symm", "rate": 0.4, "epochs": 40, "batch_size": 32}
RUNS = [RunSpec(variant="ce", seed=1, **DIGITS), RunSpec(variant="gce", seed=1, **DIGITS)]
# A network for images:
BROKEN = RunSpec(variant="gce", seed=1, **{**DIGITS, "data": "iris", "images": None}, net="cnn9")
GPU_SHARE = "tests.helpers.gpu_share"
SCRIPT = """
import sys
from pathlib import Path
from tests.helpers.tally import Tally
from jnpl.experiments.execute import RunEngine, run_all
from jnpl.internal.errors import Interrupted
folder = Path(sys.argv[1])
spec = Tally(name="slow", steps=10_000, pause=0.05)
try:
    engine = RunEngine("ray", sys.argv[2])
    run_all([spec], folder / "results.jsonl", folder / "work", 1, None, module="tests.helpers.tally", engine=engine)
except Interrupted as stop:
    sys.exit(stop.code)
"""


@pytest.fixture(autouse=True)
def _as_before():
    """Ray's `init` takes SIGTERM for itself, and processes that others fork later would not hear it; and `print`."""
    before, say = signal.getsignal(signal.SIGTERM), builtins.print
    yield
    signal.signal(signal.SIGTERM, before)
    builtins.print = say


@pytest.fixture(scope="module")
def address():
    """Two nodes of one core and one GPU (that is not there) each."""
    with two_nodes(num_gpus=1) as place:
        yield place


class Killer(threading.Thread):
    """Sends SIGKILL to the worker of a run (`parent`), or to the run's process (`pid`), in the middle of it."""

    def __init__(self, folder, whom, wait):
        super().__init__()
        self.folder, self.whom, self.wait, self.seen = folder, whom, wait, {}

    def run(self):
        notes = self.folder / "run" / "notes"
        self.wait(lambda: any(int(file.stem) >= 5 for file in notes.glob("0*.json")))
        facts = json.loads((self.folder / "process.json").read_text())
        for process in self.whom:
            os.kill(facts[process], signal.SIGKILL)
        self.seen = json.loads(max(notes.glob("0*.json")).read_text())


def test_a_worker_and_a_process_killed_in_the_middle_lose_nothing(tmp_path, address, alone, figures, wait):
    results, work, said = tmp_path / "results.jsonl", tmp_path / "work", []
    killers = [Killer(work / RUNS[0].name, ["parent"], wait), Killer(work / RUNS[1].name, ["pid"], wait)]
    for killer in killers:
        killer.start()
    failed = run_all([*RUNS, BROKEN], results, work, None, None, said.append, engine=RunEngine("ray", address))
    for killer in killers:
        killer.join()
    assert list(failed) == [BROKEN.name]
    assert "cnn9 needs images" in failed[BROKEN.name]
    assert json.loads((work / BROKEN.name / "process.json").read_text())["start"] == 1  # its own fault: once is enough
    assert not ray.is_initialized()
    for spec, killer in zip(RUNS, killers, strict=True):
        told = read(results)[spec.name]
        assert figures(told) == alone(spec)
        assert sum(line.startswith(f"{spec.name}: done in ") for line in said) == 1
        facts = json.loads((work / spec.name / "process.json").read_text())
        assert facts["start"] == 2
        curve = told["results"]["curve_seconds"]
        known = killer.seen["epochs"] - 1  # the kill may have come between the last notes and their checkpoint
        assert 4 <= known < 40
        assert curve[:known] == killer.seen["curve_seconds"][:known]  # it did not begin anew
    told = status.read(tmp_path)
    assert (len(told.done), list(told.failed), told.engine) == (2, [BROKEN.name], "ray")


def test_shares_of_a_gpu_are_kept(tmp_path, address):
    """Four halves of two GPUs, which Ray believes in: a run sees the one that it has a share of."""
    for gpus, told in ((0.5, ["0", "auto"]), (None, ["", None])):
        results = tmp_path / f"results-{gpus}.jsonl"
        engine = RunEngine("ray", address, gpus)
        ray.init(address=address, log_to_driver=False)
        try:
            specs = [Tally(name="one"), Tally(name="two")]
            assert run_all(specs, results, tmp_path / "work", None, None, lambda _: None, GPU_SHARE, engine) == {}
            assert ray.is_initialized()  # who connected parts
        finally:
            ray.shutdown()
        assert [line["results"]["told"] for line in read(results).values()] == [told, told]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_or_killed_experiment_stops_its_runs(tmp_path, address, wait, number):
    folder, lock = tmp_path / "work" / "slow", tmp_path / ".slow.lock"
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), address]
    process = subprocess.Popen(command)
    try:
        wait((folder / "count").exists, process)
        told = status.read(tmp_path)
        assert (list(told.running), told.at_work, told.engine) == (["slow"], True, "ray")
        process.send_signal(number)
        assert process.wait(600) == (128 + number if number == signal.SIGTERM else -number)
    finally:
        process.kill()
    if number == signal.SIGKILL:  # Ray ends the worker, and that the run
        wait(lambda: not locks.is_held(lock))
    told = status.read(tmp_path)
    assert (told.begun, told.running, told.at_work) == (["slow"], {}, False)


@pytest.mark.parametrize(
    ("there", "told"),
    [
        ("127.0.0.1:1", r"there is no Ray cluster at '127\.0\.0\.1:1': .*refused"),
        ("ray://127.0.0.1:1", r"there is no Ray cluster at 'ray://127\.0\.0\.1:1'"),
        ("127.0.0.1:99999", "there is no Ray cluster"),
        ("here", "--address is HOST:PORT, ray://HOST:PORT or auto, got 'here'"),
    ],
)
def test_a_cluster_that_is_not_there_is_one_line(tmp_path, there, told):
    with pytest.raises(InputError, match=told):
        run_all([Tally(name="a")], tmp_path / "r.jsonl", tmp_path / "work", 1, None, engine=RunEngine("ray", there))


def test_a_cluster_of_our_own_lives_as_long_as_the_experiment(tmp_path, tally):
    before = signal.getsignal(signal.SIGTERM)
    engine = RunEngine("ray", gpus=99.0)
    with pytest.raises(InputError, match=r"a run needs 99 GPU, the Ray cluster has \d+: name a cluster that has them"):
        run_all([Tally(name="a")], tmp_path / "r.jsonl", tmp_path / "work", 1, None, engine=engine)
    assert not ray.is_initialized()
    spec, said = Tally(name="a", steps=5, dies=1), []
    assert run_all([spec], tmp_path / "r.jsonl", tmp_path / "work", 1, None, said.append, tally, RunEngine("ray")) == {}
    assert read(tmp_path / "r.jsonl")["a"]["results"]["steps"] == 5
    assert any("signal 9; it is started again" in line for line in said)
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) == before
