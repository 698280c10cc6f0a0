"""Settings that earlier versions stored are those of today."""

import pytest
import torch

from jnpl.methods.base import Task
from jnpl.methods.earlier_settings import with_earlier_method, with_present_method
from jnpl.methods.extended_jnpl import ExtendedJNPL
from jnpl.methods.refined_nl import RefinedNL
from jnpl.recipes.load import load_recipe

OLD = {  # of the recipe fast-embeddings, as version 0.2.0 stored it
    "name": "jnpl",
    "pl_weight": 0.0,
    "n": 3,
    "complements": "exhaustive",
    "num_complements": None,
    "gamma": 1.0,
    "gamma_rise": None,
    "pl_start": 0.5,
    "ce_start": True,
    "ce_fade": "confusion",
    "class_weight": "mean",
    "pl_target": "predicted",
    "pl_mean": "selected",
    "guard": 0.0,
    "refine": True,
}


def test_jnpl_with_the_settings_of_refined_nl_is_refined_nl():
    recipe = load_recipe("fast-embeddings", {"method.ce_fade": "confusion"})
    assert with_present_method(OLD) == recipe.method.model_dump(mode="json")


def test_the_earlier_settings_of_refined_nl_are_those_of_jnpl():
    assert with_earlier_method(with_present_method(OLD)) == OLD
    assert with_earlier_method({"name": "jnpl", "n": 3}) == {"name": "jnpl", "n": 3}


def test_incomplete_settings_stay():
    incomplete = {name: value for name, value in OLD.items() if name != "pl_start"}
    assert with_present_method(incomplete) == incomplete


@pytest.mark.parametrize("other", [{"refine": False}, {"pl_weight": 0.01}, {"guard": 0.3}, {"name": "nlnl"}])
def test_other_settings_stay(other):
    assert with_present_method(OLD | other) == OLD | other


def test_the_state_of_that_jnpl_is_one_of_refined_nl():
    def network(number):
        return torch.nn.Linear(3, 12)

    task = Task(network, torch.arange(24) % 12, 12)
    old = ExtendedJNPL(task, ExtendedJNPL.Settings(**OLD))
    old.warm_up.recall, old.counts.right[3] = 0.25, 7.0
    old.refinement.targets.fill_(0.5)
    new = RefinedNL(task, RefinedNL.Settings(ce_fade="confusion"))
    new.load_state_dict(old.state_dict())
    assert new.model.weight.equal(old.model.weight)
    assert new.warm_up.recall == 0.25
    assert new.counts.right[3] == 7
    assert (new.refinement.targets == 0.5).all()
