"""The pages of the reproduction are made from the committed results: `python benchmarks/reproduction_page.py`."""

import re

import numpy as np
import pytest
from PIL import Image
from tests.helpers.scripts import load_script

from jnpl.experiments import style
from jnpl.experiments.reproduce import output
from jnpl.experiments.reproduce.catalogue import EXPERIMENTS, FIGURES, names_of, specs_of
from jnpl.experiments.results import read
from jnpl.experiments.scales import SCALES


@pytest.fixture(scope="module")
def script():
    return load_script("benchmarks/reproduction_page.py")


def test_the_committed_pages_are_what_the_results_say(script):
    pages = script.pages(script.results_of(), script.features_of(), script.full_of())
    assert len(pages) == 3
    for path, text in pages.items():
        assert path.read_text("utf-8") == text, path


def pixels(picture):
    with Image.open(picture) as opened:
        return np.asarray(opened)


def test_the_committed_curves_of_why_are_what_the_results_say(script, tmp_path):
    fresh = script.draw_why(script.results_of(), tmp_path)
    assert np.array_equal(pixels(script.IMAGES / "reproduce-why.png"), pixels(fresh))


def test_the_committed_curves_of_pl_plus_are_what_the_results_say(script, tmp_path):
    fresh = script.draw_pl_plus(script.PL_PLUS, tmp_path)
    assert np.array_equal(pixels(script.IMAGES / "reproduce-features-pl-plus.png"), pixels(fresh))


@pytest.mark.parametrize("item", FIGURES)
def test_the_committed_picture_is_what_the_results_say(script, tmp_path, item):
    for scale, results in (("small", script.results_of()), ("features", script.features_of())):
        fresh = style.save(output.figure(results, item), tmp_path / "fresh.png")
        assert np.array_equal(pixels(script.IMAGES / script.image(item, scale)), pixels(fresh))


def test_the_committed_results_are_whole(script):
    """All figures and the half of Table 1 that is CIFAR-10, with the seeds that the scale has for each."""
    wanted = specs_of(names_of("all"), SCALES[script.SCALE], None, ["cifar10"])
    assert set(read(script.RESULTS)) == {spec.name for spec in wanted}


def test_the_committed_results_on_features_are_current_and_of_the_plan(script):
    """They may be a part of it: the page says what is missing."""
    wanted = specs_of(names_of("all"), SCALES["features"], None, list(SCALES["features"].stands_for))
    runs = script.features_of()
    assert all(each.is_current for each in runs.every)
    filters = {spec.model_copy(update={"classify": False}).name for spec in wanted}
    current = {each.spec.name for each in runs.every if each.is_current}
    assert current <= {spec.name for spec in wanted} | filters
    assert len(runs.every) == len(read(script.FEATURES)) > 0


def test_the_committed_results_of_the_full_schedule_are_whole_and_drawn(script, tmp_path):
    full = script.full_of()
    wanted = specs_of(["table1"], SCALES["features-full"], None, ["cifar10"])
    assert {each.spec.name for each in full.every if each.is_current} == {spec.name for spec in wanted}
    fresh = style.save(output.figure(full, "fig4"), tmp_path / "fresh.png")
    assert np.array_equal(pixels(script.IMAGES / script.image("fig4", "features-full")), pixels(fresh))


def test_committed_results_are_small(script):
    files = sorted(script.RESULTS.parent.glob("*.jsonl"))
    assert len(files) > 15
    assert [file.name for file in files if file.stat().st_size >= 2**20] == []


def test_slim_results_keep_what_is_drawn(script, made):
    """Points where Figures 2 and 6 draw them, curves of the first seed at symm 60, and all single figures."""
    slim = load_script("benchmarks/slim.py").slim
    kept = {
        "drawn": made.run("nl-plus", rate=0.6),
        "not": made.run("ce", rate=0.8),
        "cat": made.run("nlnl", "asymm", 0.4),
    }
    lines = read(made.file)
    before = {name: lines[spec.name] for name, spec in kept.items()}
    for line in before.values():
        line["results"] |= {"ap_curve": [1 / 3], "right_curve": [0.5], "wrong_curve": [0.5], "selected_curve": None}
    after = {name: slim(line) for name, line in before.items()}
    assert after["drawn"]["stages"]["train"]["clean"] == before["drawn"]["stages"]["train"]["clean"]
    assert after["drawn"]["results"]["ap_curve"] == [0.33333]
    assert sorted(after["not"]["stages"]["train"]["clean"]) == ["mean"]
    assert "ap_curve" not in after["not"]["results"]
    assert after["not"]["results"]["curve"] == before["not"]["results"]["curve"]
    assert after["not"]["results"]["ap"] == before["not"]["results"]["ap"]
    assert after["cat"]["stages"]["selnl"]["cat"] == before["cat"]["stages"]["selnl"]["cat"]
    assert "cat" not in after["drawn"]["stages"]["train"]


def test_candidates_of_pl_plus_by_hand():
    """Two of three classes below 1/3: the first three are candidates, of classes 0, 0 and 1; the second is wrong."""
    probs = np.array([[0.9, 0.05, 0.05], [0.8, 0.1, 0.1], [0.1, 0.9, 0.0], [0.5, 0.5, 0.0]])
    told = load_script("benchmarks/pl_plus.py").facts(probs, np.array([0, 1, 1, 0]))
    assert told == {"classes": 2, "candidates": 0.75, "right": 0.6667, "largest": 0.6667}
    none = load_script("benchmarks/pl_plus.py").facts(np.full((2, 3), 1 / 3), np.array([0, 1]))
    assert none == {"classes": 1, "candidates": 0.0, "right": None, "largest": None}


def test_the_full_schedule_stands_beside_a_part(script, made):
    for variant, part, whole in (("nlnl", 0.7, 0.75), ("nl-plus", 0.8, 0.85), ("jnpl", 0.1, 0.1)):
        made.run(variant, scale="features", accuracy=part, classify=True)
        made.run(variant, scale="features-full", accuracy=whole, cpu_seconds=3600.0, classify=True)
    made.run("ce", scale="features", accuracy=0.4)  # not with all images
    both = made.results("features"), made.results("features-full")
    text = script.full_schedule(*both) + script.full_column(*both)
    assert "| CE | 40.0%" not in text
    assert "| NL+ | 80.0% | 0.800 | 85.0% | 0.800 |" in text
    assert "| NLNL | 70.0 | 75.0 | 88.32 |" in text
    assert "Kendall's tau of the two orders: +1.00 by accuracy" in text
    assert "of the 3 rows at both scales: +1.00. With all images and epochs NL+ alone is first with 85.0 %" in text
    assert "before NLNL with 75.0 %. There is one seed; the 3 runs took 3.0 hours of one core." in text
    none = script.full_schedule(made.results("features"), made.results("paper"))
    assert none.startswith("Not run: `jnpl reproduce table1 --scale features-full")


def test_without_results_the_page_says_so(script, tmp_path):
    results = script.results_of(tmp_path / "none.jsonl")
    text = script.results_page(results)
    assert text.count("**Not run.**") == len(script.PAPER_ITEMS) == len(EXPERIMENTS) - 6
    assert "cifar-100-binary.tar.gz" in text
    none = tmp_path / "none.jsonl"
    for shown in (text, script.page(results, script.features_of(none), script.full_of(none))):
        assert "| **not enough data** |" in shown
        assert "**agrees**" not in shown
        assert not re.search(r"/(home|tmp|work)/", shown)  # no path of the machine that made it


def test_the_scale_keeps_to_its_time(script):
    """By the committed runs: the figures within an hour of two cores, Table 1's half within four."""
    results = script.results_of()
    assert 0 < script.figures_hours(results) < 1
    assert 0 < script.table_hours(results) < 4


def test_each_form_of_jnpl_has_verdicts_of_its_own(script, made):
    """NL+ alone is not asked for the claims on PL+, JNPL not for those on NL+; jnpl-stable stands in both places."""
    for variant, curve in (("nlnl", 0.5), ("nl-plus", 0.7), ("jnpl", 0.1), ("jnpl-stable", 0.8)):
        made.run(variant, scale="features", curve=[curve] * 30)
    columns = script.readings(made.results("features"))
    assert list(columns) == ["JNPL as written", "NL+ alone", "jnpl-stable"]
    statuses = {
        claim: [None if (one := column[claim]) is None else one.status for column in columns.values()]
        for claim in ("reaches", "speeds-up", "overtakes")
    }
    assert statuses == {
        "reaches": [None, "agrees", "agrees"],
        "speeds-up": ["disagrees", None, "agrees"],
        "overtakes": ["disagrees", "agrees", "agrees"],
    }
    assert "80.0% after 20 of NL+" in columns["jnpl-stable"]["reaches"].figures
    row = "and do not overfit. (fig4) | **disagrees** | **agrees** | **agrees** |"
    assert row in script.claims_table(made.results("features"))
    assert "- jnpl-stable: **agrees**. symm 60" in script.claims_in_full(made.results("features"))
