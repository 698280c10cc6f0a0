"""Engines: which one the options name, locks, and watching the parent process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from jnpl.experiments import results
from jnpl.experiments.engines import LocalEngine, make_engine
from jnpl.experiments.job import End, Job
from jnpl.experiments.parent_watch import main as parent_watch
from jnpl.internal import locks
from jnpl.internal.errors import InputError, MissingExtraError

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
command = [sys.executable, "-m", "jnpl.experiments.parent_watch", "sleeper", sys.argv[1]]
child = subprocess.Popen(command, stdin=subprocess.PIPE)
print(child.pid, flush=True)
child.wait()
"""
posix = pytest.mark.skipif(not locks.AVAILABLE, reason="there are no such locks and signals on Windows")


@pytest.fixture
def job(tmp_path):
    return Job("a", "{}", tmp_path / "results.jsonl", tmp_path / "work", "m", None, "g")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("slurm",), "--engine must be local or ray, got 'slurm'"),
        (("local", "here:6379"), "--address goes with --engine ray, got --address here:6379 with --engine local"),
        (("local", None, 0.5), "--gpus goes with --engine ray"),
        (("ray", None, -1.0), "--gpus is a share of a GPU, such as 0.5, or a whole number of them, got -1"),
        (("ray", None, 1.5), "got 1.5"),
        (("ray", None, float("nan")), "got nan"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(options, told):
    with pytest.raises(InputError, match=told.replace("(", r"\(")):
        make_engine(*options)


def test_the_engine_is_that_of_the_options():
    assert isinstance(make_engine(), LocalEngine)
    engine = LocalEngine()
    engine.open(None, print)
    assert engine.jobs == 2


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r'pip install "jnpl\[ray\]"'):
        make_engine("ray")


@posix
def test_a_lock_is_seen_and_ends_with_its_holder(tmp_path):
    path = tmp_path / "lock"
    assert not locks.is_held(path)
    with locks.take(path):
        assert locks.is_held(path)
        assert locks.take(path) is None
    assert not locks.is_held(path)
    one, first = locks.join(path)
    other, second = locks.join(path)
    assert (first, second) == (True, False)
    one.close()
    assert locks.is_held(path, together=True)
    other.close()
    assert not locks.is_held(path, together=True)


@posix
def test_a_file_system_without_locks_refuses_nothing(tmp_path, monkeypatch):
    def unable(*_args):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(locks.fcntl, "flock", unable)
    locks.take(tmp_path / "lock").close()
    locks.join(tmp_path / "lock")[0].close()
    assert not locks.is_held(tmp_path / "lock")


def test_what_an_exit_code_means(job):
    job.folder.mkdir()
    assert job.ended(3, 1.0) == End("a", "failed", "exit code 3", 1.0)
    job.log.write_text("a story\nValueError: no\n\n")
    assert job.ended(1, 1.0) == End("a", "failed", "ValueError: no", 1.0)
    assert job.ended(-9, 1.0) == End("a", "killed", "its process was ended by signal 9")
    assert job.ended(143, 1.0) == End("a", "killed", "its process was ended by signal 15")
    job.result.write_text('{"results": {}}')
    job.lock.touch()
    assert job.ended(-9, 1.0) == End("a", "done", seconds=1.0)  # its last breath was enough
    job.collect()
    job.collect()
    assert job.is_done()
    assert not job.result.exists()
    assert not job.lock.exists()
    assert results.read(job.results) == {"a": {"name": "a", "results": {}}}


def test_starts_are_those_of_a_call(job):
    assert job.starts() == 0
    job.folder.mkdir()
    (job.folder / "process.json").write_text(json.dumps({"grid": "g", "start": 2, "began": 0.0}))
    assert job.starts() == 2
    (job.folder / "process.json").write_text(json.dumps({"grid": "another", "start": 2, "began": 0.0}))
    assert job.starts() == 0
    (job.folder / "process.json").write_text("{")
    assert job.starts() == 0


@posix
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


def test_arguments_are_passed_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "shown.py").write_text("import sys\nif __name__ == '__main__':\n    print(sys.argv[1:])\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("threading.Thread.start", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["parent_watch", "shown", "a", "--b"])
    parent_watch()
    assert capsys.readouterr().out == "['a', '--b']\n"
