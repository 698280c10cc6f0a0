"""How much of another sample a batch is mixed with, and of which."""

import math

import numpy as np
import pytest
import torch
from tests.helpers.steps import again, noise_batch

from jnpl.data.loading.batches import Rows
from jnpl.methods.mixup import draw_mixup

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
