"""Every method, through the engine: it learns, finds wrong labels, resumes, runs on images and on two processes."""

import json
import math
from functools import cache

import numpy as np
import pytest
from safetensors.torch import load_file
from tests.helpers import digits, quick
from tests.helpers.marks import posix

from jnpl import noise
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.tables import load_parquet
from jnpl.methods.registry import METHODS

SEED = 0
CHANCE = 0.4
# Floors for the AP. Cross-entropy has memorised most wrong labels by its last epoch; MetaCleaner's weights compare five
# samples of one label: a coarse ranking.
AP = dict.fromkeys(METHODS, 0.9) | {"ce": 0.6, "metacleaner": 0.5}
MARGIN = 0.08  # of the accuracy over cross-entropy's, after the last epoch


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """Accuracy and AP of a method on one seed of the digits."""

    @cache
    def of(name):
        out = tmp_path_factory.mktemp(name) / "run"
        return quick.train(digits.source(SEED), digits.recipe_of(name), out).results

    return of


def expect_robust(name, result, ce):
    """The score ranks wrong labels far above chance, and what claims to be robust ends above cross-entropy."""
    assert result["ap"] > AP[name] > CHANCE + 0.09, name
    if name != "ce":
        assert result["test_accuracy"] > ce["test_accuracy"] + MARGIN, name


# Two to five seconds of training each: `make test` trains them on half of the samples.
LONG = (
    *("co-teaching", "jocor", "joint-optim", "limit", "m-correction", "metacleaner", "mlnt", "nlnl"),
    *("co-teaching-plus", "dividemix", "elr-plus", "sop-plus"),
)


@pytest.fixture(scope="module")
def learnt_from_half(tmp_path_factory):
    """Results of a method on every second sample of the same digits, with the same settings."""

    @cache
    def of(name):
        whole = digits.source(SEED)
        labels = whole.true_labels[::2]
        source = from_arrays(
            whole.inputs.values[::2],
            noise.symmetric(labels, 0.4, 10, seed=SEED),
            y_true=labels,
            x_test=whole.test.inputs.values,
            y_test=whole.test.labels,
        )
        return quick.train(source, digits.recipe_of(name), tmp_path_factory.mktemp(name) / "run").results

    return of


@pytest.mark.parametrize("name", LONG)
def test_half_of_the_digits_with_forty_percent_wrong_labels(name, learnt_from_half):
    expect_robust(name, learnt_from_half(name), learnt_from_half("ce"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in METHODS]
)
def test_digits_with_forty_percent_wrong_labels(name, learnt):
    expect_robust(name, learnt(name), learnt("ce"))


def train(name, out, report=None, model="mlp", kind="vector", samples=130):
    return quick.train(quick.data(kind, samples), quick.recipe_of(name, model), out, report).results


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
LIKE_ONE = sorted(
    set(METHODS) - {"m-correction", "mlnt", "metacleaner", "jnpl", "jnpl-stable", "elr-plus", "dividemix"}
)


@posix
@pytest.mark.parametrize("name", METHODS)
def test_two_processes_hold_the_same_state(name, pair):
    """Weights, the state of samples, counters: bit for bit the same on both."""
    states = [load_file(pair / "methods" / f"{name}-{rank}.safetensors") for rank in range(2)]
    assert set(states[0]) == set(states[1])
    for key, value in states[0].items():
        if key not in METHODS[name].per_process_buffers:
            assert value.equal(states[1][key]), key
    assert json.loads((pair / "methods/results.json").read_text())[name]["samples"] == quick.SHARED


@posix
def test_processes_leave_their_group_before_the_interpreter_ends(pair):
    """Else a thread of gloo may abort a process that has done all its work."""
    assert [(pair / f"left-{rank}").read_text() for rank in range(2)] == ["True", "True"]


@posix
def test_a_process_without_a_test_sample_does_not_keep_the_other_waiting(pair):
    told = json.loads((pair / "methods/results.json").read_text())["alone"]
    assert told["test_accuracy_network_1"] in (0.0, 1.0)


@posix
@pytest.mark.parametrize("name", LIKE_ONE)
def test_two_processes_learn_as_one(name, pair, tmp_path):
    """Also where a tenth of the samples cannot be read, and shares are uneven."""
    train(name, tmp_path / "one", samples=quick.SHARED)
    one, two = (
        load_parquet(run / "findings.parquet").to_pandas()["label_quality"]
        for run in (tmp_path / "one", pair / "methods" / name)
    )
    np.testing.assert_allclose(two, one, atol=2e-3)
