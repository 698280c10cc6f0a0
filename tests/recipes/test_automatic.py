"""What suits a data set, and why."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from jnpl.data.opening import open_source
from jnpl.data.sources.arrays import from_arrays
from jnpl.losses.class_balance import even_weights
from jnpl.recipes.automatic import SMALL_IMAGE_SET, adapt_recipe, choose, head_plan, mlp_rate
from jnpl.recipes.load import load_recipe

FAST = load_recipe("fast")


def vectors(samples, counts=(1, 1)):
    labels = np.resize(np.repeat(np.arange(len(counts)), counts), samples)
    return from_arrays(np.zeros((samples, 7), np.float32), labels)


def folder(root, sides, samples=4):
    for label in ("a", "b"):
        (root / label).mkdir(parents=True)
        for number in range(samples):
            side = sides[number % len(sides)]
            Image.fromarray(np.zeros((side, side + 5, 3), np.uint8)).save(root / label / f"{number}.png")
    return open_source(str(root))


@pytest.mark.parametrize(("samples", "batch"), [(20, 16), (150, 16), (500, 32), (5_000, 64), (50_000, 64)])
def test_small_sets_take_smaller_batches(samples, batch):
    choice = choose(vectors(samples), FAST)
    rate = mlp_rate(samples, 2, batch, 30)
    assert choice.changes == {"train.batch_size": batch, "model": "mlp", "train.lr": rate, "verdict.trees": True}
    assert rate == pytest.approx({20: 0.067, 150: 0.013}.get(samples, 0.03 * batch / 64))
    assert len(choice.lines) == 4
    assert f"30 epochs in batches of {batch}" in choice.lines[1]
    assert ("the data set is small" in choice.lines[1]) == (batch < 64)
    assert choice.lines[0].endswith(f"{samples:,} rows of 7 numbers")


def test_what_the_user_says_is_left_alone():
    recipe = load_recipe("fast", {"train.epochs": 3, "model": "mlp"})
    choice = choose(vectors(500), recipe, {"train.epochs", "model"})
    assert choice.changes == {"train.batch_size": 32, "train.lr": 0.1, "verdict.trees": True}
    assert choice.lines[1].startswith(
        "training: 3 epochs in batches of 32, 48 steps (small batches: the data set is small), learning"
    )
    with_rate = choose(vectors(500), recipe, {"train.epochs", "model", "train.lr"})
    assert with_rate.changes == {"train.batch_size": 32, "verdict.trees": True}
    assert with_rate.lines[1] == "training: 3 epochs in batches of 32, 48 steps (small batches: the data set is small)"
    network = choose(vectors(500), recipe, {"train.epochs", "model", "train.lr", "verdict.trees"})
    assert network.changes == {"train.batch_size": 32}
    assert with_rate.lines[:-1] == network.lines


def test_the_rate_of_an_mlp_is_for_fast_alone():
    small = load_recipe("small", {"method.name": "ce"})
    assert "train.lr" not in choose(vectors(500), small).changes


@pytest.mark.parametrize(("sides", "size"), [([33], 32), ([10], 16), ([200], 128), ([20, 64, 64, 64], 48)])
def test_files_are_decoded_at_the_side_that_most_have(tmp_path, sides, size):
    choice = choose(folder(tmp_path / "photos", sides), FAST)
    assert choice.changes["data.size"] == size
    assert choice.changes["model"] == "resnet8"
    assert f"at {size} pixels" in choice.lines[0]


def test_many_files_are_decoded_smaller(tmp_path, monkeypatch):
    monkeypatch.setattr("jnpl.recipes.automatic.TIME_LIMIT", 1)
    source = folder(tmp_path / "photos", [128], samples=50)
    assert choose(source, FAST).changes["data.size"] == 16
    assert "would take long" in choose(source, FAST).lines[0]
    assert choose(source, FAST, gpu=True).changes["data.size"] == 96  # fifty times as fast
    assert choose(source, FAST, gpu=True).changes["model"] == "resnet18"


def test_broken_files_are_passed_over(tmp_path):
    (tmp_path / "photos" / "a").mkdir(parents=True)
    folder(tmp_path / "photos2", [40])
    for label in ("a", "b"):
        (tmp_path / "photos2" / label / "0.png").write_bytes(b"nothing")
    assert choose(open_source(str(tmp_path / "photos2")), FAST).changes["data.size"] == 32


def test_uneven_classes_are_told():
    assert choose(vectors(600), FAST).lines[2] == "classes: 2, of 300 to 300 samples: balanced"
    assert "up to 1.25 times" in choose(vectors(1000, (9, 1)), FAST).lines[2]
    assert "up to 3 times" in choose(vectors(1900, (9, 9, 1)), FAST).lines[2]
    some = from_arrays(np.zeros((4, 2)), [0, 0, 1, 1], class_names=["a", "b", "c"])
    assert "(1 without any)" in choose(some, FAST).lines[2]


def test_what_is_said_of_uneven_classes_is_what_the_method_does():
    uneven = vectors(1010, (1000, 10))
    weights = even_weights(torch.from_numpy(uneven.labels), 2)
    told = choose(uneven, FAST).lines[2]
    more = f"{weights[1] / weights[0]:.3g}"
    assert told == (
        f"classes: 2, of 10 to 1,000 samples: samples of smaller classes have up to {more} times the weight"
    )
    assert weights[1] / weights[0] == 1.25  # at most, of two
    assert choose(uneven, load_recipe("small")).lines[2].endswith("up to 100 times the weight")
    ce = choose(uneven, load_recipe("small", {"method.name": "ce"})).lines[2]
    assert ce == "classes: 2, of 10 to 1,000 samples, every sample with the same weight"


def images(samples):
    return from_arrays(np.zeros((samples, 8, 8, 3), np.uint8), np.arange(samples) % 3)


def test_small_image_sets_take_cross_entropy():
    recipe, lines = adapt_recipe(images(60), None, None, {"engine.accelerator": "cpu"})
    assert (recipe.method.name, recipe.verdict.score, recipe.verdict.threshold) == ("ce", "history", "1/c")
    assert (recipe.data.std, recipe.train.average, recipe.train.schedule) == ("one", 0.99, "hold-linear")
    fast = load_recipe("fast").pseudo
    assert recipe.pseudo is not None
    assert fast is not None
    assert (recipe.pseudo.mode, recipe.pseudo.soft, recipe.pseudo.warm) == (fast.mode, fast.soft, fast.warm)
    assert recipe.pseudo.train is not None
    assert fast.train is not None
    assert recipe.pseudo.train.model_dump(exclude={"batch_size"}) == fast.train.model_dump(exclude={"batch_size"})
    assert [line for line in lines if line.startswith("method: cross-entropy, for fewer than 5,000 images")]


@pytest.mark.parametrize(
    ("samples", "method", "changes"),
    [
        (SMALL_IMAGE_SET, None, {}),
        (60, "jnpl", {}),
        (60, None, {"method.guard": 0.2}),
        (60, None, {"train.epochs": 60}),
        (60, None, {"model": "resnet18"}),
    ],
    ids=["many images", "method named", "method changed", "many epochs", "another network"],
)
def test_other_image_sets_keep_jnpl(samples, method, changes):
    recipe, lines = adapt_recipe(images(samples), None, method, {"engine.accelerator": "cpu", **changes})
    assert (recipe.method.name, recipe.verdict.score, recipe.data.std) == ("jnpl", "posterior", "data")
    assert not any(line.startswith("method:") for line in lines)


def test_weighted_images_keep_jnpl():
    weighted = replace(images(60), weights=np.ones(60, np.float32))
    assert adapt_recipe(weighted, None, None, {"engine.accelerator": "cpu"}).recipe.method.name == "jnpl"


def embeddings(samples, width, classes):
    return from_arrays(np.zeros((samples, width), np.float32), np.arange(samples) % classes)


def test_a_head_for_many_classes_fades_by_confusion_and_learns_narrow_embeddings_faster():
    few = adapt_recipe(embeddings(500, 256, 5), None, None, {}).recipe
    assert (few.method.ce_fade, few.train.lr, few.stages["refine"]["lr"]) == ("agreement", 0.05, 0.02)
    wide = adapt_recipe(embeddings(500, 1280, 50), None, None, {}).recipe
    assert (wide.method.ce_fade, wide.train.lr, wide.stages["refine"]["lr"]) == ("confusion", 0.05, 0.02)
    narrow = adapt_recipe(embeddings(500, 256, 50), None, None, {}).recipe
    scale = 5**0.8  # 1280 / 256, to the power of 1 - 10 / 50
    assert narrow.train.lr == pytest.approx(0.05 * scale, rel=0.05)
    assert narrow.stages["refine"]["lr"] == pytest.approx(0.02 * scale, rel=0.05)
    changed = adapt_recipe(embeddings(500, 256, 50), None, None, {"train.lr": 0.01, "method.ce_fade": 0.3}).recipe
    assert (changed.train.lr, changed.method.ce_fade) == (0.01, 0.3)
    other = adapt_recipe(embeddings(500, 256, 50), None, "ce", {}).recipe
    assert (other.train.lr, other.train.weight_decay) == (narrow.train.lr, narrow.train.weight_decay)


def test_weight_decay_of_a_head_falls_with_samples_classes_and_for_many_classes_with_width():
    plans = {each: head_plan(*each) for each in [(256, 10_000, 10), (256, 40_000, 10), (1280, 10_000, 100)]}
    assert [plan["train.weight_decay"] for plan in plans.values()] == [0.014, 0.0068, 0.0096]
    narrow = head_plan(256, 10_000, 100)
    assert narrow["stages.refine.weight_decay"] == pytest.approx(0.6 * 0.0136 * (256 / 1280) ** 0.45, rel=0.02)


@pytest.mark.parametrize(
    ("samples", "classes", "epochs"),
    [(500, 2, (20, 10)), (10_000, 10, (10, 6)), (50_000, 10, (6, 4)), (20_000, 100, (20, 10)), (10**6, 100, (4, 4))],
)
def test_a_head_sees_many_samples_fewer_times(samples, classes, epochs):
    plan = head_plan(1280, samples, classes)
    assert (plan["train.epochs"], plan["stages.refine.epochs"]) == epochs


def test_fewer_epochs_of_the_second_stage_have_larger_steps():
    rates = [head_plan(1280, samples, 10).get("stages.refine.lr", 0.02) for samples in (5_000, 10_000, 50_000, 10**6)]
    assert rates == [0.02, 0.033, 0.03, 0.02]
