"""Several tags per sample: heads with one output per tag, trained on embeddings, and the given tags judged by them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from jnpl.data.tags import can_be_judged
from jnpl.internal.errors import InputError
from jnpl.internal.progress import part_of
from jnpl.judging.tag_findings import THRESHOLD, TagFindings, TagNoise
from jnpl.judging.tag_heads import train_tag_heads
from jnpl.judging.tag_noise import best_thresholds, judge_probs
from jnpl.models.tag_head import TagHead
from jnpl.training.evaluation import vectors_of
from jnpl.training.feeds import make_feeds
from jnpl.training.run_results import TagRunResult
from jnpl.training.run_setup import describe_model

if TYPE_CHECKING:
    from pathlib import Path

    from lightning_fabric import Fabric

    from jnpl.data.source import Labels, Source
    from jnpl.judging.tag_noise import JudgedTags
    from jnpl.recipes.schema import Recipe
    from jnpl.training.reporting import Reporter

_MOST_NUMBERS = 1 << 36  # of all vectors together; beyond the memory they are in a temporary file


def judge_tags(
    source: Source,
    recipe: Recipe,
    fabric: Fabric,
    report: Reporter,
    run: Path | None = None,
    *,
    seed: int,
    strict: bool,
) -> TagRunResult:
    """Train heads on the given tags of embedded data, and judge these tags; `run` is the run folder, if any."""
    begun = time.monotonic()
    feeds = make_feeds(source, recipe, fabric, seed, report.note, strict=strict)
    if source.tags is None or (readable := vectors_of(feeds.train, _MOST_NUMBERS)) is None:
        raise InputError(f"{source.name} has no tags, or no vectors to judge them by")
    positions, vectors = readable
    given_tags = source.tags[positions]
    weights = None if source.weights is None else source.weights[positions]
    with report.judging() as progress:
        heads = train_tag_heads(
            vectors, given_tags, recipe.train, weights=weights, seed=seed, progress=part_of(progress, 0.0, 0.6)
        )
        judgeable = np.flatnonzero(can_be_judged(given_tags))
        if not len(judgeable):
            raise InputError(f"no tag of {source.name} is on enough samples that can be read")
        judged = judge_probs(
            heads.seen[:, judgeable],
            heads.unseen[:, judgeable],
            given_tags[:, judgeable],
            seed=seed,
            progress=part_of(progress, 0.6, 1.0),
        )
    findings = _tag_findings(source, positions, judgeable, judged).with_threshold(recipe.verdict.threshold)
    network = TagHead(vectors.shape[1], given_tags.shape[1])
    network.linear.load_state_dict(heads.head.state_dict())
    bias = torch.zeros(given_tags.shape[1])
    bias[torch.from_numpy(judgeable)] = torch.from_numpy(judged.model.bias).float()
    network.calibrate(judged.model.scale, bias, judged.model.soft_share)
    thresholds = [] if findings.thresholds is None else findings.thresholds.tolist()
    model = describe_model(network, "tags", source, feeds, thresholds=thresholds)
    results: dict[str, Any] = {
        "run": None if run is None else str(run),
        **findings.summary(),
        "classes": len(source.class_names),
        "epochs": recipe.train.epochs,
        "seconds": time.monotonic() - begun,
    }
    if broken := len(source) - len(positions):
        results["unreadable"] = broken
    return TagRunResult(results, findings, model)


def _tag_findings(source: Source, positions: Labels, judgeable: Labels, judged: JudgedTags) -> TagFindings:
    """Return findings on all samples and tags, of which some samples (M,) and tags (K,) were judged."""
    names = tuple(map(str, source.class_names))
    tags = np.zeros((len(source), len(names)), bool) if source.tags is None else source.tags
    quality, broken = np.full(tags.shape, np.nan), np.ones(len(source), bool)
    quality[np.ix_(positions, judgeable)], broken[positions] = judged.quality, False
    thresholds = np.full(len(names), THRESHOLD)
    thresholds[judgeable] = best_thresholds(judged.probs)
    rates = []
    for of_known in (judged.noise.missing_by_tag, judged.noise.extra_by_tag):
        by_tag = np.full((len(names), 3), np.nan)
        by_tag[judgeable] = of_known
        rates.append(by_tag)
    return TagFindings(
        names,
        tags,
        quality,
        source.ids,
        thresholds,
        TagNoise(judged.noise.missing, judged.noise.extra, *rates),
        paths=source.ids if source.ids.dtype == object else None,
        unreadable=broken if broken.any() else None,
    )
