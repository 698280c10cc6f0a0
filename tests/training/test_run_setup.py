"""Settings that do not work together are refused before any data are read."""

import numpy as np
import pytest

from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import InputError
from jnpl.methods.registry import METHODS
from jnpl.recipes.load import load_recipe, parse_changes
from jnpl.training.pseudo_labels import pseudo_label_settings
from jnpl.training.run_setup import RunSettings, check_settings


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["verdict.keep=compact"], "^pseudo-labels need whole predictions .*: verdict.keep = full, got compact"),
        (["verdict.keep=compact", "method.name=joint-optim"], "^joint-optim needs whole predictions of past epochs"),
        (["verdict.score=aum", "verdict.calibrate=true"], "score = aum is no probability .* verdict.calibrate = false"),
        (["verdict.score=margin", "verdict.calibrate=true"], "score = margin is no probability"),
        (["method.name=mlnt", "engine.compile=true"], "mlnt does not work with compiled networks"),
        (["method.name=metacleaner", "engine.compile=true"], "metacleaner does not work with compiled networks"),
    ],
)
def test_settings_that_exclude_each_other(changes, told):
    recipe = load_recipe("small", parse_changes(changes))
    pseudo = pseudo_label_settings(recipe, METHODS[recipe.method.name])
    settings = RunSettings(from_arrays(np.eye(4), [0, 1, 0, 1]), recipe, pseudo_labels=pseudo)
    with pytest.raises(InputError, match=told):
        check_settings(settings)
