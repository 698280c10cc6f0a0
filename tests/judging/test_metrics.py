"""The figures against scikit-learn and against plain Python."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from jnpl.internal.errors import InputError
from jnpl.judging import Findings
from jnpl.metrics import (
    accuracy,
    average_precision,
    average_precision_clean,
    evaluate,
    issue_scores,
    precision_at_k,
    relabel_accuracy,
    roc_auc,
)

# few different qualities, so that ties are common
samples = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.8, 1.0]), st.booleans()), min_size=2, max_size=30)


def plain_ap(scores, positives):
    """Sum over the distinct scores, from the highest, of precision times the gain in recall."""
    total, previous = 0.0, 0.0
    for cut in sorted(set(scores), reverse=True):
        chosen = [p for s, p in zip(scores, positives, strict=True) if s >= cut]
        recall = sum(chosen) / sum(positives)
        total += sum(chosen) / len(chosen) * (recall - previous)
        previous = recall
    return total


def plain_auc(quality, noisy):
    wrong = [q for q, n in zip(quality, noisy, strict=True) if n]
    right = [q for q, n in zip(quality, noisy, strict=True) if not n]
    wins = sum((w < r) + (w == r) / 2 for w in wrong for r in right)
    return wins / (len(wrong) * len(right))


@settings(deadline=None)
@given(samples)
def test_rankings_against_plain_python_and_scikit_learn(pairs):
    quality, noisy = (list(column) for column in zip(*pairs, strict=True))
    assume(0 < sum(noisy) < len(noisy))
    clean = [not n for n in noisy]
    suspicion = [1 - q for q in quality]
    assert average_precision(quality, noisy) == pytest.approx(plain_ap(suspicion, noisy))
    assert average_precision(quality, noisy) == pytest.approx(sk.average_precision_score(noisy, suspicion))
    assert average_precision_clean(quality, noisy) == pytest.approx(plain_ap(quality, clean))
    assert average_precision_clean(quality, noisy) == pytest.approx(sk.average_precision_score(clean, quality))
    assert roc_auc(quality, noisy) == pytest.approx(plain_auc(quality, noisy))
    assert roc_auc(quality, noisy) == pytest.approx(sk.roc_auc_score(noisy, suspicion))


def test_precision_at_k_by_hand():
    quality, noisy = [0.9, 0.1, 0.3, 0.3, 0.3], [False, True, True, False, False]
    assert precision_at_k(quality, noisy, 1) == 1
    assert precision_at_k(quality, noisy) == pytest.approx((1 + 1 / 3) / 2)  # k = 2: one of the three equals
    assert precision_at_k(quality, noisy, 4) == pytest.approx(2 / 4)
    for k in (0, 6, -1):
        with pytest.raises(InputError, match=rf"k must lie in 1\.\.5, not {k}"):
            precision_at_k(quality, noisy, k)


def test_tiny_qualities_are_told_apart():
    """1 - quality would round these to one value; so would float32."""
    assert average_precision([1e-18, 2e-18, 3e-18], [True, True, False]) == 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=20))
def test_verdicts_against_scikit_learn(pairs):
    issue, noisy = [p[0] for p in pairs], [p[1] for p in pairs]
    scores = issue_scores(issue, noisy)
    if not pairs:
        assert scores == (0, 0, 0)
        return
    for ours, name in zip(scores, ("precision_score", "recall_score", "f1_score"), strict=True):
        assert ours == pytest.approx(getattr(sk, name)(noisy, issue, zero_division=0))


def test_relabelling_by_hand():
    given_, true = [0, 0, 1, 2, 2], [0, 1, 1, 1, 2]
    suggested, issue = [1, 1, 0, 0, 0], [False, True, False, True, True]
    assert relabel_accuracy(suggested, given_, true, issue) == 3 / 5  # right: 0, 1, 2; not repaired: 3; spoilt: 4
    assert accuracy(given_, true) == 3 / 5
    assert relabel_accuracy(suggested, given_, true, [False] * 5) == accuracy(given_, true)
    assert relabel_accuracy(true, given_, true, [True] * 5) == 1


def test_what_does_not_exist_is_nan():
    for noisy in ([True, True], [False, False]):
        for figure in (average_precision, average_precision_clean, roc_auc, precision_at_k):
            assert math.isnan(figure([0.1, 0.2], noisy))
    assert math.isnan(accuracy([], []))
    assert precision_at_k([0.1, 0.2], [True, True], k=1) == 1


def test_evaluate_is_every_figure_of_the_scored_samples():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 4, 200)
    given_ = np.where(rng.random(200) < 0.3, (true + 1) % 4, true)
    probs = rng.dirichlet(np.ones(4), 200) + 1.5 * np.eye(4)[true]
    probs /= probs.sum(1, keepdims=True)
    unreadable = np.arange(200) % 20 == 0
    findings = Findings.from_probs(probs, given_, unreadable=unreadable)
    figures = evaluate(findings, true)
    assert list(figures) == [
        "ap",
        "ap_clean",
        "roc_auc",
        "precision",
        "recall",
        "f1",
        "precision_at_k",
        "relabel_accuracy",
    ]
    keep = ~unreadable
    quality = probs[np.arange(200), given_][keep]
    noisy = (given_ != true)[keep]
    assert figures["ap"] == pytest.approx(sk.average_precision_score(noisy, 1 - quality))
    assert figures["ap_clean"] == pytest.approx(sk.average_precision_score(~noisy, quality))
    assert figures["roc_auc"] == pytest.approx(sk.roc_auc_score(noisy, 1 - quality))
    assert figures["precision"] == pytest.approx(sk.precision_score(noisy, quality < 0.5))
    assert figures["recall"] == pytest.approx(sk.recall_score(noisy, quality < 0.5))
    assert figures["f1"] == pytest.approx(sk.f1_score(noisy, quality < 0.5))
    assert figures["precision_at_k"] == pytest.approx(noisy[np.argsort(quality)[: noisy.sum()]].mean())
    repaired = np.where(quality < 0.5, probs[keep].argmax(1), given_[keep])
    assert figures["relabel_accuracy"] == (repaired == true[keep]).mean()
    assert all(type(value) is float for value in figures.values())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: average_precision([0.1], [True, False]),
            "shapes must be (N,) with the same N, not quality (1,), is_noisy (2,)",
        ),
        (
            lambda: roc_auc([[0.1]], [[True]]),
            "shapes must be (N,) with the same N, not quality (1, 1), is_noisy (1, 1)",
        ),
        (lambda: roc_auc([0.1, np.nan], [True, False]), "quality of sample 1 is nan: leave such samples out"),
        (lambda: roc_auc([0.1, 0.2], [0.3, 1]), "is_noisy must be booleans, not float64"),
        (lambda: accuracy([1], [1, 2]), "shapes must be (N,) with the same N, not predicted (1,), true (2,)"),
        (lambda: issue_scores(["a"], [True]), "is_label_issue must be booleans, not <U1"),
    ],
)
def test_wrong_input_is_named(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_evaluate_wants_whole_numbers_of_the_right_length():
    findings = Findings.from_probs([[0.9, 0.1]], [0], class_names=["cat", "dog"])
    with pytest.raises(InputError, match="same N, not given_labels"):
        evaluate(findings, [0, 1])
    with pytest.raises(InputError, match="true_labels must be whole numbers like the given ones, not <U3"):
        evaluate(findings, ["cat"])
