"""JNPL's gamma by agreement and its guard, in plain arithmetic and with networks that are forced to say one thing."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from jnpl.data.loading.batches import Batch, Rows, generator_for
from jnpl.losses.warm_up import concentration
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


@pytest.mark.parametrize("constant", range(CLASSES))
def test_a_constant_does_not_agree_also_if_it_is_the_largest_class(constant):
    method = a_method(gamma_rise="agreement")
    an_epoch(method, a_batch([constant] * 12))
    assert method.warm_up.recall == 0
    assert method._gamma() == 0


def test_agreement_counts_an_epoch_over_all_its_batches_and_then_anew():
    method = a_method(gamma_rise="agreement")
    parts = [a_batch(HALF[:7], index=range(7)), a_batch(HALF[7:], index=range(7, 12))]
    an_epoch(method, *parts)
    assert method.warm_up.recall == pytest.approx(0.2)
    an_epoch(method, a_batch(RIGHT))
    assert method.warm_up.recall == pytest.approx(1)
    an_epoch(method, a_batch([1] * 12))
    assert method.warm_up.recall == 0


def test_with_two_classes_it_is_nl_plus_from_the_start():
    """NL of two classes is cross-entropy."""
    labels = torch.tensor([0, 1])
    method = ExtendedJNPL(
        Task(lambda number: Says(), labels, 2), ExtendedJNPL.Settings(gamma_rise="agreement", gamma=0.7)
    )
    method.epoch, method.epochs = 0, 10
    method.begin_epoch(None)
    assert method._gamma() == 0.7


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


def test_cross_entropy_may_fade_in_a_line():
    method, labels = many(40, ce_start=True, ce_fade=0.5, pl_start=0.7)
    batch = Batch(torch.zeros(40, 40), labels, labels, generator_for(0, "step"), Rows(0, 40, 40))
    for epoch, left in ((0, 1.0), (1, 0.8), (4, 0.2), (5, 0.0)):
        method.epoch = epoch
        method.warm_up.recall = 0.9  # which does not matter
        output = method(batch)
        wanted = output.scalars["nl_plus"].item() + left * 0.75 * math.log(40)
        assert output.loss.item() == pytest.approx(wanted, rel=1e-5)


def fade_after(predicted, given, weights=None, classes=40):
    """The weight of cross-entropy in the second of ten epochs; in the first, samples were predicted like this."""
    labels = torch.tensor(given)
    settings = {"complements": "exhaustive", "pl_weight": 0, "ce_start": True, "ce_fade": "confusion", "pl_start": 0.5}
    method = ExtendedJNPL(
        Task(lambda number: Says(), labels, classes, weights=weights), ExtendedJNPL.Settings(**settings)
    )
    method.epochs = 10
    method.begin_epoch(None)
    assert method.warm_up.cross_entropy_weight(method.epoch, method.epochs) == pytest.approx(
        0.75
    )  # 1 - 10 / 40, before anything is known
    logits = nn.functional.one_hot(torch.tensor(predicted), classes).float()
    rows = torch.arange(len(labels))
    batch = Batch(logits, labels, rows, generator_for(0, "step"), Rows(0, len(labels), len(labels)))
    an_epoch(method, batch)
    return method, method.warm_up.cross_entropy_weight(method.epoch, method.epochs)


def test_cross_entropy_fades_slowly_if_mistakes_are_spread():
    right = list(range(40)) * 8
    spread = [(each // 40 + each) % 40 for each in range(240)]  # class c given as c, c + 1, ..., once each
    method, weight = fade_after(right + [each % 40 for each in range(240)], right + spread)
    assert method.warm_up.concentration == pytest.approx(1 / 5)  # five mistakes for each class, all different
    assert weight == 0.0  # not below the limit: by agreement, which is above a half
    more = [(each // 40 + each) % 40 for each in range(280)]
    method, weight = fade_after(right + [each % 40 for each in range(280)], right + more)
    assert method.warm_up.concentration == pytest.approx(1 / 6)
    assert weight == pytest.approx(0.75 * 0.8)  # one of the five epochs of the fade has passed
    method.epoch = 4
    assert method.warm_up.cross_entropy_weight(method.epoch, method.epochs) == pytest.approx(0.75 * 0.2)
    method.epoch = 5
    assert method.warm_up.cross_entropy_weight(method.epoch, method.epochs) == 0.0


def test_it_ends_with_agreement_if_mistakes_are_concentrated():
    right = list(range(40)) * 6
    flipped = [(each + 1) % 40 for each in range(40)] * 4
    method, weight = fade_after(right + list(range(40)) * 4, right + flipped)
    assert method.warm_up.concentration == 1.0
    assert weight == 0.0
    _, weight = fade_after(list(range(40)) * 5, list(range(40)) + [(each + 1) % 40 for each in range(40)] * 4)
    assert 0.75 * 0.5 < weight < 0.75 * 0.7  # an agreement of about a fifth
    assert float(concentration(torch.eye(3))) == 0.0  # no mistakes


def test_mistakes_count_by_the_weights_of_samples():
    weights = torch.tensor([1.0] * 40 + [0.5, 1.5])
    method, _ = fade_after([*range(40), 0, 0], [*range(40), 1, 2], weights)
    assert method.warm_up.concentration == pytest.approx(0.75)


def test_beyond_500_classes_mistakes_are_not_counted():
    labels = torch.arange(501)
    settings = ExtendedJNPL.Settings(complements="exhaustive", ce_start=True, ce_fade="confusion", pl_start=0.5)
    method = ExtendedJNPL(Task(lambda number: Says(), labels, 501), settings)
    assert method.counts.confusion is None
    method.begin_epoch(None)
    assert method.warm_up.cross_entropy_weight(method.epoch, method.epochs) > 0


def test_without_it_many_classes_are_nl_alone():
    method, labels = many(40)
    batch = Batch(torch.zeros(40, 40), labels, labels, generator_for(0, "step"), Rows(0, 40, 40))
    output = method(batch)
    assert output.loss.equal(output.scalars["nl_plus"])


def test_other_rises_do_not_look_at_agreement():
    for rise, wanted in ((None, 1.0), ((0.0, 0.5), 0.2)):
        method = a_method(gamma_rise=rise)
        an_epoch(method, a_batch([0] * 12))
        assert method._gamma() == pytest.approx(wanted)


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


def test_before_pl_plus_begins_only_nl_plus_is_held_back():
    method = a_method(guard=0.3, pl_start=0.5)
    an_epoch(method, a_batch([1] * 12))
    assert method.guard.active
    assert method.guard.pl_scale == 1
    assert method.guard.times == 1
    assert method.notes() == []  # usual early in training


def test_what_is_nl_already_is_not_held_back():
    method = a_method(guard=0.3, pl_start=0.5, gamma_rise="agreement")
    an_epoch(method, a_batch([1] * 12))  # agreement 0: gamma is 0 as it is
    assert not method.guard.active
    assert method.notes() == []


@pytest.mark.parametrize("predicted", [RIGHT, HALF])
def test_balanced_predictions_change_nothing(predicted):
    method, free = a_method(guard=0.3), a_method()
    for each in (method, free):
        an_epoch(each, a_batch(predicted))
    assert not method.guard.active
    assert method.guard.pl_scale == 1
    assert method.notes() == []
    assert method(a_batch(RIGHT)).loss.equal(free(a_batch(RIGHT)).loss)


@pytest.mark.parametrize(("ones", "acts"), [(6, False), (7, True)])
def test_the_guard_is_a_distance_of_total_variation(ones, acts):
    """Of n ones in 12, the rest as the labels from the left: half of the sum of differences, plainly."""
    predicted = [1] * ones + RIGHT[ones:]
    shares = [predicted.count(k) / 12 for k in range(CLASSES)]
    apart = 0.5 * sum(abs(share - RIGHT.count(k) / 12) for k, share in enumerate(shares))
    assert (apart > 0.36) == acts
    method = a_method(guard=0.36)
    an_epoch(method, a_batch(predicted))
    assert method.guard.active == acts


def test_the_first_epoch_is_never_held():
    method = a_method(guard=0.01)
    method.begin_epoch(None)
    assert not method.guard.active


def test_without_a_guard_nothing_acts():
    method = a_method(guard=0)
    for _ in range(3):
        an_epoch(method, a_batch([3] * 12))
        assert not method.guard.active
    assert method.guard.pl_scale == 1
    assert method.notes() == []


def test_the_state_survives_a_checkpoint():
    method, other = a_method(guard=0.3, gamma_rise="agreement"), a_method(guard=0.3, gamma_rise="agreement")
    an_epoch(method, a_batch(RIGHT))
    an_epoch(method, a_batch([1] * 12))
    method(a_batch(HALF))  # in the middle of an epoch
    other.load_state_dict(method.state_dict())
    other.epoch = method.epoch
    assert other.guard.active
    assert other.notes() == method.notes() != []
    assert other(a_batch(HALF)).loss.equal(method(a_batch(HALF)).loss)
    for each in (method, other):
        an_epoch(each)
    assert other.warm_up.recall == method.warm_up.recall
    assert other.warm_up.recall > 0
    assert other.guard.pl_scale == method.guard.pl_scale == 0.5


def test_counts_of_all_processes_are_added():
    """This process saw ones alone, the other one the rest: together they are as the labels."""
    method = a_method(guard=0.3, gamma_rise="agreement")
    others = iter([torch.tensor([5.0, 0, 3, 1]), torch.tensor([5.0, 0, 3, 1]), torch.tensor([5.0, 0, 3, 1])])
    method.sum_over_processes = lambda tensor: tensor + next(others)
    method.counts.predicted[1], method.counts.given[1], method.counts.right[1] = 3, 3, 3
    method.epoch = 1
    method.begin_epoch(None)
    assert not method.guard.active
    assert method.warm_up.recall == pytest.approx(1)


def test_recipes_of_the_paper_have_neither():
    names = [name for name in recipe_names() if name.startswith("paper-")]
    assert len(names) == 3
    for name in names:
        recipe = load_recipe(name, {"weights": None})
        assert (recipe.method.guard, recipe.method.gamma_rise, recipe.train.average) == (0, None, 0)
        assert (recipe.verdict.score, recipe.method.pl_start) == ("history", 0)
    assert load_recipe("fast").method.guard == 0.3


@pytest.mark.parametrize("wrong", [{"guard": -0.1}, {"guard": 1}, {"gamma_rise": "sometimes"}])
def test_settings_that_are_refused(wrong):
    with pytest.raises(ValidationError):
        ExtendedJNPL.Settings(**wrong)


LONG = torch.arange(4).repeat(60)  # 60 of each class


@pytest.mark.parametrize(("kept", "acts"), [(5, True), (6, False), (60, False)])
def test_a_class_that_is_hardly_predicted_is_lost(kept, acts):
    """Three classes right, of the fourth `kept` of 60: total variation is 0.25 at most."""
    given = {"complements": "exhaustive", "guard": 0.3}
    method = ExtendedJNPL(Task(lambda number: Says(), LONG, CLASSES), ExtendedJNPL.Settings(**given))
    method.epoch, method.epochs = 1, 10
    method.counts.predicted.copy_(torch.tensor([60.0, 60 + 60 - kept, 60, kept]))
    method.counts.given.copy_(torch.bincount(LONG))
    method.begin_epoch(None)
    assert method.guard.active == acts


@pytest.mark.parametrize(("few", "acts"), [(9, False), (49, False), (50, True)])
def test_a_class_of_few_may_be_predicted_by_nobody(few, acts):
    labels = torch.tensor([0] * 100 + [1] * 100 + [2] * few)
    method = ExtendedJNPL(Task(lambda number: nn.Linear(2, 3), labels, 3), ExtendedJNPL.Settings(guard=0.3))
    method.epoch, method.epochs = 1, 10
    method.counts.predicted.copy_(torch.tensor([100.0, 100 + few, 0]))
    method.counts.given.copy_(torch.bincount(labels))
    method.begin_epoch(None)
    assert method.guard.active == acts


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


@pytest.mark.parametrize(("classes", "lost", "held"), [(10, 1, True), (100, 5, False), (100, 6, True)])
def test_of_many_classes_some_may_be_lost(classes, lost, held):
    """Fifty of each; the lost ones are called what comes next."""
    labels = torch.arange(classes).repeat_interleave(50)
    settings = ExtendedJNPL.Settings(complements="exhaustive", guard=0.3)
    method = ExtendedJNPL(Task(lambda number: Says(), labels, classes), settings)
    method.epoch, method.epochs = 0, 10
    predicted = torch.where(labels < lost, labels + lost, labels)
    inputs = 5.0 * nn.functional.one_hot(predicted, classes).float()
    index = torch.arange(len(labels))
    an_epoch(method, Batch(inputs, labels, index, generator_for(0, "step"), Rows(0, len(labels), len(labels))))
    assert method.guard.active == held


def test_the_guard_does_not_act_in_the_second_stage():
    method = a_method(guard=0.3, refine=True)
    an_epoch(method, a_batch([0] * 12))
    assert (method.guard.active, method.guard.times) == (True, 1)
    method(a_batch([0] * 12))
    method.stage, method.epoch = 1, 0
    method.begin_epoch(None)
    assert (method.guard.active, method.guard.times) == (False, 1)
