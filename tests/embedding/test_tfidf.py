"""TF-IDF and truncated SVD: embeddings of length 1 that survive a round trip through files."""

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from jnpl.embedding.tfidf import fit_tfidf, load_tfidf
from jnpl.internal.errors import InputError

SUBJECTS = {
    "animals": ["cat", "dog", "horse", "cow", "sheep", "goat", "hen", "duck", "pig", "donkey"],
    "cars": ["engine", "wheel", "brake", "gear", "clutch", "road", "tyre", "motor", "fuel", "driver"],
}


def corpus(n=400, seed=0):
    """Texts of six words of one of two subjects, and the subjects."""
    draw = np.random.default_rng(seed)
    subjects = draw.integers(2, size=n)
    words = list(SUBJECTS.values())
    return [" ".join(draw.choice(words[subject], 6)) for subject in subjects], subjects


def test_embeddings_tell_subjects_apart():
    texts, subjects = corpus()
    backbone = fit_tfidf(texts, width=8)
    found = backbone.encode(texts)
    assert found.shape == (400, 8)
    assert found.dtype == np.float32
    assert (backbone.name, backbone.width, backbone.takes) == ("tfidf", 8, "text")
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    similar = found @ found.T
    same = subjects[:, None] == subjects[None]
    assert similar[same].mean() > similar[~same].mean() + 0.2


def test_embeddings_are_tfidf_times_the_singular_vectors():
    """Against the words of scikit-learn's own pipeline, computed densely."""
    texts, _ = corpus(60)
    backbone = fit_tfidf(texts, width=2)
    from sklearn.feature_extraction.text import TfidfVectorizer

    matrix = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2).fit_transform(texts).toarray()
    _, _, right = np.linalg.svd(matrix, full_matrices=False)
    expected = matrix @ right[:2].T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = backbone.encode(texts)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=0.02)  # up to signs; the SVD is randomised


def test_the_state_survives_safetensors(tmp_path):
    texts, _ = corpus()
    fitted = fit_tfidf(texts)
    assert all(value.dtype != object for value in fitted.state.values())
    save_file(fitted.state, tmp_path / "tfidf.safetensors")
    loaded = load_tfidf(load_file(tmp_path / "tfidf.safetensors"))
    new = [*texts[:50], "a cat in a motor", "", "unseen words only", "\ud800 cat"]
    np.testing.assert_allclose(loaded.encode(new), fitted.encode(new), atol=1e-6)
    assert (loaded.digest, loaded.width) == (fitted.digest, fitted.width)
    assert fit_tfidf([*texts, "another text"]).digest != fitted.digest


def test_the_same_texts_and_seed_give_the_same_embeddings():
    texts, _ = corpus()
    first, second = fit_tfidf(texts), fit_tfidf(texts)
    assert first.digest == second.digest
    np.testing.assert_array_equal(first.encode(texts), second.encode(texts))


def test_a_text_is_encoded_alone_as_among_others(monkeypatch):
    texts, _ = corpus()
    backbone = fit_tfidf(texts)
    together = backbone.encode(texts)
    alone = np.concatenate([backbone.encode([text]) for text in texts[:20]])
    np.testing.assert_allclose(alone, together[:20], atol=1e-6)
    monkeypatch.setattr("jnpl.embedding.tfidf.ENCODE_TEXTS", 7)
    np.testing.assert_allclose(backbone.encode(texts), together, atol=1e-6)
    assert backbone.encode([]).shape == (0, backbone.width)


def test_no_known_word_gives_zeros():
    found = fit_tfidf(corpus()[0]).encode(["", "unknown", "cat"])
    assert not found[:2].any()
    assert np.linalg.norm(found[2]) == pytest.approx(1)


def test_the_width_is_bounded_by_texts_and_features():
    assert fit_tfidf(["one two", "two three"]).width == 1
    assert fit_tfidf(["a b c", "a d", "b d e"]).width == 2
    assert fit_tfidf(["same", "same", "same"]).width == 1
    assert fit_tfidf(corpus()[0], width=3).width == 3


def test_the_svd_of_many_texts_is_of_a_sample(monkeypatch):
    monkeypatch.setattr("jnpl.embedding.tfidf.SVD_TEXTS", 100)
    texts, subjects = corpus()
    found = fit_tfidf(texts, width=8).encode(texts)
    similar = found @ found.T
    same = subjects[:, None] == subjects[None]
    assert similar[same].mean() > similar[~same].mean() + 0.2


@pytest.mark.parametrize(
    ("texts", "query", "near", "far"),
    [
        (["我喜欢红色的汽车", "红色的汽车很快", "大海是蓝色的", "蓝色的天空和大海"], "红色汽车", 0, 2),
        (["ผมชอบรถสีแดง", "รถสีแดงเร็วมาก", "ทะเลสีฟ้า", "ท้องฟ้าและทะเลสีฟ้า"], "รถแดง", 0, 2),
        (["Ich mag rote Autos", "rote Autos sind schnell", "das blaue Meer", "Himmel und Meer"], "rote Äpfel", 0, 2),
        (["красная машина", "быстрая красная машина", "синее море", "небо и море"], "машина", 0, 2),
        (["?! ?!", "?! !!", ":-) :-)", ":-) ;-)"], "?!", 0, 2),
    ],
)
def test_other_languages_and_signs(texts, query, near, far):
    backbone = fit_tfidf(texts)
    asked, *found = backbone.encode([query, *texts])
    assert asked @ found[near] > asked @ found[far] + 0.2


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        (["", " "], {}, "all 2 texts are empty"),
        ([chr(5000 + i) for i in range(60)], {}, "no words or characters"),
        (["one"], {}, "at least two texts, got 1"),
        (["one", "two"], {"width": 0}, "at least 1, got 0"),
        (["one", "two"], {"seed": -1}, "seed must not be negative"),
    ],
)
def test_mistakes_are_one_line(texts, options, message):
    with pytest.raises(InputError, match=message) as caught:
        fit_tfidf(texts, **options)
    assert "\n" not in str(caught.value)


def test_a_damaged_state_is_refused():
    state = fit_tfidf(corpus()[0]).state
    for damaged in (
        {},
        {**state, "idf": state["idf"][1:]},
        {**state, "components": state["components"][0]},
        {**state, "settings": np.frombuffer(b'{"version": 9}', np.uint8)},
        {**state, "settings": np.frombuffer(b"[]", np.uint8)},
        {**state, "vocabulary": state["vocabulary"][:-1]},
    ):
        with pytest.raises(InputError, match="the state of a TF-IDF encoder") as caught:
            load_tfidf(damaged)
        assert "\n" not in str(caught.value)
