"""Eq. 4: L_JNPL = L_NL+ + lambda L_PL+, recomputed with the same draws in plain Python."""

import math

import pytest
import torch
from tests.helpers.arithmetic import softmax

from jnpl.losses import JNPLLoss, NLPlusLoss, PLPlusLoss


def jnpl_by_hand(rows, labels, complements, uniforms, pl_weight, n, weights=None):
    """Eqs. 4, 5, 7 and Algorithm 1 sample by sample: the loss, its gradient (Eqs. 6 and 8), the number selected."""
    size, classes = len(rows), len(rows[0])
    negative, positive, chosen = [], [], []
    grads = [[0.0] * classes for _ in rows]
    for b, row in enumerate(rows):
        p = softmax(row)
        weight = 1.0 if weights is None else weights[labels[b]]
        for k in complements[b]:
            assert k != labels[b]
            negative.append(weight * -(1 - p[k]) * math.log(1 - p[k]))
            for i in range(classes):
                grads[b][i] += weight * ((1 - p[k]) * p[k] if i == k else -p[k] * p[i]) / size
        y_hat = p.index(max(p))
        if all(p[i] < 1 / classes for i in range(classes) if i != y_hat) and uniforms[b] < p[y_hat]:
            product = math.prod(1 + p[y_hat] ** (2**i) for i in range(n + 1))
            positive.append(-product * math.log(p[y_hat]))
            chosen.append((b, y_hat, product, p))
    for b, y_hat, product, p in chosen:
        for i in range(classes):
            grads[b][i] += pl_weight * product * (p[i] - (i == y_hat)) / len(chosen)
    mean_positive = math.fsum(positive) / len(positive) if positive else 0.0
    return math.fsum(negative) / size + pl_weight * mean_positive, grads, len(chosen)


def batch(num_classes, size=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(size, num_classes, generator=g, dtype=torch.float64)
    return logits.requires_grad_(), torch.randint(num_classes, (size,), generator=g), g


@pytest.mark.parametrize("num_classes", [2, 3, 10, 100])
@pytest.mark.parametrize(
    ("pl_weight", "n", "weighted"),
    [(0.01, 3, False), (1.0, 0, False), (5.0, -1, False), (0.0, 3, False), (0.7, 3, True)],
)
def test_loss_and_gradient_by_hand(num_classes, pl_weight, n, weighted):
    """Class weights act on NL+ alone, and stay out of the denominator."""
    logits, labels, g = batch(num_classes)
    with torch.no_grad():
        logits[::4] *= 4  # sure rows, so that PL+ selects some
    weights = [0.5 * (k % 4) for k in range(num_classes)] if weighted else None
    criterion = JNPLLoss(num_classes, pl_weight=pl_weight, n=n, class_weight=weights or "none")
    draws = criterion.draw(labels, g)
    rows = (each.tolist() for each in (logits, labels, *draws))
    expected, grads, selected = jnpl_by_hand(*rows, pl_weight, n, weights)
    assert 0 < selected < len(labels)
    loss = criterion(logits, labels, draws=draws)
    loss.backward()
    assert criterion.terms(logits, labels, draws).selected.item() == selected
    assert loss.item() == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(logits.grad, torch.tensor(grads, dtype=torch.float64), rtol=1e-10, atol=1e-14)


def test_the_generator_is_all_the_randomness():
    logits, labels, _ = batch(10)
    criterion = JNPLLoss(10)
    draws = criterion.draw(labels, torch.Generator().manual_seed(7))
    state = torch.random.get_rng_state()
    loss = criterion(logits, labels, generator=torch.Generator().manual_seed(7))
    assert torch.equal(state, torch.random.get_rng_state())
    assert loss.item() == criterion(logits, labels, draws=draws).item()
    assert loss.item() != criterion(logits, labels, generator=torch.Generator().manual_seed(8)).item()


def test_the_papers_settings_are_the_defaults():
    criterion = JNPLLoss(100)
    assert (criterion.pl_weight, criterion.positive.n, criterion.negative.gamma) == (0.01, 3, 1.0)
    assert criterion.negative.num_complements == 110
    assert criterion.draw(torch.tensor([5, 6])).complements.shape == (2, 110)
    assert JNPLLoss(10).draw(torch.tensor([5, 6])).complements.shape == (2, 1)


def test_terms_add_up_and_each_is_its_own_criterion():
    logits, labels, _ = batch(10)
    criterion = JNPLLoss(10, pl_weight=0.3, complements="exhaustive")
    draws = criterion.draw(labels, torch.Generator().manual_seed(1))
    assert draws.complements is None
    terms = criterion.terms(logits, labels, draws)
    assert terms.selected > 0
    assert terms.nl_plus.item() == NLPlusLoss(10, "exhaustive")(logits, labels).item()
    assert terms.pl_plus.item() == PLPlusLoss()(logits, uniforms=draws.uniforms).item()
    expected = terms.nl_plus.item() + 0.3 * terms.pl_plus.item()
    assert criterion(logits, labels, draws=draws).item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_extreme_logits_stay_finite(dtype):
    g = torch.Generator().manual_seed(0)
    values = torch.tensor([-1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4])
    logits = values[torch.randint(7, (256, 10), generator=g)].to(dtype).requires_grad_()
    labels = torch.randint(10, (256,), generator=g)
    loss = JNPLLoss(10, pl_weight=1.0)(logits, labels, generator=g)
    loss.backward()
    assert 0 <= loss.item() < float("inf")
    # Per sample at most 1 / B from one complement and 1 / |S| from PL+.
    assert logits.grad.abs().max() <= 1
    assert logits.grad.isfinite().all()
