"""Texts -> embeddings without a pretrained network: TF-IDF and a truncated singular value decomposition.

The default backbone of texts. It is fitted to the texts at hand in seconds, and its state is arrays only, so a run
folder can keep it without pickle.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jnpl.embedding.backbones import TextBackbone
from jnpl.internal.devices import threads_for
from jnpl.internal.errors import InputError, checked_seed, whole
from jnpl.internal.json_files import parse_json

WIDTH = 256  # a more accurate classifier than with 128, and nearly its AP; see docs/backbones.md
MAX_FEATURES = 30_000  # the most frequent words and pairs; more made no difference, and the state stays below 40 MB
SVD_TEXTS = 20_000  # the decomposition is of that many texts at most, drawn with the seed
ENCODE_TEXTS = 4_096  # texts in memory as a sparse matrix at a time
_VERSION = 1
_KEYS = ("components", "idf", "settings", "vocabulary")

# Settings of scikit-learn's TfidfVectorizer. Unicode words, of one letter too: "I", "5", "à".
_WORDS: dict[str, Any] = {"analyzer": "word", "ngram_range": [1, 2], "token_pattern": r"(?u)\b\w+\b"}
_CHARACTERS: dict[str, Any] = {"analyzer": "char", "ngram_range": [1, 3], "token_pattern": None}
# Thai, Lao, Burmese, Khmer, Japanese and Chinese have no spaces between words.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_LETTER = re.compile(r"\w")


def fit_tfidf(texts: Sequence[str], *, width: int = WIDTH, seed: int = 0, characters: bool = False) -> TextBackbone:
    """Fit TF-IDF and a truncated SVD to texts, and return the encoder.

    Features are words and pairs of words with 1 + log(count), or one to three characters in languages without spaces
    between words and where there are no words. Embeddings have length 1; that of a text without a known word is zero.

    Args:
        width: numbers per embedding at most; fewer if there are fewer texts or features.
        seed: of the randomised SVD, and of the texts it is computed on if there are more than 20,000.
        characters: features are characters in any language.

    Returns:
        The encoder. Its `state` are the arrays from which `load_tfidf` makes it again.

    Example:
        >>> backbone = fit_tfidf(["a red car", "a red bus", "a blue sea", "the blue sky"], width=2)
        >>> red, car = backbone.encode(["a red bike", "my car"])
        >>> red.shape, bool(red @ car > 0.9)
        ((2,), True)
    """
    if whole(width, "width") < 1:
        raise InputError(f"the width of TF-IDF embeddings must be at least 1, got {width}")
    texts = list(texts)
    if len(texts) < 2:
        raise InputError(f"TF-IDF must be fitted to at least two texts, got {len(texts)}")
    if not any(text.strip() for text in texts):
        raise InputError(f"TF-IDF needs texts with words, but all {len(texts)} texts are empty")
    settings, vocabulary, idf = _fit_features(texts, characters=characters)
    components = _fit_svd(texts, settings, vocabulary, idf, width, checked_seed(seed))
    state: dict[str, npt.NDArray[Any]] = {
        "settings": _json_array({"version": _VERSION, **settings}),
        "vocabulary": _json_array(vocabulary),
        "idf": idf,
        "components": components,
    }
    return load_tfidf(state)


def load_tfidf(state: Mapping[str, npt.NDArray[Any]]) -> TextBackbone:
    """Return the encoder that `fit_tfidf` made, from its `state`.

    Args:
        state: the arrays `settings` and `vocabulary` (JSON as uint8), `idf` (F,) and `components` (width, F).

    Example:
        >>> fitted = fit_tfidf(["a red car", "a red bus", "a blue sea"])
        >>> bool((load_tfidf(fitted.state).encode(["red"]) == fitted.encode(["red"])).all())
        True
    """
    settings, vocabulary, idf, components = _checked_state(state)
    vectorizer = _vectorizer(settings, vocabulary, idf)
    basis = np.ascontiguousarray(components.T)  # (F, width)

    def encode(texts: list[str]) -> npt.NDArray[np.float32]:
        values = np.zeros((len(texts), basis.shape[1]), np.float32)
        for start in range(0, len(texts), ENCODE_TEXTS):
            part = vectorizer.transform(texts[start : start + ENCODE_TEXTS]) @ basis
            lengths = np.linalg.norm(part, axis=1, keepdims=True)
            values[start : start + len(part)] = part / np.where(lengths > 0, lengths, 1)
        return values

    digest = hashlib.sha256()
    for key in _KEYS:
        digest.update(f"{key} {state[key].dtype} {state[key].shape} ".encode())
        digest.update(np.ascontiguousarray(state[key]).tobytes())
    return TextBackbone("tfidf", encode, basis.shape[1], digest.hexdigest(), {key: state[key] for key in _KEYS})


def _fit_features(texts: list[str], *, characters: bool) -> tuple[dict[str, Any], list[str], npt.NDArray[np.float32]]:
    """Return the settings of the vectorizer, its features in order and their inverse document frequencies."""
    kinds = [_CHARACTERS] if characters or _has_no_spaces(texts) else [_WORDS, _CHARACTERS]
    # A feature of one text relates it to no other; of few texts, though, all are kept.
    lowest = 1 if len(texts) < 50 else 2
    for settings in kinds:
        vectorizer = _vectorizer({**settings, "max_features": MAX_FEATURES, "min_df": lowest})
        try:
            vectorizer.fit(texts)
        except ValueError:  # empty vocabulary
            continue
        return settings, vectorizer.get_feature_names_out().tolist(), vectorizer.idf_.astype(np.float32)
    raise InputError(f"TF-IDF found no words or characters that are in {lowest} or more of the {len(texts)} texts")


def _has_no_spaces(texts: list[str], sample: int = 1_000) -> bool:
    """Return whether a third of the letters, of at most 1,000 texts, are of languages without spaces."""
    sampled = "".join(texts[:: max(1, len(texts) // sample)])
    return 3 * len(_UNSPACED.findall(sampled)) > len(_LETTER.findall(sampled))


def _fit_svd(
    texts: list[str],
    settings: dict[str, Any],
    vocabulary: list[str],
    idf: npt.NDArray[np.float32],
    width: int,
    seed: int,
) -> npt.NDArray[np.float32]:
    """Return the right singular vectors (width, F) of the TF-IDF matrix."""
    from sklearn.utils.extmath import randomized_svd  # noqa: PLC0415 - slow to import

    if len(texts) > SVD_TEXTS:
        chosen = np.random.default_rng(seed).choice(len(texts), SVD_TEXTS, replace=False)
        texts = [texts[index] for index in np.sort(chosen)]
    width = max(1, min(width, len(texts) - 1, len(vocabulary) - 1))
    matrix = _vectorizer(settings, vocabulary, idf).transform(texts)
    with threads_for(matrix.nnz * width):
        _, _, right = randomized_svd(matrix, width, n_iter=4, random_state=seed % 2**32)
    return np.ascontiguousarray(right, np.float32)


def _vectorizer(
    settings: dict[str, Any], vocabulary: list[str] | None = None, idf: npt.NDArray[np.float32] | None = None
) -> Any:
    """Return a TfidfVectorizer; fitted, if its features and their weights are given."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: PLC0415 - slow to import

    options = {**settings, "ngram_range": tuple(settings["ngram_range"])}
    vectorizer = TfidfVectorizer(**options, sublinear_tf=True, dtype=np.float32, vocabulary=vocabulary)
    if idf is not None:
        vectorizer.idf_ = idf
    return vectorizer


def _json_array(value: object) -> npt.NDArray[np.uint8]:
    return np.frombuffer(json.dumps(value).encode(), np.uint8).copy()


def _checked_state(
    state: Mapping[str, npt.NDArray[Any]],
) -> tuple[dict[str, Any], list[str], npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return settings, vocabulary, idf (F,) and components (width, F) of a state that fits together."""
    try:
        settings, vocabulary = (parse_json(state[key].tobytes()) for key in ("settings", "vocabulary"))
        idf, components = (np.asarray(state[key], np.float32) for key in ("idf", "components"))
        version = settings.pop("version")
        fits = idf.shape == (len(vocabulary),) and components.shape == (len(components), len(vocabulary))
        is_known = settings in (_WORDS, _CHARACTERS)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"the state of a TF-IDF encoder must have {', '.join(_KEYS)}, and cannot be read: {error}"
        ) from None
    if version != _VERSION or not fits or not is_known:
        raise InputError(
            f"the state of a TF-IDF encoder does not fit together or is of another version: version {version}, "
            f"{len(vocabulary)} features, idf {idf.shape}, components {components.shape}"
        )
    return settings, vocabulary, idf, components
