"""Pages are made from the committed results, and these are of the recipes of today."""

from tests.helpers.paths import ROOT
from tests.helpers.scripts import load_script

from jnpl.experiments.results import read
from jnpl.experiments.spec import RunSpec
from jnpl.recipes.schema import parse_recipe


def test_the_page_for_data_owners_is_made_from_the_results():
    """`python benchmarks/owners.py page`."""
    owners = load_script("benchmarks/owners.py")
    assert owners.PAGE.read_text("utf-8") == owners.page(owners.RESULTS)


def test_the_figures_of_a_whole_run_are_those_of_its_json():
    """`python benchmarks/whole.py`."""
    whole = load_script("benchmarks/whole.py")
    assert whole.BLOCK.search(whole.README.read_text("utf-8"))[0].count(whole.block(read(whole.RESULTS))) == 1


def test_the_speed_of_the_losses_is_that_of_its_results():
    """`python benchmarks/losses.py`."""
    losses = load_script("benchmarks/losses.py")
    assert losses.BLOCK.search(losses.PAGE.read_text("utf-8"))[0].count(losses.table(read(losses.RESULTS))) == 1


def test_the_results_of_fast_are_of_the_recipes_of_today():
    """A run's name stands for its own settings; that the recipe of its row is still the same shows here."""
    lines = read(ROOT / "benchmarks/results/fast.jsonl")
    assert len(lines) == 7 * 7 * 3
    for name, told in lines.items():
        spec = RunSpec.model_validate(told["cell"])
        then, now = (recipe.model_dump(exclude={"engine"}) for recipe in (parse_recipe(told["recipe"]), spec.recipe()))
        then["description"] = now["description"]  # words may change
        assert name == spec.name
        assert then == now, name
