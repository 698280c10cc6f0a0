"""Tables from known JSON: means, spreads, the paper's numbers beneath, and what is not there."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from dataclasses import replace

import pytest

from jnpl.experiments.reproduce import beyond, table1, table2
from jnpl.experiments.reproduce.paper import METHODS
from jnpl.internal.errors import InputError


def test_mean_and_spread_stand_over_the_papers_number(made):
    for seed, accuracy in ((1, 0.50), (2, 0.54), (3, 0.52)):
        made.cell("jnpl", "symm", 0.4, seed, classify=True, accuracy=accuracy)
    made.cell("ce", "symm", 0.4, classify=True, accuracy=0.40)
    made.cell("jnpl", "symm", 0.6, accuracy=0.99)  # a filter alone is no row of Table 1
    made.cell("fast", "asymm", 0.4, classify=True, accuracy=0.6)
    results = made.results(missing={"cifar100": "get it at NOWHERE"})
    text = table1.markdown(results)
    lines = text.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("| JNPL | ours"))
    assert lines[at] == "| JNPL | ours | - | 52.0 ± 2.0 | - | - | - | - | - | - |"
    assert lines[at + 1] == "|  | paper | 93.53 | 91.89 | 88.45 | 35.65 | 94.22 | 93.45 | 92.47 | 90.72 |"
    assert "| CE | ours | - | 40.0 | - |" in text
    assert "| NLNL | ours | - | - | - | - |" in text
    assert "| 94.23 | 92.43 | 88.32 | - | 94.57 |" in text
    assert "**CIFAR-100**. Not run: get it at NOWHERE." in text
    assert "99.0" not in text
    assert "± is the standard deviation over seeds" in text
    rows = list(csv.DictReader(io.StringIO(table1.as_csv(results))))
    assert len(rows) == 2 * 8 * len(METHODS)
    own = next(
        row
        for row in rows
        if (row["data"], row["method"], row["noise"], row["rate"]) == ("cifar10", "jnpl", "symm", "0.4")
    )
    assert (own["seeds"], own["mean"], own["spread"], own["paper"]) == ("3", "52.00", "2.00", "91.89")
    fast = next(
        row
        for row in rows
        if (row["data"], row["method"], row["rate"], row["noise"]) == ("cifar10", "fast", "0.4", "asymm")
    )
    assert (fast["scale"], fast["ours"]) == ("small", "cifar10")
    assert (fast["mean"], fast["spread"], fast["paper"]) == ("60.00", "", "")
    tex = table1.latex(results)
    assert r"52.0 $\pm$ 2.0" in tex
    assert "(91.89)" in tex
    assert tex.count(r"\\") == 2 + 2 * (2 * len(METHODS) - 1)
    assert tex.startswith("% Test accuracy (%), scale small; in brackets the paper's.")
    assert "%" not in tex.partition("\n")[2].replace(r"\%", "")


def test_the_best_two_of_a_column_are_bold(made):
    for variant, accuracy in (("ce", 0.3), ("nlnl", 0.5), ("jnpl", 0.4)):
        made.cell(variant, "symm", 0.2, classify=True, accuracy=accuracy)
    text = table1.markdown(made.results())
    assert "**50.0**" in text
    assert "**40.0**" in text
    assert "**30.0**" not in text
    assert r"\textbf{50.0}" in table1.latex(made.results())


def test_only_methods_of_the_paper_are_bold(made):
    for variant, accuracy in (("ce", 0.3), ("nlnl", 0.5), ("jnpl", 0.4), ("fast", 0.9)):
        made.cell(variant, "symm", 0.2, classify=True, accuracy=accuracy)
    results = made.results()
    assert re.findall(r"\*\*(\d.*?)\*\*", table1.markdown(results)) == ["50.0", "40.0"]
    assert re.findall(r"\\textbf\{(.*?)\}", table1.latex(results)) == ["50.0", "40.0"]
    assert "| 90.0 |" in table1.markdown(results)
    # Two rows of the paper's are not enough for a mark, whatever stands beneath them.
    few = replace(results, every=[each for each in results.every if each.cell.row != "ce"])
    assert "**50.0**" not in table1.markdown(few)


def test_a_run_without_a_classifier_is_told(made):
    made.cell("jnpl", "symm", 0.8, 1, classify=True, accuracy=None)
    made.cell("nlnl", "symm", 0.8, 1, classify=True, accuracy=0.2)
    made.cell("nlnl", "symm", 0.8, 2, classify=True, accuracy=None)
    text = table1.markdown(made.results())
    assert "no classifier" in text
    assert "20.0 (1 without)" in text


def test_table_2_quotes_and_says_how_to_get_the_data(made):
    told = table2.markdown(made.results("paper", {"clothing1m": "ask its authors"}))
    assert "| JNPL | 74.15 | - |" in told
    assert told.strip().endswith("Not run: ask its authors.")
    made.cell("jnpl", "none", 0.0, data="clothing1m", scale="paper", classify=True, accuracy=0.7312)
    results = made.results("paper")
    assert "| JNPL | 74.15 | 73.1 |" in table2.markdown(results)
    assert "Not run" not in table2.markdown(results)
    assert "clothing1m,jnpl,1,73.12,,74.15,paper,clothing1m" in table2.as_csv(results)
    assert r"JNPL & 74.15 & 73.1 \\" in table2.latex(results)


def mean_ap(results):
    return statistics.fmean(each.get("ap") for each in results.of("jnpl", ("symm", 0.6)))


def test_results_prefer_todays_settings_and_whole_runs(made):
    made.cell("jnpl", ap=0.1, name="jnpl-of-another-version")
    (alone,) = made.results().of("jnpl", ("symm", 0.6))
    assert (alone.is_current, alone.get("ap")) == (False, 0.1)
    made.cell("jnpl", ap=0.5)
    assert mean_ap(made.results()) == 0.5
    made.cell("jnpl", ap=0.6, classify=True)
    assert mean_ap(made.results()) == 0.6
    made.cell("jnpl", ap=0.8, classify=True, seed=2)
    assert mean_ap(made.results()) == pytest.approx(0.7)
    assert made.results("tiny").every == []


def test_runs_of_other_settings_do_not_mix_with_todays(made):
    made.cell("jnpl", seed=2, ap=0.9, name="jnpl-of-another-version")
    made.cell("jnpl", seed=3, ap=0.7, name="jnpl-of-a-third-version")
    results = made.results()
    assert [each.cell.seed for each in results.of("jnpl", ("symm", 0.6))] == [2, 3]
    assert mean_ap(results) == pytest.approx(0.8)
    made.cell("jnpl", ap=0.5)  # of other seeds than theirs
    results = made.results()
    assert [each.cell.seed for each in results.of("jnpl", ("symm", 0.6))] == [1]
    assert mean_ap(results) == 0.5
    assert results.curves(("jnpl",), ("symm", 0.6))["jnpl"] == [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.clear(),
        lambda told: told["data"].pop("classes"),
        lambda told: told["results"].pop("curve"),
        lambda told: told["cell"].update(rate=0),
        lambda told: told.update(stages=[]),
    ],
)
def test_strange_json_is_named(made, change):
    made.cell("jnpl")
    told = json.loads(made.file.read_text())
    change(told)
    made.file.write_text(json.dumps(told) + "\n")
    with pytest.raises(InputError, match=r"results\.jsonl' is not the result of a"):
        made.results()


def test_the_order_of_methods_is_compared_with_the_papers(made):
    """At symm 60 the paper has CE, JoCoR, NFL+RCE, NCE+RCE, Co-teaching, NLNL, JNPL, from the lowest on."""
    rising = ["ce", "jocor", "nfl-rce", "nce-rce", "co-teaching", "nlnl", "jnpl"]
    for number, variant in enumerate(rising):
        made.cell(variant, scale="features", classify=True, accuracy=0.1 + 0.1 * number)
    made.cell("jnpl-pl30", scale="features", classify=True, accuracy=0.55)
    lines = table1.order(made.results("features")).splitlines()
    assert lines[2] == "| CIFAR-10: Kendall's tau | - | - | +1.00 | - | - | - | - | - |"
    assert lines[3] == "| CIFAR-10: place of JNPL, ours (JNPL in the paper) | - | - | 1 (1) | - | - | - | - | - |"
    assert (
        lines[4]
        == "| CIFAR-10: place of JNPL, PL+ from 30 %, ours (JNPL in the paper) | - | - | 2 (1) | - | - | - | - | - |"
    )
    made.cell("ce", scale="features", classify=True, accuracy=0.99)  # 6 of 21 pairs fall
    lines = table1.order(made.results("features")).splitlines()
    assert "| +0.43 |" in lines[2]
    assert "| 2 (1) |" in lines[3]


def test_jnpl_can_be_read_as_its_variant(made):
    made.cell("jnpl", scale="features", classify=True, accuracy=0.1)
    made.cell("jnpl-pl30", scale="features", classify=True, accuracy=0.8)
    made.cell("nlnl", scale="features", classify=True, accuracy=0.7)
    runs = made.results("features")
    later = runs.reading("-pl30")
    assert [each.get("test_accuracy") for each in runs.of("jnpl", ("symm", 0.6))] == [0.1]
    assert [each.get("test_accuracy") for each in later.of("jnpl", ("symm", 0.6))] == [0.8]
    assert later.of("jnpl-pl30", ("symm", 0.6)) == []
    assert [each.get("test_accuracy") for each in later.of("nlnl", ("symm", 0.6))] == [0.7]


def test_when_pl_plus_begins_is_a_table_of_what_was_run(made):
    curve = [0.01 * epoch for epoch in range(125)]
    made.cell("nl-plus", scale="features", curve=curve, accuracy=0.8, stages={"train": made.facts(ap=0.9)})
    made.cell("jnpl-pl60", scale="features", curve=curve, accuracy=0.7, stages={"train": made.facts(ap=0.85)})
    lines = beyond.PL_START.files["md"](made.results("features")).splitlines()
    assert lines[2] == "| the first step | - | - | - | - |"
    assert lines[3] == "| the first step, a mean over the batch | - | - | - | - |"
    assert lines[5] == "| 60 % of the epochs | 74.0 | 70.0 | 0.850 | 0.70 / 0.20 |"  # NL+ after 75 epochs
    assert lines[7] == "| never (NL+ alone) | - | 80.0 | 0.900 | 0.70 / 0.20 |"


def test_heads_and_human_labels_are_tables_of_what_was_run(made):
    made.cell("ce", scale="features", curve=(0.5, 0.6, 0.4), accuracy=0.41)
    made.cell("ce-linear", scale="features", curve=(0.5, 0.6, 0.62), accuracy=0.61)
    made.cell("ce", "human", 0.0, scale="features", data="cifar10n", classify=True, accuracy=0.75)
    lines = beyond.LINEAR_HEAD.files["md"](made.results("features")).splitlines()
    assert lines[2] == "| CE | MLP | 0.800 | 41.0 | 60.0 | 0.70 / 0.20 |"
    assert lines[3] == "| CE | linear | 0.800 | 61.0 | 62.0 | 0.70 / 0.20 |"
    assert lines[4] == "| NLNL | MLP | - | - | - | - |"
    text = beyond.markdown(made.results("features"))
    assert "| method | CIFAR-10N | CIFAR-100N |" in text
    assert "| CE | 75.0 | - |" in text


def test_class_weights_are_a_table_of_what_was_run(made):
    weighted = {"train": made.facts(ap=0.7)}
    made.cell("nl-plus-weights", "asymm", 0.4, scale="features", classify=True, accuracy=0.78, stages=weighted)
    made.cell("jocor", "asymm", 0.4, scale="features", classify=True, accuracy=0.77)
    made.cell("ce", "asymm", 0.4, scale="features", classify=True, accuracy=0.7)
    lines = beyond.CLASS_WEIGHTS.files["md"](made.results("features")).splitlines()
    assert lines[5] == "| best of the paper's methods in Table 1 | - | JoCoR 77.0 |"
    assert lines[0] == "| AP / accuracy | asymm 20 | asymm 40 |"
    assert lines[3] == "| NL+ | - | - |"
    assert lines[4] == "| NL+ with these weights | - | 0.700 / 78.0 |"


def test_more_steps_are_a_table_of_what_was_run(made):
    stages = {"train": made.facts(ap=0.9, right=0.5, wrong=0.1)}
    made.cell("nl-plus-long", scale="features", data="cifar100", curve=[0.3] * 1000, accuracy=0.31, stages=stages)
    made.cell("nl-plus", scale="features", curve=[0.9] * 125, accuracy=0.9)  # of CIFAR-10
    results = made.results("features")
    lines = beyond.MORE_STEPS.files["md"](results).splitlines()
    assert lines[2] == "| NL+ | - | - | - | - | - |"
    assert lines[4] == "| NL+, epochs not divided | 1000 | 0.900 | 31.0 | 30.0 | 0.50 / 0.10 |"
    (row,) = [row for row in csv.DictReader(io.StringIO(beyond.MORE_STEPS.files["csv"](results))) if row["AP"] != "-"]
    assert (row["filter"], row["epochs"]) == ("NL+, epochs not divided", "1000")
