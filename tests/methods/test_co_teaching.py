"""Co-teaching's step against plain loops."""

import math

import pytest
import torch
from tests.helpers.steps import CLASSES, cross_entropies, make, noise_batch, softmax

from jnpl.methods.co_teaching import CoTeaching

SIZE = 10
LABELS = torch.arange(SIZE) % CLASSES


def a_method(epoch=30, noise_rate=0.4):
    return make(CoTeaching, LABELS, at=(0, epoch, 200), noise_rate=noise_rate)


def a_batch():
    return noise_batch(LABELS, seed=5)


def easiest(losses, count):
    return sorted(range(len(losses)), key=lambda at: losses[at])[:count]


@pytest.mark.parametrize(("epoch", "count"), [(0, 10), (1, 9), (5, 7), (9, 6), (150, 6)])
def test_each_network_learns_from_what_the_other_finds_easy(epoch, count):
    method, batch = a_method(epoch), a_batch()
    first, second = cross_entropies(method.model, batch), cross_entropies(method.second, batch)
    by_first, by_second = easiest(first, count), easiest(second, count)
    loss_1 = sum(first[at] for at in by_second) / count
    loss_2 = sum(second[at] for at in by_first) / count
    output = method(batch)
    assert output.scalars["network_1"].item() == pytest.approx(loss_1, rel=1e-5)
    assert output.scalars["network_2"].item() == pytest.approx(loss_2, rel=1e-5)
    assert output.loss.item() == pytest.approx(loss_1 + loss_2, rel=1e-5)
    assert output.scalars["kept"].item() == pytest.approx(count / SIZE)
    if epoch == 150:
        assert set(by_first) != set(by_second)  # else the exchange is not seen


def test_one_optimiser_over_the_sum_gives_each_network_its_own_gradient():
    method, batch = a_method(), a_batch()
    method(batch).loss.backward()
    chosen = easiest(cross_entropies(method.second, batch), 6)
    wanted = [0.0] * CLASSES
    for at in chosen:
        p = softmax(method.model(batch.inputs)[at].tolist())
        for k in range(CLASSES):
            wanted[k] += (p[k] - (k == LABELS[at].item())) / 6
    assert method.model.bias.grad.tolist() == pytest.approx(wanted, abs=1e-6)


def test_quality_is_the_geometric_mean_of_both_networks_probabilities():
    method, batch = a_method(), a_batch()
    first, second = cross_entropies(method.model, batch), cross_entropies(method.second, batch)
    wanted = [math.sqrt(math.exp(-one) * math.exp(-two)) for one, two in zip(first, second, strict=True)]
    assert method(batch).quality.tolist() == pytest.approx(wanted, rel=1e-5)


def test_logits_hold_the_mean_prediction():
    method, batch = a_method(), a_batch()
    wanted = (method.model(batch.inputs).softmax(1) + method.second(batch.inputs).softmax(1)) / 2
    assert torch.allclose(method(batch).logits.softmax(1), wanted, atol=1e-6)
