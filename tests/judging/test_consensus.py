import numpy as np
import pytest

from jnpl import Findings
from jnpl.internal.errors import InputError
from jnpl.judging.consensus import annotator_table, consensus, majority, with_consensus
from jnpl.judging.scoring import UnseenProbs


def drawn(samples=2000, rates=(0.1, 0.1, 0.5), seed=0):
    """True labels, votes of annotators with these error rates, a fifth of them missing, and predictions."""
    random = np.random.default_rng(seed)
    true = random.integers(0, 4, samples)
    votes = {}
    for number, rate in enumerate(rates):
        given = np.where(random.random(samples) < rate, (true + random.integers(1, 4, samples)) % 4, true)
        votes[f"a{number}"] = np.where(random.random(samples) < 0.2, -1, given)
    logits = 2.0 * np.eye(4)[true] + random.normal(size=(samples, 4))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return true, votes, probs


def test_the_consensus_is_better_than_votes_and_predictions_alone():
    true, votes, probs = drawn()
    joint = consensus(votes, probs)
    accuracy = (joint.labels == true).mean()
    assert accuracy > (majority(votes, 4) == true).mean() + 0.05
    assert accuracy > (probs.argmax(axis=1) == true).mean() + 0.05
    assert joint.quality.mean() == pytest.approx(accuracy, abs=0.04)
    for name, rate in (("a0", 0.1), ("a2", 0.5)):
        assert np.diag(joint.transitions[name]).mean() == pytest.approx(1 - rate, abs=0.05)


def test_one_round_by_hand():
    # Two samples, one annotator who calls both class 0; the classifier is sure of neither.
    joint = consensus({"ann": np.array([0, 0])}, [[0.5, 0.5], [0.1, 0.9]])
    table = joint.transitions["ann"]
    for row, prior in enumerate(([0.5, 0.5], [0.1, 0.9])):
        odds = prior[0] / prior[1] * (table[0, 0] / table[1, 0]) ** 0.8
        assert joint.probs[row, 0] == pytest.approx(odds / (1 + odds), abs=1e-4)


def test_samples_without_votes_or_predictions():
    joint = consensus({"ann": np.array([-1, 1])}, [[0.3, 0.7], [np.nan, np.nan]])
    assert joint.probs[0] == pytest.approx([0.3, 0.7])
    assert joint.labels.tolist() == [1, 1]
    with pytest.raises(InputError, match="votes must be 2 for each annotator"):
        consensus({"ann": np.array([1])}, [[0.3, 0.7], [0.5, 0.5]])


def test_annotators_are_ranked():
    table = annotator_table(
        {"ann": np.array([0, 0, -1]), "bob": np.array([1, 0, 1])}, np.zeros(3, int), np.full(3, 0.9)
    )
    assert table["annotator"].tolist() == ["bob", "ann"]
    assert table["labels"].tolist() == [3, 2]
    assert table["agreement"].tolist() == pytest.approx([1 / 3, 1.0])
    assert table["quality"].tolist() == pytest.approx([0.3, 0.9])


def test_findings_on_a_consensus_are_saved_and_say_whom_to_ask(tmp_path):
    true, votes, probs = drawn(200)
    findings = Findings.from_probs(probs, majority(votes, 4).clip(0), class_names=["cat", "dog", "eel", "fox"])
    made = with_consensus(findings, votes, None, UnseenProbs(probs), "auto")
    assert (made.given_labels == true).mean() > 0.9
    made.save(tmp_path)
    assert Findings.load(tmp_path) == made
    assert set(made.table["vote a0"].dropna()) == {"cat", "dog", "eel", "fox"}
    asked = made.ask_next(200)
    assert asked["label_quality"].is_monotonic_increasing
    for row in asked.to_dict(orient="records"):
        assert row["ask"] is None or votes[row["ask"]][row["id"]] == -1
    assert "a2" in set(asked["ask"])
    assert made.annotators["annotator"][0] == "a2"
    assert made.part([1, 2]).votes["a0"].tolist() == votes["a0"][1:3].tolist()
    with pytest.raises(InputError, match="one label per sample"):
        _ = findings.annotators
    with pytest.raises(InputError, match="does not keep"):
        with_consensus(findings, votes, None, None, "auto")
