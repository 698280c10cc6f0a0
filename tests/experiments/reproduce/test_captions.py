"""Captions name the runs and seeds that an item is drawn from, and no others."""

import re

import pytest

from jnpl.experiments.paper import METHODS
from jnpl.experiments.reproduce import captions, output

STALE = "were made with other settings"
MISSING = {"cifar100": "CIFAR-100 is not there", "clothing1m": "Clothing1M is not there"}


def told(made, item):
    """The line in the picture, and the caption's sentence about runs."""
    results = made.results(missing=MISSING)
    return captions.foot(results, item).partition("   ")[2], captions.describe(results, item)


def three_seeds_of_table_1(made):
    for seed in (1, 2, 3):
        for variant in METHODS:
            made.run(variant, "symm", 0.4, seed, classify=True)


def test_seeds_of_another_experiment_are_not_counted(made):
    three_seeds_of_table_1(made)
    assert told(made, "fig1")[0] == "(0 of 2 runs, 0 seeds)"
    made.run("nlnl")
    assert told(made, "fig1")[0] == "(1 of 2 runs, 1 seed)"
    made.run("jnpl", classify=True)
    foot, described = told(made, "fig1")
    assert foot == "(2 runs, 1 seed)"
    assert "2 runs, seed 1." in described
    # Eight settings of eight methods, three seeds in two of them; 24 of one and jnpl of another are there.
    foot, described = told(made, "table1")
    assert foot == "(25 of 96 runs, 3 seeds)"
    assert "25 of 96 runs, seeds 1, 2, 3." in described


@pytest.mark.parametrize(("item", "seeds"), [("fig1", "1 seed"), ("fig4", "3 seeds")])
def test_histograms_are_of_one_run_and_curves_are_means(made, item, seeds):
    for seed in (1, 2, 3):
        for number, variant in enumerate(("nlnl", "nl-plus", "jnpl", "nl-plus-late")):
            made.run(variant, seed=seed, curve=[0.1 * number + 0.01 * seed] * 3)
    foot, described = told(made, item)
    runs, names = ("2 runs", "seed 1.") if item == "fig1" else ("12 runs", "seeds 1, 2, 3.")
    assert foot == f"({runs}, {seeds})"
    assert f"{runs}, {names}" in described
    assert len(captions.used(made.results(), item)) == int(runs.split()[0])
    assert made.results().curves(("jnpl",), ("symm", 0.6))["jnpl"] == pytest.approx([0.22] * 3)


def test_runs_of_other_settings_beside_todays_are_not_counted(made):
    made.run("nlnl")
    made.run("jnpl")
    made.run("nl-plus")
    made.run("jnpl", seed=2, name="jnpl-of-another-version")
    made.run("jnpl", name="jnpl-of-a-third-version")
    for item, runs in (("fig1", "2 runs"), ("fig4", "3 of 12 runs")):  # four curves of three seeds
        foot, described = told(made, item)
        assert foot == f"({runs}, 1 seed)"
        assert f"{runs}, seed 1." in described
        assert STALE not in described
        assert all(each.is_current for each in captions.used(made.results(), item))


def test_a_run_of_other_settings_alone_is_used_and_named(made):
    made.run("nlnl")
    made.run("jnpl", seed=2, name="jnpl-of-another-version")
    made.run("nl-plus")
    described = told(made, "fig4")[1]
    assert "seeds 1, 2." in described
    assert f"1 of the runs {STALE}" in described
    assert [each.is_current for each in captions.used(made.results(), "fig4")].count(False) == 1
    assert STALE not in told(made, "fig2")[1]  # which has no JNPL


def test_captions_say_what_the_paper_does_not(made):
    assert "The paper does not say the rate: 60 % is our choice." in told(made, "fig1")[1]
    assert "The paper does not say the rate of (d): 60 % is our choice." in told(made, "fig3")[1]
    assert "our choice" not in told(made, "fig4")[1]
    before = told(made, "fig2")[1]
    assert "Up to 400 points of each kind are drawn, whatever the rate, on the gradient made pale." in before
    assert "NL alone" not in before
    for rate in (0.2, 0.4, 0.6):
        made.run("nl", rate=rate, stages={"train": {"epoch": 45}})
        made.run("nl-plus", rate=rate, stages={"train": {"epoch": 46}})
        made.run("nl-plus-late", rate=rate)  # in no picture of Figure 2
    foot, described = told(made, "fig2")
    assert foot == "(6 runs, 1 seed)"
    assert "NL is NL alone, 45 epochs; NL+ has 46." in described


def test_the_page_counts_the_runs_of_its_experiments(made, tmp_path):
    three_seeds_of_table_1(made)
    made.run("nlnl")
    made.run("jnpl", name="jnpl-of-another-version")
    text = re.sub(r"\s+", " ", output.render(made.results(missing=MISSING), ["fig1", "fig4"], tmp_path))
    assert "2 runs, 2 min of training; program abc1234. 1 of the runs were made with other settings" in text
    text = re.sub(r"\s+", " ", output.render(made.results(missing=MISSING), ["table1"], tmp_path))
    assert "24 runs, 24 min of training; program abc1234. </p>" in text
