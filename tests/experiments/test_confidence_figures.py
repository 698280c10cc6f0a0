"""The figures of `jnpl reproduce` against plain loops and scikit-learn."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score

from jnpl.experiments import run_data as data
from jnpl.experiments import runner as run
from jnpl.experiments.confidence_figures import MOST, coordinates, mean_confidence, stage_facts
from jnpl.experiments.observer import Observer
from jnpl.experiments.spec import RunSpec

TINY = {"data": "digits", "noise": "symm", "rate": 0.6, "seed": 1, "scale": "tiny"}


def noted(work):
    """The newest notes in a work folder."""
    return json.loads(max((work / "notes").glob("0*.json")).read_text())


def test_stage_facts_against_plain_loops():
    generator = np.random.default_rng(0)
    source = data.load(RunSpec(variant="nlnl", **{**TINY, "noise": "asymm", "rate": 0.4}), None)
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


def test_notes_of_epochs_against_plain_arithmetic(tmp_path, monkeypatch):
    spec, seen = RunSpec(variant="jnpl", **TINY, classify=True), []
    look = Observer.__call__

    def watched(self, view):
        look(self, view)
        if not view.phase.pseudo:
            seen.append((view.ledger.quality(self.figures.source.labels), view.line["selected"]))

    monkeypatch.setattr(Observer, "__call__", watched)
    told = run.train_run(spec, tmp_path / "work", None)
    source, results = data.load(spec, None), told["results"]
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
    assert "engine" not in spec.content()["recipe"]


def test_what_is_not_known_of_an_epoch_is_left_out(tmp_path):
    told = run.train_run(RunSpec(variant="ce", **TINY), tmp_path / "noisy", None)["results"]
    assert told["selected_curve"] is None
    assert len(told["ap_curve"]) == len(told["curve"]) == 4
    clean = RunSpec(variant="nl-plus", **{**TINY, "noise": "none", "rate": 0.0})
    told = run.train_run(clean, tmp_path / "clean", None)
    assert [told["results"][f"{name}_curve"] for name in ("ap", "right", "wrong")] == [None] * 3
    source = data.load(RunSpec(variant="ce", **TINY), None)
    quality = np.full(len(source), 0.5, np.float32)
    assert mean_confidence(quality, replace(source, true_labels=None)) == {}
    quality[source.labels != source.true_labels] = np.nan  # never seen, all of them
    assert mean_confidence(quality, source) == {"ap": None, "right": 0.5, "wrong": None}
