"""Stages, pseudo-labels, validation and scores of one's own: what the engine does between the loops."""

import json
import os
import signal
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.helpers import quick
from tests.helpers.marks import posix

from jnpl import Findings, noise
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import InputError, Interrupted, LearningError
from jnpl.judging import scoring
from jnpl.methods import registry
from jnpl.methods.base import Method, MethodSettings, Stage, StepOutput
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.load import load_recipe, parse_changes
from jnpl.training import checkpoint, run_callback, run_setup, session
from jnpl.training.reporting import Reporter

CHANGES = ("train.epochs=2", "train.batch_size=32", "train.lr=0.05", "engine.accelerator=cpu", "engine.workers=0")


def vectors(*, validation=False, samples=120):
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, samples)
    x = random.normal(size=(samples, 6)) + 2 * np.eye(6)[labels]
    held = {"x_val": x[:30], "y_val": labels[:30]} if validation else {}
    given = noise.symmetric(labels, 0.3, 3, seed=0)
    return from_arrays(x, given, y_true=labels, x_test=x[:40], y_test=labels[:40], **held)


def go(out, *changes, source=None, every=None, classify=True, report=None):
    recipe = load_recipe("small", parse_changes([*CHANGES, *changes]))
    every = every or CheckpointInterval(epochs=1, seconds=None)
    source = source or vectors()
    return run_recipe(
        source, recipe, out, seed=0, every=every, strict=False, report=report or Reporter(), classify=classify
    ).results


def lines_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]


class Staged(Method):
    """Three stages: one, one that goes on, one that is fresh; notes what it sees."""

    paper = "nobody"
    stages = (Stage("first"), Stage("second"), Stage("third", fresh=True))
    seen: list = []  # noqa: RUF012 - one run at a time

    class Settings(MethodSettings):
        name: str = "staged"

    def __init__(self, task, settings):
        super().__init__(task)
        self.register_buffer("state", torch.zeros(len(task.labels)))
        self.first = [build.clone() for build in task.build(2).parameters()]

    def begin_stage(self, training_set):
        weight = next(self.model.parameters()).detach().clone()
        self.seen.append(("stage", self.stage, weight, training_set.history().clone(), training_set.logits(self.model)))

    def begin_epoch(self, training_set):
        self.seen.append(("epoch", self.stage, self.epoch, self.epochs, next(self.model.parameters()).detach().clone()))

    def step(self, batch):
        self.state[batch.index] += 1
        logits = self.model(batch.inputs)
        quality = torch.full((len(batch.labels),), 0.25 + 0.25 * self.stage)
        loss = torch.nn.functional.cross_entropy(logits, batch.labels)
        return StepOutput(loss, logits, {}, quality if self.stage else None)


@pytest.fixture
def staged(monkeypatch):
    monkeypatch.setitem(registry.METHODS, "staged", Staged)
    Staged.seen = []
    return Staged


def test_stages_one_after_another(staged, tmp_path):
    changes = ("method.name=staged", "stages.second.epochs=1", "stages.third.epochs=3", "stages.third.batch_size=16")
    told = go(tmp_path / "run", *changes)
    assert told["epochs"] == 6
    lines = lines_of(tmp_path / "run")
    assert [line["stage"] for line in lines] == ["first"] * 2 + ["second"] + ["third"] * 3
    assert [line["epoch"] for line in lines] == list(range(6))
    epochs = [event[1:4] for event in staged.seen if event[0] == "epoch"]
    assert epochs == [(0, 0, 2), (0, 1, 2), (1, 0, 1), (2, 0, 3), (2, 1, 3), (2, 2, 3)]
    second, third = (event for event in staged.seen if event[0] == "stage")
    assert (second[1], third[1]) == (1, 2)
    assert second[3].shape == second[4].shape == (120, 3)
    assert not second[3].isnan().any()
    weights = [event[4] for event in staged.seen if event[0] == "epoch"]
    assert weights[2].equal(second[2])  # the second stage goes on with the weights
    assert not weights[3].equal(third[2])  # begin_stage saw the old ones, the third has new ones
    # The score is the method's own, the mean over the last epochs of the fresh network: 0.75 in the third stage.
    assert Findings.load(tmp_path / "run").label_quality.tolist() == [0.75] * 120
    assert told["best_test_accuracy"] == max(line["test_accuracy"] for line in lines[3:])


def test_a_fresh_stage_begins_with_network_of_its_number(staged, tmp_path, monkeypatch):
    made = []
    real = registry.make

    def make(task, settings):
        method = real(task, settings)
        made.append((task, method))
        return method

    monkeypatch.setattr(session.registry, "make", make)
    go(tmp_path / "run", "method.name=staged", "stages.third.epochs=1")
    task, _ = made[0]
    started = [event[4] for event in staged.seen if event[0] == "epoch"][-1]
    assert started.equal(next(task.build(2).parameters()))
    assert not started.equal(next(task.build(0).parameters()))


@pytest.mark.parametrize("steps", [3, 4, 7])
@pytest.mark.parametrize("name", ["staged", "jnpl", "nlnl"])
def test_every_stage_resumes_exactly(staged, tmp_path, monkeypatch, name, steps):
    """Stopped again and again, inside and at the ends of stages and of the steps with pseudo-labels."""
    source = vectors()
    extra = ("method.name=nlnl", "method.complements=exhaustive") if name == "nlnl" else (f"method.name={name}",)
    never = CheckpointInterval(epochs=None, seconds=None)
    wanted = go(tmp_path / "peace", *extra, source=source, every=never)
    told, stops = quick.stopped_and_resumed(
        lambda report: go(tmp_path / "war", *extra, source=source, every=never, report=report), steps
    )
    assert stops >= 2
    ignored = ("run", "seconds")
    assert {k: v for k, v in told.items() if k not in ignored} == {k: v for k, v in wanted.items() if k not in ignored}
    for file in ("model.safetensors", "findings.parquet"):
        assert (tmp_path / "war" / file).read_bytes() == (tmp_path / "peace" / file).read_bytes()
    assert lines_of(tmp_path / "war") == lines_of(tmp_path / "peace")


def test_jnpl_train_is_filter_and_pseudo_labels(tmp_path):
    source = vectors()
    told = go(tmp_path / "train", source=source)
    alone = go(tmp_path / "find", source=source, classify=False)
    assert (told["epochs"], alone["epochs"]) == (4, 2)
    assert told["filter_test_accuracy"] == alone["test_accuracy"]
    assert {"ap", "test_accuracy", "best_test_accuracy"} <= set(told)
    assert told["ap"] == alone["ap"]
    assert (tmp_path / "train/findings.parquet").read_bytes() == (tmp_path / "find/findings.parquet").read_bytes()
    assert (tmp_path / "train/model.safetensors").read_bytes() != (tmp_path / "find/model.safetensors").read_bytes()
    assert [line["stage"] for line in lines_of(tmp_path / "train")] == ["train"] * 2 + ["pseudo"] * 2


def test_the_predecessors_pseudo_labels_take_two_networks(tmp_path):
    go(
        tmp_path / "run",
        "pseudo.mode=nlnl",
        "pseudo.train.epochs=1",
        "pseudo.train.lr=0.1",
        "pseudo.class_weight=nlnl",
        "verdict.threshold=1/c",
    )
    assert [line["stage"] for line in lines_of(tmp_path / "run")] == ["train"] * 2 + ["pseudo-1", "pseudo-2"]


def test_methods_without_pseudo_labels_are_their_own_classifiers(tmp_path):
    told = go(tmp_path / "run", "method.name=ce")
    assert told["epochs"] == 2
    assert "filter_test_accuracy" not in told


def test_a_train_run_is_not_taken_for_a_find_run(tmp_path):
    source = vectors()
    go(tmp_path / "run", source=source)
    with pytest.raises(InputError, match="holds a run with pseudo-labels"):
        go(tmp_path / "run", source=source, classify=False)


def test_two_networks_are_told_apart_and_averaged(tmp_path):
    told = go(tmp_path / "run", "method.name=co-teaching", "method.noise_rate=oracle")
    one, two = told["test_accuracy_network_1"], told["test_accuracy_network_2"]
    assert told["test_accuracy"] == pytest.approx((one + two) / 2)
    assert lines_of(tmp_path / "run")[-1]["test_accuracy_network_1"] == one


class Chosen(Method):
    """Learns, then forgets: its last epoch is its worst."""

    paper = "nobody"
    stages = (Stage("train", select=True),)

    class Settings(MethodSettings):
        name: str = "chosen"

    def __init__(self, task, settings):
        super().__init__(task)

    def step(self, batch):
        logits = self.model(batch.inputs)
        loss = torch.nn.functional.cross_entropy(logits, batch.labels)
        return StepOutput(loss if self.epoch < 3 else -loss, logits, {})


@pytest.mark.parametrize("validation", [True, False])
def test_the_best_weights_on_validation_data_are_kept(tmp_path, monkeypatch, capsys, validation):
    monkeypatch.setitem(registry.METHODS, "chosen", Chosen)
    source = vectors(validation=validation)
    made = []
    real = run_callback.accuracy
    monkeypatch.setattr(run_callback, "accuracy", lambda *args: made.append(real(*args)) or made[-1])
    changes = ("method.name=chosen", "train.epochs=5", "train.lr=0.3")
    told = go(tmp_path / "run", *changes, source=source)
    lines = lines_of(tmp_path / "run")
    assert lines[-1]["test_accuracy"] < max(line["test_accuracy"] for line in lines)  # it did forget
    from safetensors.torch import load_file

    from jnpl.models.build import build

    net = build("mlp", num_classes=3, input_shape=(6,), seed=1)
    net.load_state_dict(load_file(tmp_path / "run/model.safetensors"))
    x = torch.from_numpy(source.inputs.values)
    shown = ((x - x.mean(0)) / x.std(0, unbiased=False))[:30]
    accuracy = (net(shown).argmax(1).numpy() == source.true_labels[:30]).mean()
    if validation:
        best = max(line["validation_accuracy"] for line in lines)
        assert accuracy == pytest.approx(best)
        chosen = next(line for line in lines if line["validation_accuracy"] == best)
        assert told["test_accuracy"] == chosen["test_accuracy"]
        assert told["last_test_accuracy"] == lines[-1]["test_accuracy"]
    else:
        assert "no validation data to choose the best epoch" in capsys.readouterr().err
        assert "validation_accuracy" not in lines[-1]
        assert told["test_accuracy"] == lines[-1]["test_accuracy"]
        assert "last_test_accuracy" not in told
        assert accuracy < 0.5


def test_groups_share_a_given_label(tmp_path, monkeypatch):
    sizes = []

    class Grouped(Chosen):
        group_size = 4

        def step(self, batch):
            labels = batch.labels.tolist()
            runs = [labels[at : at + 4] for at in range(0, len(labels), 4)]
            sizes.append(sum(len(set(run)) == 1 for run in runs) / len(runs))
            return super().step(batch)

    monkeypatch.setitem(registry.METHODS, "chosen", Grouped)
    go(tmp_path / "run", "method.name=chosen")
    assert np.mean(sizes) > 0.6  # a class's last group is smaller and moves those behind it


def test_pseudo_settings_fill_each_other_in(tmp_path):
    go(tmp_path / "run", "pseudo.soft=false", "train.epochs=1")
    saved = json.loads((tmp_path / "run/run.json").read_text("utf-8"))["second"]
    assert (saved["mode"], saved["soft"], saved["by_class"], saved["plan"]["epochs"]) == ("paper", False, False, 1)
    told = go(
        tmp_path / "two",
        "method.name=nlnl",
        "method.complements=exhaustive",
        "train.epochs=1",
        "pseudo.train.epochs=2",
        "pseudo.train.lr=0.1",
        "verdict.threshold=1/c",
    )
    saved = json.loads((tmp_path / "two/run.json").read_text("utf-8"))["second"]
    assert (saved["mode"], saved["by_class"], told["epochs"]) == ("nlnl", True, 3 + 4)


def test_the_classifier_may_begin_with_the_filters_weights(tmp_path):
    source = vectors()
    still = ("pseudo.train.lr=1e-30", "pseudo.train.weight_decay=0", "pseudo.train.epochs=1")
    go(tmp_path / "find", source=source, classify=False)
    for name, *warm in (("warm", "pseudo.warm=true"), ("fresh",)):
        go(tmp_path / name, *still, *warm, source=source)
    found, warm, fresh = (load_file(tmp_path / name / "model.safetensors") for name in ("find", "warm", "fresh"))
    learnt = [name for name in found if name.endswith("weight")]
    assert all(warm[name].equal(found[name]) for name in learnt)
    assert not any(fresh[name].equal(found[name]) for name in learnt)


def test_the_second_part_may_be_longer(tmp_path):
    told = go(tmp_path / "run", "pseudo.stretch=1.5", "train.schedule=step", "train.milestones=[1]")
    saved = json.loads((tmp_path / "run/run.json").read_text("utf-8"))["second"]
    assert (told["epochs"], saved["plan"]["epochs"], saved["plan"]["milestones"]) == (2 + 3, 3, [2])


def test_other_files_are_there_before_a_run_is_finished(tmp_path):
    """A kill between them and "finished" would else leave a run that looks whole, and is not."""
    seen = []
    recipe = load_recipe("small", parse_changes(CHANGES))
    for _ in range(2):

        def complete():
            status = json.loads((tmp_path / "run" / "run.json").read_text())["status"]
            seen.append((status, (tmp_path / "run" / "model.json").is_file()))

        run_recipe(vectors(), recipe, tmp_path / "run", report=Reporter(), complete=complete)
    assert seen == [("running", True), ("finished", True)]


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_duplicates_are_searched_for_stops_at_once_and_the_run_resumes(tmp_path, number):
    recipe = load_recipe("small", parse_changes(CHANGES))

    def slow():
        os.kill(os.getpid(), number)
        pytest.fail("the signal was ignored")

    with pytest.raises(Interrupted, match="while duplicates were searched for; run the same command again") as stop:
        run_recipe(vectors(), recipe, tmp_path / "run", report=Reporter(), complete=slow)
    assert stop.value.code == 128 + number
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "running"
    run_recipe(vectors(), recipe, tmp_path / "run", report=Reporter())
    run_recipe(vectors(), recipe, tmp_path / "peace", report=Reporter())
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "finished"
    findings = [(tmp_path / name / "findings.parquet").read_bytes() for name in ("run", "peace")]
    assert findings[0] == findings[1]


@posix
def test_a_signal_while_labels_are_judged_stops_at_once_and_the_run_resumes(tmp_path, monkeypatch):
    peaceful = go(tmp_path / "peace", classify=False)
    judge = scoring.final_probs

    def slow(*args):
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("the signal was ignored")
        return judge(*args)

    monkeypatch.setattr(scoring, "final_probs", slow)
    with pytest.raises(Interrupted, match="while labels were judged; run the same command again") as stop:
        go(tmp_path / "run", classify=False)
    assert stop.value.code == 143
    monkeypatch.setattr(scoring, "final_probs", judge)
    again = go(tmp_path / "run", classify=False)
    assert {**again, "run": 0, "seconds": 0} == {**peaceful, "run": 0, "seconds": 0}
    findings = [(tmp_path / name / "findings.parquet").read_bytes() for name in ("run", "peace")]
    assert findings[0] == findings[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"phase": 99}, "does not fit this run"),
        ({"phase": -1}, "cannot be used: phase"),
        ({"epoch": "x"}, "cannot be used: epoch"),
        ({"optimizer": {}}, "does not fit this run"),
        ({"records": {"nothing": {}}}, "does not fit this run"),
        ({"records": 3}, "cannot be used: records"),
        ({"unreadable": {"x": "y"}}, "cannot be used: unreadable"),
        ({"seconds": None}, "cannot be used: seconds"),
    ],
)
def test_a_forged_checkpoint_is_refused(tmp_path, monkeypatch, change, message):
    with pytest.raises(Interrupted):
        stop_after(tmp_path / "run", monkeypatch)
    folder = tmp_path / "run" / "checkpoint"
    state, _ = checkpoint.load(folder)
    checkpoint.save(folder, checkpoint.State(state.tensors, {**state.facts, **change}))
    with pytest.raises(InputError, match=message):
        go(tmp_path / "run", classify=False)


def stop_after(out, monkeypatch):
    """Stop a run after its first step."""
    with monkeypatch.context() as patch:

        def stopped(self):
            self.stop_request.signal = signal.SIGTERM
            after(self)

        after = run_callback.RunCallback.after_step
        patch.setattr(run_callback.RunCallback, "after_step", stopped)
        go(out, classify=False)


def test_a_loss_that_is_not_finite_names_the_last_good_checkpoint(tmp_path, monkeypatch):
    with pytest.raises(
        LearningError, match=r"the loss is (nan|inf) in epoch 0, step \d+: try a smaller train.lr"
    ) as stop:
        go(tmp_path / "first", "train.lr=1e6", "method.name=ce", "train.epochs=40", classify=False)
    assert "checkpoint" not in str(stop.value)

    class Spoilt(Reporter):
        def epoch(self, line):
            if line["epoch"] == 1:
                spoilt.network.fill_(float("nan"))

    spoilt = SimpleNamespace(network=None)
    build = run_setup.build

    def built(*args, **kw):
        network = build(*args, **kw)
        spoilt.network = next(network.parameters()).data
        return network

    monkeypatch.setattr(run_setup, "build", built)
    with pytest.raises(LearningError, match="epoch 2, step 0") as stop:
        go(tmp_path / "second", "train.epochs=4", classify=False, report=Spoilt())
    assert "the last good checkpoint is '" in str(stop.value)
