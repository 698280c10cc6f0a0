"""Figure 2: its claims, agreeing and disagreeing."""

import pytest

from jnpl.experiments.reproduce.catalogue import verdicts


@pytest.mark.parametrize(
    ("plus", "status"),
    [
        ({"right": 0.9, "wrong": 0.1, "ap": 0.9}, "agrees"),
        ({"right": 0.9, "wrong": 0.1, "ap": 0.7}, "disagrees"),  # further apart, but worse ranked
        ({"right": 0.3, "wrong": 0.2, "ap": 0.9}, "disagrees"),
        ({"right": 0.9, "wrong": 0.1, "ap": 0.803}, "disagrees"),  # no better ranked than chance makes it
        ({"right": 0.505, "wrong": 0.1, "ap": 0.803}, "no difference"),
    ],
)
def test_nl_plus_converges_better(made, plus, status):
    for rate in (0.2, 0.4, 0.6):
        made.run("nlnl", rate=rate, stages={"nl": made.facts(right=0.9, wrong=0.0, ap=1.0)})  # a third of the epochs
        made.run("nl", rate=rate, stages={"train": {**made.facts(right=0.5, wrong=0.1, ap=0.8), "epoch": 45}})
        made.run("nl-plus", rate=rate, stages={"train": {**made.facts(**plus), "epoch": 45}})
    told = made.verdict("converges")
    assert told.status == status
    assert "symm 20: p_y of right less that of wrong labels 0.40 with NL (45 epochs)" in told.figures


def test_at_the_papers_scale_nl_is_nlnls_first_stage(made):
    for rate in (0.2, 0.4, 0.6):
        stages = {"nl": {**made.facts(right=0.5, wrong=0.1, ap=0.8), "epoch": 720}}
        made.run("nlnl", rate=rate, scale="paper", stages=stages)
        made.run("nl-plus", rate=rate, scale="paper", stages={"train": made.facts(right=0.9, wrong=0.1, ap=0.9)})
    told = next(each for each in verdicts(made.results("paper")) if each.name == "converges")
    assert told.status == "agrees"
    assert "with NL (720 epochs)" in told.figures
