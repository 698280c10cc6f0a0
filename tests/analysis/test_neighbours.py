"""Near duplicates and outliers by the nearest neighbours of embeddings."""

import numpy as np
import pytest

from jnpl.analysis import neighbours as module
from jnpl.analysis.neighbours import nearest, neighbours
from jnpl.analysis.problems import problems
from jnpl.data.source import EmbeddedInputs, InMemory, Source

NAMES = ("ant", "bee", "cow")


def source(values, **more):
    values = np.asarray(values)
    inputs = EmbeddedInputs(values.astype(np.float16), "key") if values.ndim == 3 else InMemory(values)
    return Source("toy", inputs, np.arange(len(values)) % 3, NAMES, np.arange(len(values)), **more)


def photos(samples=300, width=64, seed=0):
    """Two views (N, 2, F) of samples around three classes, in the positive part as after a ReLU."""
    random = np.random.default_rng(seed)
    centres = random.random((3, 1, width))
    return np.abs(centres[np.arange(samples) % 3] + 0.4 * random.standard_normal((samples, 2, width)))


def every(values):
    return np.ones(len(values), bool)


def test_nearest_neighbours_are_those_of_all_distances():
    values = photos(120)
    positions = np.flatnonzero(np.arange(120) % 5 > 0)
    unit = values.astype(np.float16).astype(np.float64).mean(axis=1)[positions]
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    expected = 1 - unit @ unit.T
    np.fill_diagonal(expected, np.inf)
    index, distances = nearest(values.astype(np.float16), positions)
    np.testing.assert_allclose(distances, np.sort(expected, axis=1)[:, :10], atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(expected, index, axis=1), distances, atol=1e-5)


def test_blocks_do_not_change_the_neighbours(monkeypatch):
    values = photos(200)
    whole = nearest(values, np.arange(200))
    monkeypatch.setattr(module, "BLOCK", 7)  # fewer than ten neighbours in a block
    index, distances = nearest(values, np.arange(200))
    np.testing.assert_array_equal(index, whole[0])
    np.testing.assert_allclose(distances, whole[1], atol=1e-6)


@pytest.mark.parametrize("block", [4096, 30])
def test_cells_find_most_neighbours_and_all_copies(monkeypatch, block):
    monkeypatch.setattr(module, "BLOCK", block)
    values = photos(600)
    values[300:310] = values[:10] * 1.01
    exact, _ = nearest(values, np.arange(600))
    index, distances = nearest(values, np.arange(600), limit=0)
    assert np.isfinite(distances).all()
    assert not (index == np.arange(600)[:, None]).any()
    assert all(len(set(row)) == 10 for row in index.tolist())
    assert (index[300:310, 0] == np.arange(10)).mean() >= 0.9
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(index.tolist(), exact.tolist(), strict=True)])
    assert shared > 0.2  # chance is 0.02


@pytest.mark.parametrize("limit", [1000, 0])
def test_progress_counts_up_to_the_end_and_may_stop_the_search(monkeypatch, limit):
    monkeypatch.setattr(module, "BLOCK", 64)
    values, shares = photos(300), []
    plain = nearest(values, np.arange(300), limit)
    found = nearest(values, np.arange(300), limit, progress=shares.append)
    for one, other in zip(plain, found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert shares == sorted(shares)
    assert len(set(shares)) > 10
    assert shares[-1] == pytest.approx(1.0)

    def stop(share):
        if share > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nearest(values, np.arange(300), limit, progress=stop)


@pytest.mark.parametrize("texts", [True, False])
def test_the_search_for_problems_has_one_progress(texts):
    values, shares = photos(300), []
    words = np.array([f"text {number % 290}" for number in range(300)], object) if texts else None
    problems(source(values, texts=words), progress=shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


def test_cells_of_identical_samples_end():
    index, distances = nearest(np.ones((300, 8), np.float32), np.arange(300), limit=0)
    assert (index >= 0).all()
    assert distances.max() < 1e-5


def test_copies_are_near_duplicates_and_similar_samples_are_not():
    values = photos()
    noise = np.random.default_rng(1)
    values[10] = values[20] * (1 + 0.05 * noise.standard_normal(values[20].shape))
    values[11] = values[21, ::-1]  # a mirror image: its views are those of the other, exchanged
    values[12] = values[22] * 0.5  # a darker one
    values[13] = values[12]
    found = neighbours(source(values), every(values))
    assert found.groups == [[10, 20], [11, 21], [12, 13, 22]]
    assert found.group_numbers()[[10, 21, 22, 30]].tolist() == [0, 1, 2, -1]
    assert found.searched == "all pairs of samples were compared"


def test_more_copies_than_neighbours_are_one_group():
    values = photos()
    values[40:70] = values[40] * (1 + 0.01 * np.random.default_rng(1).standard_normal((30, 2, 64)))
    assert neighbours(source(values), every(values)).groups == [list(range(40, 70))]


def test_the_same_content_alone_is_not_listed_again():
    values = photos()
    values[1] = values[0]
    values[3] = values[4] = values[2]
    values[4] *= 1.01
    found = neighbours(source(values), every(values), [[0, 1], [2, 3]])
    assert found.groups == [[2, 3, 4]]


def test_outliers_are_far_from_everything_and_few():
    values = photos()
    random = np.random.default_rng(2)
    strange = [7, 99]
    values[strange] = random.random((2, 1, 64)) * np.where(random.random((2, 1, 64)) < 0.2, 5, 0)
    found = neighbours(source(values), every(values))
    assert set(found.outliers[:2]) == set(strange)
    assert len(found.outliers) <= 0.02 * 300
    assert np.argsort(-found.outlier_score)[:2].tolist() == found.outliers[:2]


def test_equal_samples_are_no_outliers():
    values = np.ones((100, 1, 8))
    assert neighbours(source(values), every(values)).outliers == []


def test_samples_without_a_direction_and_unreadable_ones_are_left_out():
    values = photos()
    values[[3, 4]] = 0  # texts without a known word
    values[6] = values[5]
    readable = every(values)
    readable[6] = False
    found = neighbours(source(values), readable, [[3, 4], [5, 6]])
    assert found.groups == []
    assert np.flatnonzero(np.isnan(found.outlier_score)).tolist() == [3, 4, 6]
    assert not found.is_outlier[[3, 4, 6]].any()


def test_only_embeddings_are_searched():
    wide = np.random.default_rng(0).standard_normal((60, 128)).astype(np.float32)
    assert neighbours(source(wide), every(wide)) is not None
    assert neighbours(source(wide, encoding={"columns": []}), every(wide)) is None  # features of a table
    assert neighbours(source(wide[:, :127]), every(wide)) is None
    assert neighbours(source(wide[:49]), every(wide[:49])) is None
    images = np.zeros((60, 4, 4, 3), np.uint8)
    assert (
        neighbours(
            source_of_images := Source("toy", InMemory(images), np.arange(60) % 3, NAMES, np.arange(60)), every(images)
        )
        is None
    )
    assert "near_duplicates" not in problems(source_of_images).to_dict()


def test_problems_list_groups_with_differing_labels_first():
    values = photos()
    values[3] = values[0] * 1.01  # both are ants
    values[[6, 9]] = values[0] * 0.99
    values[11] = values[10] * 1.01  # a bee and a cow
    values[50] = np.eye(64)[0]
    found = problems(source(values)).to_dict()
    assert found["near_duplicates"] == [
        {"ids": [10, 11], "labels": ["bee", "cow"], "count": 2, "conflicting": True},
        {"ids": [0, 3, 6, 9], "labels": ["ant"] * 4, "count": 4, "conflicting": False},
    ]
    assert (found["near_duplicate_samples"], found["near_conflicting_samples"]) == (6, 2)
    assert found["outliers"][0]["id"] == 50
    assert found["outliers"][0]["score"] > 0.5
    assert found["outlier_samples"] == len(found["outliers"])


def test_near_duplicate_texts_share_their_letters():
    values = photos()[:, :1]
    values[10], values[11], values[12] = values[20] * 1.01, values[21] * 1.01, values[22] * 1.01
    texts = np.array([f"text number {at} of this set" for at in range(300)], object)
    texts[[10, 20]] = "How far is the moon from the earth?", "how far is the  moon from the earth"
    texts[[11, 21]] = "What is titanium?", "What is ethology?"  # the same embedding for unknown words
    texts[[12, 22]] = "a", ""
    assert neighbours(source(values, texts=texts), every(values)).groups == [[10, 20]]
