"""Networks for vectors."""

import torch
from torch import nn

from jnpl.models.mlp import linear, mlp


def test_layers_are_as_wide_as_said():
    network = mlp(5, 3, hidden=(7, 4))
    assert [(layer.in_features, layer.out_features) for layer in network if isinstance(layer, nn.Linear)] == [
        *((5, 7), (7, 4), (4, 3))
    ]
    assert [type(layer) for layer in network[1::2]] == [nn.ReLU, nn.ReLU]
    assert [type(layer) for layer in mlp(5, 3, hidden=())] == [nn.Linear]


def test_a_linear_layer_starts_with_all_classes_alike():
    assert (linear(5, 3)(torch.randn(4, 5)) == 0).all()
