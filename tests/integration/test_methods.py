"""Every method, through the engine: it learns, finds wrong labels, resumes, runs on images and on two processes.

The settings of the digits are those of benchmarks/digits.py, which prints what they reach on any number of seeds.
"""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from safetensors.torch import load_file
from tests.helpers import quick
from tests.helpers.paths import ROOT

from jnpl.internal.tables import load_parquet
from jnpl.methods.registry import METHODS
from jnpl.training.reporting import Reporter
from jnpl.training.run import CheckpointInterval, find

DIGITS = ROOT / "benchmarks" / "digits.py"
SEEDS = 3
CHANCE = 0.4
# Floors for the mean AP of three seeds. Seen: docs/rivals.md. Cross-entropy has memorised most wrong labels by its last
# epoch; MetaCleaner's weights compare five samples of one label with each other, which ranks them coarsely.
AP = dict.fromkeys(METHODS, 0.9) | {"ce": 0.6, "metacleaner": 0.5}
MARGIN = 0.08  # of the mean accuracy over cross-entropy's, after the last epoch


@cache
def digits():
    spec = importlib.util.spec_from_file_location("digits_benchmark", DIGITS)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """Mean accuracy and AP of a method over three seeds of the digits."""

    @cache
    def of(name):
        base = tmp_path_factory.mktemp(name)
        runs = [digits().run(name, seed, base / str(seed)) for seed in range(SEEDS)]
        return {key: float(np.mean([told[key] for told in runs])) for key in ("test_accuracy", "ap")}

    return of


@pytest.mark.parametrize("name", METHODS)
def test_digits_with_forty_percent_wrong_labels(name, learnt):
    """The score ranks wrong labels far above chance, and what claims to be robust ends above cross-entropy."""
    told = learnt(name)
    assert told["ap"] > AP[name] > CHANCE + 0.09
    if name != "ce":
        assert told["test_accuracy"] > learnt("ce")["test_accuracy"] + MARGIN


def train(name, out, report=None, model="mlp", kind="vector", samples=130):
    return find(
        quick.data(kind, samples),
        quick.recipe_of(name, model),
        out,
        seed=0,
        every=CheckpointInterval(epochs=None, seconds=None),
        strict=False,
        report=report or Reporter(),
        classify=True,
    ).results


@pytest.mark.parametrize("name", METHODS)
def test_every_method_resumes_exactly(name, tmp_path, monkeypatch):
    """Stopped every 7 steps, in the middle of epochs of 4 or 5 and of all stages: the same bits."""
    wanted = train(name, tmp_path / "peace")
    told, stops = quick.stopped_and_resumed(lambda report: train(name, tmp_path / "war", report), 7)
    assert stops >= 1
    for file in ("model.safetensors", "findings.parquet"):
        assert (tmp_path / "war" / file).read_bytes() == (tmp_path / "peace" / file).read_bytes(), file
    assert {**told, "run": 0, "seconds": 0} == {**wanted, "run": 0, "seconds": 0}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_runs_on_images(name, tmp_path):
    """With batch norm, channels last, a last batch of 2, and validation data for those that look at it."""
    told = train(name, tmp_path / "run", model="resnet8", kind="image")
    quality = load_parquet(tmp_path / "run/findings.parquet").to_pandas()["label_quality"]
    assert quality.between(0, 1).all()
    assert quality.nunique() > 1
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert all(math.isfinite(value) for line in lines for value in line.values() if not isinstance(value, str))
    assert told["epochs"] == len(lines)
    chooses = any(stage.select for stage in METHODS[name].stages)
    assert any("validation_accuracy" in line for line in lines) == chooses
    for file in (tmp_path / "run").glob("*.json"):
        json.loads(file.read_text())


# Exact up to the order of sums. The others pair, mix or group samples of one process's part of a batch; jnpl draws for
# each place of a part, which missing samples shift (without any it is exact: test_processes.py).
LIKE_ONE = sorted(set(METHODS) - {"m-correction", "mlnt", "metacleaner", "jnpl"})


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """All methods on two processes, started once by torchrun."""
    out = tmp_path_factory.mktemp("pair")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", quick.__file__]
    done = subprocess.run([*launch, str(out)], capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr[-4000:]
    return out


@pytest.mark.skipif(sys.platform == "win32", reason="processes are launched with POSIX means")
@pytest.mark.parametrize("name", METHODS)
def test_two_processes_hold_the_same_state(name, pair):
    """Weights, the state of samples, counters: bit for bit the same on both."""
    states = [load_file(pair / f"{name}-{rank}.safetensors") for rank in range(2)]
    assert set(states[0]) == set(states[1])
    for key, value in states[0].items():
        assert value.equal(states[1][key]), key
    assert json.loads((pair / "results.json").read_text())[name]["samples"] == quick.SHARED


@pytest.mark.skipif(sys.platform == "win32", reason="processes are launched with POSIX means")
def test_processes_leave_their_group_before_the_interpreter_ends(pair):
    """Else a thread of gloo may abort a process that has done all its work."""
    assert [(pair / f"left-{rank}").read_text() for rank in range(2)] == ["True", "True"]


@pytest.mark.skipif(sys.platform == "win32", reason="processes are launched with POSIX means")
def test_a_process_without_a_test_sample_does_not_keep_the_other_waiting(pair):
    told = json.loads((pair / "results.json").read_text())["alone"]
    assert told["test_accuracy_network_1"] in (0.0, 1.0)


@pytest.mark.skipif(sys.platform == "win32", reason="processes are launched with POSIX means")
@pytest.mark.parametrize("name", LIKE_ONE)
def test_two_processes_learn_as_one(name, pair, tmp_path):
    """Also where a tenth of the samples cannot be read, and shares are uneven."""
    train(name, tmp_path / "one", samples=quick.SHARED)
    one, two = (
        load_parquet(run / "findings.parquet").to_pandas()["label_quality"] for run in (tmp_path / "one", pair / name)
    )
    np.testing.assert_allclose(two, one, atol=2e-3)
