"""Forward correction against plain loops: the estimate of the matrix, the loss through it, the score."""

import math

import numpy as np
import pytest
import torch
from tests.helpers.steps import FakeTrainingSet, cross_entropies, linear, noise_batch

from jnpl.internal.errors import InputError
from jnpl.methods.base import Task
from jnpl.methods.forward import Forward, estimate_transition, forward_loss, log_transition

CLASSES = 3
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0])
MATRIX = ((0.7, 0.3, 0.0), (0.1, 0.9, 0.0), (0.05, 0.15, 0.8))


def build(number):
    return linear(number, scale=1.0, width=4, classes=CLASSES)


def a_method(transition=None, **settings):
    task = Task(build=build, labels=LABELS, num_classes=CLASSES, transition=transition)
    return Forward(task, Forward.Settings(**settings))


def a_batch(size=7):
    return noise_batch(LABELS[:size], width=4)


def some_probabilities(samples=200, seed=0):
    return torch.randn(samples, CLASSES, generator=torch.Generator().manual_seed(seed)).mul(2).softmax(1)


def estimate_by_hand(probabilities, percentile):
    rows = []
    for i in range(probabilities.shape[1]):
        column = probabilities[:, i]
        order = sorted(range(len(column)), key=lambda k: column[k])
        if percentile < 100:
            bound = np.percentile(column, percentile, method="higher")
            order = [k for k in order if column[k] < bound]
        row = probabilities[order[-1]]
        rows.append(row / row.sum())
    return np.array(rows)


@pytest.mark.parametrize("percentile", [97, 100, 50])
@pytest.mark.parametrize("samples", [10, 101, 200])
def test_estimate_is_the_prediction_for_the_surest_usual_sample(percentile, samples):
    probabilities = some_probabilities(samples)
    estimated = estimate_transition(probabilities, percentile)
    np.testing.assert_allclose(estimated.numpy(), estimate_by_hand(probabilities.numpy(), percentile), rtol=1e-6)
    np.testing.assert_allclose(estimated.sum(1).numpy(), 1, rtol=1e-6)


def test_the_released_estimators_zeroing_in_place_is_not_inherited():
    """Where the outlier of one class is the anchor of another, the released code reads a zero in the anchor's row."""
    # Sample 0 is the surest of class 0 (an outlier) and, without sample 1, of class 1.
    probabilities = torch.tensor([[0.60, 0.40], [0.10, 0.90]] + [[0.55, 0.38]] * 30)
    before = probabilities.clone()
    estimated = estimate_transition(probabilities, 97)
    assert probabilities.equal(before)
    assert estimated[1].tolist() == pytest.approx([0.6, 0.4])
    faulty = probabilities.numpy().copy()  # what the released code does
    rows = []
    for i in range(2):
        column = faulty[:, i]
        column[column >= np.percentile(column, 97, method="higher")] = 0
        rows.append(faulty[column.argmax()].copy())
    assert rows[1][0] == 0


def test_stages_follow_the_matrix():
    assert [(stage.name, stage.fresh, stage.select) for stage in a_method(select=True).stages] == [
        ("ce", False, True),
        ("forward", True, True),  # the original tests its best weights of this stage, too
    ]
    assert [(stage.name, stage.fresh) for stage in a_method(matrix=MATRIX).stages] == [("forward", False)]
    assert len(Forward.stages) == 2


def test_validation_data_choose_only_if_they_are_asked_to():
    """CIFAR's and Clothing1M's have true labels, which this method does not claim to need."""
    assert not any(stage.select for stage in (*a_method().stages, *Forward.stages))


def test_first_stage_is_cross_entropy_and_the_second_starts_with_the_estimate():
    method, batch = a_method(), a_batch()
    output = method(batch)
    assert output.loss.item() == pytest.approx(sum(cross_entropies(method.model, batch)) / 7, rel=1e-6)
    assert output.quality is None
    logits = torch.cat([some_probabilities().log(), torch.full((3, CLASSES), float("nan"))])  # unreadable samples
    training_set = FakeTrainingSet(logits)
    method.stage = 1
    method.begin_stage(training_set)
    assert training_set.asked == [method.model]
    np.testing.assert_allclose(method.transition.numpy(), estimate_by_hand(some_probabilities().numpy(), 97), rtol=1e-5)
    assert method(batch).quality is not None


def test_forward_loss_and_score_in_plain_arithmetic():
    method, batch = a_method(matrix=MATRIX), a_batch()
    output = method(batch)
    total, qualities = 0.0, []
    for p, y in zip(output.logits.double().softmax(1).tolist(), LABELS.tolist(), strict=True):
        given = sum(p[i] * MATRIX[i][y] for i in range(CLASSES))  # (p T)_y, not (T p)_y
        total -= math.log(given)
        qualities.append(p[y] * MATRIX[y][y] / given)
    assert output.loss.item() == pytest.approx(total / 7, rel=1e-5)
    assert output.quality.tolist() == pytest.approx(qualities, rel=1e-5)
    assert not output.quality.requires_grad


def test_identity_is_cross_entropy_for_any_logits():
    """The zeros of T have to be exact: a floor under them would cap the loss."""
    logits = torch.tensor([[500.0, 0.0, -500.0], [0.0, 0.0, 0.0]]).requires_grad_()
    losses = forward_loss(logits, torch.tensor([2, 1]), log_transition(torch.eye(3)))
    assert losses.tolist() == pytest.approx([1000, math.log(3)])
    losses.sum().backward()
    np.testing.assert_allclose(logits.grad.numpy(), [[1, 0, -1], [1 / 3, -2 / 3, 1 / 3]], atol=1e-6)


def test_a_label_that_the_matrix_excludes_is_finite_and_teaches_nothing():
    logits = torch.randn(2, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    matrix = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]])
    losses = forward_loss(logits, torch.tensor([2, 2]), log_transition(matrix))
    losses.sum().backward()
    assert losses.isfinite().all()
    assert logits.grad.abs().max() < 1e-6


def test_oracle():
    counted = torch.tensor([[0.8, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    method = a_method(transition=counted, matrix="oracle")
    np.testing.assert_allclose(method.transition.numpy(), [[0.8, 0.2, 0], [0, 1, 0], [0, 0, 1]], rtol=1e-6)
    with pytest.raises(InputError, match=r"needs true labels.*method.matrix=estimate"):
        a_method(matrix="oracle")
    assert a_method(transition=counted).transition.equal(torch.eye(3))  # not asked for: not used


def test_wrong_matrices():
    with pytest.raises(InputError, match="for 3 classes it has 3 rows, got 2"):
        a_method(matrix=((0.5, 0.5), (0.0, 1.0)))
    assert Forward.Settings(matrix=[[1, 0], [0, 1]]).matrix == ((1, 0), (0, 1))  # as a recipe has it
