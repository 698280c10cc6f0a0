"""Refined NL: the losses of both stages in plain arithmetic, and the same numbers as JNPL with the same settings."""

import math

import pytest
import torch
from torch import nn

from jnpl.data.loading.batches import Batch, Rows, generator_for
from jnpl.internal.errors import InputError
from jnpl.methods.base import Task
from jnpl.methods.extended_jnpl import ExtendedJNPL
from jnpl.methods.refined_nl import RefinedNL
from jnpl.recipes.load import load_recipe

CLASSES = 12
LABELS = torch.arange(36) % CLASSES


def a_network(_number=0):
    torch.manual_seed(0)
    return nn.Linear(5, CLASSES)


def a_batch():
    inputs = torch.randn(36, 5, generator=torch.Generator().manual_seed(1))
    return Batch(inputs, LABELS, torch.arange(36), generator_for(0, "step"), Rows(0, 36, 36))


def made(kind=RefinedNL, weights=None, decided=None, **settings):
    method = kind(Task(a_network, LABELS, CLASSES, weights=weights, decided=decided), kind.Settings(**settings))
    method.epochs = 10
    method.begin_epoch(None)
    return method


def test_the_first_stage_is_nl_plus_over_all_complements_and_cross_entropy():
    method, batch = made(), a_batch()
    nl_plus = cross_entropy = 0.0
    for p, y in zip(method.model(batch.inputs).double().softmax(1).tolist(), LABELS.tolist(), strict=True):
        nl_plus -= sum((1 - p[k]) * math.log(1 - p[k]) for k in range(CLASSES) if k != y) / 36
        cross_entropy -= math.log(p[y]) / 36
    output = method(batch)
    assert output.scalars["nl_plus"].item() == pytest.approx(nl_plus, rel=1e-5)
    assert output.loss.item() == pytest.approx(nl_plus + (1 - 10 / CLASSES) * cross_entropy, rel=1e-5)
    method.epoch = 5  # half of the epochs
    assert method(batch).loss.item() == pytest.approx(nl_plus, rel=1e-5)
    assert made(ce_start=False)(batch).loss.item() == pytest.approx(nl_plus, rel=1e-5)


@pytest.mark.parametrize("fade", ["agreement", "confusion", 0.4])
def test_it_is_jnpl_without_pl_plus(fade):
    """Bit for bit: recipes of earlier versions had this method by settings of `jnpl`."""
    weights = torch.linspace(0.5, 1.5, 36)
    ours = made(weights=weights, ce_fade=fade)
    same = {"complements": "exhaustive", "class_weight": "mean", "pl_weight": 0.0, "pl_start": 0.5}
    theirs = made(ExtendedJNPL, weights, ce_start=True, ce_fade=fade, refine=True, **same)
    assert [stage.name for stage in ours.stages] == [stage.name for stage in theirs.stages] == ["train", "refine"]
    for _ in range(6):
        losses = [method(a_batch()).loss for method in (ours, theirs)]
        assert losses[0].equal(losses[1])
        for method, loss in zip((ours, theirs), losses, strict=True):
            loss.backward()
            method.epoch += 1
            method.begin_epoch(None)
    assert ours.model.weight.grad.equal(theirs.model.weight.grad)


def test_counters_and_targets_are_not_averaged_with_the_weights():
    method = made()
    assert set(method.network_state()) == {"model.weight", "model.bias"}
    assert {"counts.predicted", "refinement.targets", "warm_up._extra_state"} < set(method.state_dict())


def test_it_is_the_default_on_embeddings():
    recipe = load_recipe("fast-embeddings")
    assert recipe.method == RefinedNL.Settings()
    with pytest.raises(
        InputError, match=r"no setting 'method.pl_weight'; .*method.refine \(a setting of jnpl, jnpl-stable\)"
    ):
        load_recipe("fast-embeddings", {"method.pl_weight": 0.01})
