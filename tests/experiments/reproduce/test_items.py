"""Cells, variants, items: what a run is made from, and that nothing is trained twice."""

from __future__ import annotations

from collections import Counter

import pytest
from pydantic import ValidationError

from jnpl.experiments import rows
from jnpl.experiments.cell import Cell
from jnpl.experiments.reproduce.fig3 import PL_PLUS
from jnpl.experiments.reproduce.items import ITEMS, names_of, plan
from jnpl.experiments.reproduce.paper import METHODS, SETTINGS, TABLE1, TABLE2, printed
from jnpl.experiments.reproduce.scales import SCALES
from jnpl.internal.errors import InputError
from jnpl.recipes.load import load_recipe

# Sums of the paper's Tables 1 and 2, made from its text and not from ours: of rows, of columns; "-" is left out.
ROWS = {
    "cifar10": (550.56, 629.56, 616.85, 611.33, 622.04, 644.56, 680.38),
    "cifar100": (359.88, 448.08, 419.70, 341.43, 341.26, 428.46, 487.47),
}
COLUMNS = {
    "cifar10": (635.49, 597.86, 505.34, 141.20, 651.75, 638.69, 617.40, 567.55),
    "cifar100": (457.20, 393.42, 281.67, 63.69, 479.97, 440.63, 388.02, 321.68),
}
CLOTHING = 647.21
SYMM60 = {"data": "cifar10", "noise": "symm", "rate": 0.6, "seed": 1, "scale": "small"}


def recipe_of(variant, data, scale, weights=None, setting=("none", 0.0)):
    noise, rate = setting
    return Cell(row=variant, data=data, noise=noise, rate=rate, seed=1, scale=scale, weights=weights).recipe()


def test_a_name_hangs_on_what_the_cell_resolves_to(monkeypatch):
    cell = Cell(row="jnpl", **SYMM60)
    before = cell.name
    assert before.startswith("jnpl-filter-cifar10-symm60-1-")
    others = [{"seed": 2}, {"rate": 0.4}, {"classify": True}, {"noise": "asymm"}, {"row": "nl-plus"}]
    names = {cell.model_copy(update=change).name for change in others}
    assert before not in names
    assert len(names) == len(others)
    monkeypatch.setattr(rows, "SMALL", rows.SMALL._replace(filter_lr=0.123))
    assert cell.name != before
    monkeypatch.undo()
    assert Cell.model_validate_json(cell.model_dump_json()).name == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"variant": "jnpl-n7"}, "there is no variant 'jnpl-n7'"),
        ({"rate": 0.0}, "a rate above 0 goes with symm, asymm"),
        ({"data": "digits"}, "scale small has cifar10, cifar100, got 'digits'"),
        ({"scale": "huge"}, "paper"),
    ],
)
def test_wrong_cells_are_refused(change, told):
    with pytest.raises(ValidationError, match=told):
        Cell(**{"variant": "jnpl", **SYMM60, **change})


def test_the_papers_recipes_are_untouched_at_its_scale():
    for variant, recipe in (
        ("jnpl", "paper"),
        ("nlnl", "nlnl"),
        ("ce", "ce"),
        ("co-teaching", "co-teaching"),
        ("jocor", "jocor"),
        ("nfl-rce", "nfl-rce"),
        ("nce-rce", "nce-rce"),
    ):
        for data in ("cifar10", "cifar100"):
            assert recipe_of(variant, data, "paper") == load_recipe(f"{recipe}-{data}")
    plus, paper = recipe_of("nl-plus", "cifar10", "paper"), load_recipe("paper-cifar10")
    assert plus.method.pl_weight == 0
    assert plus == load_recipe("paper-cifar10", {"method.pl_weight": 0.0})
    assert [recipe_of(variant, "cifar10", "paper").method.n for variant in PL_PLUS] == [-1, 0, 1, 2, 3]
    assert paper.method.n == 3


@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
@pytest.mark.parametrize("variant", ["ce", "co-teaching", "jocor", "nfl-rce", "nce-rce", "nlnl", "jnpl", "nl-plus"])
def test_on_features_only_network_data_and_epochs_differ_from_the_paper(variant, data):
    """By hand: an eighth of all epochs, milestones and ramps."""
    paper, ours = (recipe_of(variant, data, scale, setting=("symm", 0.6)) for scale in ("paper", "features"))

    def eighth(plan):
        later = plan.momentum_from and (round(plan.momentum_from[0] / 8), plan.momentum_from[1])
        shorter = {"epochs": round(plan.epochs / 8), "milestones": tuple(round(each / 8) for each in plan.milestones)}
        return plan.model_copy(update={**shorter, "momentum_from": later})

    assert ours.train == eighth(paper.train)
    assert ours.stages == paper.stages == {}
    assert (ours.model, ours.data.vectors, ours.data.val_size) == ("mlp512", "unit", 0)
    assert ours.verdict == paper.verdict
    ramp = {"ramp_epochs": 1} if hasattr(paper.method, "ramp_epochs") else {}
    assert ours.method == paper.method.model_copy(update=ramp)
    if paper.pseudo is not None:
        assert ours.pseudo == paper.pseudo.model_copy(update={"train": eighth(paper.pseudo.train)})


def test_at_full_scale_on_features_nothing_is_divided():
    full, paper = (recipe_of("jnpl", "cifar10", scale) for scale in ("features-full", "paper"))
    assert (full.train, full.pseudo, full.method) == (paper.train, paper.pseudo, paper.method)
    assert (SCALES["features-full"].images, SCALES["features"].images) == (None, 10_000)


def test_the_runs_that_show_why_differ_from_the_papers_in_one_setting():
    paper, batch = (recipe_of(name, "cifar10", "features") for name in ("jnpl", "jnpl-batch"))
    assert batch == paper.model_copy(update={"method": paper.method.model_copy(update={"pl_mean": "batch"})})
    plus, long = (recipe_of(name, "cifar100", "features") for name in ("nl-plus", "nl-plus-long"))
    assert (plus.train.epochs, long.train.epochs, long.train.milestones) == (125, 1000, (800,))
    assert plus.method == long.method


def test_on_features_jnpl_is_also_run_with_a_later_pl_plus_and_a_linear_head():
    paper, later, linear = (recipe_of(name, "cifar10", "features") for name in ("jnpl", "jnpl-pl30", "jnpl-linear"))
    assert later == paper.model_copy(update={"method": paper.method.model_copy(update={"pl_start": 0.3})})
    assert linear == paper.model_copy(update={"model": "linear"})
    assert [recipe_of(f"{name}-pl30", "cifar10", "features").method.n for name in PL_PLUS] == [-1, 0, 1, 2, 3]


def test_the_most_important_cells_on_features_come_first():
    parts = ["cifar10", "cifar100", "cifar10n", "cifar100n"]
    cells = plan(names_of("all"), SCALES["features"], None, parts)
    assert len(cells) == len({cell.name for cell in cells}) == 322
    places = list(dict.fromkeys((cell.data, cell.seed, cell.noise, cell.rate) for cell in cells))
    assert places[:3] == [("cifar10", 1, "symm", 0.6), ("cifar10", 1, "symm", 0.4), ("cifar10", 1, "asymm", 0.4)]
    assert list(dict.fromkeys((data, seed) for data, seed, *_ in places)) == [
        *[("cifar10", seed) for seed in (1, 2, 3)],
        *[("cifar100", seed) for seed in (1, 2, 3)],
        ("cifar10n", 1),
        ("cifar100n", 1),
    ]


@pytest.mark.parametrize("scale", ["small", "tiny"])
def test_at_other_scales_nl_and_nl_plus_are_treated_alike(scale):
    data = SCALES[scale].stands_for["cifar10"]
    nlnl, jnpl, plus = (recipe_of(variant, data, scale) for variant in ("nlnl", "jnpl", "nl-plus"))
    stages = [nlnl.plan(name) for name in ("nl", "selnl", "selpl")]
    assert {each.lr for each in stages} == {jnpl.train.lr, plus.train.lr}
    assert sum(each.epochs for each in stages) == jnpl.train.epochs == plus.train.epochs
    fall = sum(each.epochs for each in stages[:2]) + stages[2].milestones[0]
    assert fall == jnpl.train.milestones[0] == round(0.8 * jnpl.train.epochs)
    for recipe in (jnpl, plus):
        assert recipe.method.complements == nlnl.method.complements == "exhaustive"
        assert recipe.method.class_weight == nlnl.method.class_weight
        assert recipe.method.gamma_rise is None  # the paper's NL+ from the first step
        assert recipe.method.guard == 0
    assert plus.method == jnpl.method.model_copy(update={"pl_weight": 0.0})
    assert len({recipe_of(name, data, scale).model_dump_json() for name in METHODS}) == len(METHODS)


def test_a_variant_of_table_2_is_for_clothing1m_and_asks_for_weights():
    with pytest.raises(InputError, match="--weights FILE"):
        recipe_of("jnpl", "clothing1m", "paper")
    assert recipe_of("jnpl", "clothing1m", "paper", "r50.safetensors").weights == "r50.safetensors"
    with pytest.raises(InputError, match="scale small has no pencil"):
        recipe_of("pencil", "cifar10", "small")


def test_items_share_their_cells():
    scale, parts = SCALES["small"], ["cifar10"]
    counts = {name: len(ITEMS[name].cells(scale, None, parts)) for name in ITEMS}
    figures_and_table = {"fig1": 2, "fig2": 9, "fig3": 15, "fig4": 15, "fig5": 16, "fig6": 3, "table1": 96, "table2": 0}
    assert counts == {**figures_and_table, "human": 0, "heads": 0, "starts": 0, "weights": 0, "steps": 0}
    figures = plan(names_of("figures"), scale, None, parts)
    assert len(figures) == len({cell.name for cell in figures}) == 50
    everything = plan(names_of("all"), scale, None, parts)
    # Table 1's NLNL and JNPL are those of the figures, but for two more seeds at symm 60.
    alone = Counter(cell.row for cell in everything if not cell.classify)
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
    seeds = [cell.seed for cell in everything]
    assert seeds == sorted(seeds)
    both = plan(["fig5"], scale, None, ["cifar10", "cifar100"])
    assert len(both) == 32
    assert [len(plan(["fig4"], scale, count, parts)) for count in (None, 1, 2)] == [15, 5, 10]
    assert [cell.seed for cell in plan(["fig3", "fig4"], scale, None, parts)] == [1] * 9 + [2] * 9 + [3] * 9
    table2 = plan(["table2"], SCALES["paper"], None, ["clothing1m"], "r50.safetensors")
    assert [cell.row for cell in table2] == list(TABLE2)


def test_the_papers_scale_has_the_papers_methods_and_fast():
    cells = plan(names_of("all"), SCALES["paper"], None, ["cifar10", "cifar100"])
    assert {cell.row for cell in cells} == {*METHODS, "nl-plus", *PL_PLUS}
    assert {cell.row for cell in cells if cell.classify} == {*METHODS}
    assert {cell.row for cell in ITEMS["fig2"].cells(SCALES["paper"], None, ["cifar10"])} == {"nlnl", "nl-plus"}
    assert {cell.seed for cell in ITEMS["fig4"].cells(SCALES["paper"], None, ["cifar10"])} == {1}


@pytest.mark.parametrize("scale", ["small", "tiny"])
def test_nl_alone_and_nl_that_becomes_nl_plus_have_the_budget_of_nl_plus(scale):
    data = SCALES[scale].stands_for["cifar10"]
    nl, plus, late = (recipe_of(variant, data, scale) for variant in ("nl", "nl-plus", "nl-plus-late"))
    assert nl.method == plus.method.model_copy(update={"gamma": 0.0})
    assert late.method == plus.method.model_copy(update={"gamma_rise": (1 / 3, 1 / 2)})
    assert nl.train == plus.train == late.train


@pytest.mark.parametrize(
    ("data", "noise", "rate", "agreement"),
    [
        ("cifar10", "symm", 0.6, 0.9),
        ("cifar10", "symm", 0.8, 0.65),
        ("cifar10", "asymm", 0.4, 0.9),
        ("cifar100", "symm", 0.6, 0.85),
        ("cifar100", "symm", 0.8, 0.85),
    ],
)
@pytest.mark.parametrize("scale", ["paper", "small"])
def test_jocors_agreement_is_its_authors(scale, data, noise, rate, agreement):
    cell = Cell(row="jocor", data=data, noise=noise, rate=rate, seed=1, scale=scale)
    assert cell.recipe().method.agreement == agreement
    assert cell.content()["recipe"]["method"]["agreement"] == agreement  # so the name hangs on it


@pytest.mark.parametrize("variant", ["nfl-rce", "nce-rce"])
@pytest.mark.parametrize("scale", ["paper", "small"])
def test_apl_has_its_authors_weights_and_rate_for_each_data_set(variant, scale):
    for data, expected in (("cifar10", (1.0, 1.0, 0.01, 1e-4)), ("cifar100", (10.0, 0.1, 0.1, 1e-5))):
        recipe = recipe_of(variant, data, scale, None, ("symm", 0.8))
        method, train = recipe.method, recipe.train
        assert (method.alpha, method.beta, train.lr, train.weight_decay) == expected
        assert train.clip_norm == 5.0


def test_unknown_items_are_refused():
    with pytest.raises(InputError, match="there is no item 'fig7'; there are fig1, fig2"):
        names_of("fig7")


def test_the_papers_table_is_whole():
    for table in TABLE1.values():
        assert list(table) == [name for name in METHODS if name != "fast"]
        assert {len(row) for row in table.values()} == {len(SETTINGS)}
    assert printed("cifar100", "jnpl", ("asymm", 0.4)) == 59.51
    assert printed("cifar10", "fast", ("asymm", 0.4)) is None


@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
def test_every_digit_of_table_1_is_the_papers(data):
    lines = list(TABLE1[data].values())
    # In hundredths, which are whole: a wrong digit shows in its row and in its column.
    assert [hundredths(row) for row in lines] == [round(100 * value) for value in ROWS[data]]
    assert [hundredths(column) for column in zip(*lines, strict=True)] == [
        round(100 * value) for value in COLUMNS[data]
    ]
    empty = [(variant, SETTINGS[at]) for variant, row in TABLE1[data].items() for at in range(8) if row[at] is None]
    assert empty == [("nlnl", ("symm", 0.8))]


def hundredths(values):
    return sum(round(100 * value) for value in values if value is not None)


def test_every_digit_of_table_2_is_the_papers():
    names, values = zip(*TABLE2.values(), strict=True)
    assert names == (
        "CE",
        "Forward",
        "M-correction",
        "LIMIT",
        "Joint-Optim",
        "MetaCleaner",
        "MLNT",
        "PENCIL",
        METHODS["jnpl"],
    )
    assert hundredths(values) == round(100 * CLOTHING)
    assert list(values) == sorted(values)  # as the paper has them
