"""Two real processes on the CPU (DDP over gloo): together they are one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import toy
from tests.helpers.paths import ROOT

from jnpl import Ledger
from jnpl.internal.tables import load_parquet

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are launched with POSIX means")


def find(data: Path, out: Path, *options: str) -> dict[str, Any]:
    done = subprocess.run(toy.command(data, out, *options), capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)  # one object: only the first process prints
    return result


def test_two_processes_agree_with_one(tmp_path: Path) -> None:
    """Same global batch, same draws, an MLP (batch norm would see half the batch): only the order of sums differs.

    After 5 epochs of 8 steps the label qualities agree within 1e-4, the verdicts exactly. PL+ is averaged over the
    selected of the *whole* batch: an average per process would be off by far more (pl_weight is 1 here).
    """
    data = toy.write(tmp_path / "toy.npz", samples=250)  # a last batch of 26, and odd shares
    options = ("--set", "model=mlp", "--set", "method.pl_weight=1.0", "--set", "train.lr=0.01")
    one = find(data, tmp_path / "one", *options, "--accelerator", "cpu")
    two = find(data, tmp_path / "two", *options, "--accelerator", "cpu", "--devices", "2")
    tables = [load_parquet(tmp_path / name / "findings.parquet").to_pandas() for name in ("one", "two")]
    assert not tables[1]["label_quality"].isna().any()
    np.testing.assert_allclose(tables[1]["label_quality"], tables[0]["label_quality"], atol=1e-4)
    assert (tables[1]["is_label_issue"] == tables[0]["is_label_issue"]).all()
    assert two["test_accuracy"] == one["test_accuracy"]
    lines = [
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    ]
    assert len(lines[0]) == len(lines[1]) == 5
    assert any(line["selected"] > 0 for line in lines[0])


def test_all_processes_end_with_the_same_ledger(tmp_path: Path) -> None:
    """Started by torchrun; every sample is recorded exactly once an epoch, on all ranks, a network with batch norm."""
    data = toy.write(tmp_path / "toy.npz", samples=97)  # the last batch is a single sample: it joins the one before
    script = ROOT / "tests/helpers/ledgers.py"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run([*launch, str(data), str(tmp_path)], capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    ledgers = [Ledger.load(tmp_path / f"ledger-{rank}.safetensors") for rank in range(2)]
    assert (ledgers[0].seen == 3).all()
    for name, array in ledgers[0].state_dict()["arrays"].items():
        assert array.equal(ledgers[1].state_dict()["arrays"][name]), name


def test_a_refusal_ends_all_processes(tmp_path: Path) -> None:
    data = toy.write(tmp_path / "toy.npz")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    command = toy.command(data, tmp_path / "mine", "--accelerator", "cpu", "--devices", "2")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 2
    assert done.stderr.count("holds something else than a run") == 1
    assert "Traceback" not in done.stderr


def test_two_processes_resume_to_the_same_bits(tmp_path: Path) -> None:
    """SIGKILL to both in the middle; weights, findings and log end as those of an undisturbed pair."""
    data = toy.write(tmp_path / "toy.npz")
    options = ("--accelerator", "cpu", "--devices", "2", "--checkpoint-every", "1")
    find(data, tmp_path / "peace", *options)
    command = toy.command(data, tmp_path / "killed", *options)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while not list((tmp_path / "killed" / "checkpoint").glob("[0-9]*")):
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    find(data, tmp_path / "killed", *options)
    for name in ("model.safetensors", "findings.parquet", "metrics.jsonl"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "peace" / name).read_bytes(), name
