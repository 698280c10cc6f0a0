"""What the methods with two networks share."""

import math

import pytest
import torch
from tests.helpers.steps import make, normed

from jnpl.methods.co_teaching import CoTeaching
from jnpl.methods.jocor import JoCoR
from jnpl.methods.two_networks import log_mean_prediction

BOTH = pytest.mark.parametrize("method", [CoTeaching, JoCoR])
LABELS = torch.arange(12) % 4


def a_method(method, noise_rate=0.2):
    return make(method, LABELS, normed, noise_rate=noise_rate)


def test_the_prediction_is_the_log_of_the_mean_probability():
    first, second = torch.tensor([[1.0, 2.0, -1.0]]), torch.tensor([[0.0, 3.0, 0.5]])
    wanted = []
    for k in range(3):
        p = math.exp(first[0, k]) / sum(math.exp(value) for value in first[0])
        q = math.exp(second[0, k]) / sum(math.exp(value) for value in second[0])
        wanted.append(math.log((p + q) / 2))
    assert log_mean_prediction(first, second)[0].tolist() == pytest.approx(wanted, rel=1e-5)


def test_the_prediction_of_extreme_logits_is_finite_and_sums_to_one():
    far = torch.tensor([[1e4, -1e4, 0.0], [-1e4, 0.0, 1e4]])
    logs = log_mean_prediction(far, far.flip(1))
    assert logs.isfinite().all()
    assert logs.exp().sum(1).tolist() == pytest.approx([1, 1])
    assert log_mean_prediction(far.bfloat16(), far.bfloat16()).dtype == torch.float32


@BOTH
def test_two_networks_with_weights_of_their_own_both_tested(method):
    made = a_method(method).eval()
    inputs = torch.randn(2, 3)
    outputs = made.network_logits(inputs)
    assert list(outputs) == ["network_1", "network_2"]
    assert outputs["network_1"].equal(made.model(inputs))
    assert outputs["network_2"].equal(made.second(inputs))
    assert not outputs["network_1"].equal(outputs["network_2"])
    assert made.classifier is made.model


@BOTH
def test_renewing_gives_both_networks_different_numbers(method):
    made, asked = a_method(method), []
    for made.stage in range(3):
        made.reset_networks(lambda number: (asked.append(number), normed(number))[1])
        assert not made.model[0].weight.equal(made.second[0].weight)
    assert asked == [0, 1, 2, 3, 4, 5]
    assert made.second[0].weight.equal(normed(5)[0].weight)
