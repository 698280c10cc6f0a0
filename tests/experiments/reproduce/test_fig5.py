"""Figure 5: its claims, agreeing and disagreeing."""

import pytest

from jnpl.experiments.reproduce.catalogue import verdicts


def verdict(made, name):
    return next(each for each in verdicts(made.results()) if each.name == name)


def both_filters(made, lead, data="cifar10"):
    """AP of JNPL is NLNL's and `lead` of the number of the rate, from 0 to 3."""
    for noise, rates in (("symm", (0.2, 0.4, 0.6, 0.8)), ("asymm", (0.1, 0.2, 0.3, 0.4))):
        for number, rate in enumerate(rates):
            made.run("nlnl", noise, rate, ap=0.5, ap_clean=0.6, data=data)
            own = {"ap": 0.5 + lead(number)[0], "ap_clean": 0.6 + lead(number)[1]}
            made.run("jnpl", noise, rate, data=data, **own)


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
    both_filters(made, lead)
    assert verdict(made, "filters-better").status == better
    assert verdict(made, "lead-grows").status == grows
    assert "wrong labels positive" in verdict(made, "filters-better").figures


def test_the_filters_are_judged_on_each_data_set(made):
    both_filters(made, lambda number: (0.02 * (number + 1), 0.02 * (number + 1)))
    both_filters(made, lambda number: (-0.3 - 0.02 * number, -0.3), data="cifar100")
    assert {verdict(made, name).status for name in ("filters-better", "lead-grows")} == {"disagrees"}
    assert "CIFAR-100, wrong labels positive: ahead in 0 of 8" in verdict(made, "filters-better").figures


def test_two_rates_are_not_enough_for_a_slope(made):
    for rate in (0.2, 0.4):
        made.run("nlnl", rate=rate)
        made.run("jnpl", rate=rate)
    assert verdict(made, "lead-grows").status == "not enough data"
