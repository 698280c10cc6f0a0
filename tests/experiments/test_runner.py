"""One cell: what it notes against plain arithmetic and scikit-learn."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from jnpl.experiments import cell_data as data
from jnpl.experiments import cross_validation
from jnpl.experiments.cell import Cell
from jnpl.experiments.observer import Observer, Seconds
from jnpl.experiments.ranking_figures import RankingFigures, margin
from jnpl.experiments.runner import run_cell
from jnpl.internal.errors import InputError, LearningError, MissingExtraError
from jnpl.judging.ledger import Ledger
from jnpl.methods.registry import METHODS
from jnpl.outputs.saved_model import SavedModel
from jnpl.training.interrupt import Interrupted
from jnpl.training.reporting import Reporter
from jnpl.training.run import CheckpointInterval, find
from jnpl.training.session import Session

IRIS = {"row": "ce", "data": "iris", "noise": "symm", "rate": 0.4, "epochs": 12, "batch_size": 32, "seed": 1}


class Killed(BaseException):
    """Stands for a SIGKILL, which nobody can catch."""


@pytest.fixture(autouse=True)
def _threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_the_curve_is_the_ap_of_the_mean_of_ten_epochs(tmp_path):
    cell = Cell(**IRIS)
    source = data.load(cell, None)
    figures, seen = RankingFigures(source, source.test, "history", margins=True), []
    observer = Observer(figures, tmp_path / "notes")

    def observe(view):
        observer(view)
        seen.append(view.ledger.newest())

    find(
        replace(source, test=None),
        cell.recipe(),
        tmp_path / "run",
        seed=1,
        every=CheckpointInterval(seconds=None),
        strict=True,
        report=Reporter(),
        observe=observe,
    )
    each = np.arange(len(source))
    own = np.stack([probs[each, source.labels] for probs in seen])
    wrong = source.labels != source.true_labels
    by_hand = [
        average_precision_score(wrong, -own[max(0, epoch - 9) : epoch + 1].mean(0)) for epoch in range(cell.epochs)
    ]
    assert figures.ap_curve == pytest.approx(by_hand, abs=1e-3)  # float32 means may swap near ties
    assert observer.filtered
    rivals = np.stack([np.delete(probs[i], y).max() for probs in seen for i, y in enumerate(source.labels)])
    margins = (np.log(own) - np.log(rivals.reshape(own.shape))).sum(0)
    assert figures.margins == pytest.approx(margins, rel=1e-4, abs=1e-4)
    assert (np.diff(figures.curve_seconds) > 0).all()


def test_a_saved_model_says_what_the_run_said(tmp_path):
    cell = Cell(**{**IRIS, "epochs": 3})
    source = data.load(cell, None)
    every = CheckpointInterval(seconds=None)
    told = find(source, cell.recipe(), tmp_path, seed=1, every=every, strict=True, report=Reporter()).results
    model = SavedModel.load(tmp_path)
    probs = model.probabilities(source.test)
    assert probs.shape == (len(source.test), 3)
    assert probs.sum(1) == pytest.approx(1, abs=1e-5)
    assert (probs.argmax(1) == source.test.labels).mean() == pytest.approx(told["test_accuracy"])
    assert model.classes == source.class_names
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(InputError, match="holds no model that can be read"):
        SavedModel.load(tmp_path)


def test_a_cell_notes_settings_and_results(tmp_path):
    cell = Cell(**{**IRIS, "epochs": 4})
    told = run_cell(cell, tmp_path / "run", None)
    assert told == json.loads(json.dumps(told, allow_nan=False))
    assert Cell(**told["cell"]) == cell
    assert told["recipe"]["train"]["lr"] == 0.1
    assert (told["data"]["samples"], told["data"]["test_samples"]) == (112, 38)
    source = data.load(cell, None)
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
    again = run_cell(cell, tmp_path / "run", None)  # where a killed one lay
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
def test_a_killed_cell_goes_on_as_if_nothing_had_happened(tmp_path, monkeypatch, row, epochs, kills, figures):
    cell = Cell(**{**IRIS, "row": row, "epochs": epochs, "rate": 0.2})
    save, notes, seen, total = Session._save, tmp_path / "run" / "notes", [], []
    monkeypatch.setattr(Session, "_save", lambda _session, position: total.append(position.total))
    whole = run_cell(cell, tmp_path / "whole", None)
    for epoch, when in kills:

        def until(session, position, *, epoch=epoch, when=when):
            if position.total != epoch or when == "after":
                save(session, position)
            if position.total == epoch:
                raise Killed

        monkeypatch.setattr(Session, "_save", until)
        with pytest.raises(Killed):
            run_cell(cell, tmp_path / "run", None)
        seen.append(json.loads((notes / f"{epoch:06d}.json").read_text()))
    trained = []
    monkeypatch.setattr(Session, "_save", lambda session, position: trained.append(position.total))
    told = run_cell(cell, tmp_path / "run", None)
    assert figures(told) == figures(whole)
    last, when = kills[-1]
    assert trained == total[last - (when == "before") :]  # nothing else was trained again
    for known, (_, when) in zip(seen, kills, strict=True):
        kept = len(known["curve_seconds"]) - (when == "before" and known["epochs"] in known["curve_epochs"])
        assert told["results"]["curve_seconds"][:kept] == known["curve_seconds"][:kept]
    assert told["results"]["total_cpu_seconds"] >= seen[-1]["seconds"][1] - 0.5 * (when == "before")
    assert len(list(notes.iterdir())) <= 3


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends the process there")
def test_a_cell_that_is_asked_to_stop_keeps_its_steps_and_their_time(tmp_path, monkeypatch, figures):
    cell, call = Cell(**{**IRIS, "epochs": 4}), Observer.__call__
    whole = run_cell(cell, tmp_path / "whole", None)

    def stop(observer, session):
        call(observer, session)
        if observer.epochs == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Observer, "__call__", stop)
    with pytest.raises(Interrupted, match="epoch 2, step 1"):
        run_cell(cell, tmp_path / "run", None)
    monkeypatch.setattr(Observer, "__call__", call)
    known = json.loads((tmp_path / "run" / "notes" / "000002.json").read_text())
    assert known["seconds"][1] > known["curve_seconds"][1]
    told = run_cell(cell, tmp_path / "run", None)
    assert figures(told) == figures(whole)
    assert told["results"]["curve_seconds"][:2] == known["curve_seconds"]
    assert told["results"]["curve_seconds"][2] > known["seconds"][1]


def test_a_checkpoint_is_not_in_the_time(tmp_path, monkeypatch):
    """On a clock of one second a step and a hundred a checkpoint: the four epochs of four steps take 16 seconds."""
    save, step, spent = Session._save, METHODS["gce"].step, [0.0]

    def slow(session, position):
        save(session, position)
        spent[0] += 100

    def counted(method, batch):
        spent[0] += 1
        return step(method, batch)

    monkeypatch.setattr(Session, "_save", slow)
    monkeypatch.setattr(METHODS["gce"], "step", counted)
    monkeypatch.setattr(Seconds, "now", lambda: Seconds(spent[0], spent[0]))
    told = run_cell(Cell(**{**IRIS, "row": "gce", "epochs": 4}), tmp_path / "run", None)["results"]
    assert spent[0] == 4 * 100 + 16
    assert told["total_cpu_seconds"] == 16


@pytest.mark.parametrize("change", ["version", "notes"])
def test_what_another_version_left_is_begun_anew(tmp_path, monkeypatch, change, figures):
    cell, save, trained = Cell(**{**IRIS, "row": "gce", "epochs": 3}), Session._save, []
    whole = run_cell(cell, tmp_path / "run", None)

    def note(session, position):
        trained.append(position.total)
        save(session, position)

    monkeypatch.setattr(Session, "_save", note)
    assert figures(run_cell(cell, tmp_path / "run", None)) == figures(whole)
    assert trained == []  # it was finished
    if change == "version":
        monkeypatch.setattr("jnpl.internal.provenance.__version__", "9.9.9")
    else:
        for file in (tmp_path / "run" / "notes").iterdir():
            file.unlink()
    assert figures(run_cell(cell, tmp_path / "run", None)) == figures(whole)
    assert trained == [1, 2, 3]


def test_a_cell_with_a_share_of_a_gpu_trains_where_one_is(tmp_path, monkeypatch):
    monkeypatch.setenv("JNPL_BENCH_ACCELERATOR", "auto")
    told = run_cell(Cell(**{**IRIS, "row": "gce", "epochs": 1}), tmp_path / "run", None)
    assert told["device"] == ("cuda" if torch.cuda.is_available() else "cpu")
    same = json.loads((tmp_path / "run" / "same.json").read_text())["same"]
    assert same["settings"]["engine"]["accelerator"] == "auto"


def test_pseudo_labels_leave_the_filter_s_figures(tmp_path, figures):
    told = run_cell(Cell(**{**IRIS, "row": "nlnl", "epochs": 16, "rate": 0.2}), tmp_path / "run", None)["results"]
    assert len(told["ap_curve"]) == told["filter_epochs"] == 16
    assert told["filter_test_accuracy"] is not None
    assert told["total_cpu_seconds"] > 1.2 * told["cpu_seconds"]
    assert "best_test_accuracy" not in told


def test_the_last_point_of_fast_s_curve_is_its_verdict(tmp_path):
    told = run_cell(Cell(**{**IRIS, "row": "fast", "epochs": 5}), tmp_path / "run", None)["results"]
    assert told["ap_curve"][-1] == pytest.approx(told["ap"], abs=1e-6)
    assert told["curve_epochs"] == [3, 4]
    assert told["test_accuracy"] is not None


def test_true_labels_have_no_ap(tmp_path):
    told = run_cell(Cell(**{**IRIS, "row": "ce-clean", "epochs": 2}), tmp_path / "run", None)
    assert told["data"]["realised_rate"] == 0
    assert (told["results"]["ap"], told["results"]["ap_epoch"]) == (None, None)
    assert told["results"]["test_accuracy"] > 0.4


def test_a_second_part_that_cannot_begin_leaves_the_filter_s_findings(tmp_path, monkeypatch):
    def nothing_kept(*_args, **_kwargs):
        raise LearningError("no label was kept")

    monkeypatch.setattr("jnpl.training.pseudo_labels.targets", nothing_kept)
    told = run_cell(Cell(**{**IRIS, "row": "jnpl-paper", "epochs": 2}), tmp_path / "run", None)["results"]
    assert told["second_part"] == "no label was kept"
    assert told["test_accuracy"] is None
    assert told["filter_test_accuracy"] > 0
    assert len(told["ap_curve"]) == 2


def test_what_a_method_did_on_its_own_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr("jnpl.methods.extended_jnpl.ExtendedJNPL.notes", lambda self: ["a guard acted"])
    told = run_cell(Cell(**{**IRIS, "row": "fast", "epochs": 2}), tmp_path / "run", None)["results"]
    assert told["notes"] == ["a guard acted"]


def test_the_margin_of_probabilities_is_that_of_logits():
    logits = torch.randn(50, 7, generator=torch.Generator().manual_seed(0)) * 5
    labels = np.arange(50) % 7
    plain = [row[y] - max(np.delete(row, y)) for row, y in zip(logits.double().numpy(), labels, strict=True)]
    assert margin(logits.softmax(1).numpy(), labels) == pytest.approx(plain, abs=1e-4)
    assert np.isfinite(margin(np.array([[0.0, 1.0]], np.float32), np.array([0]))).all()


def test_newest_is_the_last_recorded_prediction():
    ledger = Ledger(num_samples=3, num_classes=2, history=2)
    for epoch in range(3):
        ledger.record([0], [[0.1 * epoch, 1 - 0.1 * epoch]], epoch)
    ledger.record([1], [[1.0, 0.0]], 3)
    ledger.record([1], [[0.75, 0.25]], 3)  # again: replaces
    newest = ledger.newest()
    assert newest[:2] == pytest.approx(np.array([[0.2, 0.8], [0.75, 0.25]]))
    assert np.isnan(newest[2]).all()
    newest[:] = 0
    assert ledger.newest()[1, 0] == 0.75  # a copy
    with pytest.raises(InputError, match="holds no whole predictions"):
        Ledger(2, 2, keep="compact", labels=[0, 1]).newest()


def test_cleanlab_ranks_by_what_other_folds_say(tmp_path):
    pytest.importorskip("cleanlab", reason="the row cleanlab needs jnpl[bench]")
    cell = Cell(**{**IRIS, "row": "cleanlab", "data": "digits", "images": 600, "epochs": 2, "rate": 0.2})
    told = run_cell(cell, tmp_path / "run", None)["results"]
    assert told["ap"] > 0.6
    assert told["ap_curve"] == [told["ap"]]
    assert told["filter_epochs"] == 5 * 2
    assert 0 < told["issues"] < 300
    assert told["test_accuracy"] > 0.5
    assert told["ap_normalized_margin"] > 0.6


def test_finished_folds_are_not_trained_again(tmp_path, monkeypatch, figures):
    pytest.importorskip("cleanlab", reason="the row cleanlab needs jnpl[bench]")
    cell = Cell(**{**IRIS, "row": "cleanlab", "epochs": 2, "rate": 0.2})
    whole, train, trained = run_cell(cell, tmp_path / "whole", None), cross_validation.train, []

    def until(last):
        def training(source, recipe, folder, seed):
            trained.append(folder.name)
            train(source, recipe, folder, seed)
            if folder.name == last:
                raise Killed  # in the middle, as it were: nothing says that the fold is done

        return training

    for last in ("fold-2", "final"):
        monkeypatch.setattr(cross_validation, "train", until(last))
        with pytest.raises(Killed):
            run_cell(cell, tmp_path / "run", None)
    monkeypatch.setattr(cross_validation, "train", until(None))
    told = run_cell(cell, tmp_path / "run", None)
    assert trained == ["fold-0", "fold-1", "fold-2", "fold-2", "fold-3", "fold-4", "final", "final"]
    assert figures(told) == figures(whole)
    with np.load(tmp_path / "run" / "fold-4.npz") as fold:
        assert told["results"]["cpu_seconds"] == pytest.approx(fold["seconds"][1], abs=0.5)


def test_without_cleanlab_the_extra_is_named(tmp_path, monkeypatch):
    def missing(module, extra):
        raise MissingExtraError(f"{module} {extra}")

    monkeypatch.setattr("jnpl.experiments.cross_validation.require", missing)
    with pytest.raises(MissingExtraError, match=r"cleanlab.rank bench"):
        run_cell(Cell(**{**IRIS, "row": "cleanlab"}), tmp_path / "run", None)
