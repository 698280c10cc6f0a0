"""JNPL's gamma by agreement and its guard, in plain arithmetic and with networks that are forced to say one thing."""

import math

import pytest
import torch
from torch import nn

from jnpl.data.loading.batches import Batch, Rows, generator_for
from jnpl.methods.base import Task
from jnpl.methods.extended_jnpl import ExtendedJNPL
from jnpl.recipes.load import load_recipe, recipe_names

CLASSES = 4
LABELS = torch.tensor([0, 0, 0, 0, 1, 1, 2, 2, 3, 0, 1, 2])  # 5, 3, 3, 1 of 12


class Says(nn.Module):
    """Logits that are set: the inputs, times a weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, inputs):
        return inputs * self.weight


def a_method(epoch=0, epochs=10, **settings):
    given = {"complements": "exhaustive", "pl_weight": 0.5, **settings}
    method = ExtendedJNPL(Task(lambda number: Says(), LABELS, CLASSES), ExtendedJNPL.Settings(**given))
    method.epoch, method.epochs = epoch, epochs
    return method


def a_batch(predicted, sure=5.0, index=range(12)):
    """A batch whose logits predict these classes."""
    index = torch.tensor(list(index))
    inputs = sure * nn.functional.one_hot(torch.tensor(predicted), CLASSES).float()
    rows = Rows(0, len(index), len(index))
    return Batch(inputs, LABELS[index], index, generator_for(0, "step"), rows)


def an_epoch(method, *batches):
    """An epoch, then the beginning of the next."""
    for batch in batches:
        method(batch)
    method.epoch += 1
    method.begin_epoch(None)


def terms_by_hand(batch, gamma):
    """The mean of NL+ over all complements; gamma 0 is NL."""
    total = 0.0
    for row, y in zip(batch.inputs.tolist(), batch.labels.tolist(), strict=True):
        exps = [math.exp(value) for value in row]
        p = [value / sum(exps) for value in exps]
        total += sum(-((1 - p[k]) ** gamma) * math.log(1 - p[k]) for k in range(CLASSES) if k != y)
    return total / len(batch.labels)


RIGHT = LABELS.tolist()
HALF = [0, 0, 0, 1, 1, 2, 2, 2, 0, 1, 3, 0]  # 3 of 5, 1 of 3, 2 of 3, 0 of 1 agree; as often as the labels


def agreement_of(predicted):
    """From a constant, which gets one class of four, to all of all four."""
    pairs = list(zip(predicted, RIGHT, strict=True))
    recall = sum(pairs.count((k, k)) / RIGHT.count(k) for k in range(CLASSES)) / CLASSES
    return min(max((recall - 0.25) / 0.75, 0.0), 1.0)


@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_gamma_follows_agreement_in_plain_arithmetic(gamma):
    method = a_method(gamma_rise="agreement", gamma=gamma, pl_weight=0)
    method.begin_epoch(None)
    batch = a_batch(HALF, sure=1.0)
    assert method(batch).scalars["nl_plus"].item() == pytest.approx(terms_by_hand(batch, 0.0), rel=1e-5)
    method.epoch = 1
    method.begin_epoch(None)
    assert agreement_of(HALF) == pytest.approx(0.2)
    assert method.warm_up.recall == pytest.approx(0.2)
    wanted = gamma * 0.4  # half of the way to perfect agreement is enough
    assert method(batch).scalars["nl_plus"].item() == pytest.approx(terms_by_hand(batch, wanted), rel=1e-5)
    for count in (method.counts.predicted, method.counts.given, method.counts.right):
        count.zero_()
    an_epoch(method, a_batch(RIGHT))
    assert method.warm_up.recall == pytest.approx(1)
    assert method(batch).scalars["nl_plus"].item() == pytest.approx(terms_by_hand(batch, gamma), rel=1e-5)


def many(classes, **settings):
    """One sample of each class, and logits that know the first few."""
    labels = torch.arange(classes)
    settings = {"complements": "exhaustive", "gamma_rise": "agreement", "pl_weight": 0, **settings}
    method = ExtendedJNPL(Task(lambda number: Says(), labels, classes), ExtendedJNPL.Settings(**settings))
    method.epoch, method.epochs = 0, 10
    method.begin_epoch(None)
    return method, labels


@pytest.mark.parametrize(("classes", "share"), [(10, 0.0), (40, 0.75)])
def test_beyond_ten_classes_cross_entropy_helps_until_half_is_known(classes, share):
    method, labels = many(classes, ce_start=True, pl_start=0.5)
    batch = Batch(torch.zeros(classes, classes), labels, labels, generator_for(0, "step"), Rows(0, classes, classes))
    first = method(batch)
    nl = (classes - 1) * -math.log(1 - 1 / classes)
    assert first.loss.item() == pytest.approx(nl + share * math.log(classes), rel=1e-5)
    for agreement, left in ((0.25, 0.5), (0.5, 0.0), (1.0, 0.0)):
        method.warm_up.recall = agreement
        output = method(batch)
        wanted = output.scalars["nl_plus"].item() + left * share * math.log(classes)
        assert output.loss.item() == pytest.approx(wanted, rel=1e-5)
    method.warm_up.recall = 0.1  # as high as it gets with nine labels of ten wrong
    method.epoch = 5
    output = method(batch)
    assert output.loss.equal(output.scalars["nl_plus"])


def test_constant_predictions_are_followed_by_an_epoch_of_nl_alone_and_half_of_pl_plus():
    method, batch = a_method(guard=0.3), a_batch([1] * 12)  # 3/12 of the labels: 0.75 apart
    method.begin_epoch(None)
    before = method(batch)
    assert before.scalars["pl_plus"] > 0
    wanted = before.scalars["nl_plus"] + 0.5 * before.scalars["pl_plus"]
    assert before.loss.item() == pytest.approx(wanted.item())
    assert before.scalars["nl_plus"].item() == pytest.approx(terms_by_hand(batch, 1.0), rel=1e-4)
    assert method.notes() == []
    method.epoch = 1
    method.begin_epoch(None)
    held = method(a_batch(RIGHT))
    assert method.guard.active
    assert held.loss.item() == pytest.approx(terms_by_hand(a_batch(RIGHT), 0.0), rel=1e-4)  # NL, and no PL+
    assert method.notes()[0].startswith("training was unstable: the network stopped predicting some classes once, and")
    assert "run again with another --seed" in method.notes()[0]
    method.epoch = 2
    method.begin_epoch(None)  # balanced again: PL+ comes back, at half its weight
    assert not method.guard.active
    after = method(batch)
    wanted = after.scalars["nl_plus"] + 0.25 * after.scalars["pl_plus"]
    assert after.loss.item() == pytest.approx(wanted.item())
    method.epoch = 3
    method.begin_epoch(None)
    assert method.guard.active
    assert method.guard.pl_scale == 0.25
    assert "stopped predicting some classes 2 times" in method.notes()[0]


@pytest.mark.parametrize("predicted", [RIGHT, HALF])
def test_balanced_predictions_change_nothing(predicted):
    method, free = a_method(guard=0.3), a_method()
    for each in (method, free):
        an_epoch(each, a_batch(predicted))
    assert not method.guard.active
    assert method.guard.pl_scale == 1
    assert method.notes() == []
    assert method(a_batch(RIGHT)).loss.equal(free(a_batch(RIGHT)).loss)


def test_recipes_of_the_paper_have_neither():
    names = [name for name in recipe_names() if name.startswith("paper-")]
    assert len(names) == 3
    for name in names:
        recipe = load_recipe(name, {"weights": None})
        assert (recipe.method.guard, recipe.method.gamma_rise, recipe.train.average) == (0, None, 0)
        assert (recipe.verdict.score, recipe.method.pl_start) == ("history", 0)
    assert load_recipe("fast").method.guard == 0.3


@pytest.mark.parametrize(("epoch", "scale"), [(4, 1.0), (5, 1.0), (6, 0.5)])
def test_pl_plus_is_halved_only_for_what_it_may_have_done(epoch, scale):
    """It begins in epoch 5 of 10: what went wrong in epoch 4 is handled at the start of 5."""
    method = a_method(guard=0.3, pl_start=0.5)
    method.counts.predicted.copy_(torch.tensor([12.0, 0, 0, 0]))
    method.counts.given.copy_(torch.tensor([5.0, 3, 3, 1]))
    method.epoch, method.epochs = epoch, 10
    method.begin_epoch(None)
    assert method.guard.active
    assert method.guard.pl_scale == scale


def test_the_guard_does_not_act_in_the_second_stage():
    method = a_method(guard=0.3, refine=True)
    an_epoch(method, a_batch([0] * 12))
    assert (method.guard.active, method.guard.times) == (True, 1)
    method(a_batch([0] * 12))
    method.stage, method.epoch = 1, 0
    method.begin_epoch(None)
    assert (method.guard.active, method.guard.times) == (False, 1)
