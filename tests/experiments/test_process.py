"""A run as a process: what its end means, and how often it was started."""

import json
import os
import subprocess
import sys
import threading

import pytest
from tests.helpers.tally import Tally

from jnpl.experiments import results
from jnpl.experiments.process import STARTS, RunOutcome, RunProcess
from jnpl.internal import locks


@pytest.fixture
def run(tmp_path, tally):
    settings = Tally(name="a", steps=3, pause=0.2).model_dump_json()
    run = RunProcess("a", settings, tmp_path / "results.jsonl", tmp_path / "work", tally, None, "id")
    run.folder.mkdir()
    return run


def test_what_an_exit_code_means(run):
    assert run._outcome(3, 1.0) == RunOutcome("failed", "exit code 3", 1.0)
    run.log.write_text("a story\nValueError: no\n\n")
    assert run._outcome(1, 1.0) == RunOutcome("failed", "ValueError: no", 1.0)
    assert run._outcome(-9, 1.0) == RunOutcome("killed", "its process was ended by signal 9")
    assert run._outcome(143, 1.0) == RunOutcome("killed", "its process was ended by signal 15")
    (run.folder / "result.json").write_text('{"results": {}}')
    run.lock.touch()
    assert run._outcome(-9, 1.0) == RunOutcome("done", seconds=1.0)  # it was killed after it had written its result
    assert run.attend() == RunOutcome("done")
    run.store()
    run.store()
    assert run.is_done()
    assert not (run.folder / "result.json").exists()
    assert not run.lock.exists()
    assert results.read(run.results) == {"a": {"name": "a", "results": {}}}


@pytest.mark.parametrize(
    ("facts", "starts"),
    [('{"command": "id", "start": 2}', 2), ('{"command": "other", "start": 2}', 0), ("{", 0), ("[]", 0), (None, 0)],
)
def test_starts_are_those_of_a_command(run, facts, starts):
    if facts is not None:
        (run.folder / "process.json").write_text(facts)
    assert run.starts() == starts


def test_a_run_that_always_takes_its_worker_along_is_given_up(run):
    (run.folder / "process.json").write_text(json.dumps({"command": "id", "start": STARTS, "began": 0.0}))
    assert run.attend(0.0) == RunOutcome("failed", f"its process or its worker was killed {STARTS} times")


@pytest.mark.skipif(not locks.AVAILABLE, reason="there are no such locks on Windows")
def test_a_run_that_another_command_has_in_hand_is_busy_until_it_is_done(run, wait):
    seen = []
    other = threading.Thread(target=lambda: seen.append(run.attend()))
    other.start()
    wait(lambda: locks.is_held(run.lock))
    assert run.attend().state == "busy"
    other.join()
    assert [outcome.state for outcome in seen] == ["done"]
    assert run.attend().state == "done"
    assert (run.folder / "lives").stat().st_size == 1


def test_a_run_that_is_asked_to_stop_is_stopped(run):
    stop = threading.Event()
    stop.set()
    assert run.attend(stop=stop).state == "killed"
    assert not locks.is_held(run.lock)


SLEEPER = """
import signal, sys, time
from pathlib import Path
def stop(*_):
    Path(sys.argv[1], "saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
Path(sys.argv[1], "begun").touch()
for _ in range(600):
    time.sleep(0.1)
"""
HOLDER = """
import subprocess, sys
command = [sys.executable, "-m", "jnpl.experiments.process", "sleeper", sys.argv[1]]
child = subprocess.Popen(command, stdin=subprocess.PIPE)
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.skipif(not locks.AVAILABLE, reason="there are no such signals on Windows")
def test_a_process_stops_when_its_parent_is_killed(tmp_path, monkeypatch, wait):
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    with holder:
        assert int(holder.stdout.readline()) > 0
        wait((tmp_path / "begun").exists, holder)
        assert not (tmp_path / "saved").exists()
        holder.kill()
    wait((tmp_path / "saved").exists)
