"""The recipe `fast` through the engine: what it finds, what it leaves alone, when it does not collapse.

Floors and ceilings say what a user may expect, not what was seen.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_breast_cancer, load_digits
from tests.helpers import quick
from tests.helpers.fast_runs import COLLAPSES, NEVER, RAN_AWAY, blobs, digits, train, zero_or_not
from tests.helpers.paths import SHARED_DATA

from jnpl import noise
from jnpl.cli import app as cli
from jnpl.data.opening import open_source
from jnpl.data.source import InMemory
from jnpl.data.sources.arrays import from_arrays
from jnpl.judging import Findings
from jnpl.losses.short_training import has_collapsed
from jnpl.outputs.saved_model import SavedModel
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.schema import parse_recipe
from jnpl.training.reporting import Reporter

CIFAR10 = SHARED_DATA
real = pytest.mark.skipif(
    not (CIFAR10 / "cifar-10-batches-bin" / "test_batch.bin").is_file(), reason=f"CIFAR-10 is not at {CIFAR10}"
)


class Run(NamedTuple):
    """What a run told and found, and how often the network that it left predicts each class, of its training set."""

    told: dict[str, Any]
    findings: Findings
    shares: np.ndarray  # (C,)
    source: Any
    out: Path

    @property
    def wrong(self) -> np.ndarray:
        return self.source.labels != self.source.true_labels

    @property
    def flagged_right(self) -> float:
        """Share of right labels that are flagged."""
        return self.findings.is_label_issue[~self.wrong].mean()


@pytest.fixture
def run(tmp_path):
    """A run in a folder of its own: source and changes of the recipe -> Run."""

    def of(source, *changes, seed=0):
        out = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        return look(train(source, out, *changes, seed=seed), out, source)

    return of


def look(told, out, source):
    predicted = SavedModel.load(out).probabilities(source).argmax(1)
    counts = np.bincount(predicted, minlength=len(source.class_names))
    return Run(told, Findings.load(out), counts / len(source), source, out)


SEEDS = [0, pytest.param(1, marks=pytest.mark.slow)]  # of what one seed shows already
THREE = [*SEEDS, pytest.param(2, marks=pytest.mark.slow)]
# Data sets of several tests.
SETTINGS = {
    "40 % wrong": lambda seed: digits(0.4, seed),
    "80 % wrong": lambda seed: digits(0.8, seed),
    "none wrong": lambda seed: digits(0, seed),
    "uneven": lambda seed: noisy_blobs((1000, 700, 300, 20), seed),
    "two classes": lambda seed: zero_or_not(0.2, seed),
    "hundred": lambda seed: noisy_blobs((30,) * 100, seed, apart=6.0),
}


# Decision trees, which help to judge labels of tables, take four fifths of the time, and have no part in what becomes
# of the network: where that is tested, runs are without.
NO_TREES = "verdict.trees=false"
CHANGES = {name: (NO_TREES,) for name in SETTINGS if name != "40 % wrong"}


def noisy_blobs(sizes, seed, rate=0.2, apart=4.0):
    x, labels = blobs(sizes, seed, apart)
    return from_arrays(x, noise.symmetric(labels, rate, len(sizes), seed=seed), y_true=labels)


@pytest.fixture(scope="module")
def find_once(tmp_path_factory):
    """A run of each of the settings above, once for each seed; its folder is ready for the second part."""

    @cache
    def of(name, seed=0):
        out, source = tmp_path_factory.mktemp("once") / "run", SETTINGS[name](seed)
        return look(train(source, out, *CHANGES.get(name, ()), seed=seed, every=CheckpointInterval()), out, source)

    return of


def halfway(base):
    """From what a coin reaches to what can be reached."""
    return base + (1 - base) / 2


@pytest.mark.parametrize("seed", THREE)
def test_forty_percent_wrong_digits(seed, find_once):
    done = find_once("40 % wrong", seed)
    assert done.told["ap"] > 0.97
    assert (done.shares > 0.05).all()  # all have about 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_digits_without_noise_are_left_alone(seed, find_once):
    done = find_once("none wrong", seed)
    assert done.told["noise_rate"] <= 0.02
    assert done.told["test_accuracy"] > 0.95


def test_eighty_percent_wrong_digits(run, find_once):
    """No collapse, and better than the last epoch of cross-entropy in the same budget."""
    done = find_once("80 % wrong")
    ce = run(done.source, "method.name=ce", NO_TREES)
    assert done.told["epochs"] == ce.told["epochs"]
    assert (done.shares > 0.02).all()
    assert done.shares.max() < 0.3
    assert done.told["ap"] > halfway(done.wrong.mean())
    assert done.told["ap"] > ce.told["ap"] + 0.05


def cancer(rate, seed):
    bunch = load_breast_cancer()
    return from_arrays(
        bunch.data.astype(np.float32), noise.symmetric(bunch.target, rate, 2, seed=seed), y_true=bunch.target
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rate", [0.2, 0.3])
def test_two_classes(rate, seed, run):
    """Tumours, 37 % of them malignant."""
    done = run(cancer(rate, seed), seed=seed)
    assert done.shares.min() > 0.2
    assert done.told["ap"] > halfway(done.wrong.mean())


@pytest.mark.parametrize("seed", SEEDS)
def test_two_classes_one_of_them_large(seed, find_once):
    """Is it a zero? One in ten is."""
    done = find_once("two classes", seed)
    assert 0.02 < done.shares.min() < 0.2
    assert done.told["ap"] > halfway(done.wrong.mean())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rare_class_keeps_its_right_labels(seed, find_once):
    """20 of a class beside 1,000 of another, one label in five wrong: 16 of the 20 are right."""
    done = find_once("uneven", seed)
    labels = done.source.true_labels
    rare = (labels == 3) & ~done.wrong
    assert rare.sum() == 16
    assert done.findings.is_label_issue[rare].mean() <= 0.25
    assert 0.5 * 20 < done.shares[3] * len(labels) < 4 * 20
    assert done.shares.max() < 0.6
    assert done.told["ap"] > 0.9


def long_tail(seed):
    """Digits, 178 of the first class down to 4 of the last."""
    bunch, random = load_digits(), np.random.default_rng(seed)
    sizes = [round(178 * (4 / 178) ** (label / 9)) for label in range(10)]
    members = [random.permutation(np.flatnonzero(bunch.target == label)) for label in range(10)]
    kept = np.concatenate([each[:size] for each, size in zip(members, sizes, strict=True)])
    return bunch.data[kept].astype(np.float32), bunch.target[kept]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_tail_without_noise_is_left_alone(seed, run):
    x, labels = long_tail(seed)
    done = run(from_arrays(x, labels, y_true=labels), seed=seed)
    assert done.flagged_right <= 0.02
    assert done.shares.max() < 0.5


@pytest.mark.parametrize(("sizes", "rate"), [((2000, *[60] * 9), 0.4), ((1960, 40), 0.2)])
def test_small_classes_that_noise_fills_with_others(sizes, rate, run):
    """Most samples with a rare label are of the large class: weights by count would let them win."""
    done = run(noisy_blobs(sizes, 0, rate), NO_TREES)
    assert done.told["ap"] > 0.9
    assert done.flagged_right <= 0.02
    assert (done.shares > 0).all()


def test_few_given_labels_of_a_class(run):
    """1,000, 1,000 and 20; a fifth of the first class is called the second, nobody else is called the third."""
    x, labels = blobs((1000, 1000, 20), seed=0, apart=3.0)
    given = labels.copy()
    given[np.random.default_rng(0).permutation(1000)[:200]] = 1
    done = run(from_arrays(x, given, y_true=labels), NO_TREES)
    assert done.shares.max() < 0.7
    assert done.findings.is_label_issue[labels == 2].mean() <= 0.25
    assert done.told["ap"] > halfway(done.wrong.mean())


def hundred(root, each, seed=0):
    """Files as CIFAR-100 has them: a pattern of 4 x 4 colours for each class, and noise in blocks of 2 x 2 pixels."""
    random = np.random.default_rng(seed)
    patterns = np.kron(random.normal(size=(100, 3, 4, 4)), np.ones((8, 8)))
    folder = root / "cifar-100-binary"
    folder.mkdir()
    for name, count in (("train.bin", each), ("test.bin", 2)):
        fine = random.permutation(np.repeat(np.arange(100), count))
        rough = np.kron(random.normal(0, 50, (len(fine), 3, 16, 16)), np.ones((2, 2)))
        pixels = np.clip(128 + 35 * patterns[fine] + rough, 0, 255).astype(np.uint8).reshape(len(fine), -1)
        heads = np.stack([fine // 5, fine], axis=1).astype(np.uint8)
        (folder / name).write_bytes(np.concatenate([heads, pixels], axis=1).tobytes())
    return open_source("cifar100", root=root)


def eighth(images):
    """(N, 32, 32, 3) -> (N, 8, 8, 3), means of 4 x 4."""
    return images.reshape(len(images), 8, 4, 8, 4, 3).mean((2, 4)).round().astype(np.uint8)


def test_a_hundred_classes_of_ten_images(run, tmp_path_factory):
    clean = hundred(tmp_path_factory.mktemp("hundred"), 10)
    small = replace(clean, inputs=InMemory(eighth(clean.inputs.values)), test=None)
    source = replace(small, labels=noise.symmetric(clean.labels, 0.2, 100, seed=0), true_labels=clean.labels)
    assert source.inputs.values.shape == (1000, 8, 8, 3)
    short = ("train.epochs=15", NO_TREES)
    done, without = run(source, *short), run(source, *short, "method.ce_start=false")
    assert (done.shares > 0).sum() >= 80
    assert done.told["ap"] > halfway(done.wrong.mean())
    assert (without.shares > 0).sum() < 80  # NL alone moves too little
    assert without.told["ap"] < done.told["ap"] - 0.1


def test_a_hundred_classes_of_which_a_few_are_late(find_once):
    """One class or another is always lost for a while: that is no collapse, and no reason to hold back."""
    done = find_once("hundred")
    assert (done.shares > 0).sum() >= 95
    assert done.told["ap"] > 0.98


# One complement drawn at each step, PL+ from the first with the paper's weight: so, too, it collapses.
SAMPLED = ("train.lr=0.1", "method.pl_start=0", "method.gamma_rise=none", "method.complements=sampled")


@pytest.mark.parametrize(("settings", "classes_left"), [(COLLAPSES, 10), (SAMPLED, 9)], ids=["strong", "sampled"])
def test_a_guard_brings_back_what_collapses_without(settings, classes_left, run, capsys, tmp_path):
    """The same settings with and without; the one with a guard from the command line, which says so.

    One complement a step is slow: thirty epochs of that may leave a class behind.
    """
    source = digits(0.4)
    lost = run(source, *settings, "method.guard=0", NO_TREES)
    assert lost.shares.max() > 0.9
    assert all(note.startswith("judged by ") for note in lost.told.get("notes", []))
    assert lost.told["ap"] < lost.wrong.mean() + 0.1
    data, out = tmp_path / "digits.npz", tmp_path / "guarded"
    test = source.test
    np.savez(
        data,
        x=source.inputs.values,
        y=source.labels,
        y_true=source.true_labels,
        x_test=test.inputs.values,
        y_test=test.labels,
    )
    changes = [part for change in (*settings, NO_TREES, "method.guard=0.3") for part in ("--set", change)]
    with pytest.raises(SystemExit) as stop:
        cli.main(
            [
                "find",
                str(data),
                "--out",
                str(out),
                "--recipe",
                "fast",
                *changes,
                "--accelerator",
                "cpu",
                "--workers",
                "0",
                "--threads",
                "1",
            ]
        )
    assert not stop.value.code
    assert f"\n{RAN_AWAY}: " in capsys.readouterr().out
    told = json.loads((out / "run.json").read_text())["results"]
    assert [note.partition(": ")[0] for note in told["notes"]] == [RAN_AWAY]
    held = look(told, out, source)
    assert (held.shares > 0.02).sum() >= classes_left
    assert held.shares.max() < 0.3
    assert held.told["ap"] > 0.9


SHORT = ("train.epochs=5", "train.batch_size=32", "train.lr=0.05")


def test_the_network_that_is_left_is_the_mean(tmp_path):
    """It costs the training nothing: the same losses as without, other weights, and the accuracy that was told."""
    source, lines = quick.data(), {}
    for average in ("0.99", "0.0"):
        told = train(source, tmp_path / average, *SHORT, f"train.average={average}")
        log = (tmp_path / average / "metrics.jsonl").read_text().splitlines()
        lines[average] = [json.loads(line)["loss"] for line in log]
        predicted = SavedModel.load(tmp_path / average).probabilities(source.test).argmax(1)
        assert told["test_accuracy"] == pytest.approx((predicted == source.test.labels).mean())
    assert lines["0.99"] == lines["0.0"]
    mean, last = (load_file(tmp_path / average / "model.safetensors") for average in ("0.99", "0.0"))
    assert all((mean[name] - last[name]).abs().max() > 1e-3 for name in last)


def test_samples_that_cannot_be_read_are_no_collapse(tmp_path):
    """All that are called the first class of three are torn: the others are predicted as they are given."""
    source = noisy_blobs((400, 300, 300), 0)
    torn = dict.fromkeys(np.flatnonzero(source.labels == 0).tolist(), "torn")
    told = train(replace(source, unreadable=torn), tmp_path / "run", NO_TREES)
    assert all(note.startswith("judged by ") for note in told.get("notes", []))


def test_the_accuracy_that_is_told_is_that_of_the_network_that_is_left(tmp_path):
    """LIMIT ends with the weights that did best on validation data; here they are averaged ones."""
    settings = quick.recipe_of("limit").model_dump(mode="json")
    settings["train"] |= {"average": 0.9, "epochs": 6, "lr": 0.1}
    source = quick.data()
    told = run_recipe(source, parse_recipe(settings), tmp_path / "run", every=NEVER, report=Reporter()).results
    predicted = SavedModel.load(tmp_path / "run").probabilities(source.test).argmax(1)
    assert told["test_accuracy"] == pytest.approx((predicted == source.test.labels).mean())


def test_each_score_is_one_of_its_own(run):
    """Four in ten of each digit are called the next: that is what the posterior is for."""
    clean = digits(0)
    source = replace(clean, labels=noise.asymmetric(clean.labels, 0.4, "pairflip", 0, num_classes=10))
    done = {score: run(source, f"verdict.score={score}", NO_TREES) for score in ("history", "network", "posterior")}
    quality = {score: each.findings.label_quality for score, each in done.items()}
    for score, values in quality.items():
        assert values.shape == (1400,), score
        assert ((values >= 0) & (values <= 1)).all(), score
        assert len(np.unique(values)) > 1000, score
        assert done[score].told["ap"] > halfway(0.4), score
    for one, other in (("history", "network"), ("history", "posterior"), ("network", "posterior")):
        assert np.abs(quality[one] - quality[other]).max() > 0.01, (one, other)
    ap = {score: each.told["ap"] for score, each in done.items()}
    assert ap["posterior"] > max(ap["history"], ap["network"]) + 0.02
    # One network: only the verdict differs.
    assert len({tuple(each.shares.tolist()) for each in done.values()}) == 1


@pytest.mark.parametrize("seed", THREE)
def test_as_many_flags_as_wrong_labels(seed, find_once):
    done = find_once("40 % wrong", seed)
    assert done.told["issues"] == pytest.approx(done.wrong.sum(), rel=0.1)


# Setting -> the mean accuracy over classes, of true labels, that the classifier must reach.
FLOORS = {
    "uneven": 0.9,
    "two classes": 0.95,
    "hundred": 0.9,
    "80 % wrong": 0.2,  # an MLP learns many of these by heart; a coin has 0.1
    "none wrong": 0.95,
}


@pytest.mark.parametrize("name", FLOORS)
def test_no_class_is_lost_with_pseudo_labels(name, find_once):
    """Go on with the second part of `fast`, which has no guard of its own, where its first part has ended.

    That is the same as both at once: tests/training/test_train_again.py.
    """
    source = find_once(name).source
    told = train(source, find_once(name).out, *CHANGES.get(name, ()), every=CheckpointInterval(), classify=True)
    assert told["epochs"] == 120
    predicted = SavedModel.load(find_once(name).out).probabilities(source).argmax(1)
    right, classes = predicted == source.true_labels, len(source.class_names)
    assert np.mean([right[source.true_labels == label].mean() for label in range(classes)]) > FLOORS[name]
    counts = (torch.bincount(torch.as_tensor(each), minlength=classes) for each in (predicted, source.true_labels))
    assert not has_collapsed(*counts, 0.3)  # the test that the guard makes
