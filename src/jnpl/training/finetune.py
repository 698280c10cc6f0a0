"""Fine-tuning: a head is trained on the cached embeddings, then head and backbone together, with the same losses."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save

from jnpl.data.loading.augment import EmbeddingViews
from jnpl.data.source import Source
from jnpl.embedding.backbones import ImageBackbone, load_backbone
from jnpl.embedding.choice import default_cache
from jnpl.embedding.compute import EmbeddingClassifier
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, replacing
from jnpl.models.build import FINETUNE
from jnpl.recipes.load import FINETUNE_RECIPE, load_default_recipe
from jnpl.recipes.schema import Recipe
from jnpl.training.run_results import TrainedModel


def backbone_to_finetune(embedded: Source) -> ImageBackbone:
    """Return the backbone that the data were embedded with; an InputError where they are no images, or not embedded."""
    if embedded.backbone is None or embedded.backbone.facts["takes"] != "image":
        raise InputError("--finetune needs images and a pretrained backbone (jnpl backbones)")
    facts = embedded.backbone.facts
    backbone = load_backbone(facts["name"], "image", size=facts["size"])
    if not isinstance(backbone, ImageBackbone):
        raise InputError("--finetune needs images and a pretrained backbone (jnpl backbones)")
    return backbone


def finetuning_recipe(
    embedded: Source,
    backbone: ImageBackbone,
    head: TrainedModel | None,
    method: str | None,
    changes: Mapping[str, Any],
    *,
    cache: str | os.PathLike[str] | None = None,
) -> Recipe:
    """Return the recipe that fine-tunes backbone and head from a head that was trained on the embeddings.

    The weights to start from are written to the cache folder, named by their content: a run that is repeated finds the
    same.

    Args:
        head: trained on them; None in all but the first of several processes.
    """
    if head is None or embedded.backbone is None or not isinstance(head.transform, EmbeddingViews):
        raise InputError("--finetune runs in one process until the head is trained; use --devices, not torchrun")
    whole = EmbeddingClassifier(backbone.network, head.network.cpu(), head.transform, mirror=False)
    content = save({name: value.contiguous() for name, value in whole.state_dict().items()})
    folder = make_folder(default_cache() if cache is None else Path(cache))
    path = folder / f"start-{hashlib.sha256(content).hexdigest()[:32]}.safetensors"
    if not path.is_file() or path.read_bytes() != content:
        with replacing(path) as draft:
            draft.write_bytes(content)
    facts = embedded.backbone.facts
    start = {"model": f"{FINETUNE}{facts['name']}", "weights": str(path), "data.size": facts["size"]}
    return load_default_recipe(FINETUNE_RECIPE, method, {**start, **changes})
