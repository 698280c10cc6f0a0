"""The nearest samples that surely have a class."""

from dataclasses import replace

import numpy as np

from jnpl import Findings
from jnpl.analysis.sure_samples import UnitVectors, evidence, surest
from jnpl.data.source import EmbeddedInputs, InMemory, Source

LABELS = np.repeat([0, 1], 20)


def judged(wrong):
    """Findings of 40 samples by which the labels at `wrong` look wrong."""
    quality = np.where(np.isin(np.arange(40), wrong), 0.1, 0.8 + np.arange(40) / 1000)
    probs = np.stack([np.where(label == LABELS, quality, 1 - quality) for label in (0, 1)], axis=1)
    return Findings.from_probs(probs, LABELS)


def test_a_suspect_is_beside_the_nearest_sure_sample_of_each_class():
    values = np.random.default_rng(0).normal(size=(40, 2, 6)).astype(np.float16)
    source = Source("toy", EmbeddedInputs(values, "key"), LABELS, ("a", "b"), np.arange(40))
    mean = values.astype(np.float32).mean(1)
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    for at, each in evidence(source, judged([3, 4, 25]), np.array([3, 25])).items():
        for label, sample in each.items():
            fine = [one for one in np.flatnonzero(label == LABELS) if one not in (3, 4, 25)]
            assert sample == max(fine, key=lambda one: float(mean[one] @ mean[at]))
        assert set(each) == {0, 1}


def test_the_surest_are_unsuspected_and_the_best_come_first():
    findings = judged([0, 1])
    assert surest(findings, 0).tolist() == list(range(19, 1, -1))
    unclear = replace(findings, suggested_labels=np.where(np.arange(40) == 19, 1, findings.suggested_labels))
    assert 19 not in surest(unclear, 0)


def test_columns_of_a_table_count_alike_whatever_their_unit():
    values = np.array([[0, 0], [1000, 0.01], [0, 1], [900, 1]], np.float32)
    assert UnitVectors(values).nearest(1, np.arange(4), 4) != UnitVectors(values * [1, 1e6]).nearest(1, np.arange(2), 4)
    assert UnitVectors(values).nearest(3, np.arange(4), 3) == UnitVectors(values * [1, 1e6]).nearest(3, np.arange(4), 3)


def test_without_vectors_there_is_nothing_to_compare():
    images = InMemory(np.zeros((40, 8, 8, 1), np.uint8))
    source = Source("toy", images, LABELS, ("a", "b"), np.arange(40))
    assert source.kind == "image"
    assert evidence(source, judged([3]), np.array([3])) == {}
