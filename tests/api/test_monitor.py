"""Monitor: visits counted rightly, judged as the ledger judges, resumed exactly."""

import math

import numpy as np
import pytest
import torch

from jnpl.api.monitor import Monitor
from jnpl.internal.errors import InputError
from jnpl.judging.posterior import posterior


def softmax(row):
    powers = [math.exp(value) for value in row]
    return [power / sum(powers) for power in powers]


def test_the_quality_is_the_mean_probability_of_the_given_label():
    monitor = Monitor(num_samples=2, num_classes=3)
    first, second = [[1.0, 2.0, 0.5], [0.0, 0.0, 3.0]], [[2.0, 0.0, 0.0], [0.1, 0.2, 0.3]]
    monitor.update([0, 1], first)
    monitor.update(torch.tensor([1, 0]), torch.tensor(second[::-1]))
    expected = [(softmax(first[i])[label] + softmax(second[i])[label]) / 2 for i, label in enumerate([0, 2])]
    np.testing.assert_allclose(monitor.findings([0, 2]).label_quality, expected, rtol=1e-6)


def test_no_epochs_are_needed():
    """A sampler that draws with replacement: each visit counts, however many there are in an epoch."""
    monitor = Monitor(num_samples=3, num_classes=2, history=10)
    monitor.update([0, 1], [[0.2, 0.8], [0.6, 0.4]], probs=True)
    monitor.update([0], [[0.4, 0.6]], probs=True)
    monitor.update([0], [[0.9, 0.1]], probs=True)
    monitor.update([1, 1], [[0.5, 0.5], [0.0, 1.0]], probs=True)  # twice in one batch: the last row
    found = monitor.findings([0, 0, 1], threshold=0.45)
    np.testing.assert_allclose(found.label_quality, [0.5, 0.3, np.nan], rtol=1e-6)
    assert found.is_label_issue.tolist() == [False, True, False]
    assert monitor.ledger.seen.tolist() == [3, 2, 0]


@pytest.mark.parametrize("kind", ["list", "array", "read-only", "float64", "bfloat16", "with gradient"])
def test_logits_in_any_form(kind):
    rows = [[0.0, 2.0], [1.0, 0.0]]
    frozen = np.array(rows, np.float32)
    frozen.flags.writeable = False
    forms = {
        "list": rows,
        "array": np.array(rows, np.float32),
        "read-only": frozen,
        "float64": torch.tensor(rows).double(),
        "bfloat16": torch.tensor(rows, dtype=torch.bfloat16),
        "with gradient": torch.tensor(rows, requires_grad=True) * 1,
    }
    monitor = Monitor(2, 2)
    monitor.update(np.array([0, 1]), forms[kind])
    np.testing.assert_allclose(
        monitor.findings(torch.tensor([0, 0])).label_quality, [softmax(row)[0] for row in rows], rtol=1e-6
    )


def filled(seed=0, samples=200):
    random = np.random.default_rng(seed)
    true = random.integers(0, 3, samples)
    given = np.where((true == 0) & (random.random(samples) < 0.4), 1, true)  # 0 is often called 1
    monitor = Monitor(samples, 3)
    for _ in range(4):
        monitor.update(np.arange(samples), 3 * np.eye(3)[true] + random.normal(size=(samples, 3)))
    return monitor, given, true


def test_the_posterior_is_that_of_the_mean():
    monitor, given, _ = filled()
    found = monitor.findings(given, score="posterior", class_names=["a", "b", "c"], ids=np.arange(1000, 1200))
    expected = posterior(monitor.ledger.mean_probs(), given).probs
    np.testing.assert_allclose(found.label_quality, expected[np.arange(200), given])
    assert found.table["given_label"][0] in ("a", "b", "c")
    assert found.ids[0] == 1000
    assert not np.allclose(found.label_quality, monitor.findings(given).label_quality)


@pytest.mark.parametrize("score", ["history", "posterior"])
def test_what_was_never_seen_is_no_issue(score):
    monitor = Monitor(4, 2)
    monitor.update([0, 1, 2], [[3.0, 0.0], [0.0, 3.0], [3.0, 0.0]])
    found = monitor.findings([0, 0, 0, 1], score=score, threshold=0.5)
    assert np.isnan(found.label_quality).tolist() == [False, False, False, True]
    assert found.is_label_issue.tolist() == [False, True, False, False]
    assert found.suggested_labels[3] == 1


def test_it_goes_on_where_it_was(tmp_path):
    random = np.random.default_rng(1)
    batches = [(random.permutation(6)[:3], random.normal(size=(3, 2))) for _ in range(9)]
    whole, first = Monitor(6, 2, history=2), Monitor(6, 2, history=2)
    for batch in batches:
        whole.update(*batch)
    for batch in batches[:4]:
        first.update(*batch)
    torch.save(first.state_dict(), tmp_path / "monitor.pt")
    second = Monitor(6, 2, history=2)
    second.load_state_dict(torch.load(tmp_path / "monitor.pt", weights_only=True))
    for batch in batches[4:]:
        second.update(*batch)
    np.testing.assert_array_equal(second.ledger.mean_probs(), whole.ledger.mean_probs())
    assert second.ledger.seen.tolist() == whole.ledger.seen.tolist()
    with pytest.raises(InputError, match="num_samples=6, not 7"):
        Monitor(7, 2, history=2).load_state_dict(whole.state_dict())


def test_compact_for_many_classes():
    monitor, given, _ = filled()
    small = Monitor(200, 3, keep="compact", labels=given)
    small.update(np.arange(200), monitor.ledger.newest(), probs=True)
    np.testing.assert_allclose(
        small.findings(given).label_quality, monitor.ledger.newest()[np.arange(200), given], rtol=1e-6
    )
    with pytest.raises(InputError, match="compact"):
        small.findings(given, score="posterior")


@pytest.mark.parametrize(
    ("index", "logits", "message"),
    [
        ([0], [0.1, 0.2], r"logits must have shape \(B, 2\), not \(2,\)"),
        ([0], [[0.1, 0.2, 0.3]], r"\(1, 2\), not \(1, 3\)"),
        ([0, 1], [[0.1, 0.2]], r"\(2, 2\), not \(1, 2\)"),
        ([5], [[0.1, 0.2]], "index must lie in 0..1"),
        ([0.5], [[0.1, 0.2]], "whole numbers"),
        ([0], [[float("nan"), 0.2]], "a diverged network"),
        ([0], [[0.1, 0.2j]], "logits must be real numbers"),
        ([0], torch.tensor([[0.1, 0.2j]]), "logits must be real numbers"),
        ([0], np.ma.masked_array([[0.1, 0.2]], [[True, False]]), "logits is a masked array with 1 masked values"),
    ],
)
def test_batches_that_are_wrong(index, logits, message):
    monitor = Monitor(2, 2)
    with pytest.raises(InputError, match=message):
        monitor.update(index, logits)
    assert not monitor.ledger.seen.any()
    assert monitor.ledger.epoch == -1


def test_questions_that_are_wrong():
    monitor = Monitor(2, 2)
    with pytest.raises(InputError, match="recorded nothing yet"):
        monitor.findings([0, 1])
    monitor.update([0, 1], [[0.1, 0.2], [1.0, 0.0]])
    with pytest.raises(InputError, match="score must be 'history' or 'posterior', not 'margin'"):
        monitor.findings([0, 1], score="margin")
    with pytest.raises(InputError, match=r"labels must lie in 0..1"):
        monitor.findings([0, 2], score="posterior")
    with pytest.raises(InputError, match="labels must be 2 whole numbers"):
        monitor.findings(["cat", "dog"])
    with pytest.raises(InputError, match="num_classes"):
        Monitor(2, 1)


def test_it_says_what_it_is():
    assert repr(Monitor(5, 2)) == "Monitor(num_samples=5, num_classes=2, history=10, keep='full')"
