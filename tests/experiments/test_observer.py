"""Notes after every epoch: saved before checkpoints, and their time left out."""

import json
import os
import signal
from dataclasses import replace

import pytest
from tests.helpers.marks import posix

from jnpl.experiments import paper_variants
from jnpl.experiments import runner as run
from jnpl.experiments.features import Features
from jnpl.experiments.observer import Observer, Seconds
from jnpl.experiments.runner import train_run
from jnpl.experiments.scales import SCALES
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import Interrupted
from jnpl.methods.registry import METHODS
from jnpl.pipeline import CheckpointInterval
from jnpl.training.run_callback import RunCallback

IRIS = {"row": "ce", "data": "iris", "noise": "symm", "rate": 0.4, "epochs": 12, "batch_size": 32, "seed": 1}


TINY = {"data": "digits", "noise": "symm", "rate": 0.6, "seed": 1, "scale": "tiny"}
ALWAYS = CheckpointInterval(epochs=None, seconds=0.0)  # a checkpoint every step


@posix
def test_a_run_that_is_asked_to_stop_keeps_its_steps_and_their_time(tmp_path, monkeypatch, figures):
    spec, call = RunSpec(**{**IRIS, "epochs": 4}), Observer.__call__
    whole = train_run(spec, tmp_path / "whole", None)

    def stop(observer, session):
        call(observer, session)
        if observer.epochs == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Observer, "__call__", stop)
    with pytest.raises(Interrupted, match="epoch 2, step 1"):
        train_run(spec, tmp_path / "run", None)
    monkeypatch.setattr(Observer, "__call__", call)
    known = json.loads((tmp_path / "run" / "notes" / "000002.json").read_text())
    assert known["seconds"][1] > known["curve_seconds"][1]
    told = train_run(spec, tmp_path / "run", None)
    assert figures(told) == figures(whole)
    assert told["results"]["curve_seconds"][:2] == known["curve_seconds"]
    assert told["results"]["curve_seconds"][2] > known["seconds"][1]


def test_a_checkpoint_is_not_in_the_time(tmp_path, monkeypatch):
    """On a clock of one second a step and a hundred a checkpoint: the four epochs of four steps take 16 seconds."""
    save, step, spent = RunCallback.save, METHODS["gce"].step, [0.0]

    def slow(callback, position):
        save(callback, position)
        spent[0] += 100

    def counted(method, batch):
        spent[0] += 1
        return step(method, batch)

    monkeypatch.setattr(RunCallback, "save", slow)
    monkeypatch.setattr(METHODS["gce"], "step", counted)
    monkeypatch.setattr(Seconds, "now", lambda: Seconds(spent[0], spent[0]))
    told = train_run(RunSpec(**{**IRIS, "row": "gce", "epochs": 4}), tmp_path / "run", None)["results"]
    assert spent[0] == 4 * 100 + 16
    assert told["total_cpu_seconds"] == 16


def test_an_epoch_that_is_run_again_replaces_its_note(tmp_path, monkeypatch, timeless):
    """On a clock of one second a step, so that the time of a killed and resumed run is known exactly."""
    spec, save, trained = RunSpec(variant="nl-plus", **TINY), RunCallback.save, []
    step, steps = METHODS["jnpl"].step, []

    def counted(method, batch):
        steps.append(batch)
        return step(method, batch)

    monkeypatch.setattr(METHODS["jnpl"], "step", counted)
    monkeypatch.setattr(Seconds, "now", lambda: Seconds(2.0 * len(steps), float(len(steps))))
    whole = run.train_run(spec, tmp_path / "whole", None)

    def killed(callback, position):
        if position.step == 0:  # at the end of an epoch, after its notes
            trained.append(position.total)
            if len(trained) == 5:
                raise KeyboardInterrupt
        save(callback, position)

    monkeypatch.setattr(RunCallback, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        run.train_run(spec, tmp_path / "cut", None, ALWAYS)
    file = tmp_path / "cut/notes/000004.json"
    notes = json.loads(file.read_text())
    notes["each_epoch"][3]["ap"] = 0.123
    file.write_text(json.dumps({**notes, "seconds": [200.0, 100.0]}))
    last = json.loads((tmp_path / "cut/notes/000005.json").read_text())
    last["each_epoch"][4]["ap"] = 0.456
    (tmp_path / "cut/notes/000005.json").write_text(json.dumps(last))
    before = len(steps)
    again = run.train_run(spec, tmp_path / "cut", None, ALWAYS)
    assert trained[5:] == [*range(5, 13), 12]  # once more at the end, for a later `jnpl train`
    assert again["results"]["ap_curve"][3] == 0.123  # as the first process left it
    again["results"]["ap_curve"][3] = whole["results"]["ap_curve"][3]
    assert timeless(again) == timeless(whole)
    # All ten steps of the fifth epoch are in the checkpoint, not in the notes: seven epochs are left.
    assert len(steps) - before == 7 * 10
    assert whole["results"]["cpu_seconds"] == 12 * 10
    assert again["results"]["cpu_seconds"] == 100 + 7 * 10


def test_an_observer_that_pauses_saves_the_last_epoch_and_resumes(tmp_path, monkeypatch, timeless):
    monkeypatch.setattr(paper_variants, "TINY", paper_variants.TINY._replace(filter_epochs=6))
    monkeypatch.setattr(run, "SCALES", {"tiny": replace(SCALES["tiny"], features=Features())})
    saved = []
    save = Observer.save
    monkeypatch.setattr(Observer, "save", lambda self, *seconds: (saved.append(self.epochs), save(self, *seconds))[1])
    spec, work = RunSpec(variant="nl-plus", **TINY), tmp_path / "work"
    told = run.train_run(spec, work, None, CheckpointInterval(epochs=None, seconds=None))
    assert saved == [6]  # the run is shorter than the pause
    again = run.train_run(spec, work, None)  # as if the process had been killed before it wrote its result
    assert timeless(again) == timeless(told)
    assert saved == [6]
