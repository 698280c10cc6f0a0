"""M-correction against plain loops: mixup, bootstrapped targets, the balance of classes, and who is suspected."""

import copy
import math

import numpy as np
import pytest
import torch
from tests.helpers.steps import (
    CLASSES,
    FakeTrainingSet,
    affine,
    again,
    batch_of,
    linear,
    make,
    normed,
    softmax,
)
from torch import nn

from jnpl.data.loading.batches import Rows
from jnpl.methods import beta_mixture
from jnpl.methods.m_correction import MCorrection, class_balance

SAMPLES = 12


def a_method(build=linear, samples=SAMPLES, epoch=0, **settings):
    method = make(MCorrection, torch.arange(samples) % CLASSES, build, at=(0, epoch, 300), **settings)
    method.suspicion.copy_(torch.linspace(0.05, 0.95, samples))
    return method.train()


def a_batch(size=6, seed=0, rows=None, scale=1.0):
    draws = torch.Generator().manual_seed(seed)
    inputs = torch.randn(size, 3, generator=draws) * scale
    index = torch.arange(size) * 2 % SAMPLES
    return batch_of(inputs, index % CLASSES, index, seed=seed, rows=rows)


def draws_of(batch, alpha=32.0):
    """The delta and the partners that a step on this batch takes."""
    fresh = again(batch).generator
    seed = int(torch.randint(2**62, (), generator=fresh))
    delta = np.random.default_rng(seed).beta(alpha, alpha)
    return delta, torch.randperm(len(batch.labels), generator=fresh).tolist()


def by_hand(method, batch, shares, weight, partner, answer=None):
    """Losses of both labels of each mixture, weighed; with `answer`, bootstrapped; and the mean prediction."""
    x, y = batch.inputs.tolist(), batch.labels.tolist()
    trust = [1 - b for b in method.suspicion[batch.index].tolist()]
    total, mean = 0.0, [0.0] * CLASSES
    for i, j in enumerate(partner):
        mixed = [shares[i] * a + (1 - shares[i]) * b for a, b in zip(x[i], x[j], strict=True)]
        p = softmax(affine(method.model, mixed))
        mean = [m + v / len(x) for m, v in zip(mean, p, strict=True)]
        for at, part in ((i, weight), (j, 1 - weight)):
            ce = -math.log(p[y[at]])
            if answer is not None:
                z = answer(affine(method.model, x[at]))
                ce = trust[at] * ce - (1 - trust[at]) * sum(a * math.log(b) for a, b in zip(z, p, strict=True))
            total += part * ce / len(x)
    return total, sum(math.log((1 / CLASSES) / m) / CLASSES for m in mean)


def hard(logits):
    return [1.0 if v == max(logits) else 0.0 for v in logits]


# --- The step --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["M-DYR-H", "MD-DYR-SH"])
def test_first_comes_mixup_with_the_given_labels(variant):
    method, batch = a_method(epoch=104, variant=variant), a_batch()
    delta, partner = draws_of(batch)
    wanted, _ = by_hand(method, batch, [delta] * 6, delta, partner)
    output = method(batch)
    assert output.loss.item() == pytest.approx(wanted, rel=1e-5)
    assert "balance" not in output.scalars


def test_m_dyr_h_bootstraps_with_hard_targets():
    method, batch = a_method(epoch=105, reg_weight=0.7), a_batch()
    delta, partner = draws_of(batch)
    wanted, balance = by_hand(method, batch, [delta] * 6, delta, partner, hard)
    output = method(batch)
    assert output.scalars["balance"].item() == pytest.approx(balance, rel=1e-4)
    assert output.loss.item() == pytest.approx(wanted + 0.7 * balance, rel=1e-5)


def test_md_dyr_sh_first_mixes_by_suspicion_with_the_given_labels():
    method, batch = a_method(epoch=109, variant="MD-DYR-SH"), a_batch()
    delta, partner = draws_of(batch)
    b = method.suspicion[batch.index].tolist()
    shares = [(1 - b[i]) / (2 - b[i] - b[j]) for i, j in enumerate(partner)]
    wanted, _ = by_hand(method, batch, shares, delta, partner)  # the losses have a draw of their own
    output = method(batch)
    assert output.loss.item() == pytest.approx(wanted, rel=1e-5)
    assert "balance" not in output.scalars


@pytest.mark.parametrize(("epoch", "temperature"), [(110, 1.0), (154, 0.5005), (198, 0.001), (299, 0.001)])
def test_md_dyr_sh_goes_from_soft_to_hard(epoch, temperature):
    method, batch = a_method(epoch=epoch, variant="MD-DYR-SH"), a_batch()
    _, partner = draws_of(batch)
    b = method.suspicion[batch.index].tolist()
    shares = [(1 - b[i]) / (2 - b[i] - b[j]) for i, j in enumerate(partner)]
    wanted, balance = by_hand(method, batch, shares, 0.5, partner, lambda row: softmax([v / temperature for v in row]))
    output = method(batch)
    assert output.scalars["balance"].item() == pytest.approx(balance, rel=1e-4)
    assert output.loss.item() == pytest.approx(wanted + balance, rel=1e-5)


def test_the_temperature_falls_in_a_line():
    method = a_method(variant="MD-DYR-SH")
    wanted = np.linspace(1, 0.001, 89)
    assert [method.temperature(5 + k) for k in range(89)] == pytest.approx(wanted)
    assert method.temperature(3) == 1.0
    assert a_method(temperature_epochs=1).temperature(50) == 1.0  # as np.linspace(1, end, 1)


def test_fault_of_the_original_the_balance_knows_the_number_of_classes():
    """Its M-DYR-S takes ten classes whatever the data: then an even prediction would not cost 0."""
    for classes in (2, 4, 100):
        assert class_balance(torch.zeros(3, classes).log_softmax(1)).item() == pytest.approx(0, abs=1e-5)
    p = [[0.7, 0.2, 0.1], [0.5, 0.4, 0.1]]
    wanted = sum(math.log((1 / 3) / ((a + b) / 2)) / 3 for a, b in zip(*p, strict=True))
    assert class_balance(torch.tensor(p).log()).item() == pytest.approx(wanted, rel=1e-5)


def test_targets_are_constants():
    """The gradient is that of the mixed prediction alone: sum of p - target, through the mixed inputs."""
    method, batch = a_method(epoch=105, reg_weight=0.0), a_batch()
    delta, partner = draws_of(batch)
    method(batch).loss.backward()
    x, y = batch.inputs.tolist(), batch.labels.tolist()
    b = method.suspicion[batch.index].tolist()
    wanted = [0.0] * CLASSES
    for i, j in enumerate(partner):
        mixed = [delta * u + (1 - delta) * v for u, v in zip(x[i], x[j], strict=True)]
        p = softmax(affine(method.model, mixed))
        for k in range(CLASSES):
            target = 0.0
            for at, part in ((i, delta), (j, 1 - delta)):
                target += part * ((1 - b[at]) * (y[at] == k) + b[at] * hard(affine(method.model, x[at]))[k])
            wanted[k] += (p[k] - target) / 6
    assert method.model.bias.grad.tolist() == pytest.approx(wanted, abs=1e-6)


# --- What goes to the ledger -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, 105])
def test_the_ledger_gets_whole_samples(epoch):
    method, batch = a_method(epoch=epoch), a_batch()
    output = method(batch)
    assert output.logits.equal(method.model(batch.inputs).detach())
    assert not output.logits.requires_grad
    assert output.quality.tolist() == pytest.approx((1 - method.suspicion[batch.index]).tolist())
    assert not output.quality.requires_grad


def moved(method, batch):
    """How often a step moves the batch norm's averages."""
    method(batch)
    return method.model[1].num_batches_tracked.item()


def test_the_ledgers_pass_leaves_batch_norm_alone():
    """In the mixup phases the authors make the mixed pass only; while bootstrapping the plain one counts as well."""
    assert moved(a_method(normed, epoch=0), a_batch()) == 1
    assert moved(a_method(normed, epoch=105, variant="MD-DYR-SH"), a_batch()) == 1
    assert moved(a_method(normed, epoch=105), a_batch()) == 2
    assert moved(a_method(normed, epoch=105, suspicion="batch"), a_batch()) == 2
    method = a_method(normed)
    only_mixed = copy.deepcopy(method.model)
    batch = a_batch()
    delta, partner = draws_of(batch)
    only_mixed(delta * batch.inputs + (1 - delta) * batch.inputs[partner])
    method(batch)
    assert method.model[1].running_mean.tolist() == pytest.approx(only_mixed[1].running_mean.tolist(), abs=1e-6)
    assert all(module.training for module in method.modules())


# --- Suspicion -------------------------------------------------------------------------------------------------------


def two_groups(samples=200, wrong=60):
    """Logits under which the first samples have high losses."""
    draws = torch.Generator().manual_seed(0)
    labels = torch.arange(samples) % CLASSES
    seen = torch.where(torch.arange(samples) < wrong, (labels + 1) % CLASSES, labels)
    return 0.3 * torch.randn(samples, CLASSES, generator=draws) + 5 * nn.functional.one_hot(seen, CLASSES)


def test_suspicion_is_the_posterior_of_the_losses():
    method, logits = a_method(samples=200, epoch=3), two_groups()
    training_set = FakeTrainingSet(logits)
    method.begin_epoch(training_set)
    assert training_set.asked == [method.model]
    losses = [-math.log(softmax(row)[i % CLASSES]) for i, row in enumerate(logits.tolist())]
    wanted = beta_mixture.fit(losses).posterior(losses)
    assert method.suspicion.tolist() == pytest.approx(wanted.tolist(), rel=1e-3)
    assert method.suspicion[:60].min() > 0.9
    assert method.suspicion[60:].max() < 0.1


def test_before_the_first_epoch_everyone_is_at_one_half():
    method = make(MCorrection, torch.arange(8) % CLASSES)
    training_set = FakeTrainingSet(torch.zeros(8, CLASSES))
    method.begin_epoch(training_set)
    assert training_set.asked == []
    assert method.suspicion.tolist() == [0.5] * 8


def test_unreadable_samples_and_equal_losses_are_neutral():
    method, logits = a_method(samples=200, epoch=1), two_groups()
    logits[[0, 100]] = math.nan
    method.begin_epoch(FakeTrainingSet(logits))
    assert method.suspicion[[0, 100]].tolist() == [0.5, 0.5]
    assert method.suspicion[1] > 0.9
    method.begin_epoch(FakeTrainingSet(torch.zeros(200, CLASSES)))
    assert method.suspicion.tolist() == [0.5] * 200
    method.begin_epoch(FakeTrainingSet(torch.full((200, CLASSES), math.nan)))
    assert method.suspicion.tolist() == [0.5] * 200


def test_suspicion_of_the_step_uses_the_mixture_of_the_epoch():
    """As in the authors' code: today's loss in evaluation mode, the curves fitted before the epoch."""
    method = a_method(normed, samples=200, epoch=105, suspicion="batch")
    method.begin_epoch(FakeTrainingSet(two_groups()))
    batch = a_batch(scale=3.0)
    before = copy.deepcopy(method.model)
    before(batch.inputs)  # the plain pass in training mode comes first
    before.eval()
    rows = before(batch.inputs).tolist()
    losses = [-math.log(softmax(row)[y]) for row, y in zip(rows, batch.labels.tolist(), strict=True)]
    low, high = method.bounds.tolist()
    table = method.table.tolist()
    wanted = []
    for loss in losses:
        x = min(max((loss - low) / (high - low + 1e-6), 1e-3), 1 - 1e-3)
        wanted.append(min(max(table[int(100 * x)], 1e-4), 1 - 1e-4))
    assert method(batch).quality.tolist() == pytest.approx([1 - b for b in wanted], abs=1e-5)
    early = a_method(samples=200, epoch=0, suspicion="batch")
    assert early(a_batch()).quality.tolist() == [0.5] * 6


def test_the_balance_is_the_whole_batchs_where_processes_share_it():
    """Value: that of the whole; gradients of the shares, weighed as the loop does, add up to that of the whole."""
    method = a_method()
    logits = torch.randn(5, CLASSES, generator=torch.Generator().manual_seed(0)).requires_grad_()
    wanted = class_balance(logits.log_softmax(1))
    (gradient,) = torch.autograd.grad(wanted, logits)
    everyone = logits.detach().softmax(1).sum(0)
    method.sum_over_processes = lambda tensor: everyone if tensor.ndim else torch.tensor(5.0)  # or samples of both
    got = torch.zeros_like(logits)
    for start, stop in ((0, 3), (3, 5)):
        part = logits[start:stop].log_softmax(1)
        value = method._balance(part, a_batch(stop - start, rows=Rows(start, stop, 5)))
        assert value.item() == pytest.approx(wanted.item(), rel=1e-5)
        got += torch.autograd.grad(value * (stop - start) / 5, logits)[0]
    assert torch.allclose(got, gradient, atol=1e-6)
