"""Figure 1: its claims, agreeing and disagreeing."""

import pytest


@pytest.mark.parametrize(("right", "status"), [(0.9, "agrees"), (0.3, "disagrees")])
def test_one_stage(made, right, status):
    made.run("nlnl", seed=2, stages={"selpl": made.facts(right=0.1, wrong=0.9)})  # no JNPL to compare with
    made.run("nlnl", stages={"selpl": made.facts(right=0.8, wrong=0.1)})
    made.run("jnpl", stages={"train": made.facts(right=right, wrong=0.1)})
    told = made.verdict("one-stage")
    assert told.status == status
    assert "after NL 100% and 100%, SelNL 100% and 100%, SelPL 100% and 100%, JNPL" in told.figures


def test_blind_filters_do_not_part_right_from_wrong(made):
    for variant, stage in (("nlnl", "selpl"), ("jnpl", "train")):
        made.run(variant, stages={stage: made.facts(right=0.1, wrong=0.1)})
    told = made.verdict("one-stage")
    assert told.status == "disagrees"
    assert "JNPL 0% and 100%" in told.figures
