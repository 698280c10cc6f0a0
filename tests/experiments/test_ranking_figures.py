"""The figures of `jnpl bench` against plain arithmetic and scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from jnpl.experiments import run_data as data
from jnpl.experiments.observer import Observer
from jnpl.experiments.ranking_figures import RankingFigures, margin
from jnpl.experiments.runner import train_run
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import InputError
from jnpl.judging.ledger import Ledger
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.training.reporting import Reporter

IRIS = {"row": "ce", "data": "iris", "noise": "symm", "rate": 0.4, "epochs": 12, "batch_size": 32, "seed": 1}


def test_the_curve_is_the_ap_of_the_mean_of_ten_epochs(tmp_path):
    spec = RunSpec(**IRIS)
    source = data.load(spec, None)
    figures, seen = RankingFigures(source, source.test, "history", margins=True), []
    observer = Observer(figures, tmp_path / "notes")

    def observe(view):
        observer(view)
        seen.append(view.ledger.newest())

    run_recipe(
        replace(source, test=None),
        spec.recipe(),
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
        average_precision_score(wrong, -own[max(0, epoch - 9) : epoch + 1].mean(0)) for epoch in range(spec.epochs)
    ]
    assert figures.ap_curve == pytest.approx(by_hand, abs=1e-3)  # float32 means may swap near ties
    assert observer.filtered
    rivals = np.stack([np.delete(probs[i], y).max() for probs in seen for i, y in enumerate(source.labels)])
    margins = (np.log(own) - np.log(rivals.reshape(own.shape))).sum(0)
    assert figures.margins == pytest.approx(margins, rel=1e-4, abs=1e-4)
    assert (np.diff(figures.curve_seconds) > 0).all()


def test_true_labels_have_no_ap(tmp_path):
    told = train_run(RunSpec(**{**IRIS, "row": "ce-clean", "epochs": 2}), tmp_path / "run", None)
    assert told["data"]["realised_rate"] == 0
    assert (told["results"]["ap"], told["results"]["ap_epoch"]) == (None, None)
    assert told["results"]["test_accuracy"] > 0.4


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
