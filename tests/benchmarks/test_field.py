"""docs/results/field.md is what its results say, and every run of it has settings that hold."""

import pytest
from tests.helpers.scripts import load_script

from jnpl.experiments import results
from jnpl.experiments.spec import as_stored
from jnpl.methods.registry import METHODS


@pytest.fixture(scope="module")
def field():
    return load_script("benchmarks/field.py")


def test_the_page_is_that_of_the_results(field):
    assert (field.DOCS / field.PAGE).read_text("utf-8") == field.page()


def test_every_method_has_a_run_of_as_many_epochs(field):
    specs = field.specs("epochs", 0, None)
    # `fast` is refined-nl on embeddings; jnpl-stable came after the table was made.
    assert {spec.method for spec in specs} >= set(METHODS) - {"refined-nl", "jnpl-stable"}
    for spec in specs:
        recipe = spec.recipe()
        linear = spec.method == "fast"
        assert recipe.model == ("linear" if linear else "mlp512")
        assert recipe.data.vectors == "unit"


def test_stored_lines_have_the_settings_of_their_runs(field):
    for line in results.read(field.FILE).values():
        spec = field.FieldRun(**{name: line[name] for name in field.FieldRun.model_fields})
        assert spec.name == line["name"]
        recipe = as_stored(spec.recipe().model_dump(mode="json", exclude={"engine", "description"}))
        assert _has(recipe, as_stored(line["settings"])), spec.name


def _has(settings, stored):
    """Settings that recipes got later are not in a stored line."""
    if isinstance(stored, dict):
        return all(key in settings and _has(settings[key], value) for key, value in stored.items())
    return settings == stored


def test_all_rows_of_the_table_have_thirty_epochs_in_all_and_ours_no_more(field):
    lines = [line for line in results.read(field.FILE).values() if line["suite"] == "epochs"]
    assert {line["results"]["epochs"] for line in lines if line["method"] != field.OURS} == {field.EPOCHS}
    assert max(line["results"]["epochs"] for line in lines) == field.EPOCHS
