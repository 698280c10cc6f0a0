"""Experiments with real processes: done stays done, a failure is reported, a kill loses nothing."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import contextmanager

import pytest
from tests.helpers.tally import Tally

from jnpl.experiments import status
from jnpl.experiments.execute import RunEngine, run_all
from jnpl.experiments.process import STARTS, RunProcess
from jnpl.experiments.results import read
from jnpl.experiments.spec import RunSpec
from jnpl.internal import locks
from jnpl.internal.errors import MissingExtraError

IRIS = {"data": "iris", "noise": "symm", "rate": 0.4, "epochs": 2, "batch_size": 32, "seed": 1}
# As a real run does it: test_runner.py has what a process says, test_ray.py and cli/test_bench.py have real ones.
DONE, BROKEN = Tally(name="done", steps=2), Tally(name="broken", fails="InputError: cnn9 needs images")
SLOW = Tally(name="slow", steps=400, pause=0.05)
LONG = RunSpec(variant="ce", **{**IRIS, "epochs": 60})
SCRIPT = """
import sys
from pathlib import Path
from importlib import import_module
from jnpl.experiments.execute import run_all
from jnpl.internal.errors import Interrupted
kind = getattr(import_module(sys.argv[4]), sys.argv[5])
try:
    run_all([kind.model_validate_json(sys.argv[1])], Path(sys.argv[2]), Path(sys.argv[3]), 1, None, module=sys.argv[6])
except Interrupted as stop:
    sys.exit(stop.code)
"""
SLOW_RUNNER = "tests.helpers.slow_runner"
BENCH = ("jnpl.experiments.spec", "RunSpec", SLOW_RUNNER)
TALLY = ("tests.helpers.tally", "Tally", "tests.helpers.tally")
posix = pytest.mark.skipif(not locks.AVAILABLE, reason="there are no such locks and signals on Windows")


@pytest.fixture
def folders(tmp_path):
    return tmp_path / "results.jsonl", tmp_path / "work"


def in_a_process(spec, folders, kind):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, spec.model_dump_json(), *map(str, folders), *kind])


def noted(notes):
    """The number of epochs that a run has noted."""
    return max((int(file.stem) for file in notes.glob("0*.json")), default=0)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r'pip install "jnpl\[ray\]"'):
        RunEngine("ray")


def test_done_runs_are_not_run_again_and_a_failure_does_not_end_the_experiment(folders, tally):
    (results, work), lines = folders, []
    failed = run_all([BROKEN, DONE], results, work, 2, None, lines.append, module=tally)
    assert list(failed) == [BROKEN.name]
    assert "cnn9 needs images" in failed[BROKEN.name]
    assert any(f"{BROKEN.name}: FAILED, InputError: cnn9 needs images" in line for line in lines)
    assert {name: (work / name / "failed").read_text().strip() for name in failed} == failed
    assert any(line.startswith(f"{DONE.name}: done in ") and "left" in line for line in lines)
    assert list(read(results)) == [DONE.name]
    assert read(results)[DONE.name]["results"]["steps"] == 2
    assert not (work / DONE.name / "result.json").exists()
    assert not (results.parent / f".{DONE.name}.lock").exists()
    written = results.stat().st_mtime_ns
    assert run_all([DONE], results, work, 2, None, lines.append, module=tally) == {}
    assert lines[-1] == "1 runs, 1 done before"
    assert results.stat().st_mtime_ns == written


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_stopped_or_killed_experiment_leaves_no_process_behind(folders, tally, wait, number):
    results, work = folders
    process = in_a_process(SLOW, folders, TALLY)
    try:
        wait((work / "slow" / "count").exists, process)
        process.send_signal(number)
        assert process.wait(600) == (-number if number == signal.SIGKILL else 128 + number)
    finally:
        process.kill()
    wait(lambda: not locks.is_held(results.parent / ".slow.lock"))  # at once, unless it was killed
    assert not results.exists()
    progress = status.read(work)
    assert (progress.waiting, progress.begun, progress.at_work) == (["slow"], ["slow"], False)
    steps, again = (work / "slow" / "count").stat().st_size, SLOW.model_copy(update={"steps": 1})
    assert run_all([again], results, work, 1, None, lambda _: None, module=tally) == {}
    assert read(results)["slow"]["results"]["steps"] == steps  # it went on from there


@posix
def test_a_run_whose_experiment_is_stopped_and_whose_process_is_killed_goes_on_from_its_checkpoint(
    folders, wait, figures, alone
):
    """The experiment is stopped in the middle; run again, its child is killed later on, and starts for a third time."""
    (results, work), lines, killed = folders, [], {}
    notes = work / LONG.name / "run" / "notes"
    process = in_a_process(LONG, folders, BENCH)
    try:
        wait(lambda: noted(notes) >= 5, process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 128 + signal.SIGTERM
    finally:
        process.kill()
    stopped = json.loads(max(notes.iterdir()).read_text())
    assert 5 <= stopped["epochs"] < 60

    def kill():
        wait(lambda: noted(notes) >= stopped["epochs"] + 5)
        os.kill(json.loads((work / LONG.name / "process.json").read_text())["pid"], signal.SIGKILL)
        killed.update(json.loads(max(notes.glob("0*.json")).read_text()))
        (results.parent / "quick").touch()

    killer = threading.Thread(target=kill)
    killer.start()
    assert run_all([LONG], results, work, 1, None, lines.append, module=SLOW_RUNNER) == {}
    killer.join()
    assert sum("signal 9; it is started again and resumes" in line for line in lines) == 1
    assert sum(": done in " in line for line in lines) == 1
    stored = read(results)[LONG.name]
    assert figures(stored) == alone(LONG)
    after = stored["results"]
    assert after["curve_seconds"][: stopped["epochs"]] == stopped["curve_seconds"]  # it did not begin anew
    saved = killed["epochs"] - 1  # the kill may have come between the last notes and their checkpoint
    assert saved > stopped["epochs"]
    assert after["curve_seconds"][:saved] == killed["curve_seconds"][:saved]
    assert after["total_cpu_seconds"] > killed["curve_seconds"][saved - 1] > stopped["curve_seconds"][-1]


def test_a_run_that_is_killed_again_and_again_is_given_up(folders, tally):
    (results, work), lines = folders, []
    specs = [Tally(name="hopeless", steps=100, dies=100), Tally(name="twice", steps=5, dies=2)]
    failed = run_all(specs, results, work, 1, None, lines.append, module=tally)
    assert failed == {"hopeless": "its process was ended by signal 9"}
    assert (work / "hopeless" / "lives").stat().st_size == STARTS
    assert read(results)["twice"]["results"]["steps"] == 5
    assert (work / "twice" / "lives").stat().st_size == 3
    specs[0] = Tally(name="hopeless", steps=100)  # another command counts anew
    assert run_all(specs, results, work, 1, None, lines.append, module=tally) == {}


def test_a_run_whose_process_never_begins_is_given_up(folders, monkeypatch):
    """As where workers are gone before they start a process."""

    class WorkerCrashedError(Exception):
        """Ray's."""

    @contextmanager
    def opened(_engine, _jobs, _report):
        def submit(run):
            rounds.append(run.name)
            assert len(rounds) <= STARTS, "it is run again and again"
            future = Future()
            future.set_exception(WorkerCrashedError())
            return future

        yield submit

    (results, work), lines, rounds = folders, [], []
    monkeypatch.setattr(RunEngine, "opened", opened)
    failed = run_all([Tally(name="never")], results, work, 1, None, lines.append)
    assert failed == {"never": "its worker was lost (WorkerCrashedError)"}
    assert len(rounds) == STARTS
    assert sum("its worker was lost (WorkerCrashedError); it is started" in line for line in lines) == STARTS - 1
    assert not (work / "never" / "process.json").exists()
    assert (work / "never" / "failed").read_text() == "its worker was lost (WorkerCrashedError)\n"


@posix
def test_a_run_of_another_command_is_waited_for(folders, tally, wait):
    spec, (results, work) = Tally(name="slow", steps=20, pause=0.05), folders
    process = in_a_process(spec, folders, TALLY)
    try:
        wait((work / "slow" / "count").exists, process)
        assert list(status.read(work).running) == ["slow"]
        assert run_all([spec, DONE], results, work, 1, None, lambda _: None, module=tally) == {}
        assert process.wait(600) == 0
    finally:
        process.kill()
    assert read(results)["slow"]["results"]["steps"] == 20
    assert (work / "slow" / "lives").stat().st_size == 1


def test_a_result_that_cannot_be_stored_is_stored_by_the_next_command(folders, tally, monkeypatch):
    (results, work), lines = folders, []

    def full(_run):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunProcess, "store", full)
        failed = run_all([DONE], results, work, 1, None, lines.append, module=tally)
    assert failed == {"done": "its result could not be stored: [Errno 28] No space left on device"}
    assert run_all([DONE], results, work, 1, None, lines.append, module=tally) == {}
    assert lines[-1] == "1 runs, 1 done before"
    assert read(results)["done"]["results"]["steps"] == 2
