"""The small networks: counts by arithmetic, forward passes by hand, what dropout and image sizes do."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from jnpl.models.small import cnn9, linear, mlp, preact_resnet18, preact_resnet32, resnet8, resnet20

ALL = [resnet8, resnet20, cnn9, preact_resnet18, preact_resnet32]


def count(model):
    return sum(weight.numel() for weight in model.parameters())


def residual_count(blocks, widths, channels, classes, *, shortcut_norm, project_first, norm_outside):
    total = channels * widths[0] * 9 + 2 * norm_outside
    before = widths[0]
    for stage, width in enumerate(widths):
        for block in range(blocks):
            total += before * width * 9 + width * width * 9
            total += 2 * (before if not shortcut_norm else width) + 2 * width  # norms: before or after convolutions
            if block == 0 and (stage > 0 or project_first):
                total += before * width + (2 * width if shortcut_norm else 0)
            before = width
    return total + widths[-1] * classes + classes


@pytest.mark.parametrize(("channels", "classes"), [(3, 10), (1, 4)])
def test_parameter_counts_by_arithmetic(channels, classes):
    small, post = (16, 32, 64), {"shortcut_norm": True, "project_first": False}
    options = {"in_channels": channels}
    assert count(resnet8(classes, **options)) == residual_count(1, small, channels, classes, norm_outside=16, **post)
    assert count(resnet20(classes, **options)) == residual_count(3, small, channels, classes, norm_outside=16, **post)
    assert count(preact_resnet18(classes, **options)) == residual_count(
        2, (64, 128, 256, 512), channels, classes, shortcut_norm=False, project_first=False, norm_outside=64
    )
    assert count(preact_resnet32(classes, **options)) == residual_count(
        5, (32, 64, 128), channels, classes, shortcut_norm=False, project_first=True, norm_outside=128
    )
    widths = [channels, 128, 128, 128, 256, 256, 256, 512, 256, 128]
    convolutions = sum(a * b * 9 + b + 2 * b for a, b in pairwise(widths))
    assert count(cnn9(classes, **options)) == convolutions + 128 * classes + classes


@pytest.mark.parametrize("model", ALL)
def test_every_parameter_learns_on_grey_images_of_any_size(model):
    network = model(3, in_channels=1)
    logits = network(torch.randn(4, 1, 28, 36))
    assert logits.shape == (4, 3)
    (logits * torch.randn(4, 3)).sum().backward()
    assert all(weight.grad is not None for weight in network.parameters())
    assert network.fc.out_features == 3


def test_depths():
    for model, layers in ((resnet8, 8), (resnet20, 20), (preact_resnet18, 18), (preact_resnet32, 32), (cnn9, 10)):
        modules = dict(model(10).named_modules())
        weighted = [
            name for name, m in modules.items() if isinstance(m, nn.Conv2d | nn.Linear) and "downsample" not in name
        ]
        assert len(weighted) == layers, model  # the 9 of cnn9 count its convolutions


def test_cnn9_layer_by_layer():
    network = cnn9(10)
    kinds = {nn.Conv2d: "c", nn.BatchNorm2d: "b", nn.LeakyReLU: "r", nn.MaxPool2d: "p", nn.Dropout2d: "d"}
    word = "".join(kinds.get(type(layer), "?") for layer in network.features)
    assert word == "cbrcbrcbrpd" * 2 + "cbrcbrcbr" + "??"
    assert [layer.padding for layer in network.features if isinstance(layer, nn.Conv2d)] == [(1, 1)] * 6 + [(0, 0)] * 3
    assert {layer.negative_slope for layer in network.features if isinstance(layer, nn.LeakyReLU)} == {0.01}
    assert {layer.p for layer in network.features if isinstance(layer, nn.Dropout2d)} == {0.25}
    images = torch.randn(2, 3, 32, 32)
    heights = []
    with torch.no_grad():
        for layer in network.features[:-1]:
            images = layer(images)
            heights.append(images.shape[2])
    assert [heights[at] for at in (8, 10, 19, 21, 24, 27, 30, 31)] == [32, 16, 16, 8, 6, 4, 2, 1]


def test_dropout_of_cnn9_follows_the_mode():
    network = cnn9(4)
    images = torch.randn(2, 3, 28, 28)
    with torch.no_grad():
        network.eval()
        assert torch.equal(network(images), network(images))
        network.train()
        assert not torch.equal(network(images), network(images))
        still = cnn9(4, dropout=0.0)
        assert torch.equal(still(images), still(images))


def test_cnn9_needs_28_pixels():
    network = cnn9(4).eval()
    with torch.no_grad():
        assert network(torch.zeros(1, 3, 28, 28)).shape == (1, 4)
        with pytest.raises(RuntimeError):
            network(torch.zeros(1, 3, 27, 28))


def stir(model):
    """Batch norms with statistics of their own, so that a norm in the wrong place is seen."""
    for name, value in model.state_dict().items():
        if value.is_floating_point() and value.ndim == 1 and not name.startswith("fc"):
            value.uniform_(0.5, 1.5)
    return model.eval()


@pytest.mark.parametrize(
    ("model", "blocks", "stages", "early"), [(preact_resnet18, 2, 4, True), (preact_resnet32, 5, 3, False)]
)
def test_preact_forward_by_hand(model, blocks, stages, early):
    torch.manual_seed(0)
    network = stir(model(4))
    state = network.state_dict()
    images = torch.randn(2, 3, 8, 8)

    def norm_relu(name, x):
        parts = (state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        mean, variance, weight, bias = (part.view(1, -1, 1, 1) for part in parts)
        return ((x - mean) / (variance + 1e-5).sqrt() * weight + bias).clamp(min=0)

    def convolve(name, x, stride=1):
        weight = state[f"{name}.weight"]
        return torch.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)

    x = convolve("conv1", images)
    if early:
        x = norm_relu("bn_first.0", x)
    for index in range(blocks * stages):
        name, start = f"layers.{index}", index % blocks == 0
        stride = 2 if start and index > 0 else 1
        active = norm_relu(f"{name}.bn1", x)
        y = convolve(f"{name}.conv2", norm_relu(f"{name}.bn2", convolve(f"{name}.conv1", active, stride)))
        projects = start and (index > 0 or not early)
        assert (f"{name}.downsample.weight" in state) == projects
        # M-correction's code adds relu(bn1(x)) where it does not project, Joint-Optim's adds x.
        kept = active if early else x
        x = y + (convolve(f"{name}.downsample", active, stride) if projects else kept)
    if not early:
        x = norm_relu("bn_last.0", x)
    logits = x.mean((2, 3)) @ state["fc.weight"].T + state["fc.bias"]
    with torch.no_grad():
        torch.testing.assert_close(network(images), logits, rtol=1e-4, atol=1e-3)


def test_preact_resnet32_starts_from_hes_normal_draw():
    weight = preact_resnet32(10).layers[12].conv2.weight
    assert weight.shape == (128, 128, 3, 3)
    expected = (2 / (128 * 9)) ** 0.5
    assert abs(weight.std().item() / expected - 1) < 0.02
    assert weight.abs().max().item() > 3 * expected  # normal, not uniform


def test_layers_are_as_wide_as_said():
    network = mlp(5, 3, hidden=(7, 4))
    assert [(layer.in_features, layer.out_features) for layer in network if isinstance(layer, nn.Linear)] == [
        *((5, 7), (7, 4), (4, 3))
    ]
    assert [type(layer) for layer in network[1::2]] == [nn.ReLU, nn.ReLU]
    assert [type(layer) for layer in mlp(5, 3, hidden=())] == [nn.Linear]


def test_a_linear_layer_starts_with_all_classes_alike():
    assert (linear(5, 3)(torch.randn(4, 5)) == 0).all()
