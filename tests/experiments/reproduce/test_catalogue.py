"""The paper's figures and tables: which runs they have, each once."""

from collections import Counter
from dataclasses import replace

import pytest

from jnpl.experiments.paper import METHODS, TABLE2
from jnpl.experiments.reproduce.catalogue import EXPERIMENTS, names_of, specs_of, verdicts
from jnpl.experiments.reproduce.fig3 import PL_PLUS
from jnpl.experiments.scales import SCALES
from jnpl.internal.errors import InputError

CLAIMS = [claim for item in EXPERIMENTS.values() for claim in item.claims]


def three_rates(made):
    for rate in (0.2, 0.4, 0.6):
        made.run("nl", rate=rate, stages={"train": made.facts(right=0.5, wrong=0.1, ap=0.8)})
        made.run("nl-plus", rate=rate, stages={"train": made.facts(right=0.9, wrong=0.1, ap=0.9)})


def growing_lead(made):
    made.both_filters(lambda number: (0.02 * (number + 1), 0.02 * (number + 1)))


def growing_table(made):
    made.whole_table(lambda variant, number: 0.5 + 0.01 * (number + 1) * (variant == "jnpl"))


def test_the_most_important_runs_on_features_come_first():
    parts = ["cifar10", "cifar100", "cifar10n", "cifar100n"]
    specs = specs_of(names_of("all"), SCALES["features"], None, parts)
    assert len(specs) == len({spec.name for spec in specs}) == 323
    places = list(dict.fromkeys((spec.data, spec.seed, spec.noise, spec.rate) for spec in specs))
    assert places[:3] == [("cifar10", 1, "symm", 0.6), ("cifar10", 1, "symm", 0.4), ("cifar10", 1, "asymm", 0.4)]
    assert list(dict.fromkeys((data, seed) for data, seed, *_ in places)) == [
        *[("cifar10", seed) for seed in (1, 2, 3)],
        *[("cifar100", seed) for seed in (1, 2, 3)],
        ("cifar10n", 1),
        ("cifar100n", 1),
    ]


def test_experiments_share_their_runs():
    scale, parts = SCALES["small"], ["cifar10"]
    counts = {name: len(EXPERIMENTS[name].specs(scale, None, parts)) for name in EXPERIMENTS}
    figures_and_table = {"fig1": 2, "fig2": 9, "fig3": 15, "fig4": 15, "fig5": 16, "fig6": 3, "table1": 96, "table2": 0}
    assert counts == {**figures_and_table, "human": 0, "heads": 0, "starts": 0, "weights": 0, "steps": 0, "stable": 0}
    figures = specs_of(names_of("figures"), scale, None, parts)
    assert len(figures) == len({spec.name for spec in figures}) == 50
    everything = specs_of(names_of("all"), scale, None, parts)
    # Table 1's NLNL and JNPL are those of the figures, but for two more seeds at symm 60.
    alone = Counter(spec.variant for spec in everything if not spec.classify)
    assert alone == {
        "nl": 3,
        "nl-plus": 6,
        "nl-plus-late": 6,
        "jnpl-late": 3,
        "nlnl": 2,
        "jnpl": 2,
        **dict.fromkeys(list(PL_PLUS)[:-1], 3),
    }
    assert len(everything) == 96 + alone.total()
    seeds = [spec.seed for spec in everything]
    assert seeds == sorted(seeds)
    both = specs_of(["fig5"], scale, None, ["cifar10", "cifar100"])
    assert len(both) == 32
    assert [len(specs_of(["fig4"], scale, count, parts)) for count in (None, 1, 2)] == [15, 5, 10]
    assert [spec.seed for spec in specs_of(["fig3", "fig4"], scale, None, parts)] == [1] * 9 + [2] * 9 + [3] * 9
    table2 = specs_of(["table2"], SCALES["paper"], None, ["clothing1m"], "r50.safetensors")
    assert [spec.variant for spec in table2] == list(TABLE2)


def test_the_papers_scale_has_the_papers_methods_and_fast():
    specs = specs_of(names_of("all"), SCALES["paper"], None, ["cifar10", "cifar100"])
    assert {spec.variant for spec in specs} == {*METHODS, "nl-plus", *PL_PLUS}
    assert {spec.variant for spec in specs if spec.classify} == {*METHODS}
    assert {spec.variant for spec in EXPERIMENTS["fig2"].specs(SCALES["paper"], None, ["cifar10"])} == {
        "nlnl",
        "nl-plus",
    }
    assert {spec.seed for spec in EXPERIMENTS["fig4"].specs(SCALES["paper"], None, ["cifar10"])} == {1}


def test_unknown_experiments_are_refused():
    with pytest.raises(InputError, match="there is no experiment 'fig7'; there are fig1, fig2"):
        names_of("fig7")


def test_without_results_nothing_is_claimed(made):
    told = verdicts(made.results())
    assert len(told) == len(CLAIMS) == 12
    assert {each.status for each in told} == {"not enough data"}
    assert all(each.figures for each in told)


@pytest.mark.parametrize(
    ("names", "build", "runs"),
    [
        (("converges",), three_rates, 2 * 3),
        (("filters-better", "lead-grows"), growing_lead, 2 * 8),
        (("best", "table-lead"), growing_table, 7 * 8),
    ],
)
def test_a_single_missing_run_leaves_a_claim_open(made, names, build, runs):
    build(made)
    results = made.results()
    rules = {claim.name: claim.check for claim in CLAIMS if claim.name in names}
    assert {name: judge(results)[0] for name, judge in rules.items()} == dict.fromkeys(names, "agrees")
    needed = [each for each in results.every if each.spec.variant != "fast"]
    assert len(needed) == runs
    for gone in needed:
        left = replace(results, every=[each for each in results.every if each is not gone])
        for name, judge in rules.items():
            assert judge(left) == (
                "not enough data",
                "Not all runs that the rule speaks of are there.",
            ), (name, gone.spec.name)
    without_fast = replace(results, every=needed)
    assert [judge(without_fast) for judge in rules.values()] == [judge(results) for judge in rules.values()]
