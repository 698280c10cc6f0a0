"""Figure 6: its claims, agreeing and disagreeing."""

import pytest


@pytest.mark.parametrize(
    ("nl", "selnl", "auc", "right", "status"),
    [
        (0.7, 0.7, 0.9, 0.9, "agrees"),
        (0.7, 0.7, 0.72, 0.9, "disagrees"),
        (0.7, 0.7, 0.9, 0.3, "disagrees"),
        (0.5, 0.5, 0.6, 0.9, "agrees"),
        (0.5, 0.5, 0.58, 0.9, "disagrees"),  # ahead of a blind one, and hardly better than chance
        (0.7, 0.93, 0.99, 0.9, "disagrees"),  # SelNL parts them too
    ],
)
def test_cats_part_from_dogs(made, nl, selnl, auc, right, status):
    cats = {stage: {"cat": made.facts(auc=own, right=0.5, wrong=0.4)} for stage, own in (("nl", nl), ("selnl", selnl))}
    made.run("nlnl", "asymm", 0.4, stages=cats)
    made.run("nl-plus", "asymm", 0.4, stages={"train": {"cat": made.facts(auc=auc, right=right, wrong=0.25)}})
    told = made.verdict("cats-part")
    assert told.status == status
    assert f"{nl:.2f} (NL), {selnl:.2f} (SelNL), {auc:.2f} (NL+)" in told.figures
