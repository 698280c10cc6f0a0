"""JNPL's step is Eq. 4 and Algorithm 1, against plain loops."""

import math

import pytest
import torch
from tests.helpers.steps import CLASSES, again, linear, noise_batch, shares

from jnpl.losses import complement
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
    several = complement.sample(batch.labels, CLASSES, method.num_complements, fresh).tolist()
    uniforms = torch.rand(len(batch.labels), generator=fresh).tolist()
    probs = method.model(batch.inputs).double().softmax(1).tolist()
    nl_plus, pl_plus, selected = 0.0, 0.0, 0
    for p, complements, uniform in zip(probs, several, uniforms, strict=True):
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
