"""LIMIT against plain loops: what reaches the classifier, what reaches q, and what must not."""

import pytest
import torch
from tests.helpers.steps import (
    CLASSES,
    cross_entropies,
    linear,
    make,
    noise_batch,
    normed,
    probabilities,
    shares,
)
from torch import nn

from jnpl.methods.base import Stage
from jnpl.methods.limit import LIMIT


def a_method(build=linear, **settings):
    return make(LIMIT, torch.arange(8) % CLASSES, build, **settings).train()


def a_batch(size=6, scale=1.0):
    return noise_batch(torch.arange(size) % CLASSES, scale=scale)


def both(method, batch):
    """p and s, row by row."""
    return [probabilities(net, batch) for net in (method.model, method.q)]


def grads(net):
    return [weight.grad for weight in net.parameters()]


def bias_gradient(rows):
    """Mean over the batch of a gradient on the logits: that on the bias of a linear network."""
    return [sum(row[k] for row in rows) / len(rows) for k in range(CLASSES)]


def through_softmax(s, slope):
    """d/d logits of a function of s with these slopes."""
    inner = sum(a * b for a, b in zip(s, slope, strict=True))
    return [a * (b - inner) for a, b in zip(s, slope, strict=True)]


# --- The step --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["G", "L"])
def test_q_learns_the_labels_by_squared_or_absolute_error(kind):
    method, batch = a_method(kind=kind), a_batch()
    p, s = both(method, batch)
    wanted = 0.0
    for p_row, s_row, y in zip(p, s, batch.labels.tolist(), strict=True):
        for k in range(CLASSES):
            guess, truth = p_row[k] - s_row[k], p_row[k] - (k == y)
            wanted += ((guess - truth) ** 2 if kind == "G" else abs(guess - truth)) / 6
    output = method(batch)
    assert output.scalars["q_loss"].item() == pytest.approx(wanted, rel=1e-5)
    norm = sum((a - b) ** 2 for p_row, s_row in zip(p, s, strict=True) for a, b in zip(p_row, s_row, strict=True)) / 6
    assert output.scalars["gradient_norm"].item() == pytest.approx(norm, rel=1e-5)


def test_the_classifier_is_trained_like_cross_entropy_towards_q():
    method, batch = a_method(), a_batch()
    method(batch).loss.backward()
    got = [grad.clone() for grad in grads(method.model)]
    method.zero_grad()
    soft = method.q(batch.inputs).softmax(1).detach()
    nn.functional.cross_entropy(method.model(batch.inputs), soft).backward()
    for ours, theirs in zip(got, grads(method.model), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("kind", ["G", "L"])
@pytest.mark.parametrize("beta", [0.0, 3.0])
def test_q_descends_its_error_and_the_norm_alone(kind, beta):
    """Nothing of the classifier's path reaches q: these gradients have no other part."""
    method, batch = a_method(kind=kind, beta=beta), a_batch()
    p, s = both(method, batch)
    method(batch).loss.backward()
    rows = []
    for p_row, s_row, y in zip(p, s, batch.labels.tolist(), strict=True):
        error = [2 * (s_row[k] - (k == y)) if kind == "G" else (-1.0 if k == y else 1.0) for k in range(CLASSES)]
        slope = [e + 2 * beta * (s_row[k] - p_row[k]) for k, e in enumerate(error)]
        rows.append(through_softmax(s_row, slope))
    assert method.q.bias.grad.tolist() == pytest.approx(bias_gradient(rows), abs=1e-6)


def test_no_label_reaches_the_classifier():
    """Other labels, the same gradients: without the detachment of p in q's loss they would leak."""
    for settings in ({}, {"kind": "L", "beta": 10.0}, {"gradient": "sum"}):
        method, batch = a_method(normed, **settings), a_batch()
        method(batch).loss.backward()
        first = [grad.clone() for grad in grads(method.model)]
        q_first = [grad.clone() for grad in grads(method.q)]
        method.zero_grad()
        method(batch._replace(labels=(batch.labels + 1) % CLASSES)).loss.backward()
        assert all(a.equal(b) for a, b in zip(first, grads(method.model), strict=True))
        assert not all(a.equal(b) for a, b in zip(q_first, grads(method.q), strict=True))


def test_fault_of_the_original_the_classifiers_gradient_is_a_mean():
    batch = a_batch()
    mean, total = a_method(), a_method(gradient="sum")
    for method in (mean, total):
        method(batch).loss.backward()
    for ours, theirs in zip(grads(mean.model), grads(total.model), strict=True):
        assert torch.allclose(6 * ours, theirs, atol=1e-5)  # the authors': six times too large for a batch of six
    for ours, theirs in zip(grads(mean.q), grads(total.q), strict=True):
        assert ours.equal(theirs)


def test_the_authors_sum_is_over_the_whole_batch_where_processes_share_it():
    method = a_method(gradient="sum")
    method(a_batch(6)).loss.backward()
    wanted = [grad.clone() for grad in grads(method.model)]
    method.zero_grad()
    whole = a_batch(6)
    method.sum_over_processes = lambda _: torch.tensor(6.0)  # samples of both
    for part, share in shares(whole, 4):
        (method(part).loss * share).backward()
    for ours, theirs in zip(wanted, grads(method.model), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_the_score_is_qs_and_the_logits_the_classifiers():
    method, batch = a_method(), a_batch()
    _, s = both(method, batch)
    output = method(batch)
    assert output.quality.tolist() == pytest.approx([row[y] for row, y in zip(s, batch.labels.tolist(), strict=True)])
    assert not output.quality.requires_grad
    assert output.logits.equal(method.model(batch.inputs))
    assert method.classifier is method.model
    assert method.network_logits(batch.inputs)["model"].equal(method.model(batch.inputs))


# --- Stages ----------------------------------------------------------------------------------------------------------


def test_stages():
    assert a_method().stages == (Stage("train", select=True),)
    assert [stage.name for stage in a_method(init_q=True).stages] == ["init", "train"]
    assert all(stage.select for stage in LIMIT.stages)
    assert not a_method().in_init


def test_init_trains_q_alone_with_cross_entropy():
    method, batch = a_method(init_q=True), a_batch()
    _, s = both(method, batch)
    output = method(batch)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(sum(cross_entropies(method.q, batch)) / 6, rel=1e-5)
    assert grads(method.model) == [None, None]
    assert method.q.weight.grad.abs().sum() > 0
    assert output.quality.tolist() == pytest.approx([row[y] for row, y in zip(s, batch.labels.tolist(), strict=True)])
    assert method.network_logits(batch.inputs)["model"].equal(method.q(batch.inputs))  # the best q is selected


def test_after_init_q_is_kept():
    method, batch = a_method(init_q=True), a_batch()
    method.q.weight.data += 1
    before = {name: value.clone() for name, value in method.state_dict().items()}
    method.stage = 1
    method.reset_networks(linear)
    assert all(value.equal(before[name]) for name, value in method.state_dict().items())
    assert "gradient_norm" in method(batch).scalars
    assert method.network_logits(batch.inputs)["model"].equal(method.model(batch.inputs))
