"""The step before training: embed the data if a pretrained backbone suits them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jnpl.data.loading.prepare import default_workers
from jnpl.embedding.choice import AUTO, embed_for_training, uses_backbone
from jnpl.embedding.compute import DEFAULT_VIEWS, EmbeddingOptions, process_device, process_rank
from jnpl.recipes.load import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jnpl.data.source import Source
    from jnpl.training.reporting import Reporter


def embed_first(
    source: Source,
    backbone: str,
    recipe: str | None,
    changes: Mapping[str, Any],
    report: Reporter,
    *,
    views: int = DEFAULT_VIEWS,
    cache: str | os.PathLike[str] | None = None,
) -> tuple[Source, dict[str, Any], list[str]]:
    """Embed the data of a run, if a backbone suits data and recipe.

    Args:
        source: images, texts or vectors.
        backbone: "auto", "none" or a name.
        recipe: its name, as the user gave it; one of their own choice means training from scratch by default.
        changes: changed settings of the recipe by dotted name.
        report: prints progress.
        views: embeddings per image.
        cache: the folder of cached embeddings.

    Returns:
        The data to train on, the changes without those that the embedding has used (`data.size`), and lines about the
        choice.
    """
    model = str(changes.get("model", AUTO))
    own = recipe not in (None, DEFAULT) or changes.get("weights") is not None
    if not uses_backbone(source, backbone, own_recipe=own, model=model):
        return source, dict(changes), []
    workers = changes.get("engine.workers")
    rank, world = process_rank()
    if rank or os.environ.get("LOCAL_RANK", "0") != "0":  # under torchrun, and started by --devices
        report.quiet(True)
    with report.embedding() as progress:
        options = EmbeddingOptions(
            views=views,
            cache=None if cache is None else Path(cache),
            workers=default_workers() if workers is None else workers,
            device=process_device(str(changes.get("engine.accelerator", AUTO))),
            rank=rank,
            world=world,
            progress=progress,
            note=report.note,
        )
        embedded, lines = embed_for_training(source, backbone, size=changes.get("data.size"), options=options)
    used = {"data.size"} if embedded.backbone is not None else set()
    return embedded, {name: value for name, value in changes.items() if name not in used}, lines
