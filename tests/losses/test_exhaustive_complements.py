"""docs/reproduction.md: summed over all complementary labels, NL+ has the gradient of the mean absolute error."""

import pytest
import torch

from jnpl import functional as JF


@pytest.mark.parametrize("classes", [3, 10, 100])
def test_nl_plus_over_all_complements_is_the_mean_absolute_error(classes):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(8, classes, dtype=torch.float64, generator=generator).mul(3).requires_grad_()
    labels = torch.randint(classes, (8,), generator=generator)
    (ours,) = torch.autograd.grad(JF.nl_plus_exhaustive(logits, labels).sum(), logits)
    own = logits.softmax(1).gather(1, labels[:, None])
    (mae,) = torch.autograd.grad((1 - own).sum(), logits)
    torch.testing.assert_close(ours, mae)


def test_any_constant_prediction_is_a_stationary_point_of_nl_plus_and_not_of_nl():
    labels = torch.arange(10)  # every label as often as the others
    bias = torch.tensor([2.0, 1.0, *[0.0] * 8], dtype=torch.float64, requires_grad=True)
    (plus,) = torch.autograd.grad(JF.nl_plus_exhaustive(bias.expand(10, 10), labels).sum(), bias)
    (nl,) = torch.autograd.grad(JF.nl_exhaustive(bias.expand(10, 10), labels).sum(), bias)
    assert plus.abs().max() < 1e-12
    assert nl[0] > 0.1  # lowers the most certain class, towards the uniform prediction
    (even,) = torch.autograd.grad(JF.nl_exhaustive((0 * bias).expand(10, 10), labels).sum(), bias)
    assert even.abs().max() < 1e-12
