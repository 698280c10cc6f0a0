"""MetaCleaner's reconstruction: subsets, weights and the clean feature in plain loops."""

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tests.helpers.steps import affine, make, noise_batch
from torch import nn

from jnpl.internal.errors import InputError
from jnpl.methods.base import Task
from jnpl.methods.metacleaner import MetaCleaner, side_by_side, subsets_of

CLASSES, WIDTH = 4, 3
RUNS = [2, 2, 2, 2, 2, 0, 0, 0, 3, 2, 2, 2, 2, 2, 2, 2, 1]  # 5 | 3 | 1 | 5 + 2 | 1 with subsets of 5


def network(number=0):
    torch.manual_seed(number)
    return nn.Sequential(nn.Linear(WIDTH, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, CLASSES))


def a_method(build=network, **settings):
    method = make(MetaCleaner, torch.arange(40) % CLASSES, build, **settings).train()
    with torch.no_grad():  # weights that are far from equal
        for weight in method.scorer.parameters():
            weight.mul_(4)
    return method


def a_batch(labels=RUNS):
    return noise_batch(torch.tensor(labels))


def pieces(labels, most):
    """Loops: rows of each subset."""
    subsets = []
    for row, label in enumerate(labels):
        if subsets and len(subsets[-1]) < most and labels[subsets[-1][-1]] == label:
            subsets[-1].append(row)
        else:
            subsets.append([row])
    return subsets


@pytest.mark.parametrize("most", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("labels", [RUNS, [1], [1, 1], [1, 2], [0] * 11, list(range(7))])
def test_subsets_are_runs_of_one_label_cut_to_size(labels, most):
    wanted = pieces(labels, most)
    got = subsets_of(torch.tensor(labels), most)
    assert got.first.tolist() == [rows[0] for rows in wanted]
    assert got.size.tolist() == [len(rows) for rows in wanted]
    for number, rows in enumerate(wanted):
        assert got.of[rows].tolist() == [number] * len(rows)
        assert got.place[rows].tolist() == list(range(len(rows)))


def perceptron(scorer, row):
    first, _, second = scorer
    hidden = [max(0.0, value) for value in affine(first, row)]
    return affine(second, hidden)


def by_hand(method, batch, features):
    """Loops over subsets: (loss, qualities)."""
    settings, labels = method.settings, batch.labels.tolist()
    losses, quality = [], [None] * len(labels)
    for rows in pieces(labels, settings.subset_size):
        members, size = [features[row] for row in rows], len(rows)
        if settings.scorer == "relative":
            scores = []
            for k, member in enumerate(members):
                others = members[:k] + members[k + 1 :]
                mean = [sum(column) / len(others) for column in zip(*others, strict=True)] or [0.0] * len(member)
                scores += perceptron(method.scorer, member + mean)
        else:
            row = [value for k in range(settings.subset_size) for value in members[k % size]]
            scores = perceptron(method.scorer, row)[:size]
        parts = [math.exp(score - max(scores)) for score in scores]
        alpha = [part / sum(parts) for part in parts]
        clean = [sum(a * member[d] for a, member in zip(alpha, members, strict=True)) for d in range(len(members[0]))]
        logits = affine(method.model[-1], clean)
        losses.append(math.log(sum(math.exp(value) for value in logits)) - logits[labels[rows[0]]])
        for row, a in zip(rows, alpha, strict=True):
            quality[row] = size * a / (1 + size * a)
    return sum(losses) / len(losses), quality


@pytest.mark.parametrize("scorer", ["relative", "joint"])
@pytest.mark.parametrize("size", [2, 5])
def test_the_step_in_plain_loops(scorer, size):
    batch, method = a_batch(), a_method(scorer=scorer, subset_size=size, hidden=7)
    output = method(batch)
    features = method.model[:-1](batch.inputs).tolist()
    loss, quality = by_hand(method, batch, features)
    assert output.loss.item() == pytest.approx(loss, rel=1e-4)
    assert output.quality.tolist() == pytest.approx(quality, rel=1e-4)
    assert max(quality) - min(quality) > 0.05
    assert output.logits.equal(method.model(batch.inputs))
    assert not output.quality.requires_grad


def test_subsets_of_one_are_cross_entropy():
    method, batch = a_method(subset_size=1), a_batch()
    output = method(batch)
    p = output.logits.softmax(1).tolist()
    assert output.loss.item() == pytest.approx(
        -np.mean([math.log(row[label]) for row, label in zip(p, RUNS, strict=True)]), rel=1e-5
    )
    assert output.quality.tolist() == [0.5] * len(RUNS)
    assert method.group_size is None
    assert a_method(subset_size=3).group_size == 3


def test_the_gradient_is_the_slope_of_the_loss():
    """The softmax's shift and the padding are no part of it."""
    for scorer in ("relative", "joint"):
        method = a_method(scorer=scorer)
        weight = method.scorer[0].weight
        method(a_batch()).loss.backward()
        at = divmod(int(weight.grad.abs().argmax()), weight.shape[1])
        slope, sides = weight.grad[at].item(), []
        for change in (1e-2, -2e-2):
            with torch.no_grad():
                weight[at] += change
            sides.append(method(a_batch()).loss.item())
        assert slope == pytest.approx((sides[0] - sides[1]) / 2e-2, rel=0.05)


def test_short_subsets_repeat_their_members_side_by_side():
    features = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    got = side_by_side(features, subsets_of(torch.tensor([0, 0, 0, 1]), most=5), 5)
    assert got.tolist() == [[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]]


def test_the_plain_term_is_an_extension():
    batch = a_batch()
    without, beside = a_method()(batch), a_method(naive_weight=0.5)(batch)
    p = beside.logits.softmax(1).tolist()
    plain = -np.mean([math.log(row[label]) for row, label in zip(p, RUNS, strict=True)])
    assert beside.loss.item() == pytest.approx(without.loss.item() + 0.5 * plain, rel=1e-5)
    assert "naive" not in without.scalars


def test_means_are_over_the_subsets_of_the_whole_batch():
    """Two processes with 5 samples in 1 subset and 3 samples in 3: the loop weighs by samples."""
    method = a_method().eval()
    total = 0.0
    for labels in ([1] * 5, [0, 1, 2]):
        alone = method(a_batch(labels)).loss.item() * (1 if len(labels) == 5 else 3)
        method.sum_over_processes = lambda _: torch.tensor([4.0, 8.0])
        shared = method(a_batch(labels)).loss.item() * len(labels) / 8
        assert shared == pytest.approx(alone / 4, rel=1e-5)
        method.sum_over_processes = lambda tensor: tensor
        total += shared
    assert total > 0


def test_first_weights_come_from_the_network_and_leave_the_global_state():
    torch.manual_seed(5)
    state = torch.get_rng_state()
    task = Task(build=lambda number: made, labels=torch.arange(4), num_classes=CLASSES)
    made = network(1)
    torch.manual_seed(5)
    first = MetaCleaner(task, MetaCleaner.Settings())
    assert torch.get_rng_state().equal(state)
    torch.manual_seed(6)
    again = MetaCleaner(task, MetaCleaner.Settings())
    assert first.scorer[0].weight.equal(again.scorer[0].weight)
    made = network(2)
    other = MetaCleaner(task, MetaCleaner.Settings())
    assert not first.scorer[0].weight.equal(other.scorer[0].weight)


def test_what_cannot_be_set():
    with pytest.raises(ValidationError, match="subset_size"):
        MetaCleaner.Settings(subset_size=0)
    with pytest.raises(InputError, match=r"last nn.Linear"):
        a_method(lambda number: nn.Flatten())
