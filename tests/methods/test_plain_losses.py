"""Methods that are one loss with one network: every step against plain loops."""

from __future__ import annotations

import math

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from jnpl.data.loading.batches import Batch, Rows, generator_for
from jnpl.methods.base import Task
from jnpl.methods.gce import GCE
from jnpl.methods.mae import MAE
from jnpl.methods.nce_rce import NCERCE
from jnpl.methods.nfl_rce import NFLRCE
from jnpl.methods.sce import SCE

CLASSES = 4
LABELS = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 0, 1])
LOG_ZERO = math.log(1e-4)


def a_task(scale=3.0, labels=LABELS):
    def build(number):
        torch.manual_seed(number)
        net = nn.Linear(3, CLASSES)
        net.weight.data *= scale
        return net

    return Task(build=build, labels=labels, num_classes=CLASSES)


def a_batch(index=range(6), scale=1.0, seed=0):
    index = torch.tensor(list(index))
    inputs = scale * torch.randn(len(LABELS), 3, generator=torch.Generator().manual_seed(seed))[index]
    return Batch(inputs, LABELS[index], index, generator_for(seed, "step"), Rows(0, len(index), len(index)))


def probabilities(method, batch):
    weight, bias = method.model.weight.tolist(), method.model.bias.tolist()
    rows = []
    for x in batch.inputs.tolist():
        logits = [sum(w * v for w, v in zip(ws, x, strict=True)) + b for ws, b in zip(weight, bias, strict=True)]
        exps = [math.exp(value - max(logits)) for value in logits]
        rows.append([value / sum(exps) for value in exps])
    return rows


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


CASES = [
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
EVERY = [MAE, GCE, SCE, NCERCE, NFLRCE]


@pytest.mark.parametrize(("method", "settings", "by_hand"), CASES)
@pytest.mark.parametrize("size", [2, 7])
def test_the_step_is_the_mean_in_plain_arithmetic(method, settings, by_hand, size):
    made, batch = method(a_task(), method.Settings(**settings)), a_batch(range(size))
    output = made(batch)
    losses = [by_hand(p, y) for p, y in zip(probabilities(made, batch), batch.labels.tolist(), strict=True)]
    assert output.loss.item() == pytest.approx(sum(losses) / size, rel=1e-5)
    assert output.logits.equal(made.model(batch.inputs))
    assert output.quality is None  # the score is the probability of the given label
    assert not output.scalars


@pytest.mark.parametrize(("method", "settings", "by_hand"), CASES)
def test_extreme_logits_stay_finite(method, settings, by_hand):
    made, batch = method(a_task(), method.Settings(**settings)), a_batch(scale=1e4)
    output = made(batch)
    output.loss.backward()
    assert output.logits.abs().max() > 1e4
    assert output.loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in made.parameters())


def test_mae_is_the_whole_sum_not_the_halved_form():
    made, batch = MAE(a_task(), MAE.Settings()), a_batch()
    whole = made(batch).loss.item()
    half = sum(1 - p[y] for p, y in zip(probabilities(made, batch), batch.labels.tolist(), strict=True)) / 6
    assert whole == pytest.approx(2 * half, rel=1e-5)


def test_the_gradient_of_mae_fades_with_p():
    made, batch = MAE(a_task(), MAE.Settings()), a_batch(range(1))
    made(batch).loss.backward()
    (p,), (y,) = probabilities(made, batch), batch.labels.tolist()
    wanted = [2 * p[y] * (p[k] - (k == y)) for k in range(CLASSES)]
    assert made.model.bias.grad.tolist() == pytest.approx(wanted, rel=1e-4)


def test_the_focal_factor_is_a_constant():
    """With a differentiated factor the gradient would differ: finite differences hold it still."""
    made, batch = NFLRCE(a_task(), NFLRCE.Settings(beta=0.0)), a_batch(range(1))
    made(batch).loss.backward()
    (p,), (y,) = probabilities(made, batch), batch.labels.tolist()
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
    wanted = sum(9.210340 * (1 - p[y]) for p, y in zip(probabilities(made, batch), batch.labels.tolist(), strict=True))
    assert made(batch).loss.item() == pytest.approx(wanted / 2, rel=1e-5)


def test_softmax_is_applied_once():
    """A port of SCE takes log_softmax of probabilities: confident, right predictions would still cost about 0.74."""
    made = SCE(a_task(), SCE.Settings(alpha=1.0, beta=0.0))
    made.model.weight.data.zero_()
    made.model.bias.data = torch.tensor([50.0, 0.0, 0.0, 0.0])
    assert made(a_batch([0, 4])).loss.item() == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("method", EVERY)
def test_names_and_unknown_settings(method):
    assert method.Settings().name == {MAE: "mae", GCE: "gce", SCE: "sce", NCERCE: "nce-rce", NFLRCE: "nfl-rce"}[method]
    assert [stage.name for stage in method.stages] == ["train"]
    with pytest.raises(ValidationError, match="extra"):
        method.Settings(tau=1)


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        (GCE, {"q": 0.0}),
        (GCE, {"q": 1.1}),
        (GCE, {"k": 1.0}),
        (GCE, {"prune_every": 0}),
        (GCE, {"prune_from": -1}),
        (SCE, {"alpha": -1.0}),
        (NCERCE, {"beta": -0.1}),
        (NFLRCE, {"gamma": -1.0}),
        (NFLRCE, {"alpha": math.inf}),
    ],
)
def test_settings_out_of_bounds(method, wrong):
    with pytest.raises(ValidationError):
        method.Settings(**wrong)


# --- The truncated GCE -----------------------------------------------------------------------------------------------


class FakeTrainingSet:
    def __init__(self, logits):
        self.answer, self.asked = logits, []

    def logits(self, network):
        self.asked.append(network)
        return self.answer


def logits_with(p_given):
    """Rows in which the given label has these probabilities."""
    rows = torch.zeros(len(p_given), CLASSES, dtype=torch.float64)
    for row, p, y in zip(rows, p_given, LABELS.tolist(), strict=True):
        row[y] = math.log(p / ((1 - p) / (CLASSES - 1)))
    return rows.float()


P_GIVEN = [0.9, 0.49, 0.51, 0.1, 0.7, 0.3, 0.99, 0.01, 0.6, 0.2]


def truncated(**settings):
    return GCE(a_task(), GCE.Settings(truncated=True, prune_from=4, prune_every=3, **settings))


def test_pruning_happens_in_its_epochs_alone_and_looks_at_the_current_network():
    method, training_set = truncated(), FakeTrainingSet(logits_with(P_GIVEN))
    asked = []
    for method.epoch in range(12):
        before = len(training_set.asked)
        method.begin_epoch(training_set)
        asked += [method.epoch] * (len(training_set.asked) - before)
    assert asked == [4, 7, 10]
    assert all(network is method.model for network in training_set.asked)


def test_pruning_in_every_epoch_waits_for_the_first():
    method, training_set = (
        GCE(a_task(), GCE.Settings(truncated=True, prune_from=2, prune_every=1)),
        FakeTrainingSet(logits_with(P_GIVEN)),
    )
    for method.epoch in range(5):
        method.begin_epoch(training_set)
        assert method.keep.all() == (method.epoch < 2)
    assert len(training_set.asked) == 3


def test_all_are_kept_before_the_first_pruning_and_then_those_above_k():
    method, training_set = truncated(), FakeTrainingSet(logits_with(P_GIVEN))
    method.epoch = 3
    method.begin_epoch(training_set)
    assert method.keep.all()
    method.epoch = 4
    method.begin_epoch(training_set)
    assert method.keep.tolist() == [p > 0.5 for p in P_GIVEN]
    method.epoch = 7
    method.begin_epoch(FakeTrainingSet(logits_with(P_GIVEN[::-1])))  # a left-out sample can come back
    assert method.keep.tolist() == [p > 0.5 for p in P_GIVEN[::-1]]


def test_an_unreadable_sample_is_not_kept():
    method, logits = truncated(), logits_with(P_GIVEN)
    logits[0] = math.nan
    method.epoch = 4
    method.begin_epoch(FakeTrainingSet(logits))
    assert method.keep.tolist() == [False] + [p > 0.5 for p in P_GIVEN[1:]]


@pytest.mark.parametrize("k", [0.5, 0.3])
def test_the_truncated_step_is_a_mean_over_the_batch_not_over_the_kept(k):
    method, batch = truncated(k=k), a_batch([8, 1, 2, 0, 5])
    kept = [True, False, True, True, False, False, True, False, False, True]
    method.keep.copy_(torch.tensor(kept))
    output = method(batch)
    total = 0.0
    for p, y, at in zip(probabilities(method, batch), batch.labels.tolist(), batch.index.tolist(), strict=True):
        total += kept[at] * (gce(p, y) - (1 - k**0.7) / 0.7)
    assert output.loss.item() == pytest.approx(total / 5, rel=1e-4)
    assert output.scalars["kept"].item() == pytest.approx(2 / 5)


def test_before_pruning_it_descends_like_gce():
    plain, cut, batch = GCE(a_task(), GCE.Settings()), truncated(), a_batch()
    plain(batch).loss.backward()
    cut(batch).loss.backward()
    assert torch.allclose(plain.model.weight.grad, cut.model.weight.grad)


def test_a_batch_without_kept_samples_is_an_exact_zero_with_a_graph():
    method = truncated()
    method.keep.zero_()
    output = method(a_batch([3, 7]))
    output.loss.backward()
    assert output.loss.item() == 0
    assert not method.model.weight.grad.any()


def test_what_is_kept_survives_a_checkpoint():
    method, other = truncated(), truncated()
    method.epoch = 4
    method.begin_epoch(FakeTrainingSet(logits_with(P_GIVEN)))
    assert set(method.state_dict()) == {"model.weight", "model.bias", "keep"}
    other.load_state_dict(method.state_dict())
    assert other.keep.equal(method.keep)
    assert other(a_batch()).loss.equal(method(a_batch()).loss)


def test_plain_gce_neither_looks_nor_keeps():
    method, training_set = GCE(a_task(), GCE.Settings(prune_from=0)), FakeTrainingSet(None)
    method.begin_epoch(training_set)
    assert not training_set.asked
    assert set(method.state_dict()) == {"model.weight", "model.bias"}
