"""How many samples count as small, which, and what the two-network methods share."""

import math

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from tests.helpers.steps import noise_batch, normed

from jnpl.internal.errors import InputError
from jnpl.methods.base import Task
from jnpl.methods.co_teaching import CoTeaching
from jnpl.methods.jocor import JoCoR
from jnpl.methods.small_loss import keep_count, keep_share, smallest

BOTH = pytest.mark.parametrize("method", [CoTeaching, JoCoR])
LABELS = torch.arange(12) % 4


def a_task(**oracles):
    return Task(build=normed, labels=LABELS, num_classes=4, **oracles)


def a_batch(size=12, scale=1.0):
    return noise_batch(LABELS[:size], seed=1, scale=scale)


@pytest.mark.parametrize("ramp", [1, 2, 5, 10, 15])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.8])
def test_the_kept_share_is_the_authors_table(rate, ramp):
    forget = np.ones(30) * rate
    forget[:ramp] = np.linspace(0, rate, ramp)
    assert [keep_share(rate, epoch, ramp) for epoch in range(30)] == pytest.approx((1 - forget).tolist())


@pytest.mark.parametrize(
    ("rate", "total", "wanted"),
    [(0.2, 128, 102), (0.8, 128, 25), (0.9, 10, 1), (0.2, 5, 4), (0.5, 2, 1), (0.0, 7, 7), (0.99, 50, 1), (0.5, 1, 1)],
)
def test_the_count_is_rounded_down_but_not_by_floating_point(rate, total, wanted):
    assert keep_count(1 - rate, total) == wanted
    assert keep_count(1 - float(np.float32(rate)), total) == wanted


def test_the_count_agrees_with_exact_arithmetic():
    for percent in range(100):
        for total in (2, 3, 10, 50, 100, 125, 128, 256):
            assert keep_count(1 - percent / 100, total) == max((100 - percent) * total // 100, 1)


def test_smallest_takes_the_first_on_a_tie():
    assert smallest(torch.full((6,), 2.0), 2).tolist() == [True, True, False, False, False, False]
    assert smallest(torch.tensor([5.0, -1.0, 3.0]), 3).all()


@BOTH
def test_without_a_noise_rate_the_message_says_what_to_set(method):
    with pytest.raises(InputError, match=rf"^{method.Settings().name} needs the noise rate: --set method.noise_rate=0"):
        method(a_task(noise_rate=0.3), method.Settings())  # an oracle is used only if asked for


@BOTH
def test_the_oracle_is_the_realised_rate(method):
    made = method(a_task(noise_rate=0.25), method.Settings(noise_rate="oracle"))
    made.epoch = 20
    assert made(a_batch()).scalars["kept"].item() == pytest.approx(9 / 12)
    with pytest.raises(InputError, match="needs true labels"):
        method(a_task(), method.Settings(noise_rate="oracle"))


@BOTH
@pytest.mark.parametrize("wrong", [-0.1, 1.0, "guess", math.nan])
def test_a_rate_is_a_share_or_the_oracle(method, wrong):
    with pytest.raises(ValidationError):
        method.Settings(noise_rate=wrong)
