"""The suites of benchmarks/quality.py: which cells, and in which order."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from jnpl.bench.rows import recipe_of


@pytest.fixture(scope="module")
def quality():
    path = Path(__file__).parents[2] / "benchmarks" / "quality.py"
    spec = importlib.util.spec_from_file_location("quality_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_decisive_suite_ends_a_seed_before_the_next(quality):
    cells = quality.decisive((1, 2, 3))
    assert len(cells) == 3 * (7 * 7 + 3)  # ce-clean and the two with other crops in one setting
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    assert [cell.row for cell in cells[7:17]] == [
        "ce", "fast", "nlnl", "cleanlab", "jnpl-paper", "gce", "co-teaching", "ce-clean", "ce-augmented", "fast-flip",
    ]  # fmt: skip
    assert {cell.setting for cell in cells[7:17]} == {"cifar10-symm40"}
    assert cells[51].setting == "cifar10n-human"
    assert {(cell.images, cell.pixels, cell.epochs, cell.padding, cell.test_images) for cell in cells} == {
        (5_000, 16, 30, 0, 10_000)
    }


def test_all_cells_have_a_name_of_their_own_and_a_recipe(quality):
    for suite in quality.SUITES.values():
        cells = suite((1, 2))
        assert len({cell.name for cell in cells}) == len(cells)
        for cell in cells:
            if cell.seed == 1:
                recipe_of(cell)


def test_the_other_suites(quality):
    full, breadth = quality.full((1, 2)), quality.breadth((1, 2))
    assert [(cell.row, cell.images, cell.epochs) for cell in full] == [
        ("ce", None, 10), ("nlnl", None, 10), ("fast", None, 10),
    ]  # fmt: skip
    assert len(breadth) == 2 * 3 * 7 * 6 + 2
    small = quality._shrunk(breadth[0], {"epochs": 1, "images": 300})
    assert (small.epochs, small.images) == (1, None)
    assert quality._shrunk(full[0], {"images": 300}).images == 300
