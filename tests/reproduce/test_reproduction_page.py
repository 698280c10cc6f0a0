"""docs/reproduction.md is made from the committed JSON: `python benchmarks/reproduction_page.py`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from jnpl.reproduce import draw
from jnpl.reproduce.items import FIGURES, ITEMS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("reproduction_page", ROOT / "benchmarks/reproduction_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_page_is_what_the_results_say(script):
    assert script.PAGE.read_text("utf-8") == script.page(script.results_of())


@pytest.mark.parametrize("item", FIGURES)
def test_the_committed_picture_is_what_the_results_say(script, tmp_path, item):
    fresh, _ = draw.figure(script.results_of(), item, tmp_path)
    with Image.open(script.IMAGES / script.image(item)) as committed, Image.open(fresh) as drawn:
        np.testing.assert_array_equal(np.asarray(committed), np.asarray(drawn))


def strange(script, folder):
    """What should not be committed: JSON of other scales, of other settings than today's, or too large."""
    known = {each.cell.name: each for each in script.results_of(folder).every if each.is_current}
    return [path.name for path in sorted(folder.glob("*.json"))
            if path.stem not in known or path.stat().st_size >= 60_000]  # fmt: skip


def test_committed_results_are_small_and_current(script):
    assert strange(script, script.RESULTS) == []


def test_no_other_results_could_be_committed(script, made):
    made.cell("nlnl")
    made.cell("jnpl", classify=True)
    assert strange(script, made.folder) == []
    tiny = made.cell("ce", scale="tiny")
    made.cell("jnpl", seed=2, name="jnpl-of-another-version")
    large = made.cell("nl-plus", curve=[0.1] * 16_000)
    wrong = [f"{name}.json" for name in (tiny.name, "jnpl-of-another-version", large.name)]
    assert strange(script, made.folder) == sorted(wrong)


def test_without_results_the_page_says_so(script, tmp_path):
    text = script.page(script.results_of(tmp_path))
    assert text.count("**Not run.**") == len(ITEMS)
    assert "| **not enough data** |" in text
    assert "**agrees**" not in text
    assert "cifar-100-binary.tar.gz" in text
    assert not re.search(r"/(home|tmp|work)/", text)  # no path of the machine that made it


def test_the_page_follows_the_results(script, made):
    made.cell("nlnl", stages={"selnl": {"test_accuracy": 0.4, "epoch": 50}})
    made.cell("nl-plus", accuracy=0.2)
    text = script.page(script.results_of(made.folder))
    assert "40.0% after NL and SelNL (50 epochs), 20.0% after NL+" in text
    assert "**Disagrees with the paper: NL+ alone reaches the accuracy of NL followed by SelNL." in text
    assert "2 runs of one thread took 0.0 hours" in text
