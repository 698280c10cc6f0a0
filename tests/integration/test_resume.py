"""Killed at any moment, a run ends with the same bits as one that was left in peace."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.helpers import forked, toy

from jnpl.cli.app import main

SAME = ("model.safetensors", "findings.parquet", "findings.csv")


@pytest.fixture(scope="module")
def peace(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The data, and the folder of a run that nobody disturbed."""
    base = tmp_path_factory.mktemp("peace")
    data = toy.write(base / "toy.npz")
    assert find(toy.command(data, base / "run")).code == 0
    return data, base / "run"


class Told(NamedTuple):
    code: int
    out: str
    err: str


def find(command: list[str]) -> Told:
    """Run a command in this process: only those that are killed or stopped need one of their own."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, pytest.raises(SystemExit) as stop:
        main(command[command.index("find") :])
    return Told(int(stop.value.code or 0), out.getvalue(), err.getvalue())


def start(folder: Path, command: list[str]) -> BaseProcess:
    """Run a command in a process of its own; what it prints goes to the file `said` in the folder."""
    return forked.start(folder / "said", main, command[command.index("find") :])


def wait_for(asked: Callable[[], bool], process: BaseProcess) -> None:
    """Wait until something is so, or the process has ended."""
    while not asked() and process.is_alive():
        time.sleep(0.005)


def lines(run: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def expect_the_same(run: Path, peaceful: Path) -> None:
    for name in SAME:
        assert (run / name).read_bytes() == (peaceful / name).read_bytes(), name
    assert lines(run) == lines(peaceful)


@pytest.mark.parametrize("every", ["1", "1s"])
def test_killed_at_random_moments(peace: tuple[Path, Path], tmp_path: Path, every: str) -> None:
    """SIGKILL inside and between epochs and while a checkpoint is written."""
    data, peaceful = peace
    command = toy.command(data, tmp_path / "run", "--checkpoint-every", every)
    moments = random.Random(7)
    kills = 0
    for most in (0, 0.2, 0.6):  # seconds after the first epoch is done, then after the start
        process = start(tmp_path, command)
        wait_for(lambda: forked.has_written(tmp_path / "run" / "metrics.jsonl"), process)
        time.sleep(moments.uniform(0, most))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    done = find(command)
    assert kills
    assert json.loads(done.out)["epochs"] == 5
    expect_the_same(tmp_path / "run", peaceful)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_asked_to_stop(peace: tuple[Path, Path], tmp_path: Path, number: signal.Signals, code: int) -> None:
    command = toy.command(peace[0], tmp_path / "run", "--set", "train.epochs=400", "--set", "train.milestones=[3]")
    process = start(tmp_path, command)
    wait_for(lambda: forked.has_written(tmp_path / "run" / "metrics.jsonl"), process)  # an epoch is done
    os.kill(process.pid, number)
    process.join()
    told = (tmp_path / "said").read_text()
    assert process.exitcode == code, told
    assert "run the same command again to resume" in told
    assert "Traceback" not in told
    assert list((tmp_path / "run" / "checkpoint").iterdir())


def test_other_data_and_settings_are_refused(peace: tuple[Path, Path], tmp_path: Path) -> None:
    _, peaceful = peace
    other = toy.write(tmp_path / "other.npz", samples=200)
    done = find(toy.command(other, peaceful))
    assert done.code == 2
    assert "Traceback" not in done.err
    assert done.err.strip().count("\n") == 0
    done = find(toy.command(peace[0], peaceful, "--seed", "1"))
    assert done.code == 2
    assert "seed = 0, not 1" in done.err


def test_a_torn_checkpoint_is_named_and_the_older_one_used(peace: tuple[Path, Path], tmp_path: Path) -> None:
    data, peaceful = peace
    run = tmp_path / "run"
    long = toy.command(data, run, "--checkpoint-every", "1")
    process = start(tmp_path, long)
    wait_for(lambda: len(list((run / "checkpoint").glob("[0-9]*"))) >= 2, process)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    newest = max((run / "checkpoint").glob("[0-9]*")) / "state.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    status = json.loads((run / "run.json").read_text())["status"]
    done = find(long)
    assert done.code == 0
    if status == "running":
        assert "is torn or not ours" in done.err
        assert "resuming at epoch" in done.err
    expect_the_same(run, peaceful)
