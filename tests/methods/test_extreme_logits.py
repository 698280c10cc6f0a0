"""Every method, in every stage, takes a step with tiny batches and extreme logits: all numbers stay finite."""

import pytest
import torch
from tests.helpers.steps import batch_of as a_batch
from tests.helpers.steps import expect_finite, linear, make, normed

from jnpl.methods.registry import METHODS

LABELS = torch.arange(12) % 4
SETTINGS = {name: {"noise_rate": 0.4} for name in ("co-teaching", "co-teaching-plus", "jocor")}
SETTINGS |= {"limit": {"beta": 1.0}, "mlnt": {"warm_up_steps": 0}, "jnpl": {"refine": True}}
STAGES = {name: range(len(make(METHODS[name], LABELS, **SETTINGS.get(name, {})).stages)) for name in METHODS}


@pytest.mark.parametrize(("name", "stage"), [(name, stage) for name, stages in STAGES.items() for stage in stages])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("size", [2, 12])
def test_a_step_is_finite(name, stage, scale, size):
    build = normed if scale == 1 else linear  # batch norm would tame the inputs
    method = make(METHODS[name], LABELS, build, at=(stage, 250, 300), **SETTINGS.get(name, {})).train()
    generator = torch.Generator().manual_seed(1)
    inputs, *views = (scale * torch.randn(size, 3, generator=generator) for _ in range(1 + len(method.views)))
    expect_finite(method, a_batch(inputs, LABELS[:size], views=tuple(views)), unused=method.has_unused_parameters)
