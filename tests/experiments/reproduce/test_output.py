"""Figures, index.html and the JSON: drawn from what there is, and plain about what there is not."""

import json
import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from jnpl.experiments import style
from jnpl.experiments.paper import METHODS, SETTINGS
from jnpl.experiments.reproduce import drawing, output
from jnpl.experiments.reproduce.catalogue import EXPERIMENTS, FIGURES
from jnpl.experiments.reproduce.fig3 import PL_PLUS
from jnpl.experiments.results import add, read

MISSING = {"cifar100": "The images of CIFAR-100 are not there: get them", "clothing1m": "Clothing1M is not there"}


def everything(made, apart=0.0):
    """All runs of the figures; the curves of their variants lie so far apart."""
    rising = np.linspace(0.1, 0.39, 30)

    def curve(variant):
        return (rising + apart * (*PL_PLUS, "nl-plus", "nlnl", "nl-plus-late").index(variant)).tolist()

    for noise, rate in SETTINGS:
        made.run("nlnl", noise, rate, classify=True, curve=curve("nlnl"))
        made.run("jnpl", noise, rate, classify=True, curve=curve("jnpl"), ap=0.9)
    for noise, rate in (("symm", 0.2), ("symm", 0.4), ("symm", 0.6), ("asymm", 0.4)):
        made.run("nl-plus", noise, rate, curve=curve("nl-plus"))
        made.run("nl", noise, rate)
    made.run("nl-plus-late", curve=curve("nl-plus-late"))
    for variant in list(PL_PLUS)[:-1]:
        made.run(variant, curve=curve(variant))
    return made.results(missing=MISSING)


def texts(path):
    """The text of an SVG, where it is kept as text."""
    return " ".join(" ".join(each.itertext()) for each in ET.parse(path).getroot().iter() if each.tag.endswith("text"))


@pytest.mark.parametrize("item", FIGURES)
def test_a_figure_says_what_it_is(made, tmp_path, item, monkeypatch):
    monkeypatch.setitem(style._RC, "svg.fonttype", "none")
    figure = output.figure(everything(made), item)
    drawn = [style.save(figure, tmp_path / f"{item}.{kind}") for kind in style.FORMATS]
    with Image.open(drawn[0]) as picture:
        assert picture.width > 900
        assert picture.height > 400
    told = texts(drawn[1])
    assert f"jnpl reproduce {item} --scale small" in told
    assert ("Not run" in told) == (item == "fig5")  # CIFAR-100 is missing
    if item == "fig5":
        assert "CIFAR-100, asymm" in told
        assert "get them" in told
    if item == "fig4":
        assert all(name in told for name in ("NL", "SelNL", "SelPL", "JNPL (NL+ and PL+)", "(not the paper's)"))


@pytest.mark.parametrize("item", FIGURES)
def test_a_figure_without_results_says_so(made, item):
    figure = EXPERIMENTS[item].draw(made.results(missing=MISSING))
    told = [text.get_text() for axis in figure.axes for text in axis.texts]
    assert any("Not run" in each for each in told)


def test_gradient_maps_are_the_closed_forms():
    own, other = np.array([0.2, 0.05, 0.5]), np.array([0.6, 0.9, 0.5])
    np.testing.assert_allclose(drawing.nl(own, other), own * other / (1 - other))
    np.testing.assert_allclose(drawing.nl_plus(own, other), own * other)
    np.testing.assert_allclose(drawing.selnl(10)(own, other), [0.3, 0.0, 0.5])


def test_the_page_holds_all_and_asks_nobody(made, tmp_path):
    results = everything(made)
    items = ("fig3", "fig4", "fig5", "table1", "table2")
    written = output.draw(results, items, tmp_path / "out")
    assert all(path.is_file() and path.stat().st_size for path in written)
    names = {path.name for path in written}
    assert {"index.html", "reproduce.json", "table1.md", "table1.csv", "table1.tex", "table2.tex", "fig4.svg"} <= names
    page = (tmp_path / "out/index.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") == 3
    assert not re.search(r"<script|src=[\"']http|href=[\"']http|url\(", page)
    assert "prefers-color-scheme: dark" in page
    for item in items:
        assert page.count(f'id="{item}"') == 1
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))
    assert "Agrees with the paper: NL+ alone reaches the accuracy of NL followed by SelNL." in plain
    assert "No difference is seen: NL+ and JNPL overtake NLNL in accuracy, and do not overfit." in plain
    assert "No difference is seen: PL+ beside NL+ makes training faster." in plain  # the curves are the same
    assert "CIFAR-100 are not there" in plain
    told = json.loads((tmp_path / "out/reproduce.json").read_text("utf-8"))
    assert len(told["cells"]) == len(results.every)
    first = told["cells"][0]
    assert {"recipe", "seed", "noise_sha256", "versions", "commit", "results", "data"} <= set(first)
    assert first["results"]["seconds"] == 60.0
    assert first["device"] == "cpu"
    assert not [name for each in told["cells"] for name in each["results"] if "curve" in name]
    assert [each["name"] for each in told["items"]] == list(items)


def test_the_page_shows_what_was_drawn_before_too(made, tmp_path):
    out = tmp_path / "out"
    made.run("nlnl")
    output.draw(made.results(missing=MISSING), ["fig1"], out)
    before = (out / "fig1.png").read_bytes()
    output.draw(made.results(missing=MISSING), ["table2"], out)
    made.run("jnpl")
    made.run("nlnl", "asymm", 0.4)
    written = output.draw(made.results(missing=MISSING), ["fig6"], out)
    assert [path.name for path in written] == [
        "fig1.png",
        "fig1.svg",
        "fig6.png",
        "fig6.svg",
        "table2.md",
        "table2.csv",
        "table2.tex",
        "index.html",
        "reproduce.json",
    ]
    page = (out / "index.html").read_text("utf-8")
    assert re.findall(r'<section id="(\w+)"', page) == ["verdicts", "fig1", "fig6", "table2"]
    assert page.count("data:image/png;base64,") == 2
    assert (out / "fig1.png").read_bytes() != before  # drawn from the results of today
    told = json.loads((out / "reproduce.json").read_text("utf-8"))
    assert [each["name"] for each in told["items"]] == ["fig1", "fig6", "table2"]


def test_a_caption_follows_the_results(made):
    before = output.caption(made.results(missing=MISSING), "fig5")
    assert before.agrees.startswith("Not enough data to judge")
    assert before.seen == "not run, or not enough of it."
    assert "0 of 16 runs" in before.scale
    for noise, rate in SETTINGS:
        made.run("nlnl", noise, rate, ap=0.6, ap_clean=0.6)
        made.run("jnpl", noise, rate, ap=0.7, ap_clean=0.7)
    better = output.caption(made.results(missing=MISSING), "fig5")
    assert "Agrees with the paper: JNPL filters wrong labels better than NLNL." in better.agrees
    assert "No difference is seen: JNPL's lead over NLNL in AP grows with the noise." in better.agrees
    assert "ahead in 8 of 8, +0.100 on average" in better.seen
    assert "16 runs, seed 1." in better.scale
    assert "CIFAR-100 are not there" in better.scale
    assert better.command == "jnpl reproduce fig5 --scale small --data-root DIR --out OUT"
    gone, lines = made.run("jnpl", "symm", 0.2).name, read(made.file)
    made.file.unlink()
    add(made.file, *(line for name, line in lines.items() if name != gone))
    made.run("jnpl", "symm", 0.2, name="of-another-version")
    assert "1 of the runs were made with other settings" in output.caption(made.results(), "fig5").scale


@pytest.mark.parametrize(("item", "beside"), [("fig3", "jnpl-n2"), ("fig4", "nlnl"), ("fig5", "nlnl")])
def test_only_seeds_are_drawn_that_all_have(made, item, beside):
    made.run(beside, curve=[0.2] * 30)
    made.run("jnpl", curve=[0.3] * 30)
    before = EXPERIMENTS[item].draw(made.results(missing=MISSING))
    made.run("jnpl", seed=2, curve=[0.9] * 30, ap=0.1, ap_clean=0.1)
    after = EXPERIMENTS[item].draw(made.results(missing=MISSING))
    for one, other in zip(before.axes, after.axes, strict=True):
        assert len(one.lines) == len(other.lines)
        for line, again in zip(one.lines, other.lines, strict=True):
            np.testing.assert_array_equal(line.get_xydata(), again.get_xydata())
    assert len(output.used(made.results(missing=MISSING), item)) == 2


@pytest.mark.parametrize("item", ["fig1", "fig6"])
def test_no_bar_of_a_histogram_is_cut_off(made, item):
    few, many = made.facts(points=20), made.facts(points=300)
    stages = {"nl": {**few, "cat": few}, "selnl": {**many, "cat": many}}
    made.run("nlnl", stages=stages)
    made.run("nlnl", "asymm", 0.4, stages=stages)
    made.run("jnpl")
    made.run("nl-plus", "asymm", 0.4)
    most = max(max(many[name]["histogram"]) for name in ("clean", "noisy"))
    axes = [axis for axis in EXPERIMENTS[item].draw(made.results()).axes if axis.get_xlabel().startswith("mean")]
    assert len(axes) == (4 if item == "fig1" else 3)
    assert all(axis.get_ylim()[1] > most for axis in axes)


# Captions name the runs and seeds that an item is drawn from, and no others.

STALE = "were made with other settings"
ABSENT = {"cifar100": "CIFAR-100 is not there", "clothing1m": "Clothing1M is not there"}


def told(made, item):
    """The line in the picture, and the caption's sentence about runs."""
    results = made.results(missing=ABSENT)
    return output.foot(results, item).partition("   ")[2], output.describe(results, item)


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
    assert len(output.used(made.results(), item)) == int(runs.split()[0])
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
        assert all(each.is_current for each in output.used(made.results(), item))


def test_a_run_of_other_settings_alone_is_used_and_named(made):
    made.run("nlnl")
    made.run("jnpl", seed=2, name="jnpl-of-another-version")
    made.run("nl-plus")
    described = told(made, "fig4")[1]
    assert "seeds 1, 2." in described
    assert f"1 of the runs {STALE}" in described
    assert [each.is_current for each in output.used(made.results(), "fig4")].count(False) == 1
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
    text = re.sub(r"\s+", " ", output.render(made.results(missing=ABSENT), ["fig1", "fig4"], tmp_path))
    assert "2 runs, 2 min of training; program abc1234. 1 of the runs were made with other settings" in text
    text = re.sub(r"\s+", " ", output.render(made.results(missing=ABSENT), ["table1"], tmp_path))
    assert "24 runs, 24 min of training; program abc1234. </p>" in text
