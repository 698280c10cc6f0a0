"""Grids with real processes: done stays done, a failure is told, a kill loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from tests.helpers.tally import Tally

from jnpl.experiments import status
from jnpl.experiments.cell import Cell
from jnpl.experiments.engines import LocalEngine
from jnpl.experiments.grid import run_cells
from jnpl.experiments.job import STARTS, End, Job
from jnpl.experiments.results import read as results_of
from jnpl.internal import locks

IRIS = {"data": "iris", "noise": "symm", "rate": 0.4, "epochs": 2, "batch_size": 32, "seed": 1}
# As a real cell does it: test_paper_cells.py has what a process says, test_ray.py and cli/test_bench.py have real ones.
DONE, BROKEN = Tally(name="done", steps=2), Tally(name="broken", fails="InputError: cnn9 needs images")
LONG = Cell(row="ce", **{**IRIS, "epochs": 60})
SCRIPT = """
import sys
from pathlib import Path
from importlib import import_module
from jnpl.experiments.grid import run_cells
from jnpl.training.interrupt import Interrupted
kind = getattr(import_module(sys.argv[4]), sys.argv[5])
try:
    run_cells([kind.model_validate_json(sys.argv[1])], Path(sys.argv[2]), Path(sys.argv[3]), 1, None,
              module=sys.argv[6])
except Interrupted as stop:
    sys.exit(stop.code)
"""
SLOW_RUNNER = "tests.helpers.slow_runner"
BENCH = ("jnpl.experiments.cell", "Cell", SLOW_RUNNER)
TALLY = ("tests.helpers.tally", "Tally", "tests.helpers.tally")
posix = pytest.mark.skipif(not locks.AVAILABLE, reason="there are no such locks and signals on Windows")


@pytest.fixture
def folders(tmp_path):
    return tmp_path / "results.jsonl", tmp_path / "work"


def in_a_process(cell, folders, kind):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, cell.model_dump_json(), *map(str, folders), *kind])


def noted(notes):
    """The number of epochs that a cell has noted."""
    return max((int(file.stem) for file in notes.glob("0*.json")), default=0)


def read(results, cell):
    return results_of(results)[cell.name]


def test_done_cells_are_not_run_again_and_a_failure_does_not_end_the_grid(folders, tally):
    (results, work), said = folders, []
    failed = run_cells([BROKEN, DONE], results, work, 2, None, said.append, module=tally)
    assert list(failed) == [BROKEN.name]
    assert "cnn9 needs images" in failed[BROKEN.name]
    assert any(f"{BROKEN.name}: FAILED, InputError: cnn9 needs images" in line for line in said)
    assert {name: (work / name / "failed").read_text().strip() for name in failed} == failed
    assert any(line.startswith(f"{DONE.name}: done in ") and "left" in line for line in said)
    assert list(results_of(results)) == [DONE.name]
    assert read(results, DONE)["results"]["steps"] == 2
    assert not (work / DONE.name / "result.json").exists()
    assert not (results.parent / f".{DONE.name}.lock").exists()
    written = results.stat().st_mtime_ns
    assert run_cells([DONE], results, work, 2, None, said.append, module=tally) == {}
    assert said[-1] == "1 cells, 1 done before"
    assert results.stat().st_mtime_ns == written


@posix
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_grid_stops_its_children_which_save_themselves(folders, tally, wait, number):
    cell = Tally(name="slow", steps=400, pause=0.05)
    results, work = folders
    process = in_a_process(cell, folders, TALLY)
    try:
        wait((work / "slow" / "count").exists, process)
        process.send_signal(number)
        assert process.wait(600) == 128 + number
    finally:
        process.kill()
    assert not results.exists()
    assert not locks.is_held(results.parent / ".slow.lock")  # the child is gone
    told = status.read(work)
    assert (told.waiting, told.begun, told.at_work) == (["slow"], ["slow"], False)


@posix
def test_a_cell_whose_grid_is_stopped_and_whose_process_is_killed_goes_on_from_its_checkpoint(
    folders, wait, figures, alone
):
    """The grid is stopped in the middle; run again, its child is killed later on, and starts for the third time."""
    (results, work), said, killed = folders, [], {}
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
    assert run_cells([LONG], results, work, 1, None, said.append, module=SLOW_RUNNER) == {}
    killer.join()
    assert sum("signal 9; it is started again and resumes" in line for line in said) == 1
    assert sum(": done in " in line for line in said) == 1
    assert figures(read(results, LONG)) == alone(LONG)
    after = read(results, LONG)["results"]
    assert after["curve_seconds"][: stopped["epochs"]] == stopped["curve_seconds"]  # it did not begin anew
    known = killed["epochs"] - 1  # the kill may have come between the last notes and their checkpoint
    assert known > stopped["epochs"]
    assert after["curve_seconds"][:known] == killed["curve_seconds"][:known]
    assert after["total_cpu_seconds"] > killed["curve_seconds"][known - 1] > stopped["curve_seconds"][-1]


def test_a_cell_that_is_killed_again_and_again_is_given_up(folders, tally):
    (results, work), said = folders, []
    cells = [Tally(name="hopeless", steps=100, dies=100), Tally(name="twice", steps=5, dies=2)]
    failed = run_cells(cells, results, work, 1, None, said.append, module=tally)
    assert failed == {"hopeless": "its process was ended by signal 9"}
    assert (work / "hopeless" / "lives").stat().st_size == STARTS
    assert results_of(results)["twice"]["results"]["steps"] == 5
    assert (work / "twice" / "lives").stat().st_size == 3
    cells[0] = Tally(name="hopeless", steps=100)  # a call of its own has lives of its own
    assert run_cells(cells, results, work, 1, None, said.append, module=tally) == {}


class Lost:
    """An engine whose workers are gone before they start a process."""

    name = "lost"

    def __init__(self):
        self.taken, self.rounds = [], 0

    def open(self, jobs, report):
        pass

    def is_full(self):
        return bool(self.taken)

    def start(self, job):
        self.rounds += 1
        assert self.rounds <= STARTS, "it is run again and again"
        self.taken.append(job.name)
        return True

    def ended(self):
        ends = [End(name, "killed", "its worker was lost") for name in self.taken]
        self.taken = []
        return ends

    @property
    def busy(self):
        return len(self.taken)

    def close(self):
        pass


def test_a_cell_whose_process_never_begins_is_given_up(folders):
    (results, work), said, engine = folders, [], Lost()
    failed = run_cells([Tally(name="never")], results, work, 1, None, said.append, engine=engine)
    assert failed == {"never": "its worker was lost"}
    assert engine.rounds == STARTS
    assert sum("its worker was lost; it is started again" in line for line in said) == STARTS - 1
    assert not (work / "never" / "process.json").exists()
    assert (work / "never" / "failed").read_text() == "its worker was lost\n"


def test_a_process_that_cannot_be_started_does_not_end_the_grid(folders, tally, monkeypatch):
    (results, work), said, real = folders, [], Job.start

    def start(job, lock):
        if job.name == "first":
            raise OSError(11, "Resource temporarily unavailable")
        return real(job, lock)

    monkeypatch.setattr(Job, "start", start)
    failed = run_cells([Tally(name="first"), Tally(name="second")], results, work, 1, None, said.append, module=tally)
    assert failed == {"first": "it could not be started: [Errno 11] Resource temporarily unavailable"}
    assert list(results_of(results)) == ["second"]
    assert (work / "first" / "failed").read_text().strip() == failed["first"]


@posix
def test_a_cell_whose_grid_is_killed_is_not_run_twice(folders, tally, wait):
    cell = Tally(name="slow", steps=60, pause=0.05)
    (results, work), said = folders, []
    process = in_a_process(cell, folders, TALLY)
    try:
        wait((work / "slow" / "count").exists, process)
    finally:
        process.kill()
    process.wait()
    told = status.read(work)
    assert (list(told.running), told.at_work) == (["slow"], False)  # the child goes on by itself
    assert run_cells([cell], results, work, 1, None, said.append, module=tally) == {}
    assert results_of(results)["slow"]["results"]["steps"] == 60
    assert (work / "slow" / "lives").stat().st_size == 1


@posix
def test_a_cell_in_other_hands_is_waited_for(folders, tally):
    results, work = folders
    one, other = LocalEngine(), LocalEngine()
    job = Job("slow", Tally(name="slow", steps=3, pause=0.3).model_dump_json(), results, work / "slow", tally, None, "")
    assert one.start(job)
    assert not other.start(job)
    assert other.busy == 0
    while one.busy:
        one.ended()
        time.sleep(0.02)
    assert not other.start(job)  # done meanwhile
    job.collect()
    assert list(results_of(results)) == ["slow"]
    assert not other.start(job)
    assert not job.lock.exists()


def test_cells_start_in_order_and_as_many_as_asked(folders, tally):
    results, work = folders
    cells = [Tally(name=f"cell-{number}", steps=2, pause=0.2) for number in range(4)]
    seen = []

    class Watched(LocalEngine):
        def start(self, job):
            assert self.busy < 2
            seen.append(job.name)
            return super().start(job)

    assert run_cells(cells, results, work, 2, None, lambda _: None, module=tally, engine=Watched()) == {}
    assert seen == [cell.name for cell in cells]
    assert json.loads((work / "grid.json").read_text())["cells"] == seen
