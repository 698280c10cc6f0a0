"""The warm-up: recall and concentration in plain arithmetic, and what follows from them."""

import pytest
import torch

from jnpl.losses.epoch_counts import EpochTotals
from jnpl.losses.warm_up import MAX_CONFUSION, WarmUp, concentration, cross_entropy_share, recall_above_chance


def totals(given, right, confusion=None):
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
    warm_up.observe(totals([4] * 20, [1] * 20))
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
