"""jnpl-stable: NL at the start and after lost classes, then NL+ and a balanced PL+, against plain loops and JNPL."""

import math

import pytest
import torch
from tests.helpers.steps import CLASSES, again, linear, noise_batch, probabilities, shares

from jnpl.losses import complement
from jnpl.methods.base import Task
from jnpl.methods.jnpl import JNPL
from jnpl.methods.jnpl_stable import JNPLStable
from jnpl.recipes.load import load_recipe

LABELS = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3])


def made(weights=None, at=(5, 10), kind=JNPLStable, **settings):
    """A method at the start of an epoch, of so many epochs."""
    method = kind(Task(lambda _: linear(), LABELS, CLASSES, weights=weights), kind.Settings(**settings))
    method.epoch, method.epochs = at
    method.begin_epoch(None)
    return method


def a_batch(size=40, seed=3):
    return noise_batch(torch.arange(size) % CLASSES, seed)


def by_hand(method, batch, mean, gamma=1.0):
    """NL+ with NLNL's class weights, and PL+ selected by p / mean, both means over the batch."""
    fresh = again(batch).generator
    several = complement.sample(batch.labels, CLASSES, method.num_complements, fresh).tolist()
    uniforms = torch.rand(len(batch.labels), generator=fresh).tolist()
    counts = torch.bincount(LABELS).tolist()
    size, nl_plus, pl_plus, selected = len(batch.labels), 0.0, 0.0, 0
    rows = zip(probabilities(method.model, batch), batch.labels.tolist(), several, uniforms, strict=True)
    for p, y, complements, uniform in rows:
        nl_plus -= max(counts) / counts[y] * sum((1 - p[k]) ** gamma * math.log(1 - p[k]) for k in complements)
        ratios = [a / b for a, b in zip(p, mean, strict=True)]
        ratios = [each / sum(ratios) for each in ratios]
        if sorted(ratios)[-2] < 1 / CLASSES and uniform < max(ratios):
            own = p[ratios.index(max(ratios))]
            pl_plus -= math.prod(1 + own ** (2**n) for n in range(4)) * math.log(own)
            selected += 1
    return nl_plus / size, pl_plus / size, selected


def test_a_step_in_plain_arithmetic():
    batch = a_batch()
    method = made(pl_weight=0.5, momentum=0.75)
    now = [sum(column) / 40 for column in zip(*probabilities(method.model, batch), strict=True)]
    mean = [0.75 / CLASSES + 0.25 * each for each in now]
    nl_plus, pl_plus, selected = by_hand(method, batch, mean)
    assert 0 < selected < 40
    output = method(batch)
    assert method.mean.tolist() == pytest.approx(mean, rel=1e-5)
    assert output.scalars["nl_plus"].item() == pytest.approx(nl_plus, rel=1e-5)
    assert output.scalars["pl_plus"].item() == pytest.approx(pl_plus, rel=1e-5)
    assert output.scalars["selected"].item() * 40 == pytest.approx(selected)
    assert output.loss.item() == pytest.approx(nl_plus + 0.5 * pl_plus, rel=1e-5)


def test_the_gradient_of_pl_plus_is_that_of_the_paper():
    """-(1 - p^16) on the logit of y-hat, lambda / B of it, and only for the selected; the mean is a constant."""
    batch = a_batch()
    method, without = made(pl_weight=0.5), made(pl_weight=0.0)
    logits = {}
    for each in (method, without):
        each.model.register_forward_hook(lambda _m, _i, out, each=each: logits.setdefault(each, out).retain_grad())
        each(again(batch)).loss.backward()
    difference = logits[method].grad - logits[without].grad
    selected = difference.abs().sum(1) > 1e-9
    assert 0 < selected.sum() < 40
    pulled = difference[selected].argmin(1)
    p = logits[method].detach()[selected].softmax(1).gather(1, pulled[:, None]).squeeze(1)
    expected = -0.5 / 40 * (1 - p**16)
    torch.testing.assert_close(difference[selected].amin(1), expected, rtol=1e-3, atol=1e-7)


def test_without_the_changes_it_is_jnpl():
    written = {"class_weight": "none", "pl_mean": "selected", "nl_share": 0, "nl_if_lost": False, "momentum": None}
    method = made(pl_weight=0.5, **written)
    paper = made(kind=JNPL, pl_weight=0.5)
    for seed in range(3):
        ours, theirs = (each(a_batch(seed=seed)).loss for each in (method, paper))
        assert ours.equal(theirs)


def predict_only(method, classes, size=400):
    """Count an epoch in which these classes alone are predicted; every class is given as often."""
    labels = torch.arange(size) % CLASSES
    predicted = torch.tensor(classes)[torch.arange(size) % len(classes)]
    method.counts.add(torch.eye(CLASSES)[predicted], labels)


def test_the_first_epochs_are_nl_alone():
    batch, method = a_batch(), made(at=(1, 10), pl_weight=0.5)
    nl, _, _ = by_hand(method, batch, [0.25] * CLASSES, gamma=0.0)
    assert method(batch).loss.item() == pytest.approx(nl, rel=1e-5)
    method.epoch = 2  # a fifth of the epochs
    method.begin_epoch(None)
    assert (method.loss.negative.gamma, method.nl_alone) == (1, False)


def test_after_lost_classes_an_epoch_of_nl_alone():
    method = made(pl_weight=0.5)
    batch = a_batch()
    plain = method(again(batch)).loss
    method.counts.take()
    predict_only(method, [0, 1, 2])
    method.begin_epoch(None)
    nl, _, _ = by_hand(method, batch, [0.25] * CLASSES, gamma=0.0)
    assert method(again(batch)).loss.item() == pytest.approx(nl, rel=1e-5)
    method.counts.take()
    predict_only(method, [0, 1, 2, 3])
    method.begin_epoch(None)
    method.mean.fill_(1 / CLASSES)
    method.mean.copy_(made(pl_weight=0.5).mean)
    assert method(again(batch)).loss.equal(plain)
    predict_only(method, [0])
    settings = method.settings.model_copy(update={"nl_if_lost": False})
    method.settings = settings
    method.begin_epoch(None)
    assert not method.nl_alone


def test_sample_weights_count_in_the_mean():
    weights = torch.tensor([0.0, 0, 4, 4, 0, 0, 0, 0])
    batch, method = a_batch(8), made(weights=weights, momentum=0.0)
    method(batch)
    own = probabilities(method.model, batch)[2:4]
    assert method.mean.tolist() == pytest.approx([sum(column) / 2 for column in zip(*own, strict=True)], rel=1e-5)


def test_autocast_does_not_round_the_mean():
    plain, method = made(momentum=0.0), made(momentum=0.0)
    logits = torch.randn(40, CLASSES, generator=torch.Generator().manual_seed(0))
    plain.terms(logits, a_batch())
    with torch.autocast("cpu", torch.bfloat16):
        method.terms(logits, a_batch())
    assert method.mean.equal(plain.mean)
    assert method.mean.sum().item() == pytest.approx(1, abs=1e-6)


def test_split_over_processes_it_is_the_same():
    whole, method = a_batch(11), made(pl_weight=0.5)
    wanted, mean = method(whole).loss.item(), method.mean.clone()
    p = method.model(whole.inputs).detach().softmax(1)
    everyone = torch.cat([p.sum(0), torch.tensor([11.0])])
    total = 0.0
    for part, share in shares(whole, 6):
        each = made(pl_weight=0.5)
        each.sum_over_processes = lambda _: everyone
        total += each(part).loss.item() * share
        torch.testing.assert_close(each.mean, mean)
    assert total == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("data", ["cifar10", "cifar100"])
def test_its_recipes_are_the_papers_but_for_the_method(data):
    ours, paper = load_recipe(f"jnpl-stable-{data}"), load_recipe(f"paper-{data}")
    left_out = {"method", "description"}
    assert ours.model_dump(exclude=left_out) == paper.model_dump(exclude=left_out)
    assert ours.method == JNPLStable.Settings(num_complements=paper.method.num_complements)
