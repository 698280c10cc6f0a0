import numpy as np
import pytest

from jnpl.analysis import short_vectors
from jnpl.analysis.reference import Copy, Reference, class_mix_test, compare, two_sample_test
from jnpl.data.source import EmbeddedInputs, InMemory, Source
from jnpl.internal.errors import InputError


def embedded(values):
    vectors = np.asarray(values, np.float16)[:, None]
    labels = np.arange(len(vectors)) % 2
    return Source("toy", EmbeddedInputs(vectors, "key"), labels, ("a", "b"), np.arange(len(vectors)))


def blobs(samples, seed, centres=4, width=64):
    random = np.random.default_rng(seed)
    means = np.random.default_rng(99).normal(size=(centres, width))
    return means[random.integers(0, centres, samples)] + 0.3 * random.normal(size=(samples, width))


def test_a_reference_is_saved_and_loaded(tmp_path):
    made = Reference.of(embedded(blobs(200, 0)))
    made.save(tmp_path / "file")
    loaded = Reference.load(tmp_path / "file")
    assert all(np.array_equal(getattr(made, name), getattr(loaded, name)) for name in vars(made))
    assert (tmp_path / "file").stat().st_mode & 0o044 == 0o044  # others may read it
    (tmp_path / "file").write_text("no tensors")
    with pytest.raises(InputError, match="cannot be read"):
        Reference.load(tmp_path / "file")


def test_images_and_a_handful_of_samples_have_no_reference():
    pictures = Source("x", InMemory(np.zeros((20, 4, 4, 3), np.uint8)), np.arange(20) % 2, ("a", "b"), np.arange(20))
    assert Reference.of(pictures) is None
    assert Reference.of(embedded(blobs(10, 0))) is None


def test_many_wide_vectors_are_shortened_and_keep_their_distances(monkeypatch):
    values = blobs(400, 0, width=64)
    whole = Reference.of(embedded(values))
    monkeypatch.setattr(short_vectors, "_WHOLE", 1000)
    monkeypatch.setattr(short_vectors, "WIDTH", 16)
    short = Reference.of(embedded(values))
    assert whole.vectors.shape == (400, 64)
    assert short.vectors.shape == (400, 16)
    product = [each.vectors.astype(float) @ each.vectors.astype(float).T for each in (whole, short)]
    assert np.corrcoef(product[0].ravel(), product[1].ravel())[0, 1] > 0.95


def test_copies_unknown_samples_and_shift():
    run = Reference.of(embedded(blobs(1000, 0)))
    random = np.random.default_rng(5)
    same, strange = blobs(300, 1), 3 * random.normal(size=(40, 64))
    ordinary = compare(run, embedded(same))
    assert not ordinary.copies
    assert ordinary.is_far.sum() <= 2
    assert ordinary.p_value > 0.01
    copied = blobs(1000, 0)[7] + 0.01 * random.normal(size=64)
    mixed = compare(run, embedded(np.concatenate([same, strange, copied[None]])))
    assert mixed.copies == [Copy(340, 7)]
    assert mixed.is_far[300:340].all()
    assert mixed.is_far[:300].sum() <= 5
    assert mixed.extra_far_p < 1e-6
    assert 30 <= mixed.extra_far <= 50
    shifted = compare(run, embedded(same + 0.15 * random.normal(size=64)))
    assert shifted.p_value < 1e-6
    assert shifted.separability > 0.7


def test_how_far_a_sample_lies_is_uniform_for_ordinary_samples():
    far = np.concatenate(
        [compare(Reference.of(embedded(blobs(300, seed))), embedded(blobs(100, 100 + seed))).far for seed in range(10)]
    )
    shares = [(far <= level).mean() for level in (0.05, 0.25, 0.5, 0.75)]
    assert np.allclose(shares, (0.05, 0.25, 0.5, 0.75), atol=0.05)


def test_p_values_are_uniform_if_nothing_has_shifted():
    random = np.random.default_rng(0)
    draws = [(random.normal(size=(60, 5)), random.normal(size=(90, 5))) for _ in range(300)]
    p_values = np.array([two_sample_test(new, old, seed)[1] for seed, (new, old) in enumerate(draws)])
    # The standard error of a share of 300 is at most 0.03.
    for level in (0.05, 0.2, 0.5, 0.8):
        assert (p_values <= level).mean() == pytest.approx(level, abs=0.08)
    assert (p_values <= 0.05).mean() <= 0.09
    assert np.isnan(two_sample_test(np.zeros((5, 2)), np.zeros((50, 2)))).all()


def test_the_mix_of_classes_is_tested_without_an_approximation():
    random, mix = np.random.default_rng(1), [0.9, 0.08, 0.02]
    p_values = np.array(
        [class_mix_test(random.multinomial(30, mix), random.multinomial(100, mix), draws=400) for _ in range(300)]
    )
    assert (p_values <= 0.05).mean() <= 0.09
    assert (p_values <= 0.5).mean() == pytest.approx(0.5, abs=0.15)  # discrete: few counts
    assert class_mix_test([50, 50], [90, 10]) < 0.01
    assert class_mix_test([50, 0], [90, 0]) == 1.0
