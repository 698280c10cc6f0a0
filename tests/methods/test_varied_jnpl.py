"""JNPL's step with settings that depart from the paper, against plain loops."""

import pytest
import torch
from tests.helpers.steps import CLASSES, again, linear, noise_batch

from jnpl.losses import complement
from jnpl.methods.base import Task
from jnpl.methods.varied_jnpl import VariedJNPL

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3])
Settings = VariedJNPL.Settings


def a_method(**settings):
    return VariedJNPL(Task(lambda _: linear(), LABELS, CLASSES), Settings(**settings))


def a_batch(size=6, seed=0):
    return noise_batch(torch.arange(size) % CLASSES, seed)


def test_settings_reach_the_loss():
    settings = {"gamma": 0.5, "class_weight": "nlnl", "num_complements": 7}
    method = a_method(**settings)
    assert (method.loss.negative.num_complements, method.loss.negative.gamma) == (7, 0.5)
    assert method.loss.negative.class_weight.tolist() == [1, 1.5, 3, 1.5]
    assert a_method(complements="exhaustive").loss.negative.draw(torch.tensor([0])) is None
    assert a_method().loss.negative.num_complements == 1


def test_the_ablations_are_settings():
    """NL+ alone, NL, plain cross-entropy weight, PL+ towards the given label, mean over the batch."""
    batch = a_batch(40, seed=3)

    def terms(**settings):
        return {name: value.item() for name, value in a_method(**settings)(again(batch)).scalars.items()}

    plain = terms()
    both = a_method(pl_weight=0.0)(again(batch))
    assert both.loss.item() == pytest.approx(plain["nl_plus"])  # NL+ alone
    assert terms(gamma=0.0)["nl_plus"] > plain["nl_plus"]  # NL has weight 1, NL+ (1 - p)
    by_n = [terms(n=n)["pl_plus"] for n in (-1, 0, 1, 2, 3)]
    assert by_n == sorted(by_n)
    assert len(set(by_n)) == 5
    selected = plain["selected"] * 40
    assert terms(pl_mean="batch")["pl_plus"] == pytest.approx(plain["pl_plus"] * selected / 40)
    assert 0 < terms(pl_target="given")["selected"] < plain["selected"]


def test_pl_plus_towards_the_given_label_takes_those_that_agree():
    batch, method = a_batch(40, seed=3), a_method(pl_target="given")
    fresh = again(batch).generator
    complement.sample(batch.labels, CLASSES, 1, fresh)
    uniforms = torch.rand(len(batch.labels), generator=fresh).tolist()
    probs = method.model(batch.inputs).double().softmax(1).tolist()
    wanted = sum(
        uniform < p[y] and all(p[k] < 1 / CLASSES for k in range(CLASSES) if k != y)
        for p, y, uniform in zip(probs, batch.labels.tolist(), uniforms, strict=True)
    )
    assert method(batch).scalars["selected"].item() * 40 == pytest.approx(wanted)


def test_decided_labels_are_learnt_and_count_for_the_weights_of_classes():
    decided = torch.tensor([-1, 3, -1, -1, -1, 3, -1, -1])
    task = Task(lambda _: linear(), LABELS, CLASSES, decided=decided)
    method = VariedJNPL(task, Settings(complements="exhaustive", pl_weight=0, class_weight="nlnl"))
    corrected = torch.tensor([0, 3, 0, 1, 1, 3, 3, 3])
    other = VariedJNPL(Task(lambda _: linear(), corrected, CLASSES), method.settings)
    batches = (noise_batch(labels) for labels in (LABELS, corrected))
    ours, theirs = (each(batch).loss for each, batch in zip((method, other), batches, strict=True))
    assert ours.equal(theirs)
