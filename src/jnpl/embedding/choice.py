"""The backbone that suits a data set, and the source embedded with it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from jnpl.data.source import UnreadableError
from jnpl.embedding.backbones import DEFAULT_IMAGE_BACKBONE, ImageBackbone, load_backbone
from jnpl.embedding.compute import EmbeddingOptions, embed_source
from jnpl.internal.errors import InputError
from jnpl.internal.files import user_cache

if TYPE_CHECKING:
    from jnpl.data.source import Source
    from jnpl.embedding.backbones import Backbone

AUTO, NONE = "auto", "none"
SIZES = (128, 160, 192, 224)  # pixels at which efficientnet-lite0 sees images: the first that is not below their own
SMALLEST = 28  # pixels; in smaller images a network that was trained on photographs sees little
_SAMPLED = 100  # images whose size is read
_BETTER_TEXT = "a sentence encoder finds more: --backbone hf:sentence-transformers/all-MiniLM-L6-v2"


class ChosenBackbone(NamedTuple):
    """A backbone, or None for training from scratch, and a line that says why."""

    backbone: Backbone | None
    line: str


def choose_backbone(source: Source, name: str = AUTO, size: int | None = None, *, device: str = AUTO) -> ChosenBackbone:
    """Return the backbone for a source.

    Args:
        source: images, texts or vectors. Vectors need no backbone.
        name: "auto", "none", or a name that `load_backbone` takes.
        size: pixels a side of the images that the backbone sees; None: by the backbone and the images.
    """
    if source.kind == "vector":
        if name not in (AUTO, NONE):
            raise InputError(f"the backbone {name!r} takes images or texts, but {source.name} holds vectors")
        return ChosenBackbone(None, "backbone: none, the samples are vectors")
    if source.kind == "text":
        return _for_texts(source, name, device)
    if name == NONE:
        return ChosenBackbone(None, "backbone: none, a network is trained from scratch (--backbone none)")
    side = common_side(source)
    if name == AUTO and side < SMALLEST:
        line = f"backbone: none, images of {side:.0f} pixels are too small: a network is trained from scratch"
        return ChosenBackbone(None, line)
    name = DEFAULT_IMAGE_BACKBONE if name == AUTO else name
    if size is None and name == DEFAULT_IMAGE_BACKBONE:
        size = next((allowed_size for allowed_size in SIZES if allowed_size >= side), SIZES[-1])
    backbone = load_backbone(name, "image", size=size)
    pixels = f" at {backbone.size} pixels" if isinstance(backbone, ImageBackbone) else ""
    return ChosenBackbone(backbone, f"backbone: {name}{pixels}, {backbone.width} numbers per image (--backbone)")


def _for_texts(source: Source, name: str, device: str) -> ChosenBackbone:
    if name == NONE:
        raise InputError("texts need a backbone that turns them into vectors: --backbone tfidf, or hf:NAME")
    if not is_fitted(source, name):
        backbone = load_backbone(name, "text", device=device)
        return ChosenBackbone(backbone, f"backbone: {name}, {backbone.width} numbers per text")
    from jnpl.embedding.tfidf import fit_tfidf  # noqa: PLC0415 - scikit-learn is not needed otherwise

    if (texts := source.inputs.texts()) is None:
        raise InputError(f"{source.name} holds no texts in memory")
    unreadable = source.unreadable or {}
    backbone = fit_tfidf([text for at, text in enumerate(texts.tolist()) if at not in unreadable])
    line = f"backbone: tfidf, {backbone.width} numbers per text"
    return ChosenBackbone(backbone, line if name == "tfidf" else f"{line}; {_BETTER_TEXT}")


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
    """Return whether the backbone of a run is fitted to the data at hand, and not pretrained."""
    return source.kind == "text" and name in (AUTO, "tfidf")


def embed_for_training(
    source: Source,
    name: str = AUTO,
    *,
    size: int | None = None,
    options: EmbeddingOptions | None = None,
) -> tuple[Source, list[str]]:
    """Return the source to train on, embedded if a backbone suits it, and the lines about the choice.

    Args:
        name: of the backbone, or "auto" or "none".
        size: pixels a side of the images that the backbone sees.
        options: how to embed; without a cache folder, the default one is used.
    """
    options = options or EmbeddingOptions()
    chosen = choose_backbone(source, name, size, device=str(options.device))
    if source.kind == "vector":
        return source, []
    if chosen.backbone is None:
        return source, [chosen.line]
    options.note(chosen.line)
    if options.cache is None:
        options = replace(options, cache=default_cache())
    return embed_source(source, chosen.backbone, options), [chosen.line]
