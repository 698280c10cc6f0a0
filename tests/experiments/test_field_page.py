"""docs/field.md is what its results say, and every cell of it has settings that hold."""

from __future__ import annotations

import pytest
from tests.helpers.scripts import load_script

from jnpl.experiments import results
from jnpl.methods.registry import METHODS


@pytest.fixture(scope="module")
def field():
    return load_script("benchmarks/field.py")


def test_the_page_is_that_of_the_results(field):
    assert field.PAGE.read_text("utf-8") == field.page()


def test_every_method_has_a_cell_of_as_many_epochs(field):
    cells = field.cells("epochs", 0, None)
    assert {cell.method for cell in cells} >= set(METHODS)
    for cell in cells:
        recipe = cell.recipe()
        linear = cell.method in ("fast", *field.VARIANTS)
        assert recipe.model == ("linear" if linear else "mlp512")
        assert recipe.data.vectors == "unit"


def test_stored_lines_have_the_settings_of_their_cells(field):
    for line in results.read(field.FILE).values():
        cell = field.FieldCell(**{name: line[name] for name in field.FieldCell.model_fields})
        assert cell.name == line["name"]
        recipe = cell.recipe().model_dump(mode="json", exclude={"engine", "description"})
        assert _has(recipe, line["settings"]), cell.name


def _has(settings, stored):
    """Settings that recipes got later are not in a stored line."""
    if isinstance(stored, dict):
        return all(key in settings and _has(settings[key], value) for key, value in stored.items())
    return settings == stored


def test_all_rows_of_the_table_have_thirty_epochs_in_all(field):
    lines = [line for line in results.read(field.FILE).values() if line["suite"] == "epochs"]
    assert {line["results"]["epochs"] for line in lines} == {field.EPOCHS}
