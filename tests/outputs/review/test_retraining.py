"""Learning from decisions: the decided labels are trusted, and nothing runs that was not allowed to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from jnpl import Findings
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import InputError, UntrustedCodeError
from jnpl.outputs.review.decisions import DecisionStore, NewDecision
from jnpl.outputs.review.retraining import head_recipe, retrain
from jnpl.recipes.automatic import adapt_recipe


@pytest.fixture
def source():
    """60 vectors of three classes."""
    random, labels = np.random.default_rng(0), np.arange(60) % 3
    x = random.normal(size=(3, 128))[labels] + random.normal(size=(60, 128))
    return from_arrays(x.astype(np.float32), labels, name="vectors")


def test_learning_runs_no_code_without_leave(source):
    recipe = adapt_recipe(source, None, None, {}).recipe.model_dump(mode="json") | {"model": "own_code:make"}
    with pytest.raises(UntrustedCodeError, match="'own_code:make'"):
        head_recipe(source, recipe)
    assert head_recipe(source, recipe, trust_code=True).model == "own_code:make"
    with pytest.raises(InputError, match="only embeddings are quick"):
        head_recipe(from_arrays(np.zeros((6, 8, 8, 1), np.uint8), [0, 1] * 3), recipe)


def test_learning_keeps_the_decisions_that_the_run_was_given(source, tmp_path):
    given, earlier = source.labels, np.full(60, -1)
    earlier[[4, 7]] = (given[[4, 7]] + 1) % 3
    store = DecisionStore(tmp_path / "review.sqlite", Findings.from_probs(np.eye(3)[given], given))
    made = [NewDecision(7, "keep"), NewDecision(8, "relabel", int(given[8] + 2) % 3), NewDecision(9, "drop")]
    store.decide(made, reviewer="Ann", tab="t")
    shares = []
    ranking = retrain(replace(source, decided=earlier), given, store.current(), None, 0, shares.append)
    store.close()
    expected = [(given[4] + 1) % 3, given[7], (given[8] + 2) % 3]
    assert ranking.suggested[[4, 7, 8]].tolist() == expected
    assert ranking.quality[[4, 7, 8]].tolist() == [0, 1, 0]
    assert not ranking.is_suspect[[4, 7]].any()  # those are not asked again
    assert np.flatnonzero(np.isnan(ranking.quality)).tolist() == [9]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1
