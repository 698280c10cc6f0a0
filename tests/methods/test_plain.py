"""Methods that are one loss with one network: every step against plain loops."""

import math

import pytest
import torch
from pydantic import ValidationError
from tests.helpers.steps import CLASSES, batch_of, expect_finite, linear, probabilities

from jnpl.methods.base import Task
from jnpl.methods.gce import GCE
from jnpl.methods.plain import CE, MAE, NCERCE, NFLRCE, SCE

LABELS = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 0, 1])
LOG_ZERO = math.log(1e-4)


def a_task():
    return Task(build=linear, labels=LABELS, num_classes=CLASSES)


def a_batch(index=range(6), scale=1.0):
    index = torch.tensor(list(index))
    inputs = scale * torch.randn(len(LABELS), 3, generator=torch.Generator().manual_seed(0))[index]
    return batch_of(inputs, LABELS[index], index)


def mae(p, y):
    return sum(abs(p[k] - (k == y)) for k in range(CLASSES))


def gce(p, y, q=0.7):
    return (1 - p[y] ** q) / q


def rce(p, y):
    return -sum(p[k] * (0.0 if k == y else LOG_ZERO) for k in range(CLASSES))


def sce(p, y, alpha=0.1, beta=1.0):
    return -alpha * math.log(p[y]) + beta * rce(p, y)


def nce_rce(p, y, alpha=1.0, beta=1.0):
    return alpha * math.log(p[y]) / sum(math.log(value) for value in p) + beta * rce(p, y)


def nfl_rce(p, y, alpha=1.0, beta=1.0, gamma=0.5):
    focal = [-((1 - value) ** gamma) * math.log(value) for value in p]
    return alpha * focal[y] / sum(focal) + beta * rce(p, y)


def ce(p, y):
    return -math.log(p[y])


CASES = [
    (CE, {}, ce),
    (MAE, {}, mae),
    (GCE, {}, gce),
    (GCE, {"q": 0.3}, lambda p, y: gce(p, y, 0.3)),
    (SCE, {}, sce),
    (SCE, {"alpha": 6.0, "beta": 0.1}, lambda p, y: sce(p, y, 6.0, 0.1)),
    (NCERCE, {}, nce_rce),
    (NCERCE, {"alpha": 10.0, "beta": 0.1}, lambda p, y: nce_rce(p, y, 10.0, 0.1)),
    (NFLRCE, {}, nfl_rce),
    (NFLRCE, {"alpha": 10.0, "beta": 0.1, "gamma": 2.0}, lambda p, y: nfl_rce(p, y, 10.0, 0.1, 2.0)),
]
EVERY = {"ce": CE, "mae": MAE, "gce": GCE, "sce": SCE, "nce-rce": NCERCE, "nfl-rce": NFLRCE}


@pytest.mark.parametrize(("method", "settings", "by_hand"), CASES)
@pytest.mark.parametrize("size", [2, 7])
def test_the_step_is_the_mean_in_plain_arithmetic(method, settings, by_hand, size):
    made, batch = method(a_task(), method.Settings(**settings)), a_batch(range(size))
    output = made(batch)
    losses = [by_hand(p, y) for p, y in zip(probabilities(made.model, batch), batch.labels.tolist(), strict=True)]
    assert output.loss.item() == pytest.approx(sum(losses) / size, rel=1e-5)
    assert output.logits.equal(made.model(batch.inputs))
    assert output.quality is None  # the score is the probability of the given label
    assert not output.scalars


@pytest.mark.parametrize(("method", "settings", "by_hand"), CASES)
def test_extreme_logits_stay_finite(method, settings, by_hand):
    made, batch = method(a_task(), method.Settings(**settings)), a_batch(scale=1e4)
    assert expect_finite(made, batch).logits.abs().max() > 1e4


def test_mae_is_the_whole_sum_not_the_halved_form():
    made, batch = MAE(a_task(), MAE.Settings()), a_batch()
    whole = made(batch).loss.item()
    half = sum(1 - p[y] for p, y in zip(probabilities(made.model, batch), batch.labels.tolist(), strict=True)) / 6
    assert whole == pytest.approx(2 * half, rel=1e-5)


def test_the_gradient_of_mae_fades_with_p():
    made, batch = MAE(a_task(), MAE.Settings()), a_batch(range(1))
    made(batch).loss.backward()
    (p,), (y,) = probabilities(made.model, batch), batch.labels.tolist()
    wanted = [2 * p[y] * (p[k] - (k == y)) for k in range(CLASSES)]
    assert made.model.bias.grad.tolist() == pytest.approx(wanted, rel=1e-4)


def test_the_focal_factor_is_a_constant():
    """With a differentiated factor the gradient would differ: finite differences hold it still."""
    made, batch = NFLRCE(a_task(), NFLRCE.Settings(beta=0.0)), a_batch(range(1))
    made(batch).loss.backward()
    (p,), (y,) = probabilities(made.model, batch), batch.labels.tolist()
    factor = [(1 - value) ** 0.5 for value in p]

    def share(logits):
        log_sum = math.log(sum(math.exp(value) for value in logits))
        terms = [f * (log_sum - value) for f, value in zip(factor, logits, strict=True)]
        return terms[y] / sum(terms)

    logits, step = [math.log(value) for value in p], 1e-5
    for k in range(CLASSES):
        up, down = list(logits), list(logits)
        up[k] += step
        down[k] -= step
        assert made.model.bias.grad[k].item() == pytest.approx((share(up) - share(down)) / (2 * step), abs=1e-5)


def test_symmetric_cross_entropy_reads_log_zero_as_log_1e_4_not_as_minus_4():
    made, batch = SCE(a_task(), SCE.Settings(alpha=0.0)), a_batch(range(2))
    wanted = sum(
        9.210340 * (1 - p[y]) for p, y in zip(probabilities(made.model, batch), batch.labels.tolist(), strict=True)
    )
    assert made(batch).loss.item() == pytest.approx(wanted / 2, rel=1e-5)


def test_softmax_is_applied_once():
    """A port of SCE takes log_softmax of probabilities: confident, right predictions would still cost about 0.74."""
    made = SCE(a_task(), SCE.Settings(alpha=1.0, beta=0.0))
    made.model.weight.data.zero_()
    made.model.bias.data = torch.tensor([50.0, 0.0, 0.0, 0.0])
    assert made(a_batch([0, 4])).loss.item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("name", "method"), EVERY.items())
def test_names_and_unknown_settings(name, method):
    assert method.Settings().name == name
    assert [stage.name for stage in method.stages] == ["train"]
    with pytest.raises(ValidationError, match="extra"):
        method.Settings(tau=1)
