"""Heads with one output per tag: against autograd, folds, and what they learn."""

import numpy as np
import torch

from jnpl.judging.tag_heads import tag_folds, train_tag_heads
from jnpl.losses import functional as JF
from jnpl.models.head_matrix import HeadMatrix
from jnpl.recipes.load import load_recipe

PLAN = load_recipe("fast-embeddings").train


def toy(samples=600, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.random((samples, 3)) < [0.5, 0.3, 0.1]
    x = true @ rng.normal(size=(3, 12)) * 2 + rng.normal(size=(samples, 12))
    given = true & (rng.random(true.shape) > 0.2)
    return x.astype(np.float32), true, given


def test_a_step_is_that_of_autograd():
    x, _, given = toy(32)
    inputs, y = torch.from_numpy(x), torch.from_numpy(given)
    head = torch.nn.Linear(12, 3)
    before = head.weight.detach().clone().requires_grad_(), head.bias.detach().clone().requires_grad_()
    loss = JF.nl_plus_tags(inputs @ before[0].T + before[1], y).sum(1).mean()
    weight, bias = torch.autograd.grad(loss, before)
    heads = HeadMatrix(head, 32, several=True)
    gradient = JF.nl_plus_tags_gradient_of_probs(heads.probs(inputs), y.float())
    heads.descend(inputs, gradient, heads.learners(torch.arange(32)), rate=0.5, momentum=0.0, decay=0.0)
    torch.testing.assert_close(head.weight, before[0] - 0.5 * weight)
    torch.testing.assert_close(head.bias, before[1] - 0.5 * bias)


def test_missing_tags_are_found_by_both():
    x, true, given = toy()
    heads = train_tag_heads(x, given, PLAN)
    for probs in (heads.seen, heads.unseen):
        assert probs.shape == given.shape
        assert ((probs > 0.5) == true).mean() > 0.9
        assert probs[true & ~given].mean() > 3 * probs[~true].mean()


def test_the_same_seed_gives_the_same_numbers():
    x, _, given = toy(100)
    first, again, other = (train_tag_heads(x, given, PLAN, seed=seed) for seed in (1, 1, 2))
    assert (first.unseen == again.unseen).all()
    assert (first.seen == again.seen).all()
    assert (first.unseen != other.unseen).any()


def test_a_sibling_learns_nothing_of_its_fold():
    x, _, given = toy(100)
    fold = tag_folds(given, 0)
    changed = given.copy()
    changed[fold == 2] = ~changed[fold == 2]
    assert (tag_folds(given, 0) == fold).all()
    plan = PLAN.model_copy(update={"epochs": 3})
    row = int(np.flatnonzero(fold == 2)[0])
    one = train_tag_heads(x, given, plan)
    assert abs(one.seen[row] - train_tag_heads(x, changed, plan).seen[row]).max() > 0.01


def test_weights_count_samples_and_progress_is_told():
    x, true, _ = toy(200)
    light = np.arange(200) >= 100
    weights = np.where(light, 1e-4, 1.0).astype(np.float32)
    shares = []
    heads = train_tag_heads(x, true ^ light[:, None], PLAN, weights=weights, progress=shares.append)
    assert ((heads.seen > 0.5) == true).mean() > 0.85
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_every_rarest_tag_is_spread_over_the_folds():
    tags = np.zeros((100, 2), bool)
    tags[:10, 1] = tags[:50, 0] = True
    fold = tag_folds(tags, 0)
    assert np.bincount(fold[:10]).tolist() == [2] * 5
    assert np.bincount(fold[10:50]).tolist() == [8] * 5
