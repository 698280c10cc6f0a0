"""The loop of a head with its siblings: as the general loop, resumable, and without waiting for a GPU."""

from unittest import mock

import numpy as np
import pytest
import torch

from jnpl import noise
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import Interrupted, LearningError
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.automatic import adapt_recipe
from jnpl.training import heads as training_heads
from jnpl.training import session as sessions
from jnpl.training.reporting import Reporter
from jnpl.training.run_callback import RunCallback

QUICK = {"engine.accelerator": "cpu", "train.epochs": 3, "stages.refine.epochs": 2, "train.batch_size": 128}


def vectors(samples=2560, classes=4, apart=2.0):
    random = np.random.default_rng(0)
    labels = random.integers(0, classes, samples)
    x = (random.normal(size=(samples, 128)) + apart * np.eye(128)[labels]).astype(np.float32)
    given = noise.symmetric(labels, 0.2, classes, seed=0)
    return from_arrays(x, given, y_true=labels, x_test=x[:100], y_test=labels[:100])


def find(source, out=None, report=None, **changes):
    recipe = adapt_recipe(source, None, None, {**QUICK, **changes}).recipe
    every = CheckpointInterval(epochs=None, seconds=None)
    return run_recipe(source, recipe, out, seed=0, every=every, report=report or Reporter())


@pytest.mark.parametrize("classes", [4, 12])  # with twelve, cross-entropy fades by what is counted
def test_trains_the_weights_of_the_general_loop(monkeypatch, classes):
    plan = {"train.schedule": "constant", "method.refine": False, "verdict.calibrate": False}
    source = vectors(classes=classes)
    fast = find(source, **plan)
    monkeypatch.setattr(training_heads, "_is_plain", lambda phase: False)
    slow = find(source, **plan)
    for fast_weight, slow_weight in zip(fast.model.network.parameters(), slow.model.network.parameters(), strict=True):
        torch.testing.assert_close(fast_weight, slow_weight, atol=1e-4, rtol=1e-3)
    assert fast.results["test_accuracy"] == slow.results["test_accuracy"]


def test_a_stopped_run_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    source, steps = vectors(), 0
    whole = find(source, tmp_path / "whole")
    step = RunCallback.after_step

    def stop_now_and_then(self):
        nonlocal steps
        steps += 1
        self.stop_request.signal = 15 if steps in (2, 5, 9, 12) else 0  # of three steps an epoch, fifteen in all
        step(self)

    monkeypatch.setattr(RunCallback, "after_step", stop_now_and_then)
    for _ in range(4):
        with pytest.raises(Interrupted):
            find(source, tmp_path / "stopped")
    resumed = find(source, tmp_path / "stopped")
    assert steps == 15
    np.testing.assert_array_equal(resumed.findings.label_quality, whole.findings.label_quality)
    assert resumed.findings.noise == whole.findings.noise
    assert [line["loss"] for line in resumed.history] == [line["loss"] for line in whole.history]


def test_reads_no_number_within_an_epoch(monkeypatch):
    """On a GPU every `.item()` waits for all that was asked for before."""
    reads, steps, train = [], [], training_heads.train_heads

    def counted(*args):
        def read(tensor):
            reads.append(len(steps))
            return original(tensor)

        original = torch.Tensor.item
        with mock.patch.object(torch.Tensor, "item", read):
            train(*args)

    after_step = RunCallback.after_step
    monkeypatch.setattr(RunCallback, "after_step", lambda self: (steps.append(1), after_step(self)))
    monkeypatch.setattr(sessions, "train_heads", counted)
    find(vectors(classes=12))
    assert len(steps) == 5 * 3  # blocks
    assert set(reads) <= {0, 3, 6, 9, 12, 15}  # at the ends of epochs alone


def test_a_loss_that_is_not_finite_is_an_error():
    with pytest.raises(LearningError, match=r"the loss is nan in epoch 0: try a smaller train\.lr"):
        find(vectors(), **{"train.lr": 1e30})


def test_the_noise_rate_comes_from_what_the_siblings_predict():
    result = find(vectors(apart=5.0), **{"train.epochs": 20, "stages.refine.epochs": 10})
    assert abs(result.findings.noise_rate - 0.2) < 0.03
