"""Samples that count differently: a weight of 3 is worth three copies."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.helpers.steps import batch_of
from torch import nn

from jnpl.data.sources.arrays import from_arrays
from jnpl.internal.errors import InputError
from jnpl.methods.base import Task
from jnpl.methods.extended_jnpl import ExtendedJNPL
from jnpl.methods.pseudo_label import PseudoLabel, Targets

COUNTS = torch.tensor([3, 1, 2, 1, 4])
LABELS = torch.tensor([0, 1, 2, 2, 0])


def inputs():
    return torch.randn(5, 4, generator=torch.Generator().manual_seed(0))


def network(_number=0):
    layer = nn.Linear(4, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(12.0).view(3, 4).sin())
        layer.bias.zero_()
    return layer


def task(labels, weights=None):
    return Task(network, labels, 3, weights=weights)


def gradients(method, x, labels):
    output = method.step(batch_of(x, labels))
    output.loss.backward()
    return output, [weight.grad for weight in method.model.parameters()]


def mean_one(counts):
    return counts / counts.float().mean()


@pytest.mark.parametrize("class_weight", ["none", "nlnl"])
def test_a_weight_is_worth_as_many_copies(class_weight):
    settings = ExtendedJNPL.Settings(complements="exhaustive", pl_weight=0, class_weight=class_weight)
    weighted = ExtendedJNPL(task(LABELS, mean_one(COUNTS)), settings)
    copied = ExtendedJNPL(task(LABELS.repeat_interleave(COUNTS)), settings)
    ours, our_gradients = gradients(weighted, inputs(), LABELS)
    theirs, their_gradients = gradients(
        copied, inputs().repeat_interleave(COUNTS, dim=0), LABELS.repeat_interleave(COUNTS)
    )
    torch.testing.assert_close(ours.loss, theirs.loss)
    torch.testing.assert_close(our_gradients, their_gradients)
    torch.testing.assert_close(weighted.counts.given * (COUNTS.sum() / 5), copied.counts.given)
    # What gamma and the guard go by: shares of what was predicted, and of what was predicted rightly.
    total = COUNTS.sum() / 5
    torch.testing.assert_close(weighted.counts.predicted * total, copied.counts.predicted)
    torch.testing.assert_close(weighted.counts.right * total, copied.counts.right)
    assert weighted.state_dict().keys() == copied.state_dict().keys()  # weights belong to the data


def test_pl_plus_is_a_weighted_mean_over_the_selected():
    logits = 6 * torch.eye(3)[LABELS] + inputs()[:, :3]
    uniforms = torch.tensor([0.1, 0.99999, 0.2, 0.3, 0.1])  # the second is not selected
    counts = [torch.ones_like(COUNTS), COUNTS]

    def terms(repeats, weights):
        several = [tensor.repeat_interleave(repeats, dim=0) for tensor in (logits, LABELS, uniforms)]
        method = ExtendedJNPL(task(LABELS, weights), ExtendedJNPL.Settings(complements="exhaustive"))
        method.uniforms = lambda _batch, _columns: several[2][:, None]
        return method.terms(several[0], batch_of(several[0], several[1]))

    ours, theirs = terms(counts[0], mean_one(COUNTS)), terms(counts[1], None)
    assert 0 < theirs.selected < COUNTS.sum()
    torch.testing.assert_close(ours.nl_plus, theirs.nl_plus)
    torch.testing.assert_close(ours.pl_plus, theirs.pl_plus)
    torch.testing.assert_close(ours.selected * COUNTS.sum() / 5, theirs.selected.float())


@pytest.mark.parametrize("weighted_mean", [False, True])
def test_pseudo_labels_weigh_too(weighted_mean):
    probs = torch.randn(5, 3, generator=torch.Generator().manual_seed(1)).softmax(1).numpy()
    sample_weights = np.array([1, 0, 2, 1, 1], np.float32)
    ours = PseudoLabel(task(LABELS, mean_one(COUNTS)), Targets(probs, sample_weights, weighted_mean), 1)
    counts = COUNTS.numpy()
    several = Targets(probs.repeat(counts, axis=0), sample_weights.repeat(counts), weighted_mean)
    theirs = PseudoLabel(task(LABELS.repeat_interleave(COUNTS)), several, 1)
    first, our_gradients = gradients(ours, inputs(), LABELS)
    second, their_gradients = gradients(
        theirs, inputs().repeat_interleave(COUNTS, dim=0), LABELS.repeat_interleave(COUNTS)
    )
    torch.testing.assert_close(first.loss, second.loss)
    torch.testing.assert_close(our_gradients, their_gradients)


def test_weights_are_part_of_the_data():
    plain = from_arrays(np.zeros((3, 2)), [0, 1, 0])
    weighted = replace(plain, weights=np.array([1, 2, 1], np.float32))
    assert len({plain.fingerprint(), weighted.fingerprint(), replace(weighted, weights=None).fingerprint()}) == 2
    assert replace(weighted, weights=np.array([1, 3, 1], np.float32)).fingerprint() != weighted.fingerprint()


@pytest.mark.parametrize("weights", [[1, 2], [1, 0, 1], [1, -1, 1], [1, np.nan, 1], [1, np.inf, 1]])
def test_weights_that_are_wrong(weights):
    with pytest.raises(InputError, match="weights of arrays must be 3 finite float32 above 0"):
        replace(from_arrays(np.zeros((3, 2)), [0, 1, 0]), weights=np.array(weights, np.float32))
