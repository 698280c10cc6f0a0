"""The recipe `fast`, stopped, killed and on two processes: as if nothing had happened."""

import json
from functools import cache

import numpy as np
import pytest
from tests.helpers import quick
from tests.helpers.fast_runs import COLLAPSES, RAN_AWAY, SMALL, train, train_small
from tests.helpers.marks import posix
from tests.helpers.pair import KILLED

from jnpl.internal.tables import load_parquet
from jnpl.pipeline import CheckpointInterval


def expect_the_same(war, peace, told, wanted):
    for file in ("model.safetensors", "findings.parquet", "metrics.jsonl"):
        assert (war / file).read_bytes() == (peace / file).read_bytes(), file
    assert {**told, "run": 0, "seconds": 0} == {**wanted, "run": 0, "seconds": 0}


@pytest.fixture(scope="module")
def peace(tmp_path_factory):
    """Undisturbed: filter and pseudo-labels with averaged weights, on vectors and on images, the guard at work."""

    @cache
    def of(kind):
        out = tmp_path_factory.mktemp("peace") / kind
        changes = (*SMALL, *COLLAPSES, f"model={'mlp' if kind == 'vector' else 'resnet8'}")
        return out, changes, train(quick.data(kind), out, *changes, classify=True)

    return of


@pytest.mark.parametrize("kind", ["vector", "image"])
def test_stopped_in_the_filter_and_in_the_pseudo_part(kind, peace, tmp_path, monkeypatch, capsys):
    """CheckpointInterval 7 steps of epochs of 5: in the middle, at the end and at the start of epochs of both parts."""
    calm, changes, wanted = peace(kind)
    assert wanted["notes"][0].startswith(RAN_AWAY)
    told, stops = quick.stopped_and_resumed(
        lambda report: train(quick.data(kind), tmp_path / "war", *changes, classify=True, report=report),
        7,
    )
    on = [line for line in capsys.readouterr().err.splitlines() if line.startswith("jnpl: resuming at")]
    assert len(on) == stops
    assert sum("(train)" in text for text in on) >= 2
    assert sum("(pseudo)" in text for text in on) >= 2
    expect_the_same(tmp_path / "war", calm, told, wanted)


class KilledError(Exception):
    """Nothing is written any more."""


@pytest.mark.parametrize("at", [1, 4, 6], ids=["filter", "end of filter", "pseudo"])
def test_killed_after_an_epoch(at, peace, tmp_path):
    """The checkpoint stands between two epochs, or between the two parts."""
    calm, changes, wanted = peace("image")

    def kill(view):
        if view.epoch == at:
            raise KilledError

    again = {"every": CheckpointInterval(epochs=1, seconds=None), "classify": True}
    with pytest.raises(KilledError):
        train(quick.data("image"), tmp_path / "war", *changes, **again, observe=kill)
    told = train(quick.data("image"), tmp_path / "war", *changes, **again)
    expect_the_same(tmp_path / "war", calm, told, wanted)


@posix
@pytest.mark.parametrize("gamma", ["clock", "agreement"])
def test_two_processes_are_as_one(gamma, pair, tmp_path):
    """Averaged weights, the look at the end, pseudo-labels; gamma by what both processes saw, or by the clock alone."""
    told = train_small(gamma, tmp_path / "one", devices=1)
    other = json.loads((pair / "fast" / gamma / "run.json").read_text())["results"]
    one, two = (
        load_parquet(run / "findings.parquet").to_pandas()["label_quality"]
        for run in (tmp_path / "one", pair / "fast" / gamma)
    )
    np.testing.assert_allclose(two, one, atol=1e-5)
    assert other["test_accuracy"] == told["test_accuracy"]


@posix
def test_two_processes_that_are_killed_go_on(pair):
    """What each had counted of its part of the epoch is not lost, nor counted twice: gamma hangs on it."""
    one, two = (
        load_parquet(pair / "fast" / name / "findings.parquet").to_pandas()["label_quality"]
        for name in ("agreement", KILLED)
    )
    np.testing.assert_array_equal(two, one)
