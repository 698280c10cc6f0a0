"""Both parts of `fast`: the second has no guard of its own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.fast_runs import blobs, digits, train, zero_or_not

from jnpl import noise
from jnpl.data.sources.arrays import from_arrays
from jnpl.methods.jnpl import has_collapsed
from jnpl.outputs.saved_model import SavedModel


def uneven(seed):
    """1,000, 700, 300 and 20 of a class: 1:50."""
    x, labels = blobs((1000, 700, 300, 20), seed)
    return from_arrays(x, noise.symmetric(labels, 0.2, 4, seed=seed), y_true=labels)


def hundred(seed):
    """A hundred classes of 20."""
    x, labels = blobs((20,) * 100, seed, apart=6.0)
    return from_arrays(x, noise.symmetric(labels, 0.2, 100, seed=seed), y_true=labels)


SETTINGS = {
    "uneven": (uneven, 0.9),
    "two classes": (lambda seed: zero_or_not(0.2, seed), 0.95),
    "hundred": (hundred, 0.9),
    "80 % wrong": (lambda seed: digits(0.8, seed), 0.2),  # an MLP learns many of these by heart; a coin has 0.1
    "none wrong": (lambda seed: digits(0, seed), 0.95),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_class_is_lost(name, tmp_path):
    make, floor = SETTINGS[name]
    source = make(0)
    told = train(source, tmp_path / "run", classify=True)
    assert told["epochs"] == 120
    predicted = SavedModel.load(tmp_path / "run").probabilities(source).argmax(1)
    right, classes = predicted == source.true_labels, len(source.class_names)
    assert np.mean([right[source.true_labels == label].mean() for label in range(classes)]) > floor
    counts = (torch.bincount(torch.as_tensor(each), minlength=classes) for each in (predicted, source.true_labels))
    assert not has_collapsed(*counts, 0.3)  # the test that the guard makes
