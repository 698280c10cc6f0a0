"""Cells, their rows and their data: names that stay, recipes that parse, noise that is what it says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError

from jnpl.data.sources.cifar import PIXELS
from jnpl.experiments import cell_data as data
from jnpl.experiments import rows
from jnpl.experiments.cell import Cell
from jnpl.internal.errors import InputError
from jnpl.methods.registry import METHODS
from jnpl.training.phases import make_phases
from jnpl.training.pseudo_labels import pseudo_label_settings

IRIS = {"row": "ce", "data": "iris", "noise": "symm", "rate": 0.4, "epochs": 2, "seed": 1}
CIFAR = {**IRIS, "data": "cifar10", "pixels": 16, "images": 40, "test_images": 20, "net": "resnet8"}


def test_a_key_is_that_of_the_settings_alone_and_stays():
    cell = Cell(**IRIS)
    assert cell.name == "ce-iris-symm40-1-2fec650a55f2"  # results on disk are found by it: never change it lightly
    assert Cell.model_validate_json(cell.model_dump_json()) == cell
    assert Cell(**dict(reversed(IRIS.items()))).key == cell.key


def test_every_setting_makes_another_key():
    others = [
        {"row": "gce"},
        {"images": 50},
        {"start": 1},
        {"test_images": 5},
        {"pixels": 32},
        {"noise": "asymm"},
        {"rate": 0.41},
        {"net": "auto"},
        {"epochs": 3},
        {"batch_size": 32},
        {"padding": 2},
        {"seed": 2},
        {"data": "cifar10n", "noise": "human", "rate": 0},
    ]
    keys = {Cell(**CIFAR).key, *(Cell(**{**CIFAR, **other}).key for other in others)}
    assert len(keys) == 1 + len(others)
    changed = {name for other in others for name in other}
    assert changed == set(Cell(**CIFAR).model_dump())


def test_human_noise_has_no_rate_in_its_name():
    assert Cell(**{**CIFAR, "data": "cifar10n", "noise": "human", "rate": 0}).setting == "cifar10n-human"
    assert Cell(**{**IRIS, "rate": 0.125}).setting == "iris-symm12.5"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rate": 0}, "a rate above 0"),
        ({"noise": "none"}, "a rate above 0"),
        ({"noise": "human", "rate": 0}, "cifar10n"),
        ({"data": "cifar10"}, "needs pixels"),
        ({"pixels": 16}, "are for cifar10"),
        ({"data": "mnist"}, "data"),
        ({"row": "../ce"}, "row"),
    ],
)
def test_what_does_not_belong_together_is_refused(wrong, told):
    with pytest.raises(ValidationError, match=told):
        Cell(**{**IRIS, **wrong})


@pytest.mark.parametrize("epochs", [1, 2, 10, 30, 61])
@pytest.mark.parametrize("row", rows.ROWS)
def test_every_row_is_a_recipe_at_any_length(row, epochs):
    for settings in (IRIS, {**CIFAR, "padding": 1, "batch_size": 16}):
        cell = Cell(**{**settings, "row": row, "epochs": epochs})
        recipe = cell.recipe()
        ours = max(2, round(0.9 * epochs))  # and three times as many in its second part
        assert recipe.train.epochs == (ours if row.startswith("fast") else 4 * ours if "-long" in row else epochs)
        assert recipe.train.batch_size == (128 if row == "fast-batch-128" else cell.batch_size)
        assert recipe.engine.accelerator == "cpu"
        assert recipe.data.val_size == 0
        if row == "fast-no-crop":
            assert recipe.data.padding == 0
        elif row == "fast-flip" or not (row.startswith("fast") or row.endswith(("-augmented", "-long"))):
            assert recipe.data.padding == cell.padding
        else:
            assert recipe.data.padding == "auto"


@pytest.mark.parametrize("epochs", [4, 10, 30, 61])
def test_the_stages_of_nlnl_sum_to_the_epochs_of_the_others(epochs):
    recipe = Cell(**{**IRIS, "row": "nlnl", "epochs": epochs}).recipe()

    phases = make_phases(recipe, METHODS["nlnl"], pseudo_label_settings(recipe, METHODS["nlnl"]))
    filters = [phase.plan for phase in phases if not phase.pseudo]
    assert sum(plan.epochs for plan in filters) == epochs
    assert [plan.lr for plan in filters] == [0.1, 0.05, 0.02]
    assert [phase.plan.epochs for phase in phases if phase.pseudo] == [epochs // 2] * 2


def test_the_paper_scaled():
    recipe = Cell(**{**IRIS, "row": "jnpl-paper", "epochs": 30, "batch_size": 32}).recipe()
    assert (recipe.train.lr, recipe.train.milestones) == (0.01, (24,))
    second = pseudo_label_settings(recipe, METHODS["jnpl"])
    assert (second.plan.epochs, second.plan.lr, second.plan.milestones) == (30, 0.1, (12, 18))
    assert second.plan.batch_size == 32
    told = recipe.method.model_dump()
    assert (told["complements"], told["num_complements"], told["pl_weight"]) == ("sampled", 1, 0.01)
    assert told["class_weight"] == "none"


def test_an_unknown_row_is_told():
    with pytest.raises(InputError, match="there is no row 'cee'; there are ce, fast"):
        Cell(**{**IRIS, "row": "cee"}).recipe()


@pytest.mark.parametrize(
    ("name", "samples", "classes"), [("wine", 178, 3), ("breast-cancer", 569, 2), ("iris", 150, 3)]
)
def test_sets_of_scikit_learn_are_split_by_class_and_seed(name, samples, classes):
    source = data.load(Cell(**{**IRIS, "data": name}), None)
    assert len(source) + len(source.test) == samples
    assert len(source.test) == -(-samples // 4)
    shares = [np.bincount(labels, minlength=classes) for labels in (source.true_labels, source.test.labels)]
    assert abs(shares[0] / len(source) - shares[1] / len(source.test)).max() < 0.03
    again, other = (data.load(Cell(**{**IRIS, "data": name, "seed": seed}), None) for seed in (1, 2))
    assert again.fingerprint() == source.fingerprint() != other.fingerprint()


def test_kinds_of_noise():
    found = {}
    for noise in ("symm", "asymm", "instance", "none"):
        cell = Cell(**{**IRIS, "data": "digits", "noise": noise, "rate": 0.4 * (noise != "none")})
        source = data.load(cell, None)
        found[noise] = source.labels, source.true_labels
    wrong = {noise: given != true for noise, (given, true) in found.items()}
    assert wrong["none"].sum() == 0
    assert abs(wrong["symm"].mean() - 0.4) < 0.005
    assert abs(wrong["instance"].mean() - 0.4) < 0.05
    given, true = found["asymm"]
    assert ((given == true) | (given == (true + 1) % 10)).all()  # a ring
    assert abs(wrong["asymm"].mean() - 0.4) < 0.005


def test_fewer_samples_are_the_first_ones():
    few, all_ = (data.load(Cell(**{**IRIS, "images": images}), None) for images in (20, None))
    assert (len(few), len(all_)) == (20, 112)
    assert (few.true_labels == all_.true_labels[:20]).all()
    with pytest.raises(InputError, match="a cell needs samples 0 to 113, iris has 112"):
        data.load(Cell(**{**IRIS, "images": 113}), None)


@pytest.fixture
def cifar(tmp_path):
    """A made-up CIFAR-10 of 5 x 30 and 30 images, with people's labels."""
    rng, folder = np.random.default_rng(0), tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    parts = [rng.integers(0, 256, (30, 1 + PIXELS), np.uint8) for _ in range(6)]
    for number, part in enumerate(parts):
        part[:, 0] = np.arange(30) % 10
        (folder / ("test_batch.bin" if number == 5 else f"data_batch_{number + 1}.bin")).write_bytes(part.tobytes())
    clean = np.concatenate([part[:, 0] for part in parts[:5]]).astype(np.int64)
    human = np.where(np.arange(150) % 3 == 0, (clean + 4) % 10, clean)
    kinds = ("worse_label", "aggre_label", "random_label1", "random_label2", "random_label3")
    np.savez(tmp_path / "cifar-10n.npz", clean_label=clean, **dict.fromkeys(kinds, human))
    return tmp_path, np.concatenate(parts[:5])[:, 1:].reshape(150, 3, 32, 32).transpose(0, 2, 3, 1), human


def test_cifar_from_an_image_on_at_half_the_size(cifar):
    root, images, _ = cifar
    source = data.load(Cell(**{**CIFAR, "start": 35, "noise": "asymm"}), root)
    assert (len(source), len(source.test)) == (40, 20)
    assert source.inputs.values.shape == (40, 16, 16, 3)
    block = images[35, 4:6, 6:8].astype(float).mean((0, 1))
    assert abs(source.inputs.values[0, 2, 3] - block).max() <= 0.5
    moved = {9: 1, 2: 0, 4: 7, 3: 5, 5: 3}
    wrong = source.labels != source.true_labels
    assert wrong.any()
    assert all(
        moved[true] == given for true, given in zip(source.true_labels[wrong], source.labels[wrong], strict=True)
    )
    whole = data.load(Cell(**{**CIFAR, "pixels": 32, "start": 35}), root)
    assert (whole.inputs.values == images[35:75]).all()
    with pytest.raises(InputError, match="a cell needs samples 120 to 160, cifar10 has 150"):
        data.load(Cell(**{**CIFAR, "start": 120}), root)


@pytest.mark.parametrize("name", ["cifar10", "cifar10n"])
def test_no_test_image_where_settings_are_chosen(cifar, name):
    root, images, _ = cifar
    noisy = {"data": name, "noise": "human", "rate": 0} if name == "cifar10n" else {}
    for start, wanted in ((0, None), (35, images[120:140])):
        test = data.load(Cell(**{**CIFAR, **noisy, "pixels": 32, "start": start}), root).test
        seen = {image.tobytes() for image in images}
        assert len(test) == 20
        assert all((image.tobytes() in seen) == bool(start) for image in test.inputs.values)
        if start:
            assert (test.inputs.values == wanted).all()
            assert (test.labels == np.arange(20) % 10).all()  # the true ones
    with pytest.raises(InputError, match="images from 120 on are held out; a cell needs images to 130"):
        data.load(Cell(**{**CIFAR, "start": 90}), root)


def test_people_s_labels_are_given(cifar):
    root, _, human = cifar
    source = data.load(Cell(**{**CIFAR, "data": "cifar10n", "noise": "human", "rate": 0, "start": 7}), root)
    assert (source.labels == human[7:47]).all()
    assert (source.labels != source.true_labels).mean() == pytest.approx(1 / 3, abs=0.02)


def test_settings_are_plain_json():
    assert json.loads(Cell(**IRIS).model_dump_json())["test_images"] is None


@pytest.mark.parametrize("name", rows.TABLES)
def test_tables_have_as_many_samples_and_classes_as_their_rows_take_them_to_have(name):
    source = data.load(Cell(row="ce", data=name, noise="symm", rate=0.2, epochs=1, seed=0), None)
    assert (len(source), len(source.class_names)) == rows.TABLES[name]
