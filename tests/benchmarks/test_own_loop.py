"""benchmarks/own_loop.py: its page is made from the results, and a second call runs only what is missing."""

import argparse
from functools import partial

import pytest
from tests.helpers.scripts import load_script

from jnpl.experiments import results


@pytest.fixture
def script():
    return load_script("benchmarks/own_loop.py")


def column(**losses):
    """Results of a column: loss -> (AP, accuracy, lost classes) of each seed."""
    return {
        loss: [{"ap": ap, "accuracy": accuracy, "lost": lost} for ap, accuracy, lost in seeds]
        for loss, seeds in losses.items()
    }


def test_the_page_is_that_of_the_results(script):
    assert script.PAGE.read_text("utf-8") == script.page_text(script.FILE)


def test_the_targets_by_hand(script):
    columns = {
        "cnn/symm40": column(ce=[(0.6, 0.5, 0)] * 2, elr=[(0.9, 0.5, 0)] * 2, robust=[(0.8, 0.48, 0)] * 2),
        "cnn/clean": column(ce=[(None, 0.5, 0)], robust=[(None, 0.495, 1)]),
    }
    costs = {"a network": {"ratios": {"ce": 1.0, "robust": 1.13, "robust, compiled": 1.05}, "ms": 3}}
    rows = [line.split(" | ") for line in script.verdicts(columns, costs).splitlines()[2:]]
    assert [(row[1], row[2].rstrip(" |")) for row in rows] == [
        ("0 of 1; behind in cnn/symm40 (ELR (needs the index))", "**no**"),
        ("1 of 1", "yes"),
        ("smallest difference -0.020, in cnn/symm40; below in cnn/symm40", "**no**"),
        ("lost in cnn/clean", "**no**"),
        ("1.13, compiled 1.05 (a network, 3 ms)", "**no**"),
    ]


@pytest.mark.parametrize(("own", "first"), [((0.82, 0.88), True), ((0.83, 0.83), False), ((0.91, 0.91), True)])
def test_first_within_a_standard_deviation(script, own, first):
    found = column(gce=[(0.88, 0, 0), (0.9, 0, 0)], robust=[(ap, 0, 0) for ap in own])
    assert script.is_first(found, "gce") is first


def test_a_second_call_runs_only_what_is_missing(script, tmp_path, monkeypatch, capsys):
    loop = script.LOOPS["digits-30"]._replace(epochs=1, labels=("clean", "asymm40"))
    monkeypatch.setattr(script, "LOOPS", {"digits-30": loop})
    call = partial(argparse.Namespace, out=tmp_path / "own.jsonl", data=None, loops=["digits-30"], seeds=1)
    call = partial(call, labels=["clean", "asymm40"])
    script.run(call(losses=["ce"]))
    script.run(call(losses=["ce", "elr", "robust"]))
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    cells = [f"digits-30/{kind}/{loss}/0" for kind in ("clean", "asymm40") for loss in ("ce", "elr", "robust")]
    assert len(names) == len(set(names))
    assert sorted(names) == sorted(cells)
    found = results.read(tmp_path / "own.jsonl")
    assert found["digits-30/clean/robust/0"]["results"]["ap"] is None
    assert 0.1 < found["digits-30/asymm40/robust/0"]["results"]["ap"] < 1
