"""Features are what the last linear layer is given, in any network."""

import pytest
import torch
from torch import nn

from jnpl.internal.errors import InputError
from jnpl.models.build import build
from jnpl.models.penultimate import head_of, with_features

IMAGES = (3, 28, 28)


class Own(nn.Module):
    """A user's network, with a head that has a name of its own."""

    def __init__(self, *, use_head=True, extra=None):
        super().__init__()
        self.body = nn.Linear(6, 5)
        self.decide = nn.Linear(5, 3)
        self.use_head, self.extra = use_head, extra

    def forward(self, inputs):
        features = self.body(inputs).tanh()
        logits = self.decide(features) if self.use_head else features[:, :3]
        return logits if self.extra is None else self.extra(logits)


@pytest.mark.parametrize(
    ("name", "width"),
    [("resnet8", 64), ("resnet18", 512), ("preact-resnet32", 128), ("preact-resnet18", 512), ("cnn9", 128)],
)
def test_the_head_turns_features_into_logits(name, width):
    network = build(name, num_classes=4, input_shape=IMAGES, seed=0).eval()
    inputs = torch.randn(2, *IMAGES, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits, features = with_features(network, inputs)
        assert logits.equal(network(inputs))
        assert head_of(network)(features).equal(logits)
    assert features.shape == (2, width)
    assert head_of(network) is network.fc


@pytest.mark.parametrize("shape", [(6,), IMAGES])
def test_mlp(shape):
    network = build("mlp", num_classes=4, input_shape=shape, seed=0)
    inputs = torch.randn(3, *shape)
    logits, features = with_features(network, inputs)
    by_hand = network[:-1](inputs)
    assert features.equal(by_hand)
    assert features.shape == (3, 256)
    assert logits.equal(network(inputs))


def test_a_module_of_ones_own():
    network, inputs = Own(), torch.randn(4, 6)
    logits, features = with_features(network, inputs)
    assert head_of(network) is network.decide
    assert features.equal(network.body(inputs).tanh())
    assert logits.equal(network.decide(features))


def test_a_linear_network_is_its_own_head():
    network, inputs = nn.Linear(6, 3), torch.randn(4, 6)
    _, features = with_features(network, inputs)
    assert features.equal(inputs)


def test_gradients_flow_through_features():
    network, inputs = Own(), torch.randn(4, 6)
    _, features = with_features(network, inputs)
    features.sum().backward()
    assert network.body.weight.grad.abs().sum() > 0
    assert network.decide.weight.grad is None


def test_nothing_is_left_behind():
    network = Own()
    with_features(network, torch.randn(4, 6))
    assert not network.decide._forward_hooks
    with pytest.raises(RuntimeError):
        with_features(network, torch.randn(4, 7))
    assert not network.decide._forward_hooks


def test_a_head_that_is_called_twice_shows_its_last_input():
    network = nn.Linear(3, 3)
    twice = nn.Sequential(network, nn.ReLU(), network)
    inputs = torch.randn(4, 3)
    _, features = with_features(twice, inputs)
    assert features.equal(network(inputs).relu())


def test_networks_without_a_fitting_head_are_refused():
    with pytest.raises(InputError, match=r"last nn.Linear, and Sequential has none"):
        with_features(nn.Sequential(nn.Flatten()), torch.zeros(2, 3))
    with pytest.raises(InputError, match=r"last nn.Linear of Own must be called"):
        with_features(Own(use_head=False), torch.zeros(2, 6))
    with pytest.raises(InputError, match=r"must give the logits \(2, 6\), got \(2, 3\)"):
        with_features(Own(extra=lambda logits: logits.repeat(1, 2)), torch.zeros(2, 6))
