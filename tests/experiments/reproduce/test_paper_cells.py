"""Cells that train, at scale tiny: what they note against plain arithmetic, and that a kill loses nothing."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score
from tests.helpers import forked

from jnpl.data.opening import open_source
from jnpl.experiments import cell_data as data
from jnpl.experiments import rows
from jnpl.experiments import runner as run
from jnpl.experiments.cell import Cell
from jnpl.experiments.confidence_figures import MOST, coordinates, mean_confidence, stage_facts
from jnpl.experiments.features import Features
from jnpl.experiments.observer import Observer, Seconds
from jnpl.experiments.reproduce.fig3 import PL_PLUS
from jnpl.experiments.reproduce.paper import METHODS as METHODS_OF_TABLE_1
from jnpl.experiments.reproduce.scales import SCALES, missing
from jnpl.internal import provenance
from jnpl.internal.errors import InputError, LearningError
from jnpl.methods.pseudo_label import PseudoLabel
from jnpl.methods.registry import METHODS
from jnpl.noise.class_maps import CIFAR100_SUPERCLASS
from jnpl.recipes.schema import parse_recipe
from jnpl.training.run import CheckpointInterval
from jnpl.training.session import Session

TINY = {"data": "digits", "noise": "symm", "rate": 0.6, "seed": 1, "scale": "tiny"}
LONG = 30  # epochs, so that a process cannot end before it is stopped
ALWAYS = CheckpointInterval(epochs=None, seconds=0.0)  # a checkpoint every step


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def timeless(told):
    """All but what another run of the same cell may change."""
    stages = {name: without_time(stage) for name, stage in told["stages"].items()}
    return {**told, "results": without_time(told["results"]), "stages": stages}


def noted(work):
    """The newest notes in a work folder."""
    return json.loads(max((work / "notes").glob("0*.json")).read_text())


def without_time(facts):
    return {key: value for key, value in facts.items() if key not in ("seconds", "cpu_seconds")}


def test_a_cell_says_what_it_was_made_from(tmp_path):
    cell = Cell(row="nlnl", **TINY)
    told = run.run_cell(cell, tmp_path / "work", None)
    source = data.load(cell, None)
    assert len(source) == 600
    assert told["noise_sha256"] == hashlib.sha256(source.labels.astype("<i8").tobytes()).hexdigest()
    assert told["data"]["realised_rate"] == pytest.approx(0.6, abs=0.01)
    assert (told["cell"], told["name"]) == (cell.model_dump(), cell.name)
    assert parse_recipe({**told["recipe"], "engine": {}}).method == cell.recipe().method
    plans = [cell.recipe().plan(name).epochs for name in ("nl", "selnl", "selpl")]
    results = told["results"]
    assert results["curve_stages"] == [["nl", plans[0]], ["selnl", plans[1]], ["selpl", plans[2]]]
    assert len(results["curve"]) == sum(plans)
    ends = np.cumsum(plans)
    for (name, stage), end in zip(told["stages"].items(), ends, strict=True):
        assert (name, stage["epoch"]) == (results["curve_stages"][list(ends).index(end)][0], end)
        assert stage["test_accuracy"] == pytest.approx(results["curve"][end - 1], abs=1e-4)
        assert sum(stage["clean"]["histogram"]) + sum(stage["noisy"]["histogram"]) == 600
        assert sum(stage["cat"]["clean"]["histogram"]) == ((source.labels == 3) & (source.true_labels == 3)).sum()
    assert results["ap"] == pytest.approx(told["stages"]["selpl"]["ap"], abs=1e-4)
    assert results["ap_clean"] == pytest.approx(told["stages"]["selpl"]["ap_clean"], abs=1e-4)
    assert results["test_accuracy"] == told["stages"]["selpl"]["test_accuracy"]
    assert {"torch", "numpy", "jnpl"} <= set(told["versions"])
    assert results["seconds"] > 0
    assert len(json.dumps(told, separators=(",", ":"))) < 60_000


@pytest.mark.parametrize(
    "variant", sorted({*METHODS_OF_TABLE_1, "nl", "nl-plus", "nl-plus-late", "jnpl-late", *PL_PLUS})
)
def test_every_variant_trains(tmp_path, monkeypatch, variant):
    few = rows.TINY._replace(filter_epochs=6, classify_epochs=2, fast_epochs=2)
    monkeypatch.setattr(rows, "TINY", few)
    classify = variant in METHODS_OF_TABLE_1
    told = run.run_cell(Cell(row=variant, **TINY, classify=classify), tmp_path / "work", None)
    results = told["results"]
    assert 0.05 < results["test_accuracy"] <= 1
    assert 0.5 < results["ap"] <= 1
    assert len(results["curve"]) == sum(epochs for _, epochs in results["curve_stages"])


def test_stage_facts_against_plain_loops():
    generator = np.random.default_rng(0)
    source = data.load(Cell(row="nlnl", **{**TINY, "noise": "asymm", "rate": 0.4}), None)
    probs = generator.dirichlet(np.ones(10), len(source))
    told = stage_facts(probs, source, seed=1, cat=3)
    own = [probs[at, label] for at, label in enumerate(source.labels)]
    other = [max(p for k, p in enumerate(row) if k != y) for row, y in zip(probs, source.labels, strict=True)]
    wrong = source.labels != source.true_labels
    assert told["ap"] == pytest.approx(average_precision_score(wrong, -np.array(own)), abs=1e-5)
    assert told["ap_clean"] == pytest.approx(average_precision_score(~wrong, own), abs=1e-5)
    assert told["auc"] == pytest.approx(roc_auc_score(~wrong, own), abs=1e-5)
    bins = [0] * 20
    for p, is_wrong in zip(own, wrong, strict=True):
        if is_wrong:
            bins[min(int(p * 20), 19)] += 1
    assert told["noisy"]["histogram"] == bins
    assert told["clean"]["mean"] == pytest.approx(
        np.mean([p for p, w in zip(own, wrong, strict=True) if not w]), abs=1e-5
    )
    assert len(told["clean"]["p_y"]) == MOST < (~wrong).sum()  # no more than so many points
    assert len(told["noisy"]["p_y"]) == wrong.sum() < MOST
    pairs = {(round(1000 * a), round(1000 * b)) for a, b in zip(own, other, strict=True)}
    kept = zip(told["clean"]["p_y"], told["clean"]["p_other"], strict=True)
    assert sum(pair in pairs for pair in kept) >= MOST - 2  # halves may round either way
    assert told["cat"]["samples"] == (source.labels == 3).sum()
    assert stage_facts(probs, source, seed=1, cat=3) == told
    np.testing.assert_allclose(coordinates(probs, source.labels)[1], other)


def test_a_run_that_is_killed_after_a_stage_goes_on_with_its_facts(tmp_path, monkeypatch):
    cell = Cell(row="nlnl", **TINY)
    whole = run.run_cell(cell, tmp_path / "whole", None)
    look = Observer.__call__

    def killed(self, view):
        look(self, view)
        if view.phase.name == "selnl" and view.phase_epoch == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Observer, "__call__", killed)
        with pytest.raises(KeyboardInterrupt):
            run.run_cell(cell, tmp_path / "cut", None, ALWAYS)
    assert list(noted(tmp_path / "cut")["stages"]) == ["nl"]
    assert any((tmp_path / "cut/train/checkpoint").iterdir())
    assert timeless(run.run_cell(cell, tmp_path / "cut", None, ALWAYS)) == timeless(whole)


def test_notes_of_epochs_against_plain_arithmetic(tmp_path, monkeypatch):
    cell, seen = Cell(row="jnpl", **TINY, classify=True), []
    look = Observer.__call__

    def watched(self, view):
        look(self, view)
        if not view.phase.pseudo:
            seen.append((view.ledger.quality(self.figures.source.labels), view.line["selected"]))

    monkeypatch.setattr(Observer, "__call__", watched)
    told = run.run_cell(cell, tmp_path / "work", None)
    source, results = data.load(cell, None), told["results"]
    wrong = source.labels != source.true_labels
    assert len(seen) == 12
    for epoch, (quality, selected) in enumerate(seen):
        assert results["ap_curve"][epoch] == pytest.approx(average_precision_score(wrong, -quality), abs=1e-5)
        assert results["right_curve"][epoch] == pytest.approx(quality[~wrong].mean(), abs=1e-5)
        assert results["wrong_curve"][epoch] == pytest.approx(quality[wrong].mean(), abs=1e-5)
        assert results["selected_curve"][epoch] == pytest.approx(selected, abs=1e-4)
    assert {len(results[f"{name}_curve"]) for name in ("ap", "right", "wrong", "selected")} == {12}
    assert results["ap_curve"][-1] == pytest.approx(told["stages"]["train"]["ap"], abs=1e-4)
    notes = noted(tmp_path / "work")
    assert len(notes["each_epoch"]) == notes["epochs"] == 12 + 4
    assert list(notes["each_epoch"][15]) == ["stage", "test_accuracy"]  # nothing of the labels with pseudo-labels
    assert 0 < notes["seconds"][1] <= results["cpu_seconds"] + 0.05
    assert told["engine"] == {"accelerator": "cpu", "precision": "32"}
    assert "engine" not in cell.content()["recipe"]


def test_what_is_not_known_of_an_epoch_is_not_told(tmp_path):
    told = run.run_cell(Cell(row="ce", **TINY), tmp_path / "noisy", None)["results"]
    assert told["selected_curve"] is None
    assert len(told["ap_curve"]) == len(told["curve"]) == 4
    clean = Cell(row="nl-plus", **{**TINY, "noise": "none", "rate": 0.0})
    told = run.run_cell(clean, tmp_path / "clean", None)
    assert [told["results"][f"{name}_curve"] for name in ("ap", "right", "wrong")] == [None] * 3
    source = data.load(Cell(row="ce", **TINY), None)
    quality = np.full(len(source), 0.5, np.float32)
    assert mean_confidence(quality, replace(source, true_labels=None)) == {}
    quality[source.labels != source.true_labels] = np.nan  # never seen, all of them
    assert mean_confidence(quality, source) == {"ap": None, "right": 0.5, "wrong": None}


def test_an_epoch_that_is_run_again_replaces_its_note(tmp_path, monkeypatch):
    """On a clock of one second a step, so that the time of a killed and resumed cell is known exactly."""
    cell, save, trained = Cell(row="nl-plus", **TINY), Session._save, []
    step, steps = METHODS["jnpl"].step, []

    def counted(method, batch):
        steps.append(batch)
        return step(method, batch)

    monkeypatch.setattr(METHODS["jnpl"], "step", counted)
    monkeypatch.setattr(Seconds, "now", lambda: Seconds(2.0 * len(steps), float(len(steps))))
    whole = run.run_cell(cell, tmp_path / "whole", None)

    def killed(session, position):
        if position.step == 0:  # at the end of an epoch, after its notes
            trained.append(position.total)
            if len(trained) == 5:
                raise KeyboardInterrupt
        save(session, position)

    monkeypatch.setattr(Session, "_save", killed)
    with pytest.raises(KeyboardInterrupt):
        run.run_cell(cell, tmp_path / "cut", None, ALWAYS)
    file = tmp_path / "cut/notes/000004.json"
    notes = json.loads(file.read_text())
    notes["each_epoch"][3]["ap"] = 0.123
    file.write_text(json.dumps({**notes, "seconds": [200.0, 100.0]}))
    last = json.loads((tmp_path / "cut/notes/000005.json").read_text())
    last["each_epoch"][4]["ap"] = 0.456
    (tmp_path / "cut/notes/000005.json").write_text(json.dumps(last))
    before = len(steps)
    again = run.run_cell(cell, tmp_path / "cut", None, ALWAYS)
    assert trained[5:] == [*range(5, 13), 12]  # once more at the end, for a later `jnpl train`
    assert again["results"]["ap_curve"][3] == 0.123  # as the first process left it
    again["results"]["ap_curve"][3] = whole["results"]["ap_curve"][3]
    assert timeless(again) == timeless(whole)
    # All ten steps of the fifth epoch are in the checkpoint, not in the notes: seven epochs are left.
    assert len(steps) - before == 7 * 10
    assert whole["results"]["cpu_seconds"] == 12 * 10
    assert again["results"]["cpu_seconds"] == 100 + 7 * 10


def other_versions(patch):
    patch.setattr("jnpl.internal.provenance.versions", lambda: {"torch": "9.9.9"})


def other_data(patch):
    load = data.load

    def rolled(cell, root):
        source = load(cell, root)
        return replace(source, labels=np.roll(source.labels, 1))

    patch.setattr(data, "load", rolled)


def other_name(patch):
    patch.setattr(rows, "TINY", rows.TINY._replace(filter_lr=0.05))


@pytest.mark.parametrize("change", [None, other_versions, other_data, other_name])
def test_a_killed_cell_begins_anew_where_it_is_not_the_same(tmp_path, monkeypatch, change):
    cell, work, looks = Cell(row="nlnl", **TINY), tmp_path / "work", []
    look = Observer.__call__

    def watched(self, view):
        looks.append(view.epoch)
        if len(looks) == 6:  # in the second stage, before it is noted
            raise KeyboardInterrupt
        look(self, view)

    monkeypatch.setattr(Observer, "__call__", watched)
    monkeypatch.setattr("jnpl.internal.provenance.commit", lambda: "first")
    with pytest.raises(KeyboardInterrupt):
        run.run_cell(cell, work, None, ALWAYS)
    assert looks == list(range(6))
    before = noted(work)
    before["stages"]["nl"]["process"] = "first"
    (work / "notes/000005.json").write_text(json.dumps(before))
    monkeypatch.setattr("jnpl.internal.provenance.commit", lambda: "second")
    if change is not None:
        change(monkeypatch)
    told = run.run_cell(cell, work, None, ALWAYS)
    if change is None:  # the epoch in which it was killed is the one that it goes on with
        assert looks[6:] == list(range(5, 12))
        assert told["commit"] == "first, second"
        assert told["stages"]["nl"]["process"] == "first"
    else:
        assert looks[6:] == list(range(12))
        assert told["commit"] == "second"
        assert "process" not in told["stages"]["nl"]
    assert list(told["stages"]) == ["nl", "selnl", "selpl"]
    same = json.loads((work / "same.json").read_text())
    assert (same["same"]["name"], same["same"]["versions"]) == (cell.name, provenance.versions())
    assert same["same"]["data"] == data.load(cell, None).fingerprint()
    assert told["name"] == cell.name


@pytest.mark.parametrize(("place", "device"), [(None, "cpu"), ("auto", "cuda")])
def test_a_cell_trains_where_the_grid_has_a_place_for_it(tmp_path, monkeypatch, place, device):
    monkeypatch.delenv("JNPL_BENCH_ACCELERATOR", raising=False)
    if place is not None:
        monkeypatch.setenv("JNPL_BENCH_ACCELERATOR", place)
    find, seen = run.find, []

    def placed(source, recipe, *args, **options):
        seen.append(recipe.engine.accelerator)
        engine = recipe.engine.model_copy(update={"accelerator": "cpu"})
        told = find(source, recipe.model_copy(update={"engine": engine}), *args, **options)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # from here on there is a GPU
        return told

    monkeypatch.setattr(run, "find", placed)
    cell = Cell(row="ce", **TINY)
    told = run.run_cell(cell, tmp_path / "work", None)
    assert seen == [place or "cpu"]
    assert (told["device"], told["name"]) == (device, cell.name)  # and is the same cell


def run_long(args):
    """Run a cell of many epochs, none of them quick, in a process of its own."""
    rows.TINY = rows.TINY._replace(filter_epochs=LONG)
    look = Observer.__call__
    Observer.__call__ = lambda self, view: (time.sleep(0.1), look(self, view))
    return run.main(args)


def test_a_process_that_is_stopped_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rows, "TINY", rows.TINY._replace(filter_epochs=LONG))
    cell = Cell(row="nl-plus", **TINY)
    (tmp_path / "cell.json").write_text(cell.model_dump_json())
    args = [str(tmp_path / "cell.json")]
    process = forked.start(tmp_path.with_suffix(".said"), run_long, args)
    log = tmp_path / "run/train/metrics.jsonl"
    try:
        limit = time.monotonic() + 1800
        while not forked.has_written(log) and process.is_alive() and time.monotonic() < limit:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGTERM)
        process.join(600)
        assert process.exitcode == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert not (tmp_path / "result.json").exists()
    done = len(log.read_text().splitlines())
    assert 0 < done < LONG
    capsys.readouterr()
    assert run.main(args) == 0
    assert "resuming at epoch" in capsys.readouterr().err
    told = json.loads((tmp_path / "result.json").read_text())
    assert len(told["results"]["curve"]) == LONG
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cell.json", "result.json"]


def test_a_classifier_follows_and_is_tested_after_its_last_epoch(tmp_path):
    cell = Cell(row="jnpl", **{**TINY, "rate": 0.2}, classify=True)
    told = run.run_cell(cell, tmp_path / "work", None)
    names = [name for name, _ in told["results"]["curve_stages"]]
    assert names == ["train", "pseudo"]
    assert list(told["stages"]) == names
    assert "ap" not in told["stages"]["pseudo"]
    assert told["results"]["test_accuracy"] == told["stages"]["pseudo"]["test_accuracy"]
    assert told["results"]["filter_test_accuracy"] == told["stages"]["train"]["test_accuracy"]
    assert told["results"]["second_part"] is None


def test_a_filter_that_keeps_nothing_is_told_and_not_lost(tmp_path, monkeypatch):
    make = rows._MAKERS["nlnl"]
    monkeypatch.setitem(rows._MAKERS, "nlnl", lambda plan: {**make(plan), "verdict": {"threshold": 0.999_999}})
    told = run.run_cell(Cell(row="nlnl", **TINY, classify=True), tmp_path / "work", None)
    assert told["results"]["second_part"].startswith("no label was kept")
    assert told["results"]["test_accuracy"] is None
    assert told["results"]["ap"] is not None
    assert told["results"]["filter_test_accuracy"] == told["stages"]["selpl"]["test_accuracy"]
    assert list(told["stages"]) == ["nl", "selnl", "selpl"]
    assert told["results"]["seconds"] == told["stages"]["selpl"]["seconds"] > 0


def broken_from(epoch, method, monkeypatch):
    """The loss of a method is no number from an epoch on."""
    step = method.step

    def broken(self, batch):
        output = step(self, batch)
        return output._replace(loss=output.loss * np.nan) if self.epoch >= epoch else output

    monkeypatch.setattr(method, "step", broken)


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_classifier_that_breaks_is_told_and_its_filter_not_lost(tmp_path, monkeypatch, epoch):
    broken_from(epoch, PseudoLabel, monkeypatch)
    told = run.run_cell(Cell(row="jnpl", **TINY, classify=True), tmp_path / "work", None)
    assert told["results"]["second_part"].startswith(f"the loss is nan in epoch {12 + epoch}")
    assert told["results"]["test_accuracy"] is None
    assert told["results"]["filter_test_accuracy"] == told["stages"]["train"]["test_accuracy"]
    assert told["results"]["seconds"] > 0


def test_a_filter_that_breaks_has_no_results(tmp_path, monkeypatch):
    broken_from(1, METHODS["jnpl"], monkeypatch)
    with pytest.raises(LearningError, match="the loss is nan in epoch 1"):
        run.run_cell(Cell(row="jnpl", **TINY, classify=True), tmp_path / "work", None)


def test_what_else_is_wrong_in_the_second_part_is_no_result(tmp_path, monkeypatch):
    def refused(*_args, **_options):
        raise InputError("the weights are of another network")

    monkeypatch.setattr("jnpl.training.pseudo_labels.targets", refused)
    with pytest.raises(InputError, match="the weights are of another network") as caught:
        run.run_cell(Cell(row="jnpl", **TINY, classify=True), tmp_path / "work", None)
    assert not isinstance(caught.value, LearningError)


def test_the_last_epoch_is_tested_on_all_images(tmp_path, monkeypatch):
    scale = SCALES["tiny"]
    few = type(scale)(**{**vars(scale), "curve_images": 50})
    monkeypatch.setitem(SCALES, "tiny", few)
    told = run.run_cell(Cell(row="ce", **TINY), tmp_path / "work", None)
    assert (told["data"]["curve_test_samples"], told["data"]["test_samples"]) == (50, 397)
    accuracy = told["results"]["test_accuracy"]
    assert accuracy * 397 == pytest.approx(round(accuracy * 397), abs=1e-6)
    assert told["results"]["curve"][-1] * 50 == pytest.approx(round(told["results"]["curve"][-1] * 50), abs=1e-6)


def test_wrong_input_of_a_process_is_one_line(tmp_path, capsys):
    cell = Cell(row="jnpl", **{**TINY, "data": "cifar10", "scale": "small"})
    (tmp_path / "cell.json").write_text(cell.model_dump_json())
    (root := tmp_path / "data/cifar-10-batches-bin").mkdir(parents=True)
    (root / "test_batch.bin").write_bytes(b"")
    assert run.main([str(tmp_path / "cell.json"), "--data-root", str(root.parent)]) == 2
    assert capsys.readouterr().err.startswith("InputError: CIFAR-10 is incomplete")


def test_the_noise_is_the_papers():
    whole = open_source("digits")
    symm = data.load(Cell(row="ce", **TINY), None)
    assert (symm.true_labels == whole.labels[:600]).all()
    asymm = data.load(Cell(row="ce", **{**TINY, "noise": "asymm", "rate": 0.4}), None)
    moved = asymm.labels != asymm.true_labels
    assert set(asymm.true_labels[moved]) == {9, 2, 4, 3, 5}
    assert set(zip(asymm.true_labels[moved], asymm.labels[moved], strict=True)) == {
        (9, 1),
        (2, 0),
        (4, 7),
        (3, 5),
        (5, 3),
    }


def test_cifar100_runs_the_same_code(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    (folder := tmp_path / "data/cifar-100-binary").mkdir(parents=True)
    for name, each in (("train.bin", 5), ("test.bin", 1)):
        fine = np.tile(np.arange(100, dtype=np.uint8), each)
        records = generator.integers(256, size=(len(fine), 2 + 3 * 32 * 32), dtype=np.uint8)
        records[:, 0], records[:, 1] = 0, fine
        (folder / name).write_bytes(records.tobytes())
    assert "cifar100" not in missing(SCALES["small"], folder.parent)
    monkeypatch.setattr(rows, "SMALL", rows.SMALL._replace(filter_epochs=3, classify_epochs=1))
    cell = Cell(row="nlnl", data="cifar100", noise="asymm", rate=0.4, seed=1, scale="small", classify=True)
    told = run.run_cell(cell, tmp_path / "work", folder.parent)
    assert (told["data"]["classes"], told["data"]["samples"]) == (100, 500)
    assert told["data"]["realised_rate"] == pytest.approx(0.4)
    assert "cat" not in told["stages"]["nl"]
    source = data.load(cell, folder.parent)
    assert source.inputs.values.shape[1:] == (16, 16, 3)
    moved = source.labels != source.true_labels
    groups = np.array(CIFAR100_SUPERCLASS)
    assert (groups[source.labels[moved]] == groups[source.true_labels[moved]]).all()


def test_missing_data_say_how_to_get_them(tmp_path):
    told = missing(SCALES["small"], tmp_path)
    assert "cifar-100-binary.tar.gz" in told["cifar100"]
    assert "https://" in told["cifar100"]
    assert "is not part of scale small" in told["clothing1m"]
    told = missing(SCALES["paper"], tmp_path)
    assert "ask its authors" in told["clothing1m"]
    assert "not part of scale tiny" in missing(SCALES["tiny"], tmp_path)["cifar100"]


def test_an_observer_that_pauses_saves_the_last_epoch_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "TINY", rows.TINY._replace(filter_epochs=6))
    monkeypatch.setattr(run, "SCALES", {"tiny": replace(SCALES["tiny"], features=Features())})
    saved = []
    save = Observer.save
    monkeypatch.setattr(Observer, "save", lambda self, *seconds: (saved.append(self.epochs), save(self, *seconds))[1])
    cell, work = Cell(row="nl-plus", **TINY), tmp_path / "work"
    told = run.run_cell(cell, work, None, CheckpointInterval(epochs=None, seconds=None))
    assert saved == [6]  # the run is shorter than the pause
    again = run.run_cell(cell, work, None)  # as if the process had been killed before it wrote its result
    assert timeless(again) == timeless(told)
    assert saved == [6]
