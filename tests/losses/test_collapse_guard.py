"""The guard against lost classes: when predictions have collapsed, and what it does then."""

import pytest
import torch

from jnpl.losses.collapse_guard import CollapseGuard, has_collapsed, loses_classes, presence
from jnpl.losses.epoch_counts import EpochTotals

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


def test_before_anything_was_predicted_nothing_has_collapsed():
    assert not has_collapsed(torch.zeros(3), torch.zeros(3), 0.1)


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
