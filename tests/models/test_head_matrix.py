"""The head and its siblings of the folds as one matrix."""

import pytest
import torch
from torch.nn import functional as F

from jnpl.models.head_matrix import HeadMatrix
from jnpl.models.small import linear

FOLD = torch.tensor([0, 1, 2] * 8)
X = torch.randn(24, 5, generator=torch.Generator().manual_seed(0))
Y = torch.arange(24) % 4


def trained(labels, fold=FOLD, steps=5):
    """Cross-entropy on all samples, by its gradient p - e_y."""
    head = linear(5, 4)
    heads = HeadMatrix(head, 24, fold)
    for _ in range(steps):
        heads.reset()
        probs = heads.probs(X)
        heads.record(torch.arange(24), probs)
        gradient = probs - F.one_hot(labels, 4).unsqueeze(1)
        heads.descend(X, gradient, heads.learners(torch.arange(24)), rate=0.5, momentum=0.9, decay=0.01)
    return head, heads


@pytest.mark.parametrize("fold", [FOLD, None])
def test_the_head_is_trained_as_by_torch(fold):
    head, _ = trained(Y, fold)
    other = linear(5, 4)
    optimizer = torch.optim.SGD(other.parameters(), 0.5, momentum=0.9, weight_decay=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        F.cross_entropy(other(X), Y).backward()
        optimizer.step()
    torch.testing.assert_close(head.weight, other.weight)
    torch.testing.assert_close(head.bias, other.bias)


def test_a_sibling_learns_nothing_from_the_labels_of_its_fold():
    changed = torch.where(FOLD == 1, (Y + 1) % 4, Y)
    (_, first), (_, second) = trained(Y), trained(changed)
    rows = torch.arange(24)
    (seen, unseen), (other_seen, other_unseen) = first.means(rows), second.means(rows)
    assert unseen[FOLD == 1].equal(other_unseen[FOLD == 1])
    assert not unseen[FOLD == 0].allclose(other_unseen[FOLD == 0])
    assert not seen[FOLD == 1].allclose(other_seen[FOLD == 1])


def test_means_are_those_since_the_reset_and_nan_for_samples_without_any():
    heads = HeadMatrix(linear(5, 4), 24, FOLD)
    probs = torch.rand(2, 3, 4, 4).softmax(3)
    heads.record(torch.tensor([2]), torch.rand(1, 4, 4))
    heads.reset()
    heads.record(torch.tensor([4, 7, 9]), probs[0])
    heads.record(torch.tensor([4, 7, 9]), probs[1])
    seen, unseen = heads.means(torch.tensor([4, 7, 2]))
    torch.testing.assert_close(seen[:2], probs[:, :2, 0].mean(0))
    torch.testing.assert_close(unseen[0], probs[:, 0, 2].mean(0))  # sample 4 is in fold 1, whose head is number 2
    assert seen[2].isnan().all()


def test_goes_on_from_its_state():
    head, heads = trained(Y)
    other = HeadMatrix(again := linear(5, 4), 24, FOLD)
    other.load_state_dict({name: value.clone() for name, value in heads.state_dict().items()})
    assert again.weight.equal(head.weight)
    for matrix in (heads, other):
        matrix.descend(X, matrix.probs(X), matrix.learners(torch.arange(24)), rate=0.1, momentum=0.9, decay=0.0)
    assert again.weight.equal(head.weight)
    assert other.speed.equal(heads.speed)
