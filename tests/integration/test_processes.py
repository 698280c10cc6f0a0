"""Two real processes on the CPU (DDP over gloo): together they are one."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers import toy
from tests.helpers.marks import posix
from tests.helpers.pair import TWO

from jnpl import Ledger
from jnpl.cli.app import main
from jnpl.internal.tables import load_parquet

pytestmark = posix


def test_two_processes_agree_with_one(pair: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Same global batch, same draws, an MLP (batch norm would see half the batch): only the order of sums differs.

    After 5 epochs of 8 steps the label qualities agree within 1e-4, the verdicts exactly. PL+ is averaged over the
    selected of the *whole* batch: an average per process would be off by far more (pl_weight is 1 here).
    """
    command = toy.command(pair / "shared.npz", tmp_path / "mlp", *toy.LIKE_ONE, "--accelerator", "cpu")
    with pytest.raises(SystemExit) as stop:
        main(command[3:])
    assert not stop.value.code
    one: dict[str, Any] = json.loads(capsys.readouterr().out)
    two: dict[str, Any] = json.loads((pair / "toy/mlp.json").read_text())
    runs = (tmp_path / "mlp", pair / "toy/mlp")
    tables = [load_parquet(run / "findings.parquet").to_pandas() for run in runs]
    assert not tables[1]["label_quality"].isna().any()
    np.testing.assert_allclose(tables[1]["label_quality"], tables[0]["label_quality"], atol=1e-4)
    assert (tables[1]["is_label_issue"] == tables[0]["is_label_issue"]).all()
    assert two["test_accuracy"] == one["test_accuracy"]
    lines = [[json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()] for run in runs]
    assert len(lines[0]) == len(lines[1]) == 5
    assert any(line["selected"] > 0 for line in lines[0])


def test_all_processes_end_with_the_same_ledger(pair: Path) -> None:
    """Every sample is recorded exactly once an epoch, on all ranks, by a network with batch norm."""
    ledgers = [Ledger.load(pair / f"toy/ledger-{rank}.safetensors") for rank in range(2)]
    assert (ledgers[0].seen == 3).all()
    for name, array in ledgers[0].state_dict()["arrays"].items():
        assert array.equal(ledgers[1].state_dict()["arrays"][name]), name


def test_a_refusal_ends_all_processes(tmp_path: Path) -> None:
    data = toy.write(tmp_path / "toy.npz")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    command = toy.command(data, tmp_path / "mine", *TWO)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 2
    assert done.stderr.count("holds something else than a run") == 1
    assert "Traceback" not in done.stderr


def test_two_processes_resume_to_the_same_bits(pair: Path, tmp_path: Path) -> None:
    """SIGKILL to both in the middle; weights, findings and log end as those of an undisturbed pair.

    Here the command starts its second process itself; torchrun started the undisturbed ones.
    """
    command = toy.command(pair / "toy.npz", tmp_path / "killed", *TWO, "--checkpoint-every", "1")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while not list((tmp_path / "killed" / "checkpoint").glob("[0-9]*")):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["epochs"] == 5  # one object: only the first process prints
    for name in ("model.safetensors", "findings.parquet", "metrics.jsonl"):
        assert (tmp_path / "killed" / name).read_bytes() == (pair / "toy/peace" / name).read_bytes(), name
