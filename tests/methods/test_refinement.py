"""The stage `refine`: soft targets of the first stage's predictions and their posterior."""

import math

import pytest
import torch

from jnpl.methods.refinement import Refinement

CLASSES = 12


class View:
    """A training set with the predictions of the first stage."""

    def __init__(self, history, posterior):
        self._history, self._posterior = history, posterior

    def history(self):
        return self._history

    def posterior(self):
        return self._posterior


@pytest.fixture
def prepared():
    """A refinement, and its targets by hand: one sample cannot be read, one is decided."""
    generator = torch.Generator().manual_seed(0)
    history, posterior = (torch.rand(36, CLASSES, generator=generator).softmax(1) for _ in range(2))
    history[7] = posterior[7] = math.nan
    decided = torch.full((36,), -1)
    decided[3] = 5
    refinement = Refinement(36, CLASSES)
    refinement.prepare(View(history, posterior), decided)
    wanted = (history + posterior) / 2
    wanted[7] = 0.0
    wanted[3] = torch.eye(CLASSES)[5]
    return refinement, wanted


def test_the_targets_are_the_mean_of_prediction_and_posterior(prepared):
    refinement, wanted = prepared
    torch.testing.assert_close(refinement.targets, wanted)


def test_the_loss_is_cross_entropy_with_the_targets_of_the_batch(prepared):
    refinement, wanted = prepared
    logits = torch.randn(4, CLASSES, generator=torch.Generator().manual_seed(1))
    index = torch.tensor([3, 7, 0, 20])
    by_hand = -(wanted[index] * logits.log_softmax(1)).sum(1)
    assert refinement.loss(logits, index, None).item() == pytest.approx(by_hand.mean().item(), rel=1e-6)
    weights = torch.tensor([0.5, 1.0, 1.5, 1.0])
    assert refinement.loss(logits, index, weights).item() == pytest.approx((weights * by_hand).mean().item(), rel=1e-6)
    half = refinement.loss(logits.half(), index, None)
    assert half.dtype == torch.float32
