"""Joint-Optim against plain loops: three terms, and when the labels change."""

import math

import pytest
import torch
from tests.helpers.steps import CLASSES, FakeTrainingSet, linear, make, noise_batch

from jnpl.internal.errors import InputError
from jnpl.methods.joint_optim import JointOptim

LABELS = torch.tensor([0, 1, 2, 3, 0, 0, 1])


def a_method(**settings):
    return make(JointOptim, LABELS, lambda number: linear(number, scale=2.0), **settings)


def a_batch(size=7):
    return noise_batch(LABELS[:size])


def a_history(seed=0):
    return torch.randn(7, CLASSES, generator=torch.Generator().manual_seed(seed)).softmax(1)


def begin(method, epoch, epochs, history, stage=0):
    method.stage, method.epoch, method.epochs = stage, epoch, epochs
    method.begin_epoch(FakeTrainingSet(history=history))


def by_hand(logits, soft, alpha, beta, prior):
    probs = logits.detach().double().softmax(1).numpy()
    fit = unsure = 0.0
    for p, s in zip(probs, soft.tolist(), strict=True):
        fit -= sum(s[k] * math.log(p[k]) for k in range(CLASSES)) / len(probs)
        unsure -= sum(p[k] * math.log(p[k]) for k in range(CLASSES)) / len(probs)
    away = -sum(prior[k] * math.log(sum(p[k] for p in probs) / len(probs)) for k in range(CLASSES))
    return fit + alpha * away + beta * unsure, fit


@pytest.mark.parametrize("prior", ["uniform", "given"])
@pytest.mark.parametrize("updated", [False, True])
def test_first_stage_is_fit_prior_and_entropy(prior, updated):
    method = a_method(alpha=1.2, beta=0.8, prior=prior, update_from=2)
    history = a_history()
    begin(method, 2 if updated else 1, 10, history)
    output = method(a_batch())
    soft = history if updated else torch.eye(CLASSES)[LABELS]
    shares = [0.25] * 4 if prior == "uniform" else [3 / 7, 2 / 7, 1 / 7, 1 / 7]
    wanted, fit = by_hand(output.logits, soft, 1.2, 0.8, shares)
    assert output.loss.item() == pytest.approx(wanted, rel=1e-5)
    assert output.scalars["fit"].item() == pytest.approx(fit, rel=1e-5)


def test_labels_change_after_every_epoch_from_the_first_update_on():
    method = a_method(update_from=70)
    begin(method, 69, 200, None)  # no look yet: epoch 69 itself has still the given labels
    assert method.soft_labels.equal(torch.eye(CLASSES)[LABELS])
    begin(method, 70, 200, a_history(1))  # the original, counted from 0: the 71st epoch is the first with new labels
    assert method.soft_labels.equal(a_history(1))
    begin(method, 71, 200, a_history(2))
    assert method.soft_labels.equal(a_history(2))
    method.stage, method.epoch, method.epochs = 1, 0, 120
    method.begin_stage(FakeTrainingSet(history=a_history(3)))  # the end of the last epoch
    assert method.soft_labels.equal(a_history(3))
    begin(method, 5, 120, None, stage=1)  # fixed from here on
    assert method.soft_labels.equal(a_history(3))


def test_the_papers_70_of_200_is_the_default_for_any_length():
    method = a_method()
    for epochs, first in ((200, 70), (20, 7), (1, 0)):
        method.epochs = epochs
        assert method._first_update() == first


def test_a_stage_too_short_for_any_update_is_refused():
    method = a_method(update_from=70)
    with pytest.raises(InputError, match=r"from epoch 70 on, stage labels has 70: --set method.update_from=24"):
        begin(method, 0, 70, None)


def test_unreadable_samples_keep_their_labels():
    history = a_history()
    history[2] = float("nan")
    method = a_method(update_from=0)
    begin(method, 1, 10, history)
    assert method.soft_labels[2].tolist() == [0, 0, 1, 0]
    assert method.soft_labels[3].equal(history[3])


def test_second_stage_is_cross_entropy_with_the_last_labels():
    assert [(stage.name, stage.fresh) for stage in JointOptim.stages] == [("labels", False), ("retrain", True)]
    method, history = a_method(), a_history()
    method.stage = 1
    method.begin_stage(FakeTrainingSet(history=history))
    output = method(a_batch())
    assert output.loss.item() == pytest.approx(by_hand(output.logits, history, 0, 0, [0] * 4)[1], rel=1e-5)
    assert output.quality.tolist() == pytest.approx([history[i, y].item() for i, y in enumerate(LABELS.tolist())])


def test_quality_is_the_soft_label_once_there_is_one():
    method = a_method(update_from=0)
    begin(method, 0, 10, None)
    assert method(a_batch()).quality is None  # given labels would give all samples a 1
    begin(method, 1, 10, a_history())
    quality = method(a_batch()).quality
    assert quality.tolist() == pytest.approx([a_history()[i, y].item() for i, y in enumerate(LABELS.tolist())])
    assert not quality.requires_grad


def test_the_prior_pulls_a_collapsed_network_back_even_where_p_underflows():
    method, batch = a_method(beta=0.0), a_batch(2)
    begin(method, 0, 10, None)
    method.model.weight.data.zero_()
    method.model.bias.data.copy_(torch.tensor([0.0, 500.0, 0.0, 0.0]))
    loss = method(batch).loss
    loss.backward()
    assert loss.isfinite()
    assert method.model.bias.grad[2:].tolist() == pytest.approx(
        [-0.25, -0.25], rel=1e-4
    )  # -alpha pi_k, though p_k is zero in float32
