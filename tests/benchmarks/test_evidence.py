"""benchmarks/evidence.py: its rows and figures on small data, and its pages."""

import json

import numpy as np
import pytest
from tests.helpers.paths import ROOT
from tests.helpers.scripts import load_script

from jnpl.data.sources.arrays import from_arrays

evidence = load_script("benchmarks/evidence.py")


@pytest.fixture
def source():
    """200 vectors of two classes far apart; every tenth label is wrong."""
    random, true = np.random.default_rng(0), np.arange(200) % 2
    x = (random.normal(size=(200, 6)) + 4 * true[:, None]).astype(np.float32)
    given = np.where(np.arange(200) % 10 == 0, 1 - true, true)
    return from_arrays(x, given, y_true=true)


@pytest.mark.parametrize("row", ["lr", "margin", "knn", "logit-margin", "trees"])
def test_every_rival_finds_the_wrong_labels(source, row):
    verdict = evidence.lr(source, 1, 1.0)[row] if row in ("lr", "margin") else evidence.ROWS[row](source, 1)
    figures = evidence.judged(verdict, evidence.everywhere(source), 1)
    assert (figures["wrong"], figures["samples"]) == (20, 200)
    assert figures["ap"] > 0.9
    assert figures["fnr"] <= 0.2
    if row != "logit-margin":
        assert figures["f1"] > 0.7


def test_figures_by_hand():
    truth = evidence.Truth(np.array([True] * 5 + [False]), np.array([True, False, True, False, False, True]))
    verdict = evidence.Verdict(
        np.array([0.1, 0.2, 0.9, 0.5, 0.6, 0.0]), np.array([True, True, False, False, False, True])
    )
    figures = evidence.judged(verdict, truth, 1)
    assert (figures["wrong"], figures["samples"], figures["flagged"]) == (2, 5, 2)
    assert (figures["fnr"], figures["precision"], figures["recall"], figures["f1"]) == (0.5, 0.5, 0.5, 0.5)
    assert figures["ap"] == pytest.approx((1 + 2 / 5) / 2)


def test_a_label_is_wrong_where_fewer_than_three_of_five_confirm_it(tmp_path):
    votes = [{"id": at, "mturk": {"given": given}} for at, given in ((0, 3), (2, 2), (9, 0))]
    (tmp_path / "checked.json").write_text(json.dumps(votes), "utf-8")
    truth = evidence.checked(tmp_path / "checked.json", 4, 8, 4)
    assert np.flatnonzero(truth.rows).tolist() == [4, 6]
    assert np.flatnonzero(truth.wrong).tolist() == [6]


def test_the_pages_are_those_of_the_results():
    for place, text in evidence.page(ROOT / "benchmarks/results").items():
        assert place.read_text("utf-8") == text, "run python benchmarks/evidence.py page"
