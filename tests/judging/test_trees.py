"""Decision trees that judge labels which they have not seen."""

import numpy as np
import pytest

from jnpl import find_label_issues, noise
from jnpl.internal.errors import InputError
from jnpl.judging import trees
from jnpl.judging.out_of_fold import deal_folds
from jnpl.judging.trees import share_agreeing, tree_predictions


def blocks(rows=300, rate=0.2, classes=3):
    """Rows in three blocks of two features, given and true labels: trees divide them in two cuts."""
    true = np.arange(rows) % classes
    x = np.random.default_rng(0).normal(scale=0.2, size=(rows, 2)).astype(np.float32)
    x[:, 0] += true
    return x, np.asarray(noise.symmetric(true, rate, classes, seed=0)), true


def test_trees_do_not_follow_labels_that_they_have_not_seen():
    x, given, true = blocks()
    found = tree_predictions(x, given, deal_folds(given, 5, 0), 3)
    assert found.probs.shape == (300, 3)
    np.testing.assert_allclose(found.probs.sum(1), 1, rtol=1e-5)
    assert share_agreeing(found.probs, true) > 0.95
    assert (
        found.agreement == share_agreeing(found.probs, given) < 0.85
    )  # a tree that had seen them would agree with all
    again = tree_predictions(x, given, deal_folds(given, 5, 0), 3)
    np.testing.assert_array_equal(found.probs, again.probs)


def test_trees_of_many_classes_are_grown_in_groups(monkeypatch):
    from sklearn.ensemble import ExtraTreesClassifier

    x, given, true = blocks()
    grown, fit = [], ExtraTreesClassifier.fit

    def counting(forest, *args, **more):
        grown.append(forest.n_estimators)
        return fit(forest, *args, **more)

    monkeypatch.setattr(ExtraTreesClassifier, "fit", counting)
    monkeypatch.setattr(trees, "_FOREST_BYTES", 80 * (2 * 15 * 3 * 8 + 1))
    groups = trees._forest(x, given, 3, 20, 200, None, 0)
    assert grown == [80, 80, 40]
    np.testing.assert_allclose(groups.sum(1), 1, rtol=1e-5)
    assert share_agreeing(groups, true) > 0.9  # one forest has 0.97 to 0.98
    assert share_agreeing(groups, given) < 0.85


def test_labels_without_any_meaning_are_not_learnt():
    x, _, _ = blocks()
    given = np.random.default_rng(1).integers(0, 3, 300)
    assert tree_predictions(x, given, deal_folds(given, 5, 0), 3).agreement < 0.45


def test_classes_without_samples_and_rare_ones():
    x, given, _ = blocks(60)
    given[given == 2] = 4
    given[0] = 3  # a single sample: boosting could not be tried
    found = tree_predictions(x, given, deal_folds(given, 5, 0), 6)
    assert found.probs.shape == (60, 6)
    assert found.probs[:, [2, 5]].max() < 0.01
    assert "boosting" not in found.description


def test_boosting_joins_where_it_agrees_more(monkeypatch):
    x, given, true = blocks()
    right = np.eye(3, dtype=np.float32)[true] * 0.97 + 0.01
    monkeypatch.setattr(trees, "_boosting", lambda *_: right)
    monkeypatch.setattr(trees, "_forest", lambda *_: np.full((300, 3), 1 / 3, np.float32))
    joined = tree_predictions(x, given, deal_folds(given, 5, 0), 3)
    assert joined.description.endswith(" and gradient boosting")
    monkeypatch.setattr(trees, "_boosting", lambda *_: 1 - right)
    assert "boosting" not in tree_predictions(x, given, deal_folds(given, 5, 0), 3).description


def test_large_tables_are_not_boosted(monkeypatch):
    x, given, _ = blocks()
    fold = deal_folds(given, 5, 0)
    assert trees._boosting(x, given, fold, 3, None, 0) is not None
    monkeypatch.setattr(trees, "BOOSTING_SIZE", 3 * 300 - 1)
    assert trees._boosting(x, given, fold, 3, None, 0) is None


def test_samples_of_weight_near_zero_do_not_count():
    x, given, true = blocks(rate=0.45)
    weights = np.where(given == true, 1.0, 1e-3).astype(np.float32)
    fold = deal_folds(given, 5, 0)
    weighted = tree_predictions(x, given, fold, 3, weights=weights)
    assert share_agreeing(weighted.probs, true) > share_agreeing(tree_predictions(x, given, fold, 3).probs, true)


def test_work_stops_where_progress_raises():
    x, given, _ = blocks()

    def stop(share):
        assert share == 0.3
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tree_predictions(x, given, deal_folds(given, 5, 0), 3, progress=stop)


def test_a_table_is_judged_by_trees_and_a_recipe_by_name_is_not():
    x, given, _ = blocks()
    quick = ["train.epochs=2"]
    both = find_label_issues(x, given, settings=quick)
    alone = find_label_issues(x, given, settings=[*quick, "verdict.trees=false"])
    assert both != alone
    ce = find_label_issues(x, given, settings=quick, method="ce")
    assert ce == find_label_issues(x, given, settings=[*quick, "verdict.trees=false"], method="ce")


def test_trees_need_rows_of_numbers():
    images = np.zeros((20, 8, 8), np.uint8)
    with pytest.raises(InputError, match=r"verdict.trees needs rows of numbers.*, not images"):
        find_label_issues(images, [0, 1] * 10, backbone="none", settings=["verdict.trees=true", "train.epochs=1"])
    with pytest.raises(InputError, match=r"not verdict.score = history"):
        find_label_issues(np.eye(20), [0, 1] * 10, settings=["verdict.trees=true", "verdict.score=history"])
