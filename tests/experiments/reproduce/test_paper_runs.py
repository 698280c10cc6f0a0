"""Stored runs: which of them count, and what is refused."""

import json
import statistics

import pytest

from jnpl.internal.errors import InputError


def mean_ap(results):
    return statistics.fmean(each.get("ap") for each in results.of("jnpl", ("symm", 0.6)))


def test_results_prefer_todays_settings_and_whole_runs(made):
    made.run("jnpl", ap=0.1, name="jnpl-of-another-version")
    (alone,) = made.results().of("jnpl", ("symm", 0.6))
    assert (alone.is_current, alone.get("ap")) == (False, 0.1)
    made.run("jnpl", ap=0.5)
    assert mean_ap(made.results()) == 0.5
    made.run("jnpl", ap=0.6, classify=True)
    assert mean_ap(made.results()) == 0.6
    made.run("jnpl", ap=0.8, classify=True, seed=2)
    assert mean_ap(made.results()) == pytest.approx(0.7)
    assert made.results("tiny").every == []


def test_runs_of_other_settings_do_not_mix_with_todays(made):
    made.run("jnpl", seed=2, ap=0.9, name="jnpl-of-another-version")
    made.run("jnpl", seed=3, ap=0.7, name="jnpl-of-a-third-version")
    results = made.results()
    assert [each.spec.seed for each in results.of("jnpl", ("symm", 0.6))] == [2, 3]
    assert mean_ap(results) == pytest.approx(0.8)
    made.run("jnpl", ap=0.5)  # of other seeds than theirs
    results = made.results()
    assert [each.spec.seed for each in results.of("jnpl", ("symm", 0.6))] == [1]
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
    made.run("jnpl")
    told = json.loads(made.file.read_text())
    change(told)
    made.file.write_text(json.dumps(told) + "\n")
    with pytest.raises(InputError, match=r"results\.jsonl' is not the result of a"):
        made.results()


def test_jnpl_can_be_read_as_its_variant(made):
    made.run("jnpl", scale="features", classify=True, accuracy=0.1)
    made.run("jnpl-stable", scale="features", classify=True, accuracy=0.8)
    made.run("jnpl-n0-stable", scale="features", accuracy=0.6)
    made.run("nl-plus", scale="features", classify=True, accuracy=0.5)
    made.run("nl-plus-weights", scale="features", classify=True, accuracy=0.4)
    made.run("nlnl", scale="features", classify=True, accuracy=0.7)
    runs = made.results("features")

    def read(each, *variants):
        return [[run.get("test_accuracy") for run in each.of(variant, ("symm", 0.6))] for variant in variants]

    variants = ("jnpl", "jnpl-n0", "jnpl-stable", "nlnl", "nl-plus", "nl-plus-weights")
    assert read(runs, *variants) == [[0.1], [], [0.8], [0.7], [0.5], [0.4]]
    assert read(runs.reading("jnpl-stable"), *variants) == [[0.8], [0.6], [], [0.7], [0.5], [0.4]]
    assert read(runs.reading("nl-plus"), *variants) == [[0.5], [], [], [0.7], [0.5], [0.4]]
    assert read(runs.reading("jnpl-stable", "nl-plus"), *variants) == [[0.1], [], [0.8], [0.7], [0.8], []]
