"""Variants: recipes that parse at any length, and the paper's where they should be."""

import pytest

from jnpl.experiments import paper, run_data, variants
from jnpl.experiments.reproduce.fig3 import PL_PLUS
from jnpl.experiments.scales import SCALES
from jnpl.experiments.spec import RunSpec
from jnpl.internal.errors import InputError
from jnpl.methods.registry import METHODS
from jnpl.recipes.load import load_recipe
from jnpl.training.phases import make_phases
from jnpl.training.pseudo_labels import pseudo_label_settings

IRIS = {"row": "ce", "data": "iris", "noise": "symm", "rate": 0.4, "epochs": 2, "seed": 1}
CIFAR = {**IRIS, "data": "cifar10", "pixels": 16, "images": 40, "net": "resnet8"}


def recipe_of(variant, data, scale, weights=None, setting=("none", 0.0)):
    noise, rate = setting
    return RunSpec(variant=variant, data=data, noise=noise, rate=rate, seed=1, scale=scale, weights=weights).recipe()


@pytest.mark.parametrize("epochs", [1, 2, 10, 30, 61])
@pytest.mark.parametrize("row", variants.BENCH)
def test_every_variant_is_a_recipe_at_any_length(row, epochs):
    for settings in (IRIS, {**CIFAR, "padding": 1, "batch_size": 16}):
        spec = RunSpec(**{**settings, "row": row, "epochs": epochs})
        recipe = spec.recipe()
        ours = max(2, round(0.9 * epochs))  # and three times as many in its second part
        assert recipe.train.epochs == (ours if row.startswith("fast") else epochs)
        assert recipe.train.batch_size == spec.batch_size
        assert recipe.engine.accelerator == "cpu"
        assert recipe.data.val_size == 0
        cropped = row == "fast" or row.endswith("-augmented")
        assert recipe.data.padding == ("auto" if cropped else spec.padding)


@pytest.mark.parametrize("epochs", [4, 10, 30, 61])
def test_the_stages_of_nlnl_sum_to_the_epochs_of_the_others(epochs):
    recipe = RunSpec(**{**IRIS, "row": "nlnl", "epochs": epochs}).recipe()

    phases = make_phases(recipe, METHODS["nlnl"], pseudo_label_settings(recipe, METHODS["nlnl"]))
    filters = [phase.plan for phase in phases if not phase.pseudo]
    assert sum(plan.epochs for plan in filters) == epochs
    assert [plan.lr for plan in filters] == [0.1, 0.05, 0.02]
    assert [phase.plan.epochs for phase in phases if phase.pseudo] == [epochs // 2] * 2


@pytest.mark.parametrize("name", variants.TABLES)
def test_tables_have_as_many_samples_and_classes_as_their_variants_take_them_to_have(name):
    source = run_data.load(RunSpec(variant="ce", data=name, noise="symm", rate=0.2, epochs=1, seed=0), None)
    assert (len(source), len(source.class_names)) == variants.TABLES[name]


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
    assert len({recipe_of(name, data, scale).model_dump_json() for name in paper.METHODS}) == len(paper.METHODS)


def test_a_variant_of_table_2_is_for_clothing1m_and_asks_for_weights():
    with pytest.raises(InputError, match="--weights FILE"):
        recipe_of("jnpl", "clothing1m", "paper")
    assert recipe_of("jnpl", "clothing1m", "paper", "r50.safetensors").weights == "r50.safetensors"
    with pytest.raises(InputError, match="scale small has no pencil"):
        recipe_of("pencil", "cifar10", "small")


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
    spec = RunSpec(variant="jocor", data=data, noise=noise, rate=rate, seed=1, scale=scale)
    assert spec.recipe().method.agreement == agreement
    assert spec.content()["recipe"]["method"]["agreement"] == agreement  # so the name hangs on it


@pytest.mark.parametrize("variant", ["nfl-rce", "nce-rce"])
@pytest.mark.parametrize("scale", ["paper", "small"])
def test_apl_has_its_authors_weights_and_rate_for_each_data_set(variant, scale):
    for data, expected in (("cifar10", (1.0, 1.0, 0.01, 1e-4)), ("cifar100", (10.0, 0.1, 0.1, 1e-5))):
        recipe = recipe_of(variant, data, scale, None, ("symm", 0.8))
        method, train = recipe.method, recipe.train
        assert (method.alpha, method.beta, train.lr, train.weight_decay) == expected
        assert train.clip_norm == 5.0
