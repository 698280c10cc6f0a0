"""Versions, commit, and results as JSON."""

import math

import pytest
from tests.helpers.paths import ROOT

import jnpl
from jnpl.internal import provenance


def test_versions_name_jnpl_and_torch():
    found = provenance.versions()
    assert found["jnpl"] == jnpl.__version__
    assert {"python", "torch", "numpy", "scikit-learn"} <= set(found)


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a working copy")
def test_the_commit_is_that_of_the_working_copy():
    assert provenance.commit() != "unknown"


def test_nan_is_null():
    assert provenance.plain({"a": [1.0, math.nan], "b": {"c": math.nan, "d": "nan"}}) == {
        "a": [1.0, None],
        "b": {"c": None, "d": "nan"},
    }
