"""Embeddings shortened to a few numbers, and searches among them."""

import numpy as np
import pytest

from jnpl.analysis import short_vectors as module
from jnpl.analysis.neighbours import neighbours, short_vectors
from jnpl.analysis.short_vectors import ShortVectors
from jnpl.data.source import EmbeddedInputs, Source


@pytest.fixture(autouse=True)
def shorten_at_once(monkeypatch):
    monkeypatch.setattr(module, "_WHOLE", 1000)
    monkeypatch.setattr(module, "WIDTH", 32)


def photos(samples=600, width=96, rank=24):
    """Two views (N, 2, F) that vary in some directions, with noise in all; two copies and an outlier at the end."""
    random = np.random.default_rng(0)
    values = random.normal(size=(samples, 1, rank)) @ random.normal(size=(rank, width)) + 1
    values = values + 0.4 * random.normal(size=(samples, 2, width))
    values[-2] = values[3] + 0.01 * random.normal(size=values[3].shape)
    values[-1] = 5 * random.normal(size=width)
    labels, ids = np.arange(samples) % 3, np.arange(samples)
    return Source("toy", EmbeddedInputs(values.astype(np.float16), "key"), labels, ("ant", "bee", "cow"), ids)


def test_products_are_those_of_the_whole_vectors_but_for_what_the_rests_have_in_common():
    source = photos()
    short = ShortVectors.of(source.inputs.array(), np.arange(600))
    unit = module.unit(module.mean_views(source.inputs.array(), slice(None)))
    np.testing.assert_allclose(short.basis.T @ short.basis, np.eye(32), atol=1e-5)
    rest = unit - unit @ short.basis @ short.basis.T
    lengths, found = np.linalg.norm(rest, axis=1), short.values.astype(np.float32)
    expected = unit @ unit.T - rest @ rest.T + 0.3 * np.outer(lengths, lengths)
    np.testing.assert_allclose(found @ found.T, expected, atol=2e-3)


@pytest.mark.parametrize("limit", [30_000, 100])
def test_a_search_among_them_finds_what_a_search_of_all_finds(monkeypatch, limit):
    monkeypatch.setattr("jnpl.analysis.neighbours.EXACT_LIMIT", limit)
    source = photos()
    whole = neighbours(source, np.ones(600, bool))
    found = neighbours(source, np.ones(600, bool), short=short_vectors(source))
    assert found.groups == whole.groups == [[3, 598]]
    assert found.outliers[0] == whole.outliers[0] == 599
    assert np.corrcoef(found.outlier_score, whole.outlier_score)[0, 1] > 0.97
    assert np.median(found.outlier_score / whole.outlier_score) == pytest.approx(1, abs=0.05)
    assert found.searched.endswith("as vectors shortened to 32 numbers")


def test_samples_without_direction_or_unreadable_are_left_out():
    source = photos()
    source.inputs.array()[:2] = [[[0]], [[np.nan]]]
    source = Source("toy", source.inputs, source.labels, source.class_names, source.ids, unreadable={1: "damaged"})
    readable = np.arange(600) != 1
    found = neighbours(source, readable, short=short_vectors(source))
    assert np.flatnonzero(np.isnan(found.outlier_score)).tolist() == [0, 1]


def test_few_or_short_vectors_stay_as_they_are():
    values = photos().inputs.array()
    assert ShortVectors.of(values[:10], np.arange(10)) is None
    assert ShortVectors.of(values[:, :, :32], np.arange(600)) is None
