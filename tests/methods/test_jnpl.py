"""JNPL's step is Eq. 4 and Algorithm 1, against plain loops."""

import math

import pytest
import torch
from tests.helpers.steps import CLASSES, again, linear, noise_batch, shares

from jnpl.methods.base import Task
from jnpl.methods.jnpl import JNPL
from jnpl.methods.registry import METHODS


def a_batch(size=6, seed=0):
    return noise_batch(torch.arange(size) % CLASSES, seed)


LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3])
Settings = JNPL.Settings


def task_of(net):
    return Task(lambda _: net, LABELS, CLASSES)


def by_hand(method, batch):
    """NL+ and PL+ of Eq. 4 in plain arithmetic, from the draws that the step's generator gives."""
    fresh = again(batch).generator
    draws = method.loss.draw(batch.labels, fresh, batch.rows)
    probs = method.model(batch.inputs).double().softmax(1).tolist()
    nl_plus, pl_plus, selected = 0.0, 0.0, 0
    for p, complements, uniform in zip(probs, draws.complements.tolist(), draws.uniforms.tolist(), strict=True):
        nl_plus -= sum((1 - p[k]) * math.log(1 - p[k]) for k in complements)
        top = max(p)
        if sorted(p)[-2] < 1 / CLASSES and uniform < top:
            weight = math.prod(1 + top ** (2**n) for n in range(4))
            pl_plus -= weight * math.log(top)
            selected += 1
    return nl_plus, pl_plus, selected


def test_jnpl_is_equation_4_in_plain_arithmetic():
    batch = a_batch(40, seed=3)
    method = JNPL(task_of(linear()), Settings(pl_weight=0.5, num_complements=2))
    nl_plus, pl_plus, selected = by_hand(method, batch)
    assert 0 < selected < 40
    output = method(batch)
    assert output.scalars["nl_plus"].item() == pytest.approx(nl_plus / 40, rel=1e-5)
    assert output.scalars["pl_plus"].item() == pytest.approx(pl_plus / selected, rel=1e-5)
    assert output.scalars["selected"].item() == pytest.approx(selected / 40)
    assert output.loss.item() == pytest.approx(nl_plus / 40 + 0.5 * pl_plus / selected, rel=1e-5)


@pytest.mark.parametrize("kind", [METHODS["jnpl"], METHODS["jnpl-stable"]])
def test_the_methods_that_extend_it_run_its_step(kind, monkeypatch):
    """What is to be read in `jnpl.py` is what is computed."""
    method, batch = kind(task_of(linear()), kind.Settings()), a_batch()
    method.begin_epoch(None)
    wanted, step, steps = method(again(batch)).loss, JNPL.step, []
    monkeypatch.setattr(JNPL, "step", lambda self, batch: steps.append(step(self, batch)) or steps[-1])
    assert method(again(batch)).loss.equal(steps[0].loss)
    assert steps[0].loss.equal(wanted)


def test_jnpl_split_over_processes_is_jnpl():
    """Losses of two shares, weighed as the loop does, add up to that of the whole: draws and PL+'s mean included."""
    whole = a_batch(11, seed=3)
    method = JNPL(task_of(linear()), Settings(pl_weight=0.5))
    wanted = method(whole)
    everyone = wanted.scalars["selected"] * 11
    method.sum_over_processes = lambda _: torch.stack([everyone, torch.tensor(11.0)])
    total = 0.0
    for part, share in shares(whole, 6):
        total += method(part).loss.item() * share
    assert total == pytest.approx(wanted.loss.item(), rel=1e-5)


def test_settings_reach_the_loss():
    settings = Settings(pl_weight=0.3, n=2, gamma=0.5, class_weight="nlnl", num_complements=7)
    method = JNPL(task_of(linear()), settings)
    assert (method.loss.pl_weight, method.loss.positive.n) == (0.3, 2)
    assert (method.loss.negative.num_complements, method.loss.negative.gamma) == (7, 0.5)
    assert method.loss.negative.class_weight.tolist() == [1, 1.5, 3, 1.5]
    exhaustive = JNPL(task_of(linear()), Settings(complements="exhaustive"))
    assert exhaustive.loss.draw(torch.tensor([0])).complements is None
    assert JNPL(task_of(linear()), Settings()).loss.negative.num_complements == 1


def test_the_ablations_are_settings():
    """NL+ alone, NL, plain cross-entropy weight, PL+ towards the given label, mean over the batch."""
    batch = a_batch(40, seed=3)

    def terms(**settings):
        method = JNPL(task_of(linear()), Settings(**settings))
        return {name: value.item() for name, value in method(again(batch)).scalars.items()}

    plain = terms()
    both = JNPL(task_of(linear()), Settings(pl_weight=0.0))(again(batch))
    assert both.loss.item() == pytest.approx(plain["nl_plus"])  # NL+ alone
    assert terms(gamma=0.0)["nl_plus"] > plain["nl_plus"]  # NL has weight 1, NL+ (1 - p)
    by_n = [terms(n=n)["pl_plus"] for n in (-1, 0, 1, 2, 3)]
    assert by_n == sorted(by_n)
    assert len(set(by_n)) == 5
    selected = plain["selected"] * 40
    assert terms(pl_mean="batch")["pl_plus"] == pytest.approx(plain["pl_plus"] * selected / 40)
    assert 0 < terms(pl_target="given")["selected"] < plain["selected"]


def test_pl_plus_towards_the_given_label_takes_those_that_agree():
    batch, method = a_batch(40, seed=3), JNPL(task_of(linear()), Settings(pl_target="given"))
    fresh = again(batch).generator
    uniforms = method.loss.draw(batch.labels, fresh, batch.rows).uniforms.tolist()
    probs = method.model(batch.inputs).double().softmax(1).tolist()
    wanted = sum(
        uniform < p[y] and all(p[k] < 1 / CLASSES for k in range(CLASSES) if k != y)
        for p, y, uniform in zip(probs, batch.labels.tolist(), uniforms, strict=True)
    )
    assert method(batch).scalars["selected"].item() * 40 == pytest.approx(wanted)


def test_another_selection_may_take_the_place_of_algorithm_1():
    class Nobody(JNPL):
        def select(self, logits, uniforms):
            _, y_hat = super().select(logits, uniforms)
            return torch.zeros_like(y_hat, dtype=torch.bool), y_hat

    method = Nobody(task_of(linear()), Settings(pl_weight=0.5))
    output = method(a_batch(40, seed=3))
    assert output.scalars["selected"] == 0
    assert output.loss.equal(output.scalars["nl_plus"])  # PL+ is exactly 0


def test_decided_labels_are_learnt_and_count_for_the_weights_of_classes():
    decided = torch.tensor([-1, 3, -1, -1, -1, 3, -1, -1])
    task = Task(lambda _: linear(), LABELS, CLASSES, decided=decided)
    method = JNPL(task, Settings(complements="exhaustive", pl_weight=0, class_weight="nlnl"))
    corrected = torch.tensor([0, 3, 0, 1, 1, 3, 3, 3])
    other = JNPL(Task(lambda _: linear(), corrected, CLASSES), method.settings)
    batches = (noise_batch(labels) for labels in (LABELS, corrected))
    ours, theirs = (each(batch).loss for each, batch in zip((method, other), batches, strict=True))
    assert ours.equal(theirs)
