"""Cleanlab and JNPLClassifier: it takes ours as its classifier, and our probabilities as its predictions."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import cross_val_predict

from jnpl import metrics, noise
from jnpl.api.estimator import JNPLClassifier

pytest.importorskip("cleanlab", reason="cleanlab is not installed: it comes with the extra `bench`")


def quick():
    return JNPLClassifier(epochs=4, batch_size=16, random_state=0, device="cpu")


@pytest.fixture(scope="module")
def blobs():
    """Inputs, given and true labels: a fifth of them are wrong."""
    x, y = make_blobs(150, centers=4 * np.eye(3, 4), random_state=0)
    return x, noise.symmetric(y, 0.2, 3, seed=0), y


@pytest.fixture(scope="module")
def held_out(blobs):
    """Probabilities of samples that were not trained on."""
    x, given, _ = blobs
    return cross_val_predict(quick(), x, given, cv=2, method="predict_proba")


def test_clean_learning_with_our_classifier(blobs):
    from cleanlab.classification import CleanLearning

    x, given, true = blobs
    learner = CleanLearning(quick(), cv_n_folds=2, seed=0)
    learner.fit(x, given)
    issues = learner.get_label_issues()
    assert metrics.average_precision(issues["label_quality"], given != true) > 0.8
    assert (learner.predict(x) == true).mean() > 0.9
    assert isinstance(learner.clf, JNPLClassifier)
    assert len(learner.clf.label_quality_) == (~issues["is_label_issue"]).sum()  # it learns what cleanlab leaves


def test_find_label_issues_with_our_probabilities(blobs, held_out):
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    _, given, true = blobs
    issues = find_label_issues(given, held_out)
    wrong = given != true
    assert wrong[issues].mean() > 0.8
    assert issues[wrong].mean() > 0.8
    scores = get_label_quality_scores(given, held_out)
    np.testing.assert_allclose(scores, held_out[np.arange(150), given], atol=1e-6)  # self-confidence is p_y


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # cleanlab's way with pandas
def test_datalab_with_our_probabilities(blobs, held_out):
    pytest.importorskip("datasets", reason="Datalab needs datasets, which is not installed: it comes with `hf`")
    from cleanlab import Datalab

    _, given, true = blobs
    lab = Datalab({"label": given.tolist()}, label_name="label", verbosity=0)
    lab.find_issues(pred_probs=held_out, issue_types={"label": {}})
    issues = lab.get_issues("label")
    assert metrics.average_precision(issues["label_score"], given != true) > 0.8
    assert (given != true)[issues["is_label_issue"]].mean() > 0.8
