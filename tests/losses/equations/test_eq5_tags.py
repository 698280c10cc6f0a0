"""NL+ of tags: Eq. 5 with the two classes "has it" and "has it not", in plain Python arithmetic."""

import math

import pytest
import torch

from jnpl.losses import functional as JF

LOGITS = [-3.0, -0.5, 0.0, 0.8, 4.0]


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("logit", LOGITS)
@pytest.mark.parametrize("tag", [False, True])
def test_the_loss_is_that_of_plain_arithmetic_and_of_two_classes(logit, tag, gamma):
    has_it = 1 / (1 + math.exp(-logit))
    of_complement = 1 - has_it if tag else has_it
    expected = -((1 - of_complement) ** gamma) * math.log(1 - of_complement)
    z = torch.tensor([[logit]], dtype=torch.float64)
    assert JF.nl_plus_tags(z, torch.tensor([[tag]]), gamma).item() == pytest.approx(expected, rel=1e-9)
    two = torch.cat([torch.zeros_like(z), z], dim=1)  # softmax of (0, z) has the sigmoid of z
    complement = torch.tensor([0 if tag else 1])
    assert JF.nl_plus(two, complement, gamma).item() == pytest.approx(expected, rel=1e-9)
    assert JF.nl_plus_exhaustive(two, 1 - complement, gamma).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.7])
def test_the_gradient_is_that_of_autograd_and_of_one_minus_p(share):
    z = torch.tensor([LOGITS, LOGITS[::-1]], dtype=torch.float64, requires_grad=True)
    tags = torch.tensor([[1, 0, 1, 0, 1], [0, 0, 1, 1, 0]])
    loss = JF.nl_plus_tags(z, tags) + share * JF.nl_plus_tags(z, tags, gamma=0.0)
    (expected,) = torch.autograd.grad(loss.sum(), z)
    probs = z.detach().sigmoid()
    gradient = JF.nl_plus_tags_gradient_of_probs(probs.unsqueeze(1), tags.double(), share).squeeze(1)
    torch.testing.assert_close(gradient, expected)
    if not share:
        right = torch.where(tags.bool(), z.sigmoid(), 1 - z.sigmoid())
        (of_mae,) = torch.autograd.grad((1 - right).sum(), z)
        torch.testing.assert_close(gradient, of_mae)


def test_without_gamma_it_is_binary_cross_entropy():
    z, tags = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([[1.0, 0.0, 1.0]] * 6)
    expected = torch.nn.functional.binary_cross_entropy_with_logits(z, tags, reduction="none")
    torch.testing.assert_close(JF.nl_plus_tags(z, tags, gamma=0.0), expected)


def test_extreme_logits_stay_finite():
    z = torch.tensor([[1e4, -1e4, 1e4, -1e4]], requires_grad=True)
    loss = JF.nl_plus_tags(z, torch.tensor([[True, False, False, True]]))
    loss.sum().backward()
    assert loss.isfinite().all()
    assert z.grad.isfinite().all()
    assert loss[0, 2].item() == loss[0, 3].item() == 0  # a state that cannot be pulls at nothing


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="must be"):
        JF.nl_plus_tags(torch.zeros(2, 3), torch.zeros(2, 2))
