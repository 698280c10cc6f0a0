"""NL+ has no force back from a lost class, PL+ as written drives there, PL+ on p / mean p does not (pl-plus.md)."""

import math

import pytest
import torch

from jnpl import functional as JF

CLASSES = [2, 3, 10, 100]


def gradient(loss, logits, keep=False):
    return torch.autograd.grad(loss, logits, retain_graph=keep)[0]


def constant_prediction(num_classes, size, seed=0):
    """The same random logits in every row, (size, C)."""
    g = torch.Generator().manual_seed(seed)
    row = 2 * torch.randn(num_classes, generator=g, dtype=torch.float64)
    return row.expand(size, num_classes).clone().requires_grad_()


def leading(lead, num_classes=10, size=20):
    """Logits (size, C) in which class 0 has `lead` of the probability, the others the same share of the rest."""
    rest = math.log((1 - lead) / (num_classes - 1))
    return torch.tensor([[math.log(lead), *[rest] * (num_classes - 1)]] * size, dtype=torch.float64).requires_grad_()


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_balanced_labels_all_constant_predictions_are_the_same_to_nl_plus(num_classes, seed):
    labels = torch.arange(num_classes).repeat(3)
    logits = constant_prediction(num_classes, len(labels), seed)
    given = logits.softmax(1)[torch.arange(len(labels)), labels]
    assert (1 - given).mean().item() == pytest.approx(1 - 1 / num_classes, rel=1e-12)
    grad = gradient(JF.nl_plus_exhaustive(logits, labels).mean(), logits)
    assert grad.sum(0).tolist() == pytest.approx([0] * num_classes, abs=1e-15)  # along every class direction
    assert grad.abs().max() > 0  # of single samples it is not 0


def test_with_uneven_labels_the_direction_is_share_minus_mean_share():
    labels = torch.tensor([0, 0, 0, 1, 2])
    logits = constant_prediction(3, len(labels))
    p, share = logits[0].softmax(0).tolist(), [0.6, 0.2, 0.2]
    mean = math.fsum(a * b for a, b in zip(p, share, strict=True))
    expected = [p[c] * (mean - share[c]) for c in range(3)]
    grad = gradient(JF.nl_plus_exhaustive(logits, labels).mean(), logits).sum(0)
    assert grad.tolist() == pytest.approx(expected, abs=1e-15)
    # NLNL's class weights, largest count / own count, make the classes equal.
    weights = torch.tensor([1.0, 3.0, 3.0], dtype=torch.float64)[labels]
    grad = gradient((weights * JF.nl_plus_exhaustive(logits, labels)).mean(), logits).sum(0)
    assert grad.tolist() == pytest.approx([0, 0, 0], abs=1e-15)


@pytest.mark.parametrize("rest", [1e-2, 1e-4, 1e-8])
def test_pull_of_a_sample_whose_class_is_lost(rest):
    # Another class has 1 - rest, each of the nine others, the given label 1 among them, rest / 9.
    logits, given = leading(1 - rest, size=1), rest / 9
    labels = torch.tensor([1])
    nl_plus = -gradient(JF.nl_plus_exhaustive(logits, labels).sum(), logits)[0, 1].item()
    nl = -gradient(JF.nl_exhaustive(logits, labels).sum(), logits)[0, 1].item()
    cross_entropy = -gradient(JF.pl(logits, labels).sum(), logits)[0, 1].item()
    assert nl_plus == pytest.approx(given * (1 - given), rel=1e-6)  # vanishes with p_y
    assert nl == pytest.approx(given * ((1 - rest) / rest + 8 * given / (1 - given)), rel=1e-6)
    assert nl == pytest.approx(1 / 9, rel=0.02)  # the share of y in what the leader leaves: it does not vanish
    assert cross_entropy == pytest.approx(1 - given, rel=1e-12)


@pytest.mark.parametrize("lead", [0.2, 0.5, 0.9])
def test_pl_plus_pushes_a_constant_prediction_towards_its_leader_whatever_the_labels(lead):
    logits = leading(lead)
    selected, y_hat = JF.pl_plus_select(logits, torch.zeros(20))
    assert selected.all()
    assert not y_hat.any()
    grad = gradient(JF.pl_plus(logits, y_hat).mean(), logits).sum(0)
    assert grad[0].item() == pytest.approx(-(1 - lead**16), rel=1e-12)  # Eq. 8: as many samples, as one direction
    assert (grad[1:] > 0).all()


@pytest.mark.parametrize("selected", [1, 5, 20])
def test_the_mean_over_the_selected_pulls_as_hard_with_one_sample_as_with_all(selected):
    # Near 1 / C one sample of NL+ with one complement has 1 / (B C^2) on a logit; PL+ has lambda = 1 / C^2 in all.
    logits = leading(0.101, size=20)
    uniforms = torch.ones(20)
    uniforms[:selected] = 0
    chosen, y_hat = JF.pl_plus_select(logits, uniforms)
    losses = torch.where(chosen, JF.pl_plus(logits, y_hat), 0.0)
    by_selected = -gradient(losses.sum() / chosen.sum(), logits, keep=True)[:, 0].sum().item()
    assert by_selected == pytest.approx(1, abs=1e-6)
    by_batch = -gradient(losses.mean(), logits)[:, 0].sum().item()
    assert by_batch == pytest.approx(selected / 20, abs=1e-6)
    one_complement = JF.nl_plus(logits, torch.full((20,), 5)).mean()
    of_one_sample = gradient(one_complement, logits)[0, 0].abs().item()
    assert 20 * of_one_sample == pytest.approx(0.01, rel=0.02)


def descend(mean_of, steps=1000, rate=4.0):
    """Largest p of ten classes after gradient descent on one row of logits shared by 20 balanced samples."""
    row = torch.zeros(10, dtype=torch.float64)
    row[0] = 1e-3  # the leader
    row.requires_grad_()
    labels = torch.arange(10).repeat(2)
    for _ in range(steps):
        logits = row.expand(20, 10)
        mean = mean_of(logits.detach().softmax(1))
        chosen, y_hat = JF.pl_plus_select(logits, torch.zeros(20), mean)
        pl_plus = torch.where(chosen, JF.pl_plus(logits, y_hat), 0.0).sum() / max(int(chosen.sum()), 1)
        loss = JF.nl_plus_exhaustive(logits, labels).mean() / 9 + 0.01 * pl_plus
        with torch.no_grad():
            row -= rate * gradient(loss, row)
    return row.softmax(0).max().item()


def test_as_written_the_leader_takes_all_and_balanced_it_does_not_move():
    # NL+ of one complement on average, and the paper's lambda.
    assert descend(lambda _: None) > 0.95
    assert descend(lambda p: p.mean(0)) == pytest.approx(0.1, abs=0.01)  # p / mean p is uniform but for rounding


@pytest.mark.parametrize("num_classes", CLASSES)
def test_balanced_a_constant_prediction_selects_nobody(num_classes):
    p = constant_prediction(num_classes, 8).detach().softmax(1)
    torch.testing.assert_close(p / p.mean(0), torch.ones_like(p), rtol=1e-12, atol=0)
    selected, _ = JF.pl_plus_select(torch.zeros(8, num_classes), torch.zeros(8), torch.full((num_classes,), 0.1))
    assert not selected.any()


@pytest.mark.parametrize("num_classes", CLASSES)
@pytest.mark.parametrize("seed", range(5))
def test_balanced_no_class_leads_everywhere(num_classes, seed):
    # p_c / mean p_c is 1 on average for every class, so a class cannot be above all others in every sample.
    g = torch.Generator().manual_seed(seed)
    logits = torch.randn(50, num_classes, generator=g, dtype=torch.float64)
    logits[:, 0] += 12  # as written y-hat is class 0 everywhere
    mean = logits.softmax(1).mean(0)
    assert not JF.pl_plus_select(logits, torch.zeros(50))[1].any()
    ratios = logits.softmax(1) / mean
    assert ratios.mean(0).tolist() == pytest.approx([1] * num_classes, rel=1e-12)
    _, y_hat = JF.pl_plus_select(logits, torch.zeros(50), mean)
    assert y_hat.tolist() == ratios.argmax(1).tolist()
    assert len(y_hat.unique()) > 1


def test_balanced_a_collapse_to_one_class_is_undone_with_full_force():
    # Class 0 has nearly everything everywhere; the others have e^-10 of it, and e^-7 in their own samples.
    logits = torch.tensor([[10.0 if c == 0 else 3.0 * (c == own) for c in range(4)] for own in range(4)])
    logits = logits.double().repeat(10, 1).requires_grad_()
    own = torch.arange(40) % 4
    assert not JF.pl_plus_select(logits, torch.zeros(40))[1].any()
    selected, y_hat = JF.pl_plus_select(logits, torch.zeros(40), logits.detach().softmax(1).mean(0))
    assert selected.all()
    assert y_hat.tolist() == own.tolist()
    pull = -gradient(JF.pl_plus(logits, y_hat).sum(), logits)
    others = own > 0
    assert pull[others, own[others]].tolist() == pytest.approx([1] * 30, abs=1e-12)  # 1 - p^16, although p is 1e-3
    nl_plus = -gradient(JF.nl_plus_exhaustive(logits, own).sum(), logits)
    assert nl_plus[others, own[others]].max() < 1e-3


@pytest.mark.parametrize("num_classes", [4, 10])
def test_balanced_a_class_that_another_one_took_over_is_left_alone(num_classes):
    # The samples of the last class are predicted as class 0, the others rightly: p_0 / mean p_0 is C / 2 in all of 0's.
    rows = 12 * torch.eye(num_classes, dtype=torch.float64)
    rows[-1] = rows[0]
    rows[-1, -1] = 3
    lost = torch.arange(num_classes) == num_classes - 1
    as_written, y_hat = JF.pl_plus_select(rows, torch.zeros(num_classes))
    assert as_written.all()
    assert y_hat[lost].item() == 0  # PL+ as written teaches the samples of the lost class that they are class 0
    selected, y_hat = JF.pl_plus_select(rows, torch.zeros(num_classes), rows.softmax(1).mean(0))
    assert y_hat[lost].item() == num_classes - 1
    assert selected[~lost].all()
    assert not selected[lost].any()  # p_0 / mean p_0 has a third of the sum, which is not below 1 / C


def test_the_mean_is_checked():
    logits = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"mean must be a floating point tensor of shape \(3,\), got .* \(4,\)"):
        JF.pl_plus_select(logits, torch.zeros(2), torch.ones(4))
    selected, y_hat = JF.pl_plus_select(torch.tensor([[9.0, 0, 0]]), torch.zeros(1), torch.tensor([1.0, 0, 0]))
    assert y_hat.item() in (1, 2)  # a mean of 0 stays finite
    assert not selected.any()
