"""MLNT: the inner step against a linear model's gradient and Hessian, written out; the rest by hand."""

import copy
import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tests.helpers.steps import CLASSES, FakeTrainingSet, again, linear, noise_batch
from torch import nn

from jnpl.internal.errors import InputError
from jnpl.methods.base import Task
from jnpl.methods.mlnt import MLNT, nearest, synthetic_labels

SAMPLES = 40


def normed(number):
    torch.manual_seed(number)
    return nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, CLASSES))


def a_task(build=linear):
    return Task(build=build, labels=torch.arange(SAMPLES) % CLASSES, num_classes=CLASSES)


def a_batch(size=14, seed=0):
    return noise_batch(torch.arange(size) % CLASSES, seed)


def a_method(build=linear, stage=1, iteration=0, **settings):
    quick = {"warm_up_steps": 0, "ramp_steps": 10, "label_sets": 3, "inner_lr": 0.5}
    method = MLNT(a_task(build), MLNT.Settings(**quick | settings))
    method.stage, method.epochs = stage, 5
    method.steps.number = iteration
    return method.train()


# --- synthetic labels ------------------------------------------------------------------------------------------------


def label_sets_by_hand(features, labels, uniforms, count, ratio, kept):
    """Loops: rank the kept samples by their draw, give the first of them a label of a near one."""
    samples = [i for i in range(len(labels)) if kept[i]]
    sets = len(uniforms[0]) // 2
    results = []
    for m in range(sets):
        new = list(labels)
        for i in sorted(samples, key=lambda i: uniforms[i][m])[: int(ratio * len(samples))]:
            others = [j for j in samples if j != i]
            others.sort(key=lambda j: sum((a - b) ** 2 for a, b in zip(features[i], features[j], strict=True)))
            near = others[:count]
            if near:
                new[i] = labels[near[int(uniforms[i][sets + m] * len(near))]]
        results.append(new)
    return results


@pytest.mark.parametrize(("size", "dropped"), [(14, 0), (14, 5), (6, 0), (5, 3), (5, 4), (4, 4), (2, 0), (1, 0)])
@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_new_labels_are_those_of_near_samples(size, dropped, ratio):
    """Batches of fewer than 11 have fewer neighbours; dropped samples neither get nor give labels."""
    draws = torch.Generator().manual_seed(size)
    features, uniforms = torch.randn(size, 2, generator=draws), torch.rand(size, 8, generator=draws)
    labels = torch.randint(CLASSES, (size,), generator=draws)
    kept = torch.ones(size, dtype=torch.bool)
    kept[torch.randperm(size, generator=draws)[:dropped]] = False
    got = synthetic_labels(labels, nearest(features, kept, 10), kept, uniforms, ratio)
    wanted = label_sets_by_hand(features.tolist(), labels.tolist(), uniforms.tolist(), 10, ratio, kept.tolist())
    assert got.tolist() == wanted
    assert got.shape == (4, size)


def test_a_sample_is_not_its_own_neighbour_even_beside_its_double():
    """The authors' code skips the first of the sorted, which is the sample itself only if it has no double."""
    features = torch.zeros(5, 2)
    near = nearest(features, torch.ones(5, dtype=torch.bool), 10)
    assert [sorted(row) for row in near.tolist()] == [[j for j in range(5) if j != i] for i in range(5)]


# --- the inner step --------------------------------------------------------------------------------------------------


def softmax(logits):
    values = np.exp(logits - logits.max(1, keepdims=True))
    return values / values.sum(1, keepdims=True)


def weights_of(net):
    return np.hstack([net.weight.detach().double().numpy(), net.bias.detach().double().numpy()[:, None]])  # (C, D + 1)


def linear_by_hand(method, batch, *, order, per_class, kept=None):
    """Loss and gradient of a linear softmax model: gradient G = (P - Y)^T X / B, Hessian times V in closed form."""
    settings, size = method.settings, len(batch.labels)
    kept = np.ones(size) if kept is None else kept
    x = np.hstack([batch.inputs.double().numpy(), np.ones((size, 1))])
    theta, slow = weights_of(method.model), weights_of(method.teacher)
    slow = settings.ema_decay_early * slow + (1 - settings.ema_decay_early) * theta
    targets, p, eye = softmax(x @ slow.T), softmax(x @ theta.T), np.eye(CLASSES)
    if method.stage > 1:
        share = settings.teacher_share * method._ramp(method.steps.number)
        targets = share * targets + (1 - share) * softmax(x @ weights_of(method.mentor).T)
    mean = (kept / kept.sum())[:, None]
    labels = batch.labels.numpy()
    ce = -(np.log(p[np.arange(size), labels]) * mean[:, 0]).sum()
    gradient, meta = ((p - eye[labels]) * mean).T @ x, 0.0
    uniforms = torch.rand(size, 2 * settings.label_sets, generator=again(batch).generator).tolist()
    sets = label_sets_by_hand(batch.inputs.tolist(), labels.tolist(), uniforms, 10, 0.5, kept.astype(bool))
    scale = 1 / CLASSES if per_class else 1.0
    ramp = math.exp(-5 * (1 - method.steps.number / settings.ramp_steps) ** 2) * settings.meta_weight
    for new in sets:
        after = softmax(x @ (theta - settings.inner_lr * ((p - eye[new]) * mean).T @ x).T)
        meta += (targets * np.log(targets / after) * mean).sum() * scale / len(sets)
        outer = scale * ((after - targets) * mean).T @ x  # V: the slope of J at the moved weights
        if order == 2:
            z = x @ outer.T
            outer = outer - settings.inner_lr * ((p * z - p * (p * z).sum(1, keepdims=True)) * mean).T @ x
        gradient = gradient + ramp * outer / len(sets)
    return ce + ramp * meta, meta, gradient


@pytest.mark.parametrize("second_order", [True, False])
@pytest.mark.parametrize("kl", ["element", "batch"])
def test_loss_and_gradient_are_those_of_a_linear_model_by_hand(second_order, kl):
    """Second order is what the authors' code does, though its lines mean first: both, and they differ."""
    batch, method = a_batch(), a_method(iteration=6, second_order=second_order, kl=kl)
    method.teacher.load_state_dict(linear(7).state_dict())
    per_class = kl == "element"
    loss, meta, gradient = linear_by_hand(method, batch, order=2 if second_order else 1, per_class=per_class)
    _, _, other = linear_by_hand(method, batch, order=1 if second_order else 2, per_class=per_class)
    output = method(batch)
    output.loss.backward()
    got = np.hstack([method.model.weight.grad.numpy(), method.model.bias.grad.numpy()[:, None]])
    assert output.loss.item() == pytest.approx(loss, rel=1e-5)
    assert output.scalars["meta"].item() == pytest.approx(meta, rel=1e-5)
    assert got == pytest.approx(gradient, abs=1e-6)
    assert np.abs(gradient - other).max() > 1e-4
    assert all(weight.grad is None for weight in method.teacher.parameters())


@pytest.mark.parametrize("second_order", [True, False])
def test_the_second_order_is_the_slope_of_the_meta_term(second_order):
    """Finite differences through batch norm: exact with the second order, not without."""
    method = a_method(normed, second_order=second_order, label_sets=2).double()
    target = torch.rand(14, CLASSES, generator=torch.Generator().manual_seed(1)).double().softmax(1)
    inputs, kept = a_batch().inputs.double(), torch.ones(14, dtype=torch.bool)

    def meta():
        batch = a_batch()._replace(inputs=inputs)
        return method._after_inner_steps(batch, method.model(inputs), kept, target).mean()

    weight = method.model[0].weight
    meta().backward()
    slope = weight.grad[1, 2].item()
    sides = []
    for change in (1e-5, -2e-5):
        with torch.no_grad():
            weight[1, 2] += change
        sides.append(meta().item())
    differences = (sides[0] - sides[1]) / 2e-5
    assert (slope == pytest.approx(differences, rel=1e-5)) is second_order


def test_inner_passes_do_not_move_batch_norm():
    """In the authors' code the running statistics move M more times."""
    batch, method = a_batch(), a_method(normed, iteration=6)
    plain = copy.deepcopy(method.model)
    plain(batch.inputs)
    output = method(batch)
    assert method.model[1].num_batches_tracked == 1
    for name in ("running_mean", "running_var"):
        assert getattr(method.model[1], name).equal(getattr(plain[1], name))
    output.loss.backward()
    assert all(weight.grad.isfinite().all() for weight in method.model.parameters())


def test_frozen_networks_stay_in_evaluation_mode_and_the_teacher_does_not():
    method = a_method(normed)
    before = copy.deepcopy(method.feature_net.state_dict())
    assert (method.feature_net.training, method.mentor.training, method.teacher.training) == (False, False, True)
    method(a_batch())
    assert all(value.equal(before[name]) for name, value in method.feature_net.state_dict().items())
    assert not method.eval().teacher.training


# --- teacher, ramp and warm-up ---------------------------------------------------------------------------------------


def test_the_teacher_is_a_copy_in_the_warm_up_then_follows_with_two_decays():
    method = a_method(warm_up_steps=1, ramp_steps=3, label_sets=1)
    student = [weights_of(method.model)]
    for step in range(5):
        method(a_batch(seed=step))  # the teacher moves before the optimiser does
        if step <= 1:
            wanted = student[-1]
        else:
            decay = 0.99 if step < 3 else 0.999
            wanted = decay * wanted + (1 - decay) * student[-1]
        assert weights_of(method.teacher) == pytest.approx(wanted, abs=1e-6)
        with torch.no_grad():  # what an optimiser would do
            method.model.weight += 1.0
        student.append(weights_of(method.model))
    assert method.steps.number == 5


def test_the_average_leaves_batch_norm_statistics_to_the_teachers_own_passes():
    method, batch = a_method(normed, iteration=6), a_batch()
    with torch.no_grad():
        method.model[1].running_mean += 100.0
    apart = copy.deepcopy(method.teacher)
    for slow, quick in zip(apart.parameters(), method.model.parameters(), strict=True):
        slow.data = 0.99 * slow.data + 0.01 * quick.data
    apart(batch.inputs)
    method(batch)
    assert method.teacher[1].running_mean.numpy() == pytest.approx(apart[1].running_mean.numpy(), abs=1e-6)
    assert method.teacher[1].num_batches_tracked == 1


def test_the_ramp():
    method = a_method(warm_up_steps=500, ramp_steps=2000, meta_weight=0.4)
    assert method._ramp(0) is None
    assert method._ramp(499) is None
    assert method._ramp(500) == pytest.approx(math.exp(-5))
    assert method._ramp(1250) == pytest.approx(math.exp(-1.25))
    assert method._ramp(2000) == method._ramp(10_000) == 1
    assert a_method(warm_up_steps=5, ramp_steps=5)._ramp(5) == 1
    method.steps.number = 1250
    assert method(a_batch()).scalars["meta_weight"].item() == pytest.approx(0.4 * math.exp(-1.25))


@pytest.mark.parametrize(("stage", "warm_up"), [(0, 0), (1, 9)])
def test_before_the_meta_term_there_is_cross_entropy(stage, warm_up):
    batch, method = a_batch(), a_method(stage=stage, warm_up_steps=warm_up)
    output = method(batch)
    p = softmax(output.logits.detach().double().numpy())
    given_probs = p[np.arange(14), batch.labels.numpy()]
    assert output.loss.item() == pytest.approx(-np.log(given_probs).mean(), rel=1e-5)
    assert output.quality.numpy() == pytest.approx(given_probs, rel=1e-5)
    assert method.steps.number == stage  # the first stage does not count
    assert method.classifier is (method.teacher if stage else method.model)
    assert method.predict(batch.inputs).equal(output.logits)
    assert output.scalars["meta"] == output.scalars["meta_weight"] == 0


def test_quality_is_the_teachers_probability_and_the_teacher_is_left_behind():
    batch, method = a_batch(), a_method(iteration=6)
    method.teacher.load_state_dict(linear(7).state_dict())
    output = method(batch)
    p = softmax(method.teacher(batch.inputs).double().numpy())
    assert output.quality.numpy() == pytest.approx(p[np.arange(14), batch.labels.numpy()], rel=1e-5)
    assert not output.quality.requires_grad
    assert method.classifier is method.teacher
    got = method.eval().network_logits(batch.inputs)
    assert list(got) == ["student", "teacher"]
    assert got["student"].equal(method.model(batch.inputs))
    assert got["teacher"].equal(method.teacher(batch.inputs))


# --- stages and the mentor -------------------------------------------------------------------------------------------


def test_settings_narrow_the_stages():
    names = [stage.name for stage in a_method().stages]
    assert names == ["ce", "mlnt-1", "mlnt-2", "mlnt-3"]
    once = a_method(iterations=1)
    assert [stage.name for stage in once.stages] == names[:2]
    assert once.mentor is None
    assert [(stage.fresh, stage.select) for stage in MLNT.stages] == [(False, True)] + 3 * [(True, True)]
    once.train()(a_batch())


def test_the_first_iteration_freezes_the_network_of_the_ce_stage():
    method = a_method(stage=1)
    method.model.load_state_dict(linear(5).state_dict())
    method.begin_stage(FakeTrainingSet())
    method.reset_networks(linear)
    assert weights_of(method.feature_net) == pytest.approx(weights_of(linear(5)))
    assert weights_of(method.model) == pytest.approx(weights_of(linear(1)))
    assert method.keep.all()


def test_the_mentor_is_the_last_teacher_and_drops_impossible_labels():
    method = a_method(stage=2, iteration=30)
    method.teacher.load_state_dict(linear(5).state_dict())
    logits = torch.randn(SAMPLES, CLASSES, generator=torch.Generator().manual_seed(0)) * 4
    logits[3] = math.nan  # cannot be read
    training_set = FakeTrainingSet(logits)
    method.begin_stage(training_set)
    assert training_set.asked == [method.mentor]
    assert weights_of(method.mentor) == pytest.approx(weights_of(linear(5)))
    wanted = []
    for row, label in zip(logits.double().tolist(), method.labels.tolist(), strict=True):
        wanted.append(math.exp(row[label]) / sum(map(math.exp, row)) >= 0.01)  # False for nan
    assert method.keep.tolist() == wanted
    assert 0 < sum(wanted) < SAMPLES - 1
    assert method.steps.number == 0
    fresh = a_method()
    fresh.load_state_dict(method.state_dict())
    assert fresh.keep.equal(method.keep)
    assert weights_of(fresh.mentor) == pytest.approx(weights_of(method.mentor))


def test_an_epoch_chosen_in_the_warm_up_has_a_teacher_too():
    """The loop brings back the networks of the best epoch, not the counter: the teacher must be right by then."""
    method = a_method(stage=1, warm_up_steps=5)
    method.teacher.load_state_dict(linear(7).state_dict())  # of the iteration before
    method(a_batch())
    method.steps.number = 30
    method.stage = 2
    method.begin_stage(FakeTrainingSet(torch.zeros(SAMPLES, CLASSES)))
    assert weights_of(method.mentor) == pytest.approx(weights_of(method.model))


def test_a_mentor_that_drops_everything_is_an_error():
    method = a_method(stage=2, tau=0.5)
    with pytest.raises(InputError, match=r"below 0.5 and drops all samples: --set method.tau=0"):
        method.begin_stage(FakeTrainingSet(torch.zeros(SAMPLES, CLASSES)))


def test_teacher_and_mentor_make_the_target_and_dropped_samples_have_no_say():
    """A third-party port takes the mentor's part from the teacher's outputs."""
    batch, method = a_batch(), a_method(stage=2, iteration=6)
    method.teacher.load_state_dict(linear(7).state_dict())
    method.mentor.load_state_dict(linear(8).state_dict())
    method.keep[[1, 4, 7]] = False
    kept = method.keep[:14].double().numpy()
    loss, meta, gradient = linear_by_hand(method, batch, order=2, per_class=True, kept=kept)
    output = method(batch)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(loss, rel=1e-5)
    assert output.scalars["meta"].item() == pytest.approx(meta, rel=1e-5)
    assert output.scalars["kept"].item() == pytest.approx(11 / 14)
    assert method.model.weight.grad.numpy() == pytest.approx(gradient[:, :-1], abs=1e-6)


def test_a_batch_that_is_dropped_whole_teaches_nothing():
    batch, method = a_batch(), a_method(stage=2, iteration=6)
    method.keep[:] = False
    output = method(batch)
    output.loss.backward()
    assert output.loss == 0
    assert method.model.weight.grad.abs().sum() == 0


def test_means_are_over_the_kept_of_the_whole_batch():
    """With processes that share a batch: 3 of this one's 4 are kept, 5 of all 12."""
    method = a_method(stage=0)
    method.keep[1] = False
    method.sum_over_processes = lambda _: torch.tensor([5.0, 12.0])
    output = method(a_batch(4))
    p = softmax(output.logits.detach().double().numpy())
    total = -sum(math.log(p[i][i]) for i in (0, 2, 3))
    assert output.loss.item() * 4 / 12 == pytest.approx(total / 5, rel=1e-5)


# --- edges -----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_set():
    with pytest.raises(ValidationError, match="ramp_steps must be at least warm_up_steps 5, got 3"):
        MLNT.Settings(warm_up_steps=5, ramp_steps=3)
    with pytest.raises(ValidationError, match="iterations"):
        MLNT.Settings(iterations=4)
    with pytest.raises(InputError, match=r"last nn.Linear"):
        MLNT(a_task(lambda number: nn.Flatten()), MLNT.Settings())
