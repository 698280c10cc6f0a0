"""Grids with real processes: done stays done, a failure is told, a kill loses nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from jnpl.bench import grid as grids
from jnpl.bench.cell import Cell
from jnpl.bench.grid import Grid, run_cells

IRIS = {"data": "iris", "noise": "symm", "rate": 0.4, "epochs": 2, "batch_size": 32, "seed": 1}
DONE = Cell(row="ce", **{**IRIS, "data": "digits", "images": 300})
BROKEN = Cell(row="gce", **IRIS, net="cnn9")  # a network for images
SCRIPT = """
import sys
from pathlib import Path
from jnpl.bench.cell import Cell
from jnpl.bench.grid import run_cells
from jnpl.interrupt import Interrupted
try:
    run_cells([Cell.model_validate_json(sys.argv[1])], Path(sys.argv[2]), Path(sys.argv[3]), 1, None)
except Interrupted as stop:
    sys.exit(stop.code)
"""


def test_done_cells_are_not_run_again_and_a_failure_does_not_end_the_grid(tmp_path):
    results, work, said = tmp_path / "results", tmp_path / "work", []
    failed = run_cells([BROKEN, DONE], results, work, 2, None, said.append)
    assert list(failed) == [BROKEN.name]
    assert "cnn9 needs images" in failed[BROKEN.name]
    assert any(f"{BROKEN.name}: FAILED, InputError: cnn9 needs images" in line for line in said)
    assert json.loads((work / "failed.json").read_text()) == failed
    assert any(line.startswith(f"{DONE.name}: done in ") and "left" in line for line in said)
    (file,) = results.glob("*.json")
    assert file.name == f"{DONE.name}.json"
    assert json.loads(file.read_text())["results"]["filter_epochs"] == 2
    assert not (work / DONE.name / "run").exists()
    assert not (results / f".{DONE.name}.lock").exists()
    written = file.stat().st_mtime_ns
    assert run_cells([DONE], results, work, 2, None, said.append) == {}
    assert said[-1] == "1 cells, 1 done before"
    assert file.stat().st_mtime_ns == written


def test_a_killed_grid_stops_its_children_and_goes_on(tmp_path):
    cell = Cell(row="ce", **{**IRIS, "epochs": 100})
    results, work = tmp_path / "results", tmp_path / "work"
    command = [sys.executable, "-c", SCRIPT, cell.model_dump_json(), str(results), str(work)]
    log = work / cell.name / "run" / "metrics.jsonl"
    process = subprocess.Popen(command)
    try:
        limit = time.monotonic() + 60
        while not (log.is_file() and log.stat().st_size) and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert not (results / f"{cell.name}.json").exists()
    grid = Grid(results, work, None, print, [cell])
    with grid._lock(cell):  # nobody holds it: the child is gone
        pass
    assert run_cells([cell], results, work, 1, None, lambda _: None) == {}
    assert len(json.loads((results / f"{cell.name}.json").read_text())["results"]["ap_curve"]) == 100


@pytest.mark.skipif(grids.fcntl is None, reason="there are no such locks on Windows")
def test_a_cell_in_other_hands_is_not_started(tmp_path):
    one, other = (Grid(tmp_path, tmp_path / "work", None, print, [DONE]) for _ in range(2))
    lock = one._lock(DONE)
    assert not other.start_next()
    assert other.waiting == [DONE]
    lock.close()
    (tmp_path / f"{DONE.name}.json").write_text("{}")  # the other has done it
    assert not other.start_next()
    assert (other.waiting, other.running) == ([], {})


def test_time_in_words():
    assert [grids._time(seconds) for seconds in (40, 720, 12_600)] == ["40 s", "12 min", "3.5 h"]
