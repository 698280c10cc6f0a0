"""benchmarks/tags.py: its table is made from the results, and its noise is what it says."""

import numpy as np
import pytest
from tests.helpers.scripts import load_script


@pytest.fixture
def script():
    return load_script("benchmarks/tags.py")


def test_the_page_is_that_of_the_results(script):
    assert script.PAGE.read_text("utf-8") == script.page_text(script.FILE)


def test_tags_are_removed_and_added_as_the_column_says(script):
    true = np.random.default_rng(0).random((5000, 10)) < 0.2
    for column, added in (("0.3 0.05", 0.05 * true.sum()), ("0.3 0.05 absent", 0.05 * (~true).sum())):
        given = script.given_tags(true, column, seed=1)
        assert (true & ~given).sum() == pytest.approx(0.3 * true.sum(), rel=0.1)
        assert (given & ~true).sum() == pytest.approx(added, rel=0.1)
