"""A batch of which half cannot be read is a batch of the other half: means and selections count real samples."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from jnpl.data.loading.batches import Batch, Rows, generator_for
from jnpl.methods.base import Task
from jnpl.methods.registry import METHODS

LABELS = torch.arange(64) % 4
# Those whose step draws nothing: draws follow the place in the whole batch, on purpose.
SETTINGS = {
    **{name: {} for name in ("ce", "mae", "gce", "sce", "nce-rce", "nfl-rce", "forward", "joint-optim", "pencil")},
    **{name: {"noise_rate": 0.4} for name in ("co-teaching", "jocor")},
    "nlnl": {"complements": "exhaustive"},
    "jnpl": {"complements": "exhaustive", "pl_weight": 0.0},
    "limit": {"gradient": "sum", "beta": 1.0},
}


def a_method(name):
    def build(number):
        torch.manual_seed(number)
        return nn.Linear(5, 4)

    method = METHODS[name](Task(build, LABELS, 4), METHODS[name].Settings(**SETTINGS[name]))
    method.stage, method.epoch, method.epochs = len(method.stages) - 1, 20, 40
    if name == "pencil":
        method.stage = 1
    return method


def a_batch(total):
    inputs = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    return Batch(inputs, LABELS, torch.arange(64), generator_for(0, "step"), Rows(0, total, total))


@pytest.mark.parametrize("name", SETTINGS)
def test_half_a_batch(name):
    whole, half = a_method(name), a_method(name)
    wanted, got = whole(a_batch(64)), half(a_batch(128))
    assert got.loss.item() == pytest.approx(wanted.loss.item(), rel=1e-6)
    assert {key: value.item() for key, value in got.scalars.items()} == pytest.approx(
        {key: value.item() for key, value in wanted.scalars.items()}
    )
    for one, other in zip(whole.state_dict().values(), half.state_dict().values(), strict=True):
        assert one.equal(other)
