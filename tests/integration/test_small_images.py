"""The default on a small set of images from random weights ranks labels as well as plain cross-entropy."""

from pathlib import Path

from tests.helpers.scripts import load_script

from jnpl import noise
from jnpl.data.sources.arrays import from_arrays
from jnpl.recipes.automatic import adapt_recipe

CPU = {"engine.accelerator": "cpu", "engine.workers": 0}


def test_the_default_is_not_below_cross_entropy():
    scratch = load_script("benchmarks/scratch.py")
    pixels, labels = scratch.clip_art(Path(), samples=300, side=12)
    labels = labels // 5  # the colour
    given = noise.symmetric(labels, 0.2, 4, seed=0)
    source = from_arrays(pixels, given, y_true=labels, class_names=list(range(4)))
    ranking = {}
    for method in (None, "ce"):
        recipe = adapt_recipe(source, None, method, CPU).recipe
        assert recipe.method.name == "ce"
        ranking[method] = scratch.run(source, recipe, seed=0)["ap"]
    assert ranking[None] >= ranking["ce"] - 0.01, ranking
