"""Learning from decisions: the decided labels are trusted, and nothing runs that was not allowed to."""

from dataclasses import replace

import numpy as np
import pytest

from jnpl import Findings
from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import InputError, UntrustedCodeError
from jnpl.outputs.review.decisions import DecisionStore, NewDecision
from jnpl.outputs.review.ranking import Ranking
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
    before = Ranking(Findings.from_probs(np.eye(3)[given], given).with_decisions(earlier))
    store = DecisionStore(tmp_path / "review.sqlite", before.findings)
    made = [NewDecision(7, "keep"), NewDecision(8, "relabel", int(given[8] + 2) % 3), NewDecision(9, "drop")]
    store.decide(made, reviewer="Ann", tab="t")
    shares = []
    ranking = retrain(replace(source, decided=earlier), before, store.current(), None, 0, shares.append)
    store.close()
    assert (ranking.suggested[4], ranking.quality[4]) == ((given[4] + 1) % 3, 0)
    assert not ranking.is_suspect[4]  # it is not asked again
    decided = [7, 8, 9]  # keep what they had, so that a decision can be undone
    assert ranking.quality[decided].tolist() == before.quality[decided].tolist()
    assert not np.isnan(ranking.quality).any()
    assert (ranking.quality[10:] != before.quality[10:]).any()
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 1
