"""Figure 4: its claims, agreeing and disagreeing."""

import pytest

from jnpl.experiments import paper_variants

RISING = [0.1 + 0.01 * epoch for epoch in range(30)]


@pytest.mark.parametrize(
    ("selnl", "plus", "status"),
    [
        (0.5, [0.495] * 30, "agrees"),
        (0.5, [0.48] * 30, "disagrees"),
        (0.5, [0.4] * 20 + [0.6] * 10, "disagrees"),  # it had a third more epochs for that
        (0.5, [0.495] * 20 + [0.1] * 10, "agrees"),
        (0.5, [0.495] * 12, "agrees"),
        (0.1, [0.21] * 30, "agrees"),
        (0.1, [0.1] * 30, "disagrees"),  # both know nothing
    ],
)
def test_nl_plus_reaches_selnl(made, selnl, plus, status):
    made.run("nlnl", curve=[0.9] * 10 + [selnl] * 10 + [0.9] * 10)
    made.run("nl-plus", curve=plus)
    told = made.verdict("reaches")
    assert told.status == status
    assert f"{selnl:.1%} after NL and SelNL (20 epochs)" in told.figures
    assert f"after {min(20, len(plus))} of NL+" in told.figures


def test_seeds_that_not_all_have_do_not_count(made):
    for seed in (1, 2):
        made.run("nlnl", seed=seed, curve=[0.3] * 30)
        made.run("nl-plus", seed=seed, curve=[0.4] * 30, accuracy=0.4)
        for number, variant in enumerate(("jnpl-ce", "jnpl-n0", "jnpl-n1", "jnpl-n2", "jnpl")):
            made.run(variant, seed=seed, curve=[0.41 + 0.01 * number] * 30)
    names = ("reaches", "speeds-up", "overtakes", "larger-n")
    before = {name: made.verdict(name) for name in names}
    assert {each.status for each in before.values()} == {"agrees"}
    assert all("symm 60, 2 seeds" in each.figures for each in before.values())
    made.run("nlnl", seed=3, curve=[0.9] * 30, accuracy=0.9)
    made.run("nl-plus", seed=4, curve=[0.0] * 30, accuracy=0.0)
    made.run("jnpl", seed=5, curve=[0.0] * 30)
    made.run("jnpl-ce", seed=6, curve=[0.9] * 30)
    assert {name: made.verdict(name) for name in names} == before


def test_without_a_seed_that_all_have_nothing_is_judged(made):
    for seed, variant in enumerate(("nlnl", "nl-plus", "jnpl"), 1):
        made.run(variant, seed=seed, curve=RISING)
    assert {made.verdict(name).status for name in ("reaches", "speeds-up", "overtakes")} == {"not enough data"}


@pytest.mark.parametrize(
    ("curve", "status"),
    [
        ([value + 0.1 for value in RISING], "agrees"),
        ([0.1] * 30, "disagrees"),
        (RISING, "no difference"),
        ([0.9] * 15 + RISING[15:], "no difference"),  # better before PL+ began: that is not PL+
        ([0.0] * 15 + [0.5] * 15, "agrees"),
        (RISING[:15], "not enough data"),  # it never began
    ],
)
def test_pl_plus_speeds_up(made, curve, status):
    made.run("nl-plus", curve=RISING)
    made.run("jnpl", curve=curve)
    told = made.verdict("speeds-up")
    assert told.status == status
    assert ("from epoch 16 on" in told.figures) == (status != "not enough data")


def test_where_pl_plus_begins_is_read_from_the_runs_own_recipe(made, monkeypatch):
    monkeypatch.setattr(paper_variants, "SMALL", paper_variants.SMALL._replace(pl_start=0.5))
    made.run("nl-plus", curve=RISING)
    made.run("jnpl", curve=[value + 0.1 for value in RISING])
    monkeypatch.undo()
    assert "from epoch 24 on" in made.verdict("speeds-up").figures  # 22.5 of 45 are over


@pytest.mark.parametrize(
    ("plus", "both", "status"),
    [
        (0.5, 0.5, "agrees"),
        (0.5, 0.2, "disagrees"),
        (0.2, 0.5, "disagrees"),  # NL+ alone is what fails
        (0.402, 0.5, "disagrees"),
        (0.402, 0.398, "no difference"),
    ],
)
def test_both_overtake_nlnl(made, plus, both, status):
    made.run("nlnl", curve=[0.4] * 9)
    made.run("nl-plus", curve=[plus] * 9)
    made.run("jnpl", curve=[both] * 9)
    assert made.verdict("overtakes").status == status


def test_who_loses_what_it_had_overfits(made):
    made.run("nlnl", curve=[0.3] * 9)
    made.run("nl-plus", curve=[0.5] * 9)
    made.run("jnpl", curve=[0.6] * 10 + [0.4] * 10)
    assert made.verdict("overtakes").status == "disagrees"
