"""The suites of benchmarks/quality.py: which runs, and in which order."""

import pytest
from tests.helpers.scripts import load_script

from jnpl.experiments.results import read
from jnpl.experiments.spec import RunSpec
from jnpl.recipes.schema import parse_recipe

# Descriptions in committed results -> those of today, where only the words have changed.
REWORDED = {
    "Any data, in minutes: NL first and NL+ later, averaged weights, labels judged by their posterior.": (
        "Any data, in minutes: NL first and NL+ later, averaged weights, labels scored by their posterior."
    )
}


@pytest.fixture(scope="module")
def quality():
    return load_script("benchmarks/quality.py")


def test_the_pages_of_fast_are_made_from_the_results():
    """`python benchmarks/fast_page.py`."""
    fast_page = load_script("benchmarks/fast_page.py")
    pages = fast_page.pages()
    assert len(pages) == 2 + len(fast_page.SUITES)
    for path, text in pages.items():
        assert path.read_text("utf-8") == text, path.name
    assert fast_page.BLOCK.search(fast_page.README.read_text("utf-8"))[0].count(fast_page.readme_block()) == 1


def test_the_page_for_data_owners_is_made_from_the_results():
    """`python benchmarks/owners.py page`."""
    owners = load_script("benchmarks/owners.py")
    assert owners.PAGE.read_text("utf-8") == owners.page(owners.RESULTS)


def test_the_figures_of_a_whole_run_are_those_of_its_json():
    """`python benchmarks/whole.py`."""
    whole = load_script("benchmarks/whole.py")
    assert whole.BLOCK.search(whole.README.read_text("utf-8"))[0].count(whole.block(read(whole.RESULTS))) == 1


def test_the_decisive_suite_ends_a_seed_before_the_next(quality):
    specs = quality.decisive((1, 2, 3))
    # Three more in one setting, and there, with one seed, fourteen: newer methods, other crops, more epochs.
    assert len(specs) == 3 * (7 * 7 + 3) + 14
    assert [spec.seed for spec in specs] == sorted(spec.seed for spec in specs)
    assert [spec.variant for spec in specs[7:31]] == [
        "ce",
        "fast",
        "nlnl",
        "cleanlab",
        "jnpl-paper",
        "gce",
        "co-teaching",
        "ce-clean",
        "ce-augmented",
        "fast-flip",
        "nlnl-augmented",
        "cleanlab-augmented",
        "gce-augmented",
        "co-teaching-augmented",
        "ce-clean-augmented",
        "elr-augmented",
        "sop-augmented",
        "cores2-augmented",
        "co-teaching-plus-augmented",
        "sop-plus-augmented",
        "elr-plus-augmented",
        "dividemix-augmented",
        "gce-long",
        "co-teaching-long",
    ]
    assert {spec.setting for spec in specs[7:31]} == {"cifar10-symm40"}
    assert specs[65].setting == "cifar10n-human"
    assert {(spec.images, spec.pixels, spec.epochs, spec.padding, spec.test_images) for spec in specs} == {
        (5_000, 16, 30, 0, 10_000)
    }


def test_all_runs_have_a_name_of_their_own_and_a_recipe(quality):
    for suite in quality.SUITES.values():
        specs = suite((1, 2))
        assert len({spec.name for spec in specs}) == len(specs)
        for spec in specs:
            if spec.seed == 1:
                spec.recipe()


@pytest.mark.parametrize("suite", ["decisive", "full", "cost", "noises", "breadth", "ablation"])
def test_committed_figures_are_of_the_recipes_of_today(quality, suite):
    """A run's name stands for its own settings; that the recipe of its row is still the same shows here."""
    lines = read(quality.results_of(suite))
    assert set(lines) == {spec.name for spec in quality.SUITES[suite](quality.SEEDS)}
    for name, told in lines.items():
        spec = RunSpec.model_validate(told["cell"])
        then, now = (recipe.model_dump(exclude={"engine"}) for recipe in (parse_recipe(told["recipe"]), spec.recipe()))
        then["description"] = REWORDED.get(then["description"], then["description"])
        assert name == spec.name
        assert then == now, name


def test_the_other_suites(quality):
    full, breadth = quality.full((1, 2)), quality.breadth((1, 2))
    assert [(spec.variant, spec.images, spec.epochs) for spec in full] == [
        ("ce", None, 10),
        ("nlnl", None, 10),
        ("fast", None, 10),
    ]
    assert len(breadth) == 2 * (3 * 7 + 1) * 7 + 2
    chosen = [spec for spec in quality.ablation((1,)) if spec.data == "cifar10"]
    assert {(spec.start, spec.seed) for spec in chosen} == {(35_000, 0)}  # no image of the table, no test image
    small = quality._shrunk(breadth[0], {"epochs": 1, "images": 300})
    assert (small.epochs, small.images) == (1, None)
    assert quality._shrunk(full[0], {"images": 300}).images == 300
