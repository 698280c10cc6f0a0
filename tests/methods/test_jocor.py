"""JoCoR's joint loss and step against plain loops."""

import math

import pytest
import torch
from pydantic import ValidationError
from tests.helpers.steps import CLASSES, linear, make, noise_batch, softmax

from jnpl.methods.jocor import JoCoR, joint_loss, symmetric_kl

SIZE = 10
LABELS = torch.arange(SIZE) % CLASSES


def build(number):
    return linear(number, scale=2.0)


def a_method(epoch=30, **settings):
    return make(JoCoR, LABELS, build, at=(0, epoch, 200), noise_rate=0.4, **settings)


def a_batch():
    return noise_batch(LABELS, seed=5)


def by_hand(row_1, row_2, y, agreement):
    p, q = softmax(row_1), softmax(row_2)
    forth = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
    back = sum(b * math.log(b / a) for a, b in zip(p, q, strict=True))
    return (1 - agreement) * -(math.log(p[y]) + math.log(q[y])) + agreement * (forth + back)


def all_by_hand(method, batch, agreement):
    rows = zip(method.model(batch.inputs).tolist(), method.second(batch.inputs).tolist(), LABELS.tolist(), strict=True)
    return [by_hand(*row, agreement) for row in rows]


@pytest.mark.parametrize(("epoch", "count"), [(0, 10), (5, 7), (30, 6)])
@pytest.mark.parametrize("agreement", [0.0, 0.65, 0.9, 1.0])
def test_the_step_is_the_mean_of_the_smallest_joint_losses(epoch, count, agreement):
    method, batch = a_method(epoch, agreement=agreement), a_batch()
    losses = all_by_hand(method, batch, agreement)
    output = method(batch)
    assert output.loss.item() == pytest.approx(sum(sorted(losses)[:count]) / count, rel=1e-4, abs=1e-6)
    assert output.quality.tolist() == pytest.approx([math.exp(-loss) for loss in losses], rel=1e-4)
    assert output.scalars["kept"].item() == pytest.approx(count / SIZE)
    assert output.scalars["divergence"].item() == pytest.approx(sum(all_by_hand(method, batch, 1.0)) / SIZE, rel=1e-4)


def test_the_gradient_flows_through_both_sides_of_both_divergences():
    """Finite differences of the whole joint loss, for the logits of either network."""
    rows = [[0.3, -1.0, 2.0], [1.5, 0.2, -0.4]]
    tensors = [torch.tensor([row], dtype=torch.float64, requires_grad=True) for row in rows]
    joint_loss(*tensors, torch.tensor([1]), 0.9).sum().backward()
    step = 1e-6
    for which in range(2):
        for k in range(3):
            moved = [[list(row) for row in rows] for _ in range(2)]
            moved[0][which][k] += step
            moved[1][which][k] -= step
            wanted = (by_hand(*moved[0], 1, 0.9) - by_hand(*moved[1], 1, 0.9)) / (2 * step)
            assert tensors[which].grad[0, k].item() == pytest.approx(wanted, abs=1e-7)


def test_the_divergence_sums_over_classes_and_is_zero_for_equal_networks():
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    assert symmetric_kl(logits, logits.clone()).tolist() == [0, 0, 0]
    one, two = torch.tensor([[0.0, 0.0]]), torch.tensor([[math.log(3), 0.0]])
    wanted = (0.5 - 0.75) * math.log(0.5 / 0.75) + (0.5 - 0.25) * math.log(0.5 / 0.25)
    assert symmetric_kl(one, two).item() == pytest.approx(wanted, rel=1e-5)


def test_the_divergence_of_extreme_logits_is_finite_where_p_log_p_is_nan():
    far = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    opposite = torch.tensor([[-1e4, 1e4, 0.0]], requires_grad=True)
    p, q = far.softmax(1), opposite.softmax(1)
    assert not (p * (p.log() - q.log())).sum().isfinite()  # the form not to write
    divergence = symmetric_kl(far, opposite)
    divergence.sum().backward()
    assert divergence.item() == pytest.approx(4e4)
    assert far.grad.isfinite().all()
    assert opposite.grad.isfinite().all()
    assert symmetric_kl(far.bfloat16(), opposite.bfloat16()).dtype == torch.float32


def test_the_default_weight_is_the_papers_and_not_the_command_lines():
    """The authors' script defaults to 0.1, with which their results do not come out."""
    assert JoCoR.Settings(noise_rate=0.2).agreement == 0.9
    with pytest.raises(ValidationError):
        JoCoR.Settings(noise_rate=0.2, agreement=1.1)


def test_both_networks_learn_from_the_same_samples():
    method, batch = a_method(agreement=0.0), a_batch()
    method(batch).loss.backward()
    losses = all_by_hand(method, batch, 0.0)
    chosen = sorted(range(SIZE), key=lambda at: losses[at])[:6]
    for net in (method.model, method.second):
        wanted = [0.0] * CLASSES
        for at in chosen:
            p = softmax(net(batch.inputs)[at].tolist())
            for k in range(CLASSES):
                wanted[k] += (p[k] - (k == LABELS[at].item())) / 6
        assert net.bias.grad.tolist() == pytest.approx(wanted, abs=1e-6)
