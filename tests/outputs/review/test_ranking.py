"""Order, filters and pairs."""

import io

import numpy as np
import pytest
from tests.helpers.runs import many_findings

from jnpl.internal.errors import InputError
from jnpl.outputs.review.ranking import Filter, Ranking, mask_of


@pytest.fixture
def findings():
    return many_findings(400, 4, 0.25)


def test_suspects_come_first_and_the_worst_of_them(findings):
    ranking = Ranking(findings)
    count = int(findings.is_label_issue.sum())
    assert ranking.order[:count].tolist() == findings.worst(count).index.tolist()
    assert sorted(ranking.order.tolist()) == list(range(400))


def test_a_ranking_as_bytes(findings):
    ranking = Ranking(findings)
    assert ranking.order is not None  # computed, and not stored
    again = Ranking.from_bytes(ranking.to_bytes(), 3, findings)
    assert again.number == 3
    assert again.candidates is None
    candidates = np.full((400, 4), 2, np.int32)
    candidates[7] = -1  # dropped samples have no candidates
    shares = np.zeros((400, 4), np.float32)
    dropped = Ranking(findings, candidates, shares)
    assert Ranking.from_bytes(dropped.to_bytes(), 1, findings).candidates.tolist() == candidates.tolist()
    for name in ("suggested", "quality", "confidence", "is_suspect"):
        np.testing.assert_array_equal(getattr(again, name), getattr(ranking, name))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("suggested", np.full(400, 99)),
        ("suggested", np.zeros(400)),
        ("quality", np.full(400, 7.0)),
        ("quality", np.zeros((400, 2))),
        ("confidence", np.zeros(399)),
        ("candidates", np.full((400, 4), -2, np.int32)),
        ("facts", np.array('{"threshold": {"value": "x"}, "noise": null}')),
        ("facts", np.array('{"threshold": {"value": 0.5}, "noise": {"rate": 1e400}}')),
        ("facts", np.array("[" * 9999)),
    ],
)
def test_a_forged_ranking_is_refused(findings, name, value):
    with np.load(io.BytesIO(Ranking(findings).to_bytes())) as stored:
        arrays = dict(stored)
    file = io.BytesIO()
    np.savez(file, **{**arrays, name: value})
    with pytest.raises(InputError, match=r"the ranking of Learn in review\.sqlite cannot be used"):
        Ranking.from_bytes(file.getvalue(), 1, findings)


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY"])
def test_a_damaged_ranking_is_refused(findings, content):
    with pytest.raises(InputError, match=r"the ranking of Learn in review\.sqlite cannot be used"):
        Ranking.from_bytes(content, 1, findings)


@pytest.mark.parametrize(
    ("wanted", "rule"),
    [
        (Filter(), lambda f: f.is_label_issue),
        (Filter(list="all"), lambda f: np.ones(400, bool)),
        (Filter(given=2), lambda f: f.is_label_issue & (f.given_labels == 2)),
        (Filter(given=2, suggested=0), lambda f: f.is_label_issue & (f.given_labels == 2) & (f.suggested_labels == 0)),
        (Filter(low=0.8, high=0.9), lambda f: f.is_label_issue & (abs(f.suggested_confidence - 0.85) <= 0.05)),
        (Filter(list="all", verdict="fine"), lambda f: ~f.is_label_issue),
        (Filter(verdict="other"), lambda f: f.is_label_issue & (f.suggested_labels != f.given_labels)),
        (Filter(verdict="doubt"), lambda f: f.is_label_issue & (f.suggested_labels == f.given_labels)),
        (Filter(list="outliers"), lambda f: np.zeros(400, bool)),
    ],
)
def test_filters(findings, wanted, rule):
    mask = mask_of(wanted, Ranking(findings), findings.given_labels, None, None)
    np.testing.assert_array_equal(mask, rule(findings))


def test_pairs_are_counted(findings):
    ranking, undecided = Ranking(findings), np.arange(400) % 2 == 0
    found = ranking.pairs(undecided, most=5)
    assert len(found) == 5
    for each in found:
        members = (
            findings.is_label_issue
            & (findings.given_labels == each["given"])
            & (findings.suggested_labels == each["suggested"])
        )
        assert (each["count"], each["undecided"]) == (members.sum(), (members & undecided).sum())
        assert each["given"] != each["suggested"]
    assert [each["undecided"] for each in found] == sorted((each["undecided"] for each in found), reverse=True)
