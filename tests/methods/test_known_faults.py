"""Faults of public code that are not inherited. Those of one step are pinned beside their method:

Co-teaching's mean divided again (test_co_teaching), JoCoR's halved rate and default weight (test_jocor), Forward's
zeroing in place (test_forward), LIMIT's sum over the batch (test_limit), MLNT's detachment that does nothing, element
mean and batch norm (test_mlnt), nan where all are filtered and the clamp (test_nlnl, test_pseudo), M-correction's ten
classes (test_m_correction), softmax twice (test_pencil, where it is kept on purpose; test_forward: with the identity it
is cross-entropy). Here are those of schedules, noise and evaluation.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.helpers import quick

from jnpl import noise
from jnpl.data.sources.arrays import from_arrays
from jnpl.noise.kinds import class_map
from jnpl.recipes.load import load_recipe


def test_pencils_last_stage_divides_its_learning_rate_truly():
    """The released code writes lr2 // 10, which is 0: the network stands still for two thirds of the stage."""
    plan = load_recipe("pencil-cifar10").plan("classify")
    rates = {plan.lr_at(epoch) for epoch in range(plan.epochs)}
    assert sorted(rates) == pytest.approx([0.002, 0.02, 0.2])


def test_wrong_labels_of_a_hundred_classes_are_of_all_of_them():
    """M-correction's generator draws from the first ten classes for CIFAR-100 too."""
    labels = np.repeat(np.arange(100), 50)
    given = noise.symmetric(labels, 0.5, 100, seed=0)
    assert len(set(given[given != labels].tolist())) == 100


def test_asymmetric_flips_follow_the_true_label_once():
    """A port flips cats to dogs and then some of the new dogs back; LIMIT's code never flips dogs."""
    labels = np.repeat(np.arange(10), 100)
    given = noise.asymmetric(labels, 0.4, "cifar10", seed=0)
    mapping = class_map("cifar10", 10)
    assert (mapping[3], mapping[5]) == (5, 3)
    for label in range(10):
        moved = given[(labels == label) & (given != label)]
        target = mapping.get(label, label)
        assert len(moved) == (40 if target != label else 0)
        assert (moved == target).all()


def test_the_rate_of_cifar100_asymm_is_not_halved():
    """JoCoR's code tells itself half of it for every data set; all classes of CIFAR-100 have wrong labels."""
    labels = np.repeat(np.arange(100), 10)
    x = np.zeros((1000, 2), np.float32)
    hundred = from_arrays(x, noise.asymmetric(labels, 0.4, "cifar100", seed=0), y_true=labels)
    assert hundred.realised_noise()[0] == pytest.approx(0.4)
    ten = from_arrays(x, noise.asymmetric(labels % 10, 0.4, "cifar10", seed=0), y_true=labels % 10)
    assert ten.realised_noise()[0] == pytest.approx(0.2)


def run(name, out, source):
    return quick.train(source, quick.recipe_of(name), out).results


@pytest.mark.parametrize("name", ["gce", "forward", "mlnt", "limit", "joint-optim", "co-teaching", "nlnl"])
def test_test_data_choose_nothing(name, tmp_path):
    """Truncated-Loss prunes, and a port of Joint-Optim selects, by the best epoch on the test set."""
    source = quick.data()
    run(name, tmp_path / "true", source)
    run(name, tmp_path / "false", replace(source, test=replace(source.test, labels=(source.test.labels + 1) % 4)))
    assert (tmp_path / "true/metrics.jsonl").read_text() != (tmp_path / "false/metrics.jsonl").read_text()
    for file in ("model.safetensors", "findings.parquet"):
        assert (tmp_path / "true" / file).read_bytes() == (tmp_path / "false" / file).read_bytes()


@pytest.mark.parametrize("samples", [1, 39, 40])
def test_every_test_sample_counts(samples, tmp_path):
    """Co-teaching's test loader drops the last, smaller batch: 9,984 of 10,000 images are tested."""
    source = quick.data()
    few = replace(source.test.inputs, values=source.test.inputs.values[:samples])
    test = replace(source.test, inputs=few, labels=source.test.labels[:samples], ids=np.arange(samples))
    accuracy = run("ce", tmp_path / "run", replace(source, test=test))["test_accuracy"]
    assert (accuracy * samples) == pytest.approx(round(accuracy * samples))
    assert samples > 1 or accuracy in (0.0, 1.0)


def test_test_accuracy_is_of_test_data_and_not_of_validation_data(tmp_path):
    """MLNT's baseline script reports the accuracy on its validation set as that on the test set."""
    source = quick.data()
    results = run("limit", tmp_path / "one", source)
    wrong = replace(source.validation, labels=(source.validation.labels + 1) % 4)
    other = run("limit", tmp_path / "two", replace(source, validation=wrong))
    assert results["last_test_accuracy"] == other["last_test_accuracy"]
