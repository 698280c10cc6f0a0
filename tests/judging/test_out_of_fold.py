"""Out-of-fold predictions: no row is predicted by a model that saw its label."""

import numpy as np
import pytest

from jnpl.internal.errors import InputError
from jnpl.judging.out_of_fold import deal_folds, out_of_fold
from jnpl.recipes.load import load_recipe


def blobs(samples=600, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=samples)
    return (np.eye(classes)[labels] * 4 + rng.normal(size=(samples, classes))).astype(np.float32), labels


def test_the_label_of_a_sample_does_not_change_its_own_prediction(monkeypatch):
    x, labels = blobs()
    fold = deal_folds(labels, 5, seed=0)
    monkeypatch.setattr("jnpl.judging.out_of_fold.deal_folds", lambda *_: fold)
    a, b = (np.flatnonzero((fold == 0) & (labels == label))[0] for label in (0, 1))
    changed = labels.copy()
    changed[[a, b]] = labels[[b, a]]  # the class counts stay
    before, after = out_of_fold(x, labels, 3), out_of_fold(x, changed, 3)
    assert np.array_equal(before[fold == 0], after[fold == 0])
    assert not np.array_equal(before[fold == 1], after[fold == 1])


def test_folds_have_equal_sizes_and_hold_every_class():
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    fold = deal_folds(labels, 5, seed=3)
    assert np.bincount(fold).tolist() == [20] * 5
    assert all(len(np.unique(labels[fold == k])) == 3 for k in range(5))


def test_rows_are_probabilities_and_wrong_labels_are_not_memorised():
    x, labels = blobs(classes=20, samples=2000)  # with cross-entropy at the start
    given = labels.copy()
    given[::5] = (given[::5] + 1) % 20
    probs = out_of_fold(x, given, 20)
    assert probs.dtype == np.float32
    assert probs.shape == (2000, 20)
    assert np.allclose(probs.sum(1), 1, atol=1e-4)
    assert (probs.argmax(1) == labels).mean() > 0.9


def test_progress_can_stop_the_work():
    class StopError(Exception):
        pass

    def stop(share):
        if share > 0.3:
            raise StopError

    x, labels = blobs()
    with pytest.raises(StopError):
        out_of_fold(x, labels, 3, progress=stop)


@pytest.mark.parametrize("bad", [{"vectors": np.zeros(5)}, {"labels": np.zeros(4, int)}])
def test_wrong_input_is_refused(bad):
    with pytest.raises(InputError):
        out_of_fold(**{"vectors": np.zeros((5, 2)), "labels": np.zeros(5, int), "num_classes": 2} | bad)


def test_large_data_get_fewer_epochs(monkeypatch):
    x, labels = blobs()
    shares: list[float] = []
    monkeypatch.setattr("jnpl.judging.out_of_fold._MAX_STEPS", 30)  # 5 steps an epoch
    probs = out_of_fold(x, labels, 3, progress=shares.append)
    assert shares == pytest.approx([0, 1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1])
    assert (probs.argmax(1) == labels).mean() > 0.95
    np.testing.assert_allclose(probs.sum(1), 1, rtol=1e-5)


def test_the_plan_is_that_of_the_default_recipe(monkeypatch):
    x, labels = blobs(samples=100)
    recipe = load_recipe("fast-embeddings")
    monkeypatch.setattr("jnpl.judging.out_of_fold.load_recipe", lambda name: {"fast-embeddings": recipe}[name])
    usual = out_of_fold(x, labels, 3)
    recipe = load_recipe("fast-embeddings", {"train.lr": 1e-9})  # heads stay where they begin
    assert np.allclose(out_of_fold(x, labels, 3), 1 / 3, atol=1e-4)
    assert usual.max() > 0.9
