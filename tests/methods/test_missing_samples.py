"""A batch of which half cannot be read is a batch of the other half: means and selections count real samples."""

import pytest
import torch
from tests.helpers.steps import make, noise_batch

from jnpl.data.loading.batches import Rows
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
    method = make(METHODS[name], LABELS, at=(0, 20, 40), **SETTINGS[name])
    method.stage = 1 if name == "pencil" else len(method.stages) - 1
    return method


def a_batch(total):
    return noise_batch(LABELS, rows=Rows(0, total, total))


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
