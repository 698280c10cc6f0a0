"""PENCIL against plain loops: the three losses, and the step that the labels take."""

import math

import numpy as np
import pytest
import torch
from tests.helpers.steps import CLASSES, batch_of, cross_entropies, linear, make, softmax

from jnpl.methods.pencil import PENCIL

LABELS = torch.tensor([0, 1, 2, 3, 0, 0, 1, 2])


def a_method(stage=1, **settings):
    return make(PENCIL, LABELS, lambda number: linear(number, scale=1.0), at=(stage, 0, 10), **settings)


def a_batch(size=7):
    inputs = torch.randn(size, 3, generator=torch.Generator().manual_seed(0))
    index = torch.tensor([7, 2, 0, 5, 4, 1, 3])[:size]  # not the order of the data
    return batch_of(inputs, LABELS[index], index)


def by_hand(logits, rows, labels, alpha, beta, double_softmax):
    """The loss in plain arithmetic."""
    fit = near = unsure = 0.0
    size = len(labels)
    for f, y_tilde, y in zip(logits, rows, labels, strict=True):
        p, d = softmax(f), softmax(y_tilde)
        fit += sum(p[k] * (math.log(p[k]) - math.log(d[k])) for k in range(CLASSES)) / (size * CLASSES)
        unsure -= sum(p[k] * math.log(p[k]) for k in range(CLASSES)) / (size * CLASSES)
        near -= math.log((softmax(d) if double_softmax else d)[y]) / size
    return fit + alpha * near + beta * unsure


def by_difference(logits, rows, labels, alpha, beta, double_softmax, step=1e-5):
    gradient = np.zeros((len(labels), CLASSES))
    for i in range(len(labels)):
        for k in range(CLASSES):
            values = []
            for sign in (1, -1):
                moved = [list(row) for row in rows]
                moved[i][k] += sign * step
                values.append(by_hand(logits, moved, labels, alpha, beta, double_softmax))
            gradient[i, k] = (values[0] - values[1]) / (2 * step)
    return gradient


def test_first_stage_is_cross_entropy_and_leaves_the_labels():
    method, batch = a_method(stage=0), a_batch()
    output = method(batch)
    assert output.loss.item() == pytest.approx(sum(cross_entropies(method.model, batch)) / 7, rel=1e-6)
    assert output.quality is None
    assert method.y_tilde.equal(10 * torch.eye(CLASSES)[LABELS])


@pytest.mark.parametrize("double_softmax", [True, False])
def test_second_stage_is_the_three_losses_and_labels_descend(double_softmax):
    method = a_method(alpha=0.3, beta=0.2, label_lr=50, double_softmax=double_softmax)
    batch = a_batch()
    method.y_tilde.copy_(torch.randn(8, CLASSES, generator=torch.Generator().manual_seed(4)))
    before = method.y_tilde.clone()
    output = method(batch)
    plain = (output.logits.tolist(), before[batch.index].tolist(), batch.labels.tolist(), 0.3, 0.2, double_softmax)
    assert output.loss.item() == pytest.approx(by_hand(*plain), rel=1e-5)
    wanted = before[batch.index].numpy() - 50 * by_difference(*plain)
    np.testing.assert_allclose(method.y_tilde[batch.index].numpy(), wanted, rtol=1e-4, atol=1e-4)
    assert method.y_tilde[6].equal(before[6])  # not in the batch
    qualities = [softmax(row)[y] for row, y in zip(wanted.tolist(), batch.labels.tolist(), strict=True)]
    assert output.quality.tolist() == pytest.approx(qualities, rel=1e-3)
    assert not output.quality.requires_grad


def test_the_network_descends_by_the_labels_as_they_were_and_alpha_is_not_its_business():
    gradients = []
    for alpha in (0.0, 5.0):
        method = a_method(alpha=alpha)
        method(a_batch()).loss.backward()
        gradients.append(method.model.weight.grad)
    np.testing.assert_allclose(gradients[0].numpy(), gradients[1].numpy(), rtol=1e-6)
    method, batch = a_method(beta=0.7), a_batch()
    logits = method.model(batch.inputs).tolist()
    rows, labels = method.y_tilde[batch.index].tolist(), batch.labels.tolist()
    method(batch).loss.backward()
    for k in range(CLASSES):
        values = []
        for sign in (1e-5, -1e-5):
            moved = [[value + sign * (c == k) for c, value in enumerate(row)] for row in logits]
            values.append(by_hand(moved, rows, labels, 0.4, 0.7, True))
        assert method.model.bias.grad[k].item() == pytest.approx((values[0] - values[1]) / 2e-5, abs=1e-4)
    assert not method.y_tilde.requires_grad


def test_the_direction_is_kl_of_p_from_d_and_the_mean_is_over_classes_too():
    method = a_method(stage=2)
    batch = a_batch(2)
    method.y_tilde.copy_(torch.randn(8, CLASSES, generator=torch.Generator().manual_seed(4)))
    before = method.y_tilde.clone()
    output = method(batch)
    wanted = 0.0
    for f, row in zip(output.logits.tolist(), before[batch.index].tolist(), strict=True):
        p, d = softmax(f), softmax(row)
        wanted += sum(p[k] * math.log(p[k] / d[k]) for k in range(CLASSES)) / CLASSES / 2
    assert output.loss.item() == pytest.approx(wanted, rel=1e-5)
    assert method.y_tilde.equal(before)  # fixed in the last stage
    wanted = [softmax(before[i].tolist())[LABELS[i]] for i in batch.index.tolist()]
    assert output.quality.tolist() == pytest.approx(wanted, rel=1e-5)


def test_softmax_twice_is_kept_as_released_and_can_be_switched_off():
    batch = a_batch()
    twice, once = (a_method(alpha=1.0, beta=0.0, double_softmax=double)(batch) for double in (True, False))
    d_y = math.exp(10) / (math.exp(10) + 3)
    other = (1 - d_y) / 3
    twice_y = math.exp(d_y) / (math.exp(d_y) + 3 * math.exp(other))
    assert twice.scalars["near"].item() == pytest.approx(-math.log(twice_y), rel=1e-5)
    assert once.scalars["near"].item() == pytest.approx(-math.log(d_y), rel=1e-3)


def test_label_lr_over_the_stage():
    method = a_method(label_lr=4000, label_lr_end=0)
    steps = []
    for method.epoch in (0, 5, 9):
        steps.append(method.label_lr())
    assert steps == pytest.approx([4000, 2000, 400])
    method = a_method(label_lr=3000, label_lr_end=500, label_lr_change="halfway")
    steps = []
    for method.epoch in (0, 4, 5, 9):
        steps.append(method.label_lr())
    assert steps == [3000, 3000, 500, 500]
    assert a_method().label_lr() == 600
