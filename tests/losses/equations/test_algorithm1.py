"""Algorithm 1: every other p strictly below 1/C, entry with probability p_yhat, the mean over those who entered."""

import math

import pytest
import torch
from tests.helpers.arithmetic import softmax

from jnpl import functional as JF
from jnpl.losses import JNPLLoss, PLPlusLoss


def literal_candidates(rows):
    found = []
    for row in rows:
        p = softmax(row)
        y_hat = max(range(len(p)), key=p.__getitem__)
        found.append(all(p[i] < 1 / len(p) for i in range(len(p)) if i != y_hat))
    return found


def algorithm1(rows, uniforms, n=3):
    """The pseudocode, line by line: the mean loss over the selected and who they are."""
    selected = []
    for index, (row, uniform) in enumerate(zip(rows, uniforms, strict=True)):
        p = softmax(row)
        y_hat = p.index(max(p))
        if all(p[i] < 1 / len(p) for i in range(len(p)) if i != y_hat) and uniform < p[y_hat]:
            selected.append(
                (index, y_hat, -math.prod(1 + p[y_hat] ** (2**i) for i in range(n + 1)) * math.log(p[y_hat]))
            )
    mean = math.fsum(loss for _, _, loss in selected) / len(selected) if selected else 0.0
    return mean, [(index, y_hat) for index, y_hat, _ in selected]


def batch(num_classes, size=200, scale=2.0, dtype=torch.float64):
    g = torch.Generator().manual_seed(num_classes)
    logits = scale * torch.randn(size, num_classes, generator=g, dtype=dtype)
    logits[::3] *= 4
    logits[1::5] = 0
    logits[1::5, 1] = math.log(1.5 * (num_classes - 1))  # candidates with p = 0.6: the draw decides
    return logits, torch.rand(size, generator=g)


@pytest.mark.parametrize("num_classes", [2, 3, 10, 100, 1000])
def test_candidates(num_classes):
    logits, _ = batch(num_classes, size=60)
    found = JF.pl_plus_candidates(logits)
    assert found.dtype == torch.bool
    assert found.tolist() == literal_candidates(logits.tolist())
    assert found.any()
    if num_classes > 2:  # of two different probabilities the smaller is always below 1/2
        assert not found.all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_uniform_predictions_are_exact_ties_and_no_candidates(dtype):
    for num_classes in range(2, 400):
        for level in (0.0, 3.0, -1000.0):
            row = torch.full((1, num_classes), level, dtype=dtype)
            assert not JF.pl_plus_candidates(row).item(), (num_classes, level)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_inequality_is_strict(dtype):
    # p = (1/2, 1/4, 1/4, 0): the second largest is exactly 1/C, as far as the dtype can tell.
    row = torch.tensor([[math.log(2), 0.0, 0.0, -1e4]], dtype=dtype)
    assert row.softmax(1).tolist() == [[0.5, 0.25, 0.25, 0.0]]
    assert not JF.pl_plus_candidates(row).item()
    room = 8 * torch.finfo(dtype).eps  # one hair less on the second and third, and it is one
    assert JF.pl_plus_candidates(row - torch.tensor([[0, room, room, 0]], dtype=dtype)).item()
    assert not JF.pl_plus_candidates(row - torch.tensor([[0, room, -room, 0]], dtype=dtype)).item()


def test_a_tie_for_the_first_place_is_no_candidate():
    logits = torch.tensor([[9.0, 9.0, 0.0], [1e4, 1e4, -1e4], [0.0, 5.0, 5.0], [5.0, 0.0, 0.0]])
    assert JF.pl_plus_candidates(logits).tolist() == [False, False, False, True]


def test_more_than_half_is_not_enough():
    # Sec. 4.2: p_y > 0.5 leaves room for one strong rival; the rule does not.
    logits = torch.tensor([[0.6, 0.3, 0.05, 0.05], [0.4, 0.2, 0.2, 0.2]], dtype=torch.float64).log()
    assert JF.pl_plus_candidates(logits).tolist() == [False, True]


@pytest.mark.parametrize("num_classes", [2, 3, 10, 100])
def test_selection_and_mean(num_classes):
    logits, uniforms = batch(num_classes)
    logits.requires_grad_()
    expected, members = algorithm1(logits.tolist(), uniforms.tolist())
    selected, y_hat = JF.pl_plus_select(logits, uniforms)
    assert [(i, int(y_hat[i])) for i in selected.nonzero().flatten().tolist()] == members
    assert 0 < len(members) < int(JF.pl_plus_candidates(logits).sum())  # the draw turns some candidates away
    loss = PLPlusLoss()(logits, uniforms=uniforms)
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    loss.backward()
    touched = logits.grad.abs().amax(1) > 0
    assert torch.equal(touched, selected)  # nobody else learns from PL+
    row = members[0][0]
    slope = -(1 - softmax(logits[row].tolist())[members[0][1]] ** 16) / len(members)  # Eq. 8 over |D_PL+|, not over B
    assert logits.grad[row, members[0][1]].item() == pytest.approx(slope, rel=1e-10)


def test_a_candidate_enters_with_probability_p():
    row = torch.tensor([[0.55, 0.15, 0.15, 0.15]], dtype=torch.float64).log().expand(20_000, 4)
    uniforms = torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    selected, y_hat = JF.pl_plus_select(row, uniforms)
    assert selected.double().mean().item() == pytest.approx(0.55, abs=4 * math.sqrt(0.55 * 0.45 / 20_000))
    assert torch.equal(selected, uniforms < 0.55)
    assert (y_hat == 0).all()


def test_a_sure_sample_always_enters():
    logits = torch.tensor([[50.0, 0.0, 0.0]])
    highest = torch.tensor([1 - 2**-24])  # the largest number torch.rand returns
    assert JF.pl_plus_select(logits, highest)[0].item()


def test_selection_carries_no_gradient_and_half_precision_agrees_with_its_float32():
    logits, uniforms = batch(10, dtype=torch.float32)
    half = logits.to(torch.bfloat16)
    selected, y_hat = JF.pl_plus_select(half, uniforms)
    again, y_again = JF.pl_plus_select(half.float().requires_grad_(), uniforms)
    assert torch.equal(selected, again)
    assert torch.equal(y_hat, y_again)
    assert not again.requires_grad


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_an_empty_selection_is_exactly_zero_with_zero_gradients(dtype):
    logits = torch.zeros(8, 10, dtype=dtype, requires_grad=True)
    loss = PLPlusLoss()(logits, uniforms=torch.zeros(8))
    assert loss.item() == 0
    loss.backward()
    assert torch.equal(logits.grad, torch.zeros_like(logits))
    # Candidates that the draw rejects, and logits whose loss would be infinite without care.
    wild = torch.tensor([[1e4, 1e4, -1e4], [20.0, -1e4, 0.0]], dtype=dtype, requires_grad=True)
    loss = PLPlusLoss()(wild, uniforms=torch.ones(2))
    assert loss.item() == 0
    loss.backward()
    assert torch.equal(wild.grad, torch.zeros_like(wild))


def test_an_empty_selection_leaves_jnpl_with_nl_plus():
    logits = torch.zeros(4, 10, dtype=torch.float64, requires_grad=True)
    criterion = JNPLLoss(10, pl_weight=100.0)
    terms = criterion.terms(logits, torch.arange(4), criterion.draw(torch.arange(4), torch.Generator().manual_seed(0)))
    assert (terms.pl_plus.item(), terms.selected.item()) == (0.0, 0)
    assert terms.nl_plus.item() == pytest.approx(-0.9 * math.log(0.9), rel=1e-12)


def test_targets_are_the_networks_choice_not_the_given_labels():
    logits = torch.tensor([[8.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    criterion = JNPLLoss(3, pl_weight=1.0)
    draws = criterion.draw(torch.tensor([2]), torch.Generator().manual_seed(0))._replace(uniforms=torch.zeros(1))
    total = criterion.terms(logits, torch.tensor([2]), draws)
    p = 1 / (1 + 2 * math.exp(-8))
    assert total.pl_plus.item() == pytest.approx(-math.prod(1 + p ** (2**i) for i in range(4)) * math.log(p), rel=1e-9)
