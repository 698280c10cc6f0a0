"""The default on a small set of images from random weights ranks labels as well as plain cross-entropy."""

from sklearn.datasets import load_digits
from tests.helpers import quick

from jnpl import noise
from jnpl.data.sources.arrays import from_arrays
from jnpl.recipes.automatic import adapt_recipe

CPU = {"engine.accelerator": "cpu", "engine.workers": 0}


def test_the_default_is_not_below_cross_entropy(tmp_path):
    bunch = load_digits()
    pixels, labels = (bunch.images[:300] * 15.9).astype("uint8"), bunch.target[:300]
    source = from_arrays(pixels, noise.symmetric(labels, 0.2, 10, seed=0), y_true=labels)
    ranking = {}
    for method in (None, "ce"):
        recipe = adapt_recipe(source, None, method, CPU).recipe
        assert recipe.method.name == "ce"
        ranking[method] = quick.train(source, recipe, tmp_path / str(method)).results["ap"]
    assert ranking[None] >= ranking["ce"] - 0.01, ranking
