"""What all methods inherit."""

import math

import numpy as np
import pytest
import torch
from tests.helpers.steps import CLASSES, again, linear, noise_batch
from torch import nn

from jnpl.data.loading.batches import Rows
from jnpl.methods.base import Method, Task, draw_mixup
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


LABELS = torch.arange(6) % 4


def test_one_delta_for_the_batch_from_its_generator():
    deltas = [draw_mixup(noise_batch(LABELS, seed), 32.0, 6)[0] for seed in range(300)]
    assert np.mean(deltas) == pytest.approx(0.5, abs=0.02)
    assert np.std(deltas) == pytest.approx(math.sqrt(0.25 / 65), rel=0.15)  # Beta(32, 32)
    batch = noise_batch(LABELS)
    torch.manual_seed(1)
    first = draw_mixup(batch, 32.0, 6)
    torch.manual_seed(2)
    second = draw_mixup(again(batch), 32.0, 6)
    assert first[0] == second[0]
    assert first[1].equal(second[1])
    part = again(noise_batch(LABELS[:3], rows=Rows(3, 6, 6)))
    assert draw_mixup(part, 32.0, 3)[0] == first[0]  # the same for all processes
