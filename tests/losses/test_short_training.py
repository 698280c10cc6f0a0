"""Counts of an epoch, the start and the guard: in plain arithmetic, and what follows from them."""

import pytest
import torch
from torch import nn

from jnpl.losses.short_training import (
    MAX_CONFUSION,
    CollapseGuard,
    EpochCounts,
    EpochTotals,
    WarmUp,
    concentration,
    cross_entropy_share,
    has_collapsed,
    loses_classes,
    presence,
    recall_above_chance,
)

PREDICTED = [0, 0, 1, 2, 2, 2, 1]
GIVEN = [0, 1, 1, 2, 0, 2, 2]


def a_batch(rows):
    logits = 3.0 * nn.functional.one_hot(torch.tensor(PREDICTED)[rows], 4).float()
    return logits, torch.tensor(GIVEN)[rows]


def test_counts_of_batches_are_those_of_all_samples():
    counts = EpochCounts(4, confusion=True)
    counts.add(*a_batch(slice(0, 3)))
    counts.add(*a_batch(slice(3, 7)))
    found = counts.take()
    pairs = list(zip(PREDICTED, GIVEN, strict=True))
    assert found.predicted.tolist() == [PREDICTED.count(k) for k in range(4)]
    assert found.given.tolist() == [GIVEN.count(k) for k in range(4)]
    assert found.right.tolist() == [pairs.count((k, k)) for k in range(4)]
    assert found.confusion.tolist() == [[pairs.count((k, j)) for j in range(4)] for k in range(4)]
    assert all(not each.any() for each in counts.take())  # it has started anew


def test_samples_count_by_their_weights():
    counts, weights = EpochCounts(4, confusion=True), torch.linspace(0.25, 1.75, 7)
    counts.add(*a_batch(slice(0, 7)), weights)
    found = counts.take()
    assert found.predicted.sum() == found.given.sum() == found.confusion.sum() == weights.sum()
    right = [weight for weight, p, y in zip(weights.tolist(), PREDICTED, GIVEN, strict=True) if p == y]
    assert found.right.sum().item() == sum(right)


def test_counts_of_processes_are_added_and_pairs_are_optional():
    counts = EpochCounts(4)
    counts.add(*a_batch(slice(0, 7)))
    found = counts.take(lambda count: count + 1)
    assert found.predicted.tolist() == [3, 3, 4, 1]
    assert found.confusion is None


def of_epoch(given, right, confusion=None):
    given = torch.tensor(given, dtype=torch.float)
    return EpochTotals(given, given, torch.tensor(right, dtype=torch.float), confusion)


def test_recall_is_a_mean_over_classes_that_occur_above_that_of_a_constant():
    given, right = [8, 4, 0, 2], [4, 4, 0, 1]
    plain = (4 / 8 + 4 / 4 + 1 / 2) / 3
    assert recall_above_chance(torch.tensor(given), torch.tensor(right)).item() == pytest.approx(
        (plain - 1 / 3) / (1 - 1 / 3)
    )
    assert recall_above_chance(torch.tensor([3.0, 3.0]), torch.tensor([3.0, 0.0])) == 0  # a constant
    assert recall_above_chance(torch.zeros(3), torch.zeros(3)) == 0  # nothing seen
    assert recall_above_chance(torch.tensor([3.0, 0.0]), torch.tensor([3.0, 0.0])) == 0  # one class alone


def test_concentration_of_no_mistakes_is_zero():
    assert concentration(torch.eye(4)) == 0
    assert concentration(torch.tensor([[5.0, 2, 2], [1, 5, 0], [0, 0, 5]])).item() == pytest.approx((2 + 1) / 5)


@pytest.mark.parametrize(("classes", "share"), [(2, 0.0), (10, 0.0), (20, 0.5), (1000, 0.99)])
def test_cross_entropy_is_for_many_classes(classes, share):
    assert cross_entropy_share(classes) == pytest.approx(share)
    assert WarmUp(classes, cross_entropy=True).cross_entropy_weight(0, 10) == pytest.approx(share)
    assert WarmUp(classes).cross_entropy_weight(0, 10) == 0


def test_an_epoch_changes_gamma_and_cross_entropy():
    warm_up = WarmUp(20, gamma=0.8, gamma_rise="agreement", cross_entropy=True)
    assert (warm_up.gamma(0, 10), warm_up.cross_entropy_weight(0, 10)) == (0.0, 0.5)
    warm_up.observe(of_epoch([4] * 20, [1] * 20))
    recall = (0.25 - 1 / 20) / (1 - 1 / 20)
    assert warm_up.recall == pytest.approx(recall)
    assert warm_up.gamma(1, 10) == pytest.approx(0.8 * 2 * recall)
    assert warm_up.cross_entropy_weight(1, 10) == pytest.approx(0.5 * (1 - 2 * recall))
    assert warm_up.cross_entropy_weight(5, 10) == 0  # by default it ends with half of the epochs


def test_pairs_are_counted_only_where_they_are_read():
    assert WarmUp(20, cross_entropy=True, fade="confusion").needs_confusion
    assert not WarmUp(20, fade="confusion").needs_confusion
    assert not WarmUp(20, cross_entropy=True).needs_confusion
    assert not WarmUp(MAX_CONFUSION + 1, cross_entropy=True, fade="confusion").needs_confusion


@pytest.mark.parametrize(
    ("rise", "epoch", "wanted"), [(None, 1, 0.8), ((0.0, 0.5), 1, 0.16), ((0.2, 0.5), 1, 0.0), ((0.2, 0.5), 9, 0.8)]
)
def test_other_rises_do_not_look_at_the_recall(rise, epoch, wanted):
    assert WarmUp(4, gamma=0.8, gamma_rise=rise).gamma(epoch, 10) == pytest.approx(wanted)
    assert WarmUp(2, gamma=0.8, gamma_rise="agreement").gamma(epoch, 10) == 0.8  # NL of two classes is cross-entropy


@pytest.mark.parametrize(
    ("fade", "others", "epoch", "left"),
    [
        (0.5, 6, 1, 0.8),  # in a line, whatever the recall
        (0.5, 6, 4, 0.2),
        (0.5, 6, 5, 0.0),
        ("confusion", 1, 1, 0.0),  # all mistakes of a class are the same: by recall, which is above a half
        ("confusion", 5, 1, 0.0),  # a fifth of them
        ("confusion", 6, 1, 0.8),  # spread: in a line
        ("confusion", 6, 4, 0.2),
        ("agreement", 6, 1, 0.0),
    ],
)
def test_cross_entropy_fades_slowly_if_mistakes_are_spread(fade, others, epoch, left):
    """Eight right samples of each of 40 classes, and one for each of `others` classes that it is mistaken for."""
    warm_up = WarmUp(40, cross_entropy=True, fade=fade, end=0.7)
    confusion = 8 * torch.eye(40)
    for shift in range(1, others + 1):
        confusion += torch.eye(40).roll(shift, 1)
    warm_up.observe(EpochTotals(confusion.sum(1), confusion.sum(0), confusion.diagonal(), confusion))
    assert warm_up.concentration == pytest.approx(1 / others)
    assert warm_up.cross_entropy_weight(epoch, 10) == pytest.approx(0.75 * left)
    assert warm_up.cross_entropy_weight(7, 10) == 0


EVEN = torch.tensor([100.0, 100.0, 100.0])
ONE = torch.tensor([300.0, 0.0, 0.0])


def totals(predicted):
    return EpochTotals(predicted, EVEN, predicted.minimum(EVEN), None)


def test_presence_falls_only_where_a_class_is_nearly_lost():
    given, predicted = torch.tensor([100.0, 100.0, 100.0, 0.0]), torch.tensor([250.0, 45.0, 2.0, 0.0])
    assert presence(given, predicted).tolist() == pytest.approx([1, 1, 0.2, 0])


def test_a_class_is_lost_below_a_tenth_of_its_given_labels():
    for count in (50.0, 1230.0, 70_010.0, 1e6 + 10):
        given = torch.full((3,), count)
        for predicted, lost in ((count / 10, False), (count / 10 - 1, True), (0.0, True)):
            assert loses_classes(torch.tensor([count, count, predicted]), given) is lost, (count, predicted)
    assert not loses_classes(torch.tensor([49.0, 0.0]), torch.tensor([49.0, 49.0]))  # too few labels to say


@pytest.mark.parametrize(("first", "collapsed"), [(129, False), (131, True)])
def test_predictions_far_from_the_labels_have_collapsed(first, collapsed):
    predicted = torch.tensor([first, 100.0, 200.0 - first])
    apart = 0.5 * sum(abs(each - 100) for each in predicted.tolist()) / 300
    assert (apart > 0.1) == collapsed
    assert has_collapsed(predicted, EVEN, 0.1) == collapsed


@pytest.mark.parametrize(("classes", "lost", "collapsed"), [(10, 1, True), (100, 5, False), (100, 6, True)])
def test_of_many_classes_some_may_be_lost(classes, lost, collapsed):
    given = torch.full((classes,), 50.0)
    predicted = given.clone()
    predicted[:lost], predicted[lost : 2 * lost] = 0.0, 100.0
    assert has_collapsed(predicted, given, 0.3) == collapsed


@pytest.mark.parametrize(
    ("most", "at_risk", "began", "state"),
    [
        (0.3, True, True, (True, 1, 0.5)),
        (0.3, True, False, (True, 1, 1.0)),
        (0.3, False, True, (False, 0, 1.0)),
        (0.0, True, True, (False, 0, 1.0)),
    ],
)
def test_it_acts_after_a_collapse_if_something_is_at_risk(most, at_risk, began, state):
    guard = CollapseGuard(most)
    guard.check(totals(ONE), at_risk=at_risk, pl_had_begun=began)
    assert (guard.active, guard.times, guard.pl_scale) == state
    assert bool(guard.notes()) == (guard.pl_scale < 1)
    again = CollapseGuard(most)
    again.load_state_dict(guard.state_dict())
    assert (again.active, again.times, again.pl_scale) == state
    guard.check(totals(EVEN), at_risk=True, pl_had_begun=True)
    assert not guard.active
    assert guard.times == state[1]
