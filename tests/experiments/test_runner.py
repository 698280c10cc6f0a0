"""One run: what it says of itself, and that a kill loses nothing."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from jnpl.experiments import paper_variants
from jnpl.experiments import run_data as data
from jnpl.experiments import runner as run
from jnpl.experiments.observer import Observer
from jnpl.experiments.paper import METHODS as METHODS_OF_TABLE_1
from jnpl.experiments.reproduce.fig3 import PL_PLUS
from jnpl.experiments.runner import train_run
from jnpl.experiments.scales import SCALES
from jnpl.experiments.spec import RunSpec
from jnpl.internal import provenance
from jnpl.internal.errors import LearningError
from jnpl.methods.registry import METHODS
from jnpl.pipeline import CheckpointInterval
from jnpl.recipes.schema import parse_recipe
from jnpl.training.run_callback import RunCallback

IRIS = {"row": "ce", "data": "iris", "noise": "symm", "rate": 0.4, "epochs": 12, "batch_size": 32, "seed": 1}


class Killed(BaseException):
    """Stands for a SIGKILL, which nobody can catch."""


TINY = {"data": "digits", "noise": "symm", "rate": 0.6, "seed": 1, "scale": "tiny"}
LONG = 30  # epochs, so that a process cannot end before it is stopped
ALWAYS = CheckpointInterval(epochs=None, seconds=0.0)  # a checkpoint every step


def noted(work):
    """The newest notes in a work folder."""
    return json.loads(max((work / "notes").glob("0*.json")).read_text())


def other_versions(patch):
    patch.setattr("jnpl.internal.provenance.versions", lambda: {"torch": "9.9.9"})


def other_data(patch):
    load = data.load

    def rolled(spec, root):
        source = load(spec, root)
        return replace(source, labels=np.roll(source.labels, 1))

    patch.setattr(data, "load", rolled)


def other_name(patch):
    patch.setattr(paper_variants, "TINY", paper_variants.TINY._replace(filter_lr=0.05))


def broken_from(epoch, method, monkeypatch):
    """The loss of a method is no number from an epoch on."""
    step = method.step

    def broken(self, batch):
        output = step(self, batch)
        return output._replace(loss=output.loss * np.nan) if self.epoch >= epoch else output

    monkeypatch.setattr(method, "step", broken)


def test_a_run_notes_settings_and_results(tmp_path):
    spec = RunSpec(**{**IRIS, "epochs": 4})
    told = train_run(spec, tmp_path / "run", None)
    assert told == json.loads(json.dumps(told, allow_nan=False))
    assert RunSpec(**told["cell"]) == spec
    assert told["recipe"]["train"]["lr"] == 0.1
    assert (told["data"]["samples"], told["data"]["test_samples"]) == (112, 38)
    source = data.load(spec, None)
    assert told["data"]["realised_rate"] == (source.labels != source.true_labels).mean()
    assert {"jnpl", "torch", "python"} <= set(told["versions"])
    results = told["results"]
    assert results["ap"] == pytest.approx(results["ap_curve"][-1], abs=1e-6)
    assert results["ap_peak"] == max(results["ap_curve"])
    assert results["ap_curve"][results["ap_epoch"] - 1] == results["ap_peak"]
    assert results["filter_test_accuracy"] == results["test_accuracy"] == results["test_curve"][-1]
    assert 0 < results["cpu_seconds"] <= results["total_cpu_seconds"]
    assert len(results["curve_seconds"]) == 4
    assert 0 < results["aum_ap"] <= 1
    again = train_run(spec, tmp_path / "run", None)  # where a killed one lay
    assert again["results"]["ap_curve"] == results["ap_curve"]
    assert again["noise_sha256"] == told["noise_sha256"]


@pytest.mark.parametrize(
    ("row", "epochs", "kills"),
    [
        ("ce", 6, [(1, "before"), (4, "after"), (6, "after")]),  # margins are sums; after the last epoch too
        ("fast", 8, [(2, "before"), (4, "after")]),  # its score takes passes of its own, every third epoch
        ("nlnl", 4, [(2, "after"), (3, "before"), (5, "after"), (6, "before")]),  # three stages, twice pseudo-labels
    ],
)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch, row, epochs, kills, figures):
    spec = RunSpec(**{**IRIS, "row": row, "epochs": epochs, "rate": 0.2})
    save, notes, seen, total = RunCallback.save, tmp_path / "run" / "notes", [], []
    monkeypatch.setattr(RunCallback, "save", lambda _callback, position: total.append(position.total))
    whole = train_run(spec, tmp_path / "whole", None)
    for epoch, when in kills:

        def until(callback, position, *, epoch=epoch, when=when):
            if position.total != epoch or when == "after":
                save(callback, position)
            if position.total == epoch:
                raise Killed

        monkeypatch.setattr(RunCallback, "save", until)
        with pytest.raises(Killed):
            train_run(spec, tmp_path / "run", None)
        seen.append(json.loads((notes / f"{epoch:06d}.json").read_text()))
    trained = []
    monkeypatch.setattr(RunCallback, "save", lambda callback, position: trained.append(position.total))
    told = train_run(spec, tmp_path / "run", None)
    assert figures(told) == figures(whole)
    last, when = kills[-1]
    assert trained == total[last - (when == "before") :]  # nothing else was trained again
    for known, (_, when) in zip(seen, kills, strict=True):
        kept = len(known["curve_seconds"]) - (when == "before" and known["epochs"] in known["curve_epochs"])
        assert told["results"]["curve_seconds"][:kept] == known["curve_seconds"][:kept]
    assert told["results"]["total_cpu_seconds"] >= seen[-1]["seconds"][1] - 0.5 * (when == "before")
    assert len(list(notes.iterdir())) <= 3


@pytest.mark.parametrize("change", ["version", "notes"])
def test_what_another_version_left_is_begun_anew(tmp_path, monkeypatch, change, figures):
    spec, save, trained = RunSpec(**{**IRIS, "row": "gce", "epochs": 3}), RunCallback.save, []
    whole = train_run(spec, tmp_path / "run", None)

    def note(callback, position):
        trained.append(position.total)
        save(callback, position)

    monkeypatch.setattr(RunCallback, "save", note)
    assert figures(train_run(spec, tmp_path / "run", None)) == figures(whole)
    assert trained == []  # it was finished
    if change == "version":
        monkeypatch.setattr("jnpl.internal.provenance.__version__", "9.9.9")
    else:
        for file in (tmp_path / "run" / "notes").iterdir():
            file.unlink()
    assert figures(train_run(spec, tmp_path / "run", None)) == figures(whole)
    assert trained == [1, 2, 3]


def test_what_a_method_did_on_its_own_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr("jnpl.methods.extended_jnpl.ExtendedJNPL.notes", lambda self: ["a guard acted"])
    told = train_run(RunSpec(**{**IRIS, "row": "fast", "epochs": 2}), tmp_path / "run", None)["results"]
    assert told["notes"] == ["a guard acted"]


def test_a_run_says_what_it_was_made_from(tmp_path):
    spec = RunSpec(variant="nlnl", **TINY)
    told = run.train_run(spec, tmp_path / "work", None)
    source = data.load(spec, None)
    assert len(source) == 600
    assert told["noise_sha256"] == hashlib.sha256(source.labels.astype("<i8").tobytes()).hexdigest()
    assert told["data"]["realised_rate"] == pytest.approx(0.6, abs=0.01)
    assert (told["cell"], told["name"]) == (spec.model_dump(), spec.name)
    assert parse_recipe({**told["recipe"], "engine": {}}).method == spec.recipe().method
    plans = [spec.recipe().plan(name).epochs for name in ("nl", "selnl", "selpl")]
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
    few = paper_variants.TINY._replace(filter_epochs=6, classify_epochs=2, fast_epochs=2)
    monkeypatch.setattr(paper_variants, "TINY", few)
    classify = variant in METHODS_OF_TABLE_1
    told = run.train_run(RunSpec(variant=variant, **TINY, classify=classify), tmp_path / "work", None)
    results = told["results"]
    assert 0.05 < results["test_accuracy"] <= 1
    assert 0.5 < results["ap"] <= 1
    assert len(results["curve"]) == sum(epochs for _, epochs in results["curve_stages"])


@pytest.mark.parametrize("change", [None, other_versions, other_data, other_name])
def test_a_killed_run_begins_anew_where_it_is_not_the_same(tmp_path, monkeypatch, change):
    spec, work, looks = RunSpec(variant="nlnl", **TINY), tmp_path / "work", []
    look = Observer.__call__

    def watched(self, view):
        looks.append(view.epoch)
        if len(looks) == 6:  # in the second stage, before it is noted
            raise KeyboardInterrupt
        look(self, view)

    monkeypatch.setattr(Observer, "__call__", watched)
    monkeypatch.setattr("jnpl.internal.provenance.commit", lambda: "first")
    with pytest.raises(KeyboardInterrupt):
        run.train_run(spec, work, None, ALWAYS)
    assert looks == list(range(6))
    before = noted(work)
    before["stages"]["nl"]["process"] = "first"
    (work / "notes/000005.json").write_text(json.dumps(before))
    monkeypatch.setattr("jnpl.internal.provenance.commit", lambda: "second")
    if change is not None:
        change(monkeypatch)
    told = run.train_run(spec, work, None, ALWAYS)
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
    assert (same["same"]["name"], same["same"]["versions"]) == (spec.name, provenance.versions())
    assert same["same"]["data"] == data.load(spec, None).fingerprint()
    assert told["name"] == spec.name


@pytest.mark.parametrize(("place", "device"), [(None, "cpu"), ("auto", "cuda")])
def test_a_run_trains_where_a_gpu_is_reserved_for_it(tmp_path, monkeypatch, place, device):
    monkeypatch.delenv("JNPL_BENCH_ACCELERATOR", raising=False)
    if place is not None:
        monkeypatch.setenv("JNPL_BENCH_ACCELERATOR", place)
    real, seen = run.run_recipe, []

    def placed(source, recipe, *args, **options):
        seen.append(recipe.engine.accelerator)
        engine = recipe.engine.model_copy(update={"accelerator": "cpu"})
        told = real(source, recipe.model_copy(update={"engine": engine}), *args, **options)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # from here on there is a GPU
        return told

    monkeypatch.setattr(run, "run_recipe", placed)
    spec = RunSpec(variant="ce", **TINY)
    told = run.train_run(spec, tmp_path / "work", None)
    assert seen == [place or "cpu"]
    assert (told["device"], told["name"]) == (device, spec.name)  # and is the same run


def test_a_classifier_follows_and_is_tested_after_its_last_epoch(tmp_path):
    spec = RunSpec(variant="jnpl", **{**TINY, "rate": 0.2}, classify=True)
    told = run.train_run(spec, tmp_path / "work", None)
    names = [name for name, _ in told["results"]["curve_stages"]]
    assert names == ["train", "pseudo"]
    assert list(told["stages"]) == names
    assert "ap" not in told["stages"]["pseudo"]
    assert told["results"]["test_accuracy"] == told["stages"]["pseudo"]["test_accuracy"]
    assert told["results"]["filter_test_accuracy"] == told["stages"]["train"]["test_accuracy"]
    assert told["results"]["second_part"] is None


def test_a_filter_that_keeps_nothing_is_reported_and_not_lost(tmp_path, monkeypatch):
    make = paper_variants._MAKERS["nlnl"]
    monkeypatch.setitem(
        paper_variants._MAKERS, "nlnl", lambda plan: {**make(plan), "verdict": {"threshold": 0.999_999}}
    )
    told = run.train_run(RunSpec(variant="nlnl", **TINY, classify=True), tmp_path / "work", None)
    assert told["results"]["second_part"].startswith("no label was kept")
    assert told["results"]["test_accuracy"] is None
    assert told["results"]["ap"] is not None
    assert told["results"]["filter_test_accuracy"] == told["stages"]["selpl"]["test_accuracy"]
    assert list(told["stages"]) == ["nl", "selnl", "selpl"]
    assert told["results"]["seconds"] == told["stages"]["selpl"]["seconds"] > 0


def test_a_filter_that_breaks_has_no_results(tmp_path, monkeypatch):
    broken_from(1, METHODS["jnpl"], monkeypatch)
    with pytest.raises(LearningError, match="the loss is nan in epoch 1"):
        run.train_run(RunSpec(variant="jnpl", **TINY, classify=True), tmp_path / "work", None)


def test_the_last_epoch_is_tested_on_all_images(tmp_path, monkeypatch):
    scale = SCALES["tiny"]
    few = type(scale)(**{**vars(scale), "curve_images": 50})
    monkeypatch.setitem(SCALES, "tiny", few)
    told = run.train_run(RunSpec(variant="ce", **TINY), tmp_path / "work", None)
    assert (told["data"]["curve_test_samples"], told["data"]["test_samples"]) == (50, 397)
    accuracy = told["results"]["test_accuracy"]
    assert accuracy * 397 == pytest.approx(round(accuracy * 397), abs=1e-6)
    assert told["results"]["curve"][-1] * 50 == pytest.approx(round(told["results"]["curve"][-1] * 50), abs=1e-6)


def test_wrong_input_of_a_process_is_one_line(tmp_path, capsys):
    spec = RunSpec(variant="jnpl", **{**TINY, "data": "cifar10", "scale": "small"})
    (tmp_path / "settings.json").write_text(spec.model_dump_json())
    (root := tmp_path / "data/cifar-10-batches-bin").mkdir(parents=True)
    (root / "test_batch.bin").write_bytes(b"")
    assert run.main([str(tmp_path / "settings.json"), "--data-root", str(root.parent)]) == 2
    assert capsys.readouterr().err.startswith("InputError: CIFAR-10 is incomplete")
