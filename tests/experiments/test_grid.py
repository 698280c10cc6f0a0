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

from jnpl.experiments import locks, status
from jnpl.experiments.cell import Cell
from jnpl.experiments.engines import LocalEngine
from jnpl.experiments.grid import run_cells
from jnpl.experiments.job import STARTS, End, Job
from jnpl.experiments.results import read as results_of

IRIS = {"data": "iris", "noise": "symm", "rate": 0.4, "epochs": 2, "batch_size": 32, "seed": 1}
DONE = Cell(row="ce", **{**IRIS, "data": "digits", "images": 300})
BROKEN = Cell(row="gce", **IRIS, net="cnn9")  # a network for images
LONG = Cell(row="ce", **{**IRIS, "epochs": 150})
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
BENCH = ("jnpl.experiments.cell", "Cell", "jnpl.experiments.runner")
TALLY = ("tests.helpers.tally", "Tally", "tests.helpers.tally")
posix = pytest.mark.skipif(not locks.AVAILABLE, reason="there are no such locks and signals on Windows")


@pytest.fixture
def folders(tmp_path):
    return tmp_path / "results.jsonl", tmp_path / "work"


def in_a_process(cell, folders, kind):
    return subprocess.Popen([sys.executable, "-c", SCRIPT, cell.model_dump_json(), *map(str, folders), *kind])


def is_far(notes):
    """Whether a cell has noted five epochs."""
    return any(int(file.stem) >= 5 for file in notes.glob("0*.json"))


def read(results, cell):
    return results_of(results)[cell.name]


@pytest.fixture(scope="module")
def undisturbed(alone):
    return alone(LONG)


def test_done_cells_are_not_run_again_and_a_failure_does_not_end_the_grid(folders):
    (results, work), said = folders, []
    failed = run_cells([BROKEN, DONE], results, work, 2, None, said.append)
    assert list(failed) == [BROKEN.name]
    assert "cnn9 needs images" in failed[BROKEN.name]
    assert any(f"{BROKEN.name}: FAILED, InputError: cnn9 needs images" in line for line in said)
    assert {name: (work / name / "failed").read_text().strip() for name in failed} == failed
    assert any(line.startswith(f"{DONE.name}: done in ") and "left" in line for line in said)
    assert list(results_of(results)) == [DONE.name]
    assert read(results, DONE)["results"]["filter_epochs"] == 2
    assert not (work / DONE.name / "result.json").exists()
    assert not (work / DONE.name / "run").exists()
    assert not (results.parent / f".{DONE.name}.lock").exists()
    written = results.stat().st_mtime_ns
    assert run_cells([DONE], results, work, 2, None, said.append) == {}
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
def test_a_cell_whose_grid_is_stopped_goes_on_from_its_checkpoint(folders, wait, figures, undisturbed):
    results, work = folders
    notes = work / LONG.name / "run" / "notes"
    process = in_a_process(LONG, folders, BENCH)
    try:
        wait(lambda: is_far(notes), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 128 + signal.SIGTERM
    finally:
        process.kill()
    before = json.loads(max(notes.iterdir()).read_text())
    assert 5 <= before["epochs"] < 150
    assert run_cells([LONG], results, work, 1, None, lambda _: None) == {}
    assert figures(read(results, LONG)) == undisturbed
    after = read(results, LONG)["results"]
    assert after["curve_seconds"][: before["epochs"]] == before["curve_seconds"]  # it did not begin anew
    assert after["total_cpu_seconds"] > before["seconds"][1]


@posix
def test_a_killed_child_is_run_again_and_goes_on(folders, wait, figures, undisturbed):
    (results, work), said, seen = folders, [], {}

    def kill():
        notes = work / LONG.name / "run" / "notes"
        wait(lambda: is_far(notes))
        os.kill(json.loads((work / LONG.name / "process.json").read_text())["pid"], signal.SIGKILL)
        seen.update(json.loads(max(notes.glob("0*.json")).read_text()))

    killer = threading.Thread(target=kill)
    killer.start()
    assert run_cells([LONG], results, work, 1, None, said.append) == {}
    killer.join()
    assert sum("signal 9; it is started again and resumes" in line for line in said) == 1
    assert sum(": done in " in line for line in said) == 1
    assert figures(read(results, LONG)) == undisturbed
    curve = read(results, LONG)["results"]["curve_seconds"]
    known = seen["epochs"] - 1  # the kill may have come between the last notes and their checkpoint
    assert curve[:known] == seen["curve_seconds"][:known]


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
