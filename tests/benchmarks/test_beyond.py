"""benchmarks/beyond.py: its tables are made from the results, and a rival is checked by hand."""

import numpy as np
import pytest
from tests.helpers.scripts import load_script


@pytest.fixture
def script():
    return load_script("benchmarks/beyond.py")


def test_the_page_is_that_of_the_results(script):
    assert script.PAGE.read_text("utf-8") == script.page_text(script.FILE)


def test_dawid_and_skene_trust_the_better_annotators(script):
    random = np.random.default_rng(0)
    true = random.integers(0, 3, 600)
    wrong = np.stack([random.random(600) < rate for rate in (0.05, 0.05, 0.6)], axis=1)
    votes = np.where(wrong, (true[:, None] + random.integers(1, 3, (600, 3))) % 3, true[:, None])
    most = np.array([np.bincount(row, minlength=3).argmax() for row in votes])
    probs = script.dawid_skene(votes, 3)
    assert probs.sum(axis=1) == pytest.approx(np.ones(600))
    assert (probs.argmax(axis=1) == true).mean() > (most == true).mean()
