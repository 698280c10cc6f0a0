"""Figure 5: its claims, agreeing and disagreeing."""

import pytest


@pytest.mark.parametrize(
    ("lead", "better", "grows"),
    [
        (lambda number: (0.02 * (number + 1), 0.02 * (number + 1)), "agrees", "agrees"),
        (lambda number: (0.05 - 0.01 * number, 0.05), "agrees", "disagrees"),
        (lambda number: (-0.08 + 0.02 * number, 0.02 * (number + 1)), "disagrees", "disagrees"),  # it has no lead
        (lambda number: (-0.02 + 0.01 * number**2, 0.02 * number), "disagrees", "agrees"),
        (lambda number: (-0.1, -0.1), "disagrees", "no difference"),
        (lambda number: (-0.1 - 0.02 * number, -0.1), "disagrees", "disagrees"),
        (lambda number: (0.001 * number, 0.001), "no difference", "no difference"),
    ],
)
def test_jnpl_filters_better_and_the_more_the_noisier(made, lead, better, grows):
    made.both_filters(lead)
    assert made.verdict("filters-better").status == better
    assert made.verdict("lead-grows").status == grows
    assert "wrong labels positive" in made.verdict("filters-better").figures


def test_the_filters_are_judged_on_each_data_set(made):
    made.both_filters(lambda number: (0.02 * (number + 1), 0.02 * (number + 1)))
    made.both_filters(lambda number: (-0.3 - 0.02 * number, -0.3), data="cifar100")
    assert {made.verdict(name).status for name in ("filters-better", "lead-grows")} == {"disagrees"}
    assert "CIFAR-100, wrong labels positive: ahead in 0 of 8" in made.verdict("filters-better").figures


def test_two_rates_are_not_enough_for_a_slope(made):
    for rate in (0.2, 0.4):
        made.run("nlnl", rate=rate)
        made.run("jnpl", rate=rate)
    assert made.verdict("lead-grows").status == "not enough data"
