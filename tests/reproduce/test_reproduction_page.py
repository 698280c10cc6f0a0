"""docs/reproduction.md is made from the committed JSON: `python benchmarks/reproduction_page.py`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

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
    for item in FIGURES:
        assert (script.IMAGES / script.image(item)).is_file()


def test_committed_results_are_small_and_of_the_page(script):
    for path in script.RESULTS.glob("*.json"):
        assert path.stat().st_size < 60_000, path.name
    assert script.results_of().scale.name == "small"


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
    assert "2 runs took 0.0 hours of one core" in text
