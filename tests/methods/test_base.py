"""What all methods inherit."""

import pytest
import torch
from tests.helpers.steps import CLASSES, linear
from torch import nn

from jnpl.methods.base import Method, Task
from jnpl.methods.plain import CE

LABELS = torch.arange(8) % CLASSES


def test_a_method_needs_a_step():
    with pytest.raises(TypeError, match="abstract"):
        Method(Task(lambda _: nn.Linear(2, 2), LABELS, CLASSES))


def test_a_method_is_a_module_around_the_network():
    method = CE(Task(linear, LABELS, CLASSES), CE.Settings())
    assert set(method.state_dict()) == {"model.weight", "model.bias"}
    inputs = torch.randn(2, 3)
    assert method.predict(inputs).equal(method.model(inputs))
    assert method.sum_over_processes(inputs) is inputs
