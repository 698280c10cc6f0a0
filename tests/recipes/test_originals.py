"""Recipes of other methods against the arithmetic of the authors' code, written out by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch

from jnpl.data.sources.arrays import from_arrays
from jnpl.experiments.confidence_figures import stage_facts
from jnpl.losses.complement import default_count
from jnpl.methods.registry import METHODS
from jnpl.models.build import build
from jnpl.noise import generate as noise
from jnpl.recipes.load import load_recipe
from jnpl.training.feeds import make_feeds
from jnpl.training.processes import make_fabric

DOCS = Path(__file__).parents[2] / "docs"


def test_forwards_learning_rate_falls_after_epochs_40_and_80_counted_from_0():
    def original(epoch):
        if epoch > 80:
            return 0.001
        return 0.01 if epoch > 40 else 0.1

    plan = load_recipe("forward-cifar10").train
    assert [plan.lr_at(epoch) for epoch in range(120)] == [pytest.approx(original(epoch)) for epoch in range(120)]


def test_forwards_weight_decay_is_the_gradient_of_keras_l2():
    kernel = torch.tensor([[0.5, -2.0]], requires_grad=True)
    (1e-4 * (kernel**2).sum()).backward()  # keras.regularizers.l2(1e-4)
    plan = load_recipe("forward-cifar10").train
    torch.testing.assert_close(plan.weight_decay * kernel.detach(), kernel.grad)


def test_pencil_divides_by_the_deviation_of_the_data():
    recipe = load_recipe("pencil-cifar10", {"data.val_size": 0, "engine.accelerator": "cpu", "engine.workers": 0})
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (40, 8, 8, 3)).astype(np.uint8)
    images[..., 1] //= 2  # channels of different deviation
    source = from_arrays(images, random.integers(0, 3, 40))
    feeds = make_feeds(source, recipe, make_fabric(recipe.engine), 0, print, strict=True)
    pixels = images.reshape(-1, 3) / 255
    by_hand = (images[:4] / 255 - pixels.mean(0)) / pixels.std(0)
    ours = feeds.transform.evaluate(torch.from_numpy(images[:4])).permute(0, 2, 3, 1)
    np.testing.assert_allclose(ours.numpy(), by_hand, atol=1e-5)


@pytest.mark.parametrize("method", ["co-teaching", "jocor"])
@pytest.mark.parametrize(("data", "start"), [("cifar10", 80), ("cifar100", 100)])
def test_two_networks_have_the_authors_plans_of_rate_and_beta_1(method, data, start):
    epochs, rate, early, late = 200, 1e-3, 0.9, 0.1
    rates, betas = [rate] * epochs, [early] * epochs
    for epoch in range(start, epochs):
        rates[epoch] = (epochs - epoch) / (epochs - start) * rate
        betas[epoch] = late
    plan = load_recipe(f"{method}-{data}").train
    assert [plan.lr_at(epoch) for epoch in range(epochs)] == [pytest.approx(each) for each in rates]
    assert [plan.momentum_at(epoch) for epoch in range(epochs)] == betas


def test_the_speed_of_ten_classes_would_need_two_complements_of_fourteen():
    """At the uniform prediction NL moves another logit by 1 / (C (C - 1)); our 1 for Clothing1M is a choice."""
    speed = {classes: 1 / (classes * (classes - 1)) for classes in (10, 14, 100)}
    assert [round(speed[10] / speed[classes]) for classes in (10, 14, 100)] == [1, 2, 110]
    assert [default_count(classes) for classes in (10, 14, 100)] == [1, 1, 110]


def test_mlnt_has_the_papers_inner_rate_and_ramped_weight():
    """The third-party code has them the other way round: 0.4, ramped, and 0.2, constant."""
    settings = load_recipe("mlnt-cifar10").method
    assert (settings.inner_lr, settings.meta_weight) == (0.2, 0.4)
    assert settings.ramp_steps == 20 * -(-45_000 // 128)
    assert "an inner lr of 0.4, which it ramps, and a constant weight of 0.2" in words("mlnt")


def test_sces_page_has_the_shrinkage_of_its_optimiser():
    steps = 120 * -(-50_000 // 128)
    assert f"by {1 + 1e-4 * steps:.1f} after 120 epochs of {-(-50_000 // 128)} steps" in words("sce")


CHOICES = {
    "which epoch counts": lambda: (
        not any(stage.select for name in ("jnpl", "nlnl", "ce") for stage in METHODS[name].stages)
    ),
    "number of wrong labels": lambda: wrong_by_class([20, 35]) == [8, 14],
    "CIFAR-100 super-classes": lambda: next_of_beaver() == "dolphin",
    'Figure 6, "cat"': lambda: cats_of(true=[3, 3, 5], given=[3, 5, 3]) == 2,
    "which prediction judges a label": lambda: load_recipe("paper-cifar10").verdict.history == 10,
    "network": lambda: first_layers() == ((3, 3), (1, 1), (64, 32, 32)),
    "Clothing1M": lambda: load_recipe("paper-clothing1m").method.num_complements == 1,
}


@pytest.mark.parametrize("choice", CHOICES)
def test_the_package_does_what_the_page_calls_our_choice(choice):
    """The mean of the training images is tested with PENCIL's deviation above."""
    assert f"\n| {choice} | " in (DOCS / "differences.md").read_text("utf-8")
    assert CHOICES[choice]()


def wrong_by_class(counts):
    """How many labels of each class change at 40 %."""
    true = np.repeat(np.arange(len(counts)), counts)
    given = noise.symmetric(true, 0.4, 10, 1)
    return [int((given != true)[true == each].sum()) for each in range(len(counts))]


def next_of_beaver():
    """Beaver (4) is followed within aquatic mammals by dolphin (30), and in a block of five by apple (0)."""
    changed = noise.asymmetric(np.array([4]), 1.0, "cifar100", 1, num_classes=100)
    return {30: "dolphin", 0: "apple"}[int(changed[0])]


def cats_of(true, given):
    """How many samples Figure 6 is about."""
    source = from_arrays(np.zeros((len(true), 2), np.float32), given, y_true=true, class_names=range(10))
    return stage_facts(np.full((len(true), 10), 0.1), source, seed=1, cat=3)["cat"]["samples"]


def first_layers():
    """Kernel and stride of ResNet-34's first convolution, and what the stages get from an image of 32 pixels."""
    network = build("resnet34", num_classes=10, input_shape=(3, 32, 32), seed=0)
    first = next(each for each in network.modules() if isinstance(each, torch.nn.Conv2d))
    shapes = []
    second = [each for each in network.modules() if isinstance(each, torch.nn.Conv2d)][1]
    second.register_forward_pre_hook(lambda _module, inputs: shapes.append(tuple(inputs[0].shape[1:])))
    network.eval()(torch.zeros(1, 3, 32, 32))
    return first.kernel_size, first.stride, shapes[0]


def words(method):
    return " ".join((DOCS / "methods" / f"{method}.md").read_text("utf-8").split())
