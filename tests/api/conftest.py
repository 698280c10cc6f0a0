"""Quick trees for the tests of the Python interface."""

import pytest


@pytest.fixture
def all_trees():
    """For tests that ask how well labels are judged: trees as users get them."""


@pytest.fixture(autouse=True)
def _few_trees(request):
    if "all_trees" not in request.fixturenames:
        request.getfixturevalue("few_trees")
