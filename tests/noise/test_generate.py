"""Label noise: exact counts, never the true class, the same bytes for ever."""

import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jnpl import noise
from jnpl.internal.errors import InputError
from jnpl.noise import (
    generate,
    kinds,
)


def balanced(classes: int, each: int) -> np.ndarray:
    return np.tile(np.arange(classes), each)


class TestSymmetric:
    @pytest.mark.parametrize("rate", [0.0, 0.2, 0.29, 0.4, 0.6, 0.8, 1.0])
    def test_exactly_the_share_of_every_class_changes(self, rate):
        clean = balanced(10, 100)
        noisy = noise.symmetric(clean, rate, 10, seed=3)
        changed = np.bincount(clean[noisy != clean], minlength=10)
        assert changed.tolist() == [round(100 * rate)] * 10

    def test_unequal_classes_round_down_each(self):
        clean = np.repeat([0, 1, 2], [7, 4, 1])
        noisy = noise.symmetric(clean, 0.5, 3)
        assert np.bincount(clean[noisy != clean], minlength=3).tolist() == [3, 2, 0]

    def test_targets_are_uniform_over_the_other_classes(self):
        clean = balanced(10, 5000)
        noisy = noise.symmetric(clean, 0.8, 10, seed=1)
        for label in range(10):
            hits = np.bincount(noisy[(clean == label) & (noisy != clean)], minlength=10)
            assert hits[label] == 0
            others = np.delete(hits, label)
            chi_square = ((others - 4000 / 9) ** 2 / (4000 / 9)).sum()
            assert chi_square < 26.1  # 0.1 % point for 8 degrees of freedom

    def test_inclusive_noise_may_keep_the_true_class(self):
        clean = balanced(10, 5000)
        noisy = noise.symmetric(clean, 0.8, 10, inclusive=True)
        assert (noisy != clean).mean() == pytest.approx(0.8 * 9 / 10, abs=0.005)

    def test_bernoulli_is_near_the_rate_but_not_exact(self):
        clean = balanced(10, 5000)
        noisy = noise.symmetric(clean, 0.4, 10, count="bernoulli")
        changed = np.bincount(clean[noisy != clean])
        assert changed.sum() / 50000 == pytest.approx(0.4, abs=0.01)
        assert len(set(changed.tolist())) > 1

    @pytest.mark.parametrize("count", ["exact", "bernoulli"])
    def test_lower_rates_change_a_subset(self, count):
        clean = balanced(5, 200)
        low, high = (noise.symmetric(clean, rate, 5, seed=9, count=count) for rate in (0.2, 0.6))
        where = low != clean
        assert (high[where] == low[where]).all()

    def test_seeds_differ_and_the_input_is_left_alone(self):
        clean = balanced(5, 200)
        before = clean.copy()
        assert (noise.symmetric(clean, 0.4, 5, seed=0) != noise.symmetric(clean, 0.4, 5, seed=1)).any()
        assert (clean == before).all()


class TestAsymmetric:
    def test_40_percent_on_cifar10_changes_20_percent_of_all(self):
        clean = balanced(10, 500)
        bundle = noise.corrupt(clean, "asymm", 0.4, mapping="cifar10")
        assert bundle.rate_realised == 0.2
        assert bundle.is_noisy.sum() == 5 * 200

    def test_cats_that_turned_dogs_do_not_turn_back(self):
        clean = balanced(10, 500)
        noisy = noise.asymmetric(clean, 0.4, "cifar10")
        for source, target in kinds.CIFAR10.items():
            assert (noisy[clean == source] == target).sum() == 200
        assert (noise.asymmetric(clean, 1.0, "cifar10")[clean == 3] == 5).all()
        untouched = ~np.isin(clean, list(kinds.CIFAR10))
        assert (noisy[untouched] == clean[untouched]).all()

    def test_the_same_samples_are_picked_as_by_symmetric_noise(self):
        clean = balanced(10, 50)
        symm = noise.symmetric(clean, 0.4, 10, seed=4) != clean
        asymm = noise.pair_flip(clean, 0.4, 10, seed=4) != clean
        assert (symm == asymm).all()

    def test_pairflip_and_dict(self):
        clean = balanced(4, 10)
        assert (noise.pair_flip(clean, 1.0, 4) == (clean + 1) % 4).all()
        assert (noise.asymmetric(clean, 1.0, {np.int64(1): 3}) == np.where(clean == 1, 3, clean)).all()
        assert (noise.asymmetric([0, 1], 1.0, {0: 5}, num_classes=6) == [5, 1]).all()


class TestTransition:
    matrix = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5], [0.25, 0.0, 0.75]])

    def test_realised_matrix_is_near_the_one_asked_for(self):
        realised = noise.corrupt(balanced(3, 20000), "matrix", matrix=self.matrix).matrix
        assert np.abs(realised - self.matrix).max() < 0.01
        assert (realised[self.matrix == 0] == 0).all()

    def test_exact_counts(self):
        realised = noise.corrupt(balanced(3, 40), "matrix", matrix=self.matrix, count="exact").matrix
        assert (realised == self.matrix).all()

    @pytest.mark.parametrize("count", ["exact", "bernoulli"])
    def test_identity_and_permutation(self, count):
        clean = balanced(3, 7)
        assert (noise.transition(clean, np.eye(3), count=count) == clean).all()
        assert (noise.transition(clean, np.eye(3)[[1, 2, 0]], count=count) == (clean + 1) % 3).all()

    def test_a_row_that_falls_short_by_rounding_never_gives_an_impossible_class(self):
        row = [0.5 - 4e-7, 0.5 - 4e-7, 0.0]
        noisy = noise.transition([0] * 100000, [row, [0, 1, 0], [0, 0, 1]])
        assert set(noisy.tolist()) == {0, 1}


# Recorded once and for ever: if one of these changes, published noise files can no longer be made again.
GOLDEN = {
    "symm": "5cd94b02574a7bf1fef20336aff092f6f792cf4fc37b7f5ccf1a53332d6b9184",
    "symm bernoulli": "ba9052e8f8374c673f5a4634feede01b0263fc4aa8dace8932315a58625de908",
    "symm inclusive": "25fe667b6f0782afa2b4e412144f8e18904e4d5eb99480f813cbdebc9384fa34",
    "asymm": "eb7fdef4d8aad3a563364b503dc3387c35b2c9da6add5650ab2dcb73a73757f5",
    "pairflip": "2761a0d736c34169556243b27d05e72fd3ff2161d5febd999f40db0f5f4fba02",
    "matrix": "cf24ddf23c5976ea98df8f8abb869424f95b0a726c631b7e2e51a1103d1bced2",
    "matrix exact": "fd647aa240db70390c40dbd349c0c695f87f7d23b6d87d3b1dcb90f5b377df5e",
    "instance": "ebee3eef58777cd3e26f998b90b111f186195f8cecccc4ee845ab8d25d6cf901",
}


def golden_case(name: str) -> np.ndarray:
    clean = balanced(10, 100)
    matrix = np.full((10, 10), 0.05) + 0.5 * np.eye(10)
    features = (np.arange(1000 * 20) * 7919 % 1009).reshape(1000, 20)
    cases = {
        "symm": lambda: noise.symmetric(clean, 0.4, 10, seed=1),
        "symm bernoulli": lambda: noise.symmetric(clean, 0.4, 10, seed=1, count="bernoulli"),
        "symm inclusive": lambda: noise.symmetric(clean, 0.4, 10, seed=1, inclusive=True),
        "asymm": lambda: noise.asymmetric(clean, 0.4, "cifar10", seed=1),
        "pairflip": lambda: noise.pair_flip(clean, 0.4, 10, seed=1),
        "matrix": lambda: noise.transition(clean, matrix, seed=1),
        "matrix exact": lambda: noise.transition(clean, matrix, seed=1, count="exact"),
        "instance": lambda: noise.instance_dependent(features, clean, 0.4, seed=1),
    }
    return cases[name]()


@pytest.mark.parametrize("name", GOLDEN)
def test_the_same_bytes_for_ever(name):
    noisy = golden_case(name)
    assert noisy.dtype == np.int64
    assert hashlib.sha256(noisy.astype("<i8").tobytes()).hexdigest() == GOLDEN[name]


def test_symmetric_noise_in_plain_python():
    clean = [0, 2, 1, 1, 0, 2, 2, 0, 1, 2, 2, 0]
    words = [int(word) for word in np.random.PCG64(8).random_raw(24)]
    pick, draw = ([(word >> 11) / 2**53 for word in part] for part in (words[:12], words[12:]))
    expected = list(clean)
    for label in range(3):
        members = sorted((i for i in range(12) if clean[i] == label), key=lambda i: pick[i])
        for i in members[: len(members) // 2]:
            expected[i] = [other for other in range(3) if other != label][int(draw[i] * 2)]
    assert noise.symmetric(clean, 0.5, 3, seed=8).tolist() == expected


def test_pcg64_words_are_what_the_docstring_relies_on():
    assert np.random.PCG64(0).random_raw(2).tolist() == [11749869230777074271, 4976686463289251617]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noise.symmetric([0, 1], -0.1, 2), "rate must be from 0 to 1, got -0.1"),
        (lambda: noise.symmetric([0, 1], 1.5, 2), "rate must be from 0 to 1, got 1.5"),
        (lambda: noise.symmetric([0, 1], float("nan"), 2), "got nan"),
        (lambda: noise.symmetric([0, 1], "high", 2), "got 'high'"),
        (lambda: noise.symmetric([0, -1], 0.5, 2), "0..1, got -1 at position 1"),
        (lambda: noise.symmetric([0, 2], 0.5, 2), "0..1, got 2 at position 1"),
        (lambda: noise.symmetric([0, 0.5], 0.5, 2), "got 0.5 at position 1"),
        (lambda: noise.symmetric([0, float("nan")], 0.5, 2), "got nan at position 1"),
        (lambda: noise.symmetric([0, float("inf")], 0.5, 2), "got inf at position 1"),
        (lambda: noise.symmetric([[0, 1]], 0.5, 2), "got shape (1, 2)"),
        (lambda: noise.symmetric([[0, 1], [1]], 0.5, 2), "labels cannot be read as an array"),
        (lambda: noise.symmetric([], 0.5, 2), "got shape (0,)"),
        (lambda: noise.symmetric(["cat", "dog"], 0.5, 2), "got dtype <U3"),
        (lambda: noise.symmetric([0, 1], 0.5, 1), "num_classes must be at least 2, got 1"),
        (lambda: noise.symmetric([0, 1], 0.5, 2.5), "num_classes must be a whole number, got 2.5"),
        (lambda: noise.symmetric([0, 1], 0.5, 2, seed=-1), "seed must not be negative, got -1"),
        (lambda: noise.symmetric([0, 1], 0.5, 2, seed="x"), "seed must be a whole number, got 'x'"),
        (lambda: noise.symmetric([0, 1], 0.5, 2, count="some"), "'exact' or 'bernoulli', got 'some'"),
        (lambda: noise.asymmetric([0, 10**7], 0.5, {0: 1}), "got 10000000 at position 1"),
        (lambda: noise.asymmetric([0, 1], 0.5, {0: 2}), "names class 2, but the classes are 0..1"),
        (lambda: noise.asymmetric([0, 1], 0.5, {"cat": 1}), "names class 'cat'"),
        (lambda: noise.asymmetric([0, 1], 0.5, {1: 1}), "class 1 to itself"),
        (lambda: noise.asymmetric([0, 1], 0.5, [1, 0]), "got list"),
        (lambda: noise.asymmetric([0, 1], 0.5, "cifar"), "one of cifar10, cifar100, cifar100-blocks"),
        (
            lambda: noise.asymmetric([0, 1], 0.5, "cifar10", num_classes=5),
            "is for 10 classes, got num_classes=5",
        ),
        (lambda: noise.asymmetric([0, 10], 0.5, "cifar10"), "0..9, got 10 at position 1"),
        (lambda: noise.transition([0, 1], [[1, 0, 0], [0, 1, 0]]), "must be square"),
        (lambda: noise.transition([0, 1], [1, 0]), "got shape (2,)"),
        (lambda: noise.transition([0, 1], [["a", "b"], ["c", "d"]]), "table of numbers"),
        (lambda: noise.transition([0, 1], [[0.9, 0.2], [0, 1]]), "row 0 of the matrix sums to 1.1"),
        (
            lambda: noise.transition([0, 1], [[1, 0], [-0.5, 1.5]]),
            "row 1 of the matrix must hold probabilities, got -0.5",
        ),
        (lambda: noise.transition([0, 1], [[1, 0], [float("nan"), 1]]), "got nan"),
        (lambda: noise.transition([0, 2], np.eye(2)), "0..1, got 2"),
        (lambda: noise.transition([0, 1], np.eye(2), count="x"), "got 'x'"),
        (
            lambda: noise.instance_dependent(np.zeros((3, 2)), [0, 1], 0.5),
            "each of the 2 labels, got shape (3, 2)",
        ),
        (
            lambda: noise.instance_dependent(np.zeros((2, 0)), [0, 1], 0.5),
            "values per sample, got shape (2, 0)",
        ),
        (
            lambda: noise.instance_dependent([["a"], ["b"]], [0, 1], 0.5),
            "features must be numbers, got dtype <U1",
        ),
        (lambda: noise.instance_dependent([[1.0], [np.nan]], [0, 1], 0.5), "features must be finite"),
        (lambda: noise.instance_dependent([[np.inf], [np.inf]], [0, 1], 0.5), "features must be finite"),
        (lambda: noise.instance_dependent([[1e308], [-1e308]], [0, 1], 0.5), "features must be finite"),
        (
            lambda: noise.corrupt([0, 1], "gaussian", 0.5),
            "use one of symm, asymm, pairflip, matrix, instance",
        ),
        (lambda: noise.corrupt([0, 1], "symm"), "symm noise needs a rate"),
        (lambda: noise.corrupt([0, 1], "asymm", 0.5), "asymm noise needs a mapping"),
        (lambda: noise.corrupt([0, 1], "matrix"), "matrix noise needs a matrix"),
        (lambda: noise.corrupt([0, 1], "instance", 0.5), "instance noise needs a table of features"),
        (lambda: noise.corrupt([0, 1], "symm", 0.5, mapping={0: 1}), "symm noise takes no mapping"),
        (lambda: noise.corrupt([0, 1], "matrix", 0.5, matrix=np.eye(2)), "matrix noise takes no rate"),
        (lambda: noise.corrupt([0, 1], "pairflip", 0.5, inclusive=True), "pairflip noise takes no inclusive"),
        (lambda: noise.corrupt([0, 1], "matrix", matrix=np.eye(2), num_classes=3), "2 x 2, but there are 3"),
        (lambda: noise.corrupt([0, 1], "symm", 0.5, class_names=["a", "a"]), "2 different names"),
        (lambda: noise.NoisyLabels([0], [0, 1], 2, "symm"), "1 labels do not fit 2 clean_labels"),
    ],
)
def test_errors_name_what_came_and_what_is_right(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@st.composite
def label_sets(draw: st.DrawFn) -> tuple[list[int], int]:
    classes = draw(st.integers(2, 12))
    return draw(st.lists(st.integers(0, classes - 1), min_size=1, max_size=60)), classes


@settings(max_examples=60, deadline=None)
@given(label_sets(), st.floats(0, 1), st.integers(0, 2**64), st.sampled_from(["exact", "bernoulli"]))
def test_any_labels_rate_and_seed(labels_and_classes, rate, seed, count):
    labels, classes = labels_and_classes
    clean = np.array(labels)
    symm = noise.symmetric(labels, rate, classes, seed, count=count)
    pair = noise.pair_flip(labels, rate, classes, seed, count=count)
    bundle = noise.corrupt(labels, "instance", rate, features=clean[:, None] * 1.5, num_classes=classes, seed=seed)
    for noisy in (symm, pair, bundle.labels):
        assert noisy.shape == clean.shape
        assert noisy.dtype == np.int64
        assert ((noisy >= 0) & (noisy < classes)).all()
    assert ((pair == clean) | (pair == (clean + 1) % classes)).all()
    assert (symm != clean).tolist() == (pair != clean).tolist()
    if count == "exact":
        for label in range(classes):
            members = clean == label
            assert (symm[members] != label).sum() == math.floor(members.sum() * rate + 1e-6)
    if rate in (0.0, 1.0):
        assert set((symm != clean).tolist()) == {rate == 1.0}
        assert set(bundle.is_noisy.tolist()) == {rate == 1.0}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=12).filter(any), st.integers(0, 5000))
def test_whole_numbers_add_up_and_are_near_their_shares(weights, total):
    shares = np.array(weights) / sum(weights)
    parts = generate.whole_numbers(shares, total)
    assert parts.sum() == total
    assert np.abs(parts - shares * total).max() < 1 + 1e-5
    assert (parts[shares == 0] == 0).all()


def test_tensors_and_other_integers_are_welcome():
    import torch

    clean = balanced(3, 10)
    expected = noise.symmetric(clean, 0.4, 3)
    for labels in (torch.from_numpy(clean), clean.astype(np.uint8), clean.astype(float), clean.tolist()):
        noisy = noise.symmetric(labels, np.float32(0.4), np.int64(3), np.int32(0))
        assert isinstance(noisy, np.ndarray)
        assert (noisy == expected).all()
    features = torch.arange(60.0).reshape(30, 2)
    assert (
        noise.instance_dependent(features, clean, 0.5) == noise.instance_dependent(features.numpy(), clean, 0.5)
    ).all()
    with pytest.raises(InputError, match="cannot be read as an array"):
        noise.instance_dependent(features.requires_grad_(), clean, 0.5)


def test_noise_does_not_import_torch():
    code = "import sys, jnpl.noise; sys.exit(any(m in sys.modules for m in ('torch', 'pandas', 'sklearn')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
