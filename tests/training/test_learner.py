"""Optimisers, and the running mean of weights against plain arithmetic: what belongs to it, and what is put back."""

import copy

import pytest
import torch
from tests.helpers.steps import linear, normed
from torch import nn

from jnpl.losses.short_training import EpochCounts
from jnpl.methods.base import Method, ParameterGroup
from jnpl.recipes.schema import Training
from jnpl.training.learner import AveragedWeights, make_optimizer


class Holder(nn.Module):
    """As a method: networks have parameters, the state of samples and counters have none."""

    network_state = Method.network_state

    def __init__(self, network):
        super().__init__()
        self.model = network
        self.register_buffer("keep", torch.arange(5.0))
        self.register_buffer("counter", torch.tensor(0))
        self.counts = EpochCounts(3)


def walk(holder, step):
    """Other weights, statistics and state, in place, as an optimiser, batch norm and a method change them."""
    with torch.no_grad():
        for weight in holder.parameters():
            weight.add_(torch.sin(torch.arange(weight.numel()) + step).view_as(weight))
    if any(isinstance(module, nn.BatchNorm1d) for module in holder.modules()):
        holder.train()
        holder.model(torch.randn(8, 3, generator=torch.Generator().manual_seed(step)) * (1 + step))
    holder.keep += 1
    holder.counter += 1
    holder.counts.predicted += 1


def state_of(holder):
    return {name: value.clone() for name, value in holder.state_dict().items()}


@pytest.mark.parametrize("decay", [0.5, 0.99])
def test_the_mean_in_plain_arithmetic(decay):
    """The decay rises as 1/10, 2/11, 3/12, ... to its value: 0.5 is reached in the ninth step, 0.99 is not."""
    holder = Holder(linear())
    average = AveragedWeights(holder, decay)
    mean = holder.model.bias.tolist()
    decays = []
    for step in range(14):
        walk(holder, step)
        average.update()
        d = min(decay, (step + 1) / (step + 10))
        decays.append(d)
        mean = [d * m + (1 - d) * w for m, w in zip(mean, holder.model.bias.tolist(), strict=True)]
        assert average.values["model.bias"].tolist() == pytest.approx(mean, rel=1e-5)
    assert average.steps == 14
    assert decays[0] == 0.1
    assert decays[8:] == [0.5] * 6 if decay == 0.5 else decays == sorted(set(decays))


def test_the_first_weights_are_soon_forgotten():
    holder = Holder(linear())
    average = AveragedWeights(holder, 0.99)
    with torch.no_grad():
        holder.model.weight.fill_(1000.0)
        average.values["model.weight"].fill_(0.0)
        for _ in range(20):
            average.update()
    assert average.values["model.weight"].min() > 999.9  # a decay of 0.99 from the start: 182


def test_batch_norm_is_averaged_and_counters_and_state_of_samples_are_not():
    holder = Holder(normed())
    average = AveragedWeights(holder, 0.9)
    wanted = {name: value.clone() for name, value in average.values.items()}
    for step in range(3):
        walk(holder, step)
        d = min(0.9, (step + 1) / (step + 10))
        wanted = {name: d * mean + (1 - d) * holder.state_dict()[name] for name, mean in wanted.items()}
        average.update()
    assert {"model.1.running_mean", "model.1.running_var", "model.0.weight"} <= set(average.values)
    assert not {"keep", "counter", "model.1.num_batches_tracked"} & set(average.values)
    for name, mean in wanted.items():
        torch.testing.assert_close(average.values[name], mean)
    now = state_of(holder)
    average.keep()
    for name, value in holder.state_dict().items():
        assert value.equal(average.values.get(name, now[name])), name
    assert not holder.model[1].running_var.equal(now["model.1.running_var"])
    assert holder.model[1].num_batches_tracked == 3
    assert holder.counter == 3


@pytest.mark.parametrize("fails", [False, True])
def test_in_place_puts_everything_back(fails):
    holder = Holder(normed())
    average = AveragedWeights(holder, 0.9)
    for step in range(3):
        walk(holder, step)
        average.update()
    before, mean = state_of(holder), {name: value.clone() for name, value in average.values.items()}

    def inside():
        with average.in_place():
            for name, value in mean.items():
                assert holder.state_dict()[name].equal(value), name
                assert not value.equal(before[name]), name
            if fails:
                raise RuntimeError("no disk left")

    if fails:
        with pytest.raises(RuntimeError, match="no disk left"):
            inside()
    else:
        inside()
    for name, value in holder.state_dict().items():
        assert value.equal(before[name]), name
    for name, value in average.values.items():
        assert value.equal(mean[name]), name
    walk(holder, 3)  # it still sees the networks' own weights
    average.update()
    assert not average.values["model.0.weight"].equal(mean["model.0.weight"])


def test_it_sees_weights_that_are_loaded():
    holder, other = Holder(linear()), Holder(linear(1))
    average = AveragedWeights(holder, 0.5)
    holder.load_state_dict(other.state_dict())
    average.update()
    torch.testing.assert_close(
        average.values["model.weight"], 0.1 * linear().weight.detach() + 0.9 * other.model.weight.detach()
    )


def test_it_goes_on_from_a_checkpoint_as_if_nothing_had_happened():
    holder = Holder(normed())
    average = AveragedWeights(holder, 0.9)
    for step in range(3):
        walk(holder, step)
        average.update()
    again = Holder(normed(5))
    resumed = AveragedWeights(again, 0.9)
    again.load_state_dict(holder.state_dict())
    resumed.load({name: value.clone() for name, value in average.values.items()}, average.steps)
    for step in range(3, 6):
        for each, mean in ((holder, average), (again, resumed)):
            walk(each, step)
            mean.update()
    assert resumed.steps == 6
    for name, value in average.values.items():
        assert value.equal(resumed.values[name]), name


def test_no_gradient_is_recorded():
    holder = Holder(linear())
    average = AveragedWeights(holder, 0.9)
    average.update()
    with average.in_place():
        pass
    assert not any(value.requires_grad for value in average.values.values())
    assert holder.model.weight.requires_grad
    holder.model(torch.ones(1, 3)).sum().backward()
    assert holder.model.weight.grad is not None


def test_optimizers_take_their_settings():
    net = nn.Linear(2, 2)
    sgd = make_optimizer(net, Training(epochs=1, lr=0.3, momentum=0.7, weight_decay=0.2))
    adam = make_optimizer(net, Training(epochs=1, lr=0.3, optimizer="adam", momentum=0.7, weight_decay=0.2))
    adamw = make_optimizer(net, Training(epochs=1, lr=0.3, optimizer="adamw"))
    assert (type(sgd), type(adam), type(adamw)) == (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)
    assert {key: sgd.defaults[key] for key in ("lr", "momentum", "weight_decay")} == {
        "lr": 0.3,
        "momentum": 0.7,
        "weight_decay": 0.2,
    }
    assert sgd.defaults["nesterov"] is False
    assert (adam.defaults["betas"], adam.defaults["weight_decay"]) == ((0.7, 0.999), 0.2)
    assert len(sgd.param_groups) == 1  # biases and batch norm decay too (row 16)


@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.9, 0.2)])
def test_sgd_without_the_compiler_is_that_of_torch(momentum, decay):
    plan = Training(epochs=1, lr=0.3, momentum=momentum, weight_decay=decay)
    nets, saved = [], None
    for plain in (False, True):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        net.extra = nn.Parameter(torch.ones(2))  # trained by a plan of its own
        group = ParameterGroup((net.extra,), lr=2.0, momentum=0.5, weight_decay=0.1)
        optimizer = make_optimizer(net, plan, (group,), plain=plain)
        for step in range(4):
            if step == 2 and plain:  # continues from what torch's has saved
                optimizer = make_optimizer(net, plan, (group,), plain=plain)
                optimizer.load_state_dict(saved)
            optimizer.param_groups[0]["lr"] = 0.3 / (step + 1)
            ((net(torch.arange(6.0).view(2, 3)) * net.extra) ** 2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            assert all(parameter.grad is None for parameter in net.parameters())
            if step == 1 and not plain:
                saved = copy.deepcopy(optimizer.state_dict())
        nets.append((net.state_dict(), optimizer.state_dict()))
    (weights, state), (weights_of_ours, state_of_ours) = nets
    assert all(torch.equal(weights_of_ours[name], value) for name, value in weights.items())
    assert state_of_ours["state"].keys() == state["state"].keys()
    for number, slots in state_of_ours["state"].items():
        assert torch.equal(slots["momentum_buffer"], state["state"][number]["momentum_buffer"])
    for group, of_ours in zip(state["param_groups"], state_of_ours["param_groups"], strict=True):
        assert of_ours.items() <= group.items()


def test_the_sgd_of_torch_goes_on_from_the_state_of_ours():
    """A run of one process may be resumed by several, or on a GPU."""
    plan = Training(epochs=1, lr=0.3, momentum=0.9, weight_decay=0.1)
    nets = []
    for goes_on_plain in (True, False):
        torch.manual_seed(0)
        net = nn.Linear(3, 2)
        optimizer = make_optimizer(net, plan, plain=True)
        for step in range(4):
            if step == 2:
                saved = copy.deepcopy(optimizer.state_dict())
                optimizer = make_optimizer(net, plan, plain=goes_on_plain)
                optimizer.load_state_dict(saved)
            net(torch.arange(6.0).view(2, 3)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        nets.append(net)
    assert all(map(torch.equal, nets[0].parameters(), nets[1].parameters()))
