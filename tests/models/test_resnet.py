"""ResNets against torchvision's published counts and its names, written out here in plain loops."""

import pytest
import torch

from jnpl.internal.errors import InputError
from jnpl.models.resnet import resnet18, resnet34, resnet50


def count(model):
    return sum(weight.numel() for weight in model.parameters())


def norm_shapes(name, width):
    shapes = {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}
    return {**shapes, f"{name}.num_batches_tracked": ()}


def resnet18_shapes(classes, kernel):
    """torchvision's resnet18: four stages of two blocks; stages 2 to 4 start with a 1x1 shortcut."""
    shapes = {"conv1.weight": (64, 3, kernel, kernel), **norm_shapes("bn1", 64)}
    before = 64
    for stage in (1, 2, 3, 4):
        width = 32 * 2**stage
        for block in (0, 1):
            name = f"layer{stage}.{block}"
            shapes[f"{name}.conv1.weight"] = (width, before if block == 0 else width, 3, 3)
            shapes |= norm_shapes(f"{name}.bn1", width)
            shapes[f"{name}.conv2.weight"] = (width, width, 3, 3)
            shapes |= norm_shapes(f"{name}.bn2", width)
            if stage > 1 and block == 0:
                shapes[f"{name}.downsample.0.weight"] = (width, before, 1, 1)
                shapes |= norm_shapes(f"{name}.downsample.1", width)
        before = width
    return {**shapes, "fc.weight": (classes, 512), "fc.bias": (classes,)}


@pytest.mark.parametrize(("stem", "kernel"), [("imagenet", 7), ("cifar", 3)])
def test_names_shapes_and_their_order_are_torchvisions(stem, kernel):
    state = resnet18(1000, stem=stem).state_dict()
    expected = resnet18_shapes(1000, kernel)
    assert len(expected) == 122
    assert {name: tuple(value.shape) for name, value in state.items()} == expected
    assert list(state) == list(expected)


@pytest.mark.parametrize(
    ("model", "stem", "classes", "parameters"),
    [
        (resnet18, "imagenet", 1000, 11_689_512),
        (resnet34, "imagenet", 1000, 21_797_672),
        (resnet50, "imagenet", 1000, 25_557_032),
        (resnet34, "cifar", 10, 21_282_122),
    ],
)
def test_published_parameter_counts(model, stem, classes, parameters):
    assert count(model(classes, stem=stem)) == parameters


def test_resnet50_names():
    names = resnet50(10).state_dict()
    assert names["layer1.0.downsample.0.weight"].shape == (256, 64, 1, 1)  # wider, though not smaller
    assert names["layer4.2.conv3.weight"].shape == (2048, 512, 1, 1)
    assert names["fc.weight"].shape == (10, 2048)
    assert "layer4.2.bn3.running_var" in names
    assert "layer1.1.downsample.0.weight" not in names


def sizes(model, side):
    """The height of what every stage gives."""
    seen = {}
    hooks = [
        model.get_submodule(name).register_forward_hook(
            lambda _m, _i, out, name=name: seen.update({name: out.shape[2]})
        )
        for name in ("conv1", "maxpool", "layer1", "layer2", "layer3", "layer4")
    ]
    with torch.no_grad():
        assert model.eval()(torch.zeros(1, 3, side, side)).shape == (1, 5)
    for hook in hooks:
        hook.remove()
    return list(seen.values())


@pytest.mark.parametrize("model", [resnet18, resnet50])
def test_the_stems_divide_the_image(model):
    assert sizes(model(5, stem="cifar"), 32) == [32, 32, 32, 16, 8, 4]
    assert sizes(model(5, stem="imagenet"), 64) == [32, 16, 16, 8, 4, 2]


def test_the_stride_of_a_bottleneck_is_on_its_3x3():
    first = resnet50(5).layer2[0]
    assert (first.conv1.stride, first.conv2.stride, first.conv3.stride) == ((1, 1), (2, 2), (1, 1))


def test_forward_by_hand():
    """ResNet-18 once more, in functional calls on its own state dict."""
    torch.manual_seed(0)
    model = resnet18(4).eval()
    state = model.state_dict()
    for name, value in state.items():
        if value.is_floating_point() and value.ndim == 1 and not name.startswith("fc"):  # batch norms
            value.uniform_(0.5, 1.5)
    images = torch.randn(2, 3, 8, 8)

    def norm(name, x):
        parts = (state[f"{name}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        mean, variance, weight, bias = (part.view(1, -1, 1, 1) for part in parts)
        return (x - mean) / (variance + 1e-5).sqrt() * weight + bias

    def convolve(name, x, stride=1):
        weight = state[f"{name}.weight"]
        return torch.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)

    x = norm("bn1", convolve("conv1", images)).clamp(min=0)
    for stage in (1, 2, 3, 4):
        for block in (0, 1):
            name, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y = norm(f"{name}.bn1", convolve(f"{name}.conv1", x, stride)).clamp(min=0)
            y = norm(f"{name}.bn2", convolve(f"{name}.conv2", y))
            if f"{name}.downsample.0.weight" in state:
                x = norm(f"{name}.downsample.1", convolve(f"{name}.downsample.0", x, stride))
            x = (x + y).clamp(min=0)
    logits = x.mean((2, 3)) @ state["fc.weight"].T + state["fc.bias"]
    with torch.no_grad():
        torch.testing.assert_close(model(images), logits, rtol=1e-4, atol=1e-4)


def test_the_initialisation_is_pytorchs_default():
    model = resnet18(10)
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Conv2d):
            bound = module.weight[0].numel() ** -0.5  # uniform in +-1/sqrt(fan in)
            assert module.bias is None, name
            assert 0.95 * bound < module.weight.abs().max() <= bound, name
        if isinstance(module, torch.nn.BatchNorm2d):
            assert bool((module.weight == 1).all()), name


def test_channels_and_stems():
    assert resnet18(3, in_channels=1).eval()(torch.zeros(2, 1, 16, 16)).shape == (2, 3)
    with pytest.raises(InputError, match=r"^stem must be one of cifar, imagenet, got 'mnist'$"):
        resnet18(3, stem="mnist")


def test_every_parameter_learns():
    model = resnet50(3)
    model(torch.randn(4, 3, 16, 16)).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())
