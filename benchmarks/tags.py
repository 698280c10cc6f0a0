"""Several tags per sample: missing and extra tags found, beside cleanlab around logistic regression on the same vectors.

    python benchmarks/tags.py run --data DIR [--parts grids cifar100 tfidf minilm] [--seeds 3]   # resumable
    python benchmarks/tags.py table                                                    # the tables of docs/tags.md

DIR holds cifar-10-batches-bin, cifar-100-part.parquet and agnews-weak.csv.gz. Three kinds of data with known tags:

- grids: 4,000 pictures of 64 pixels, each of four photos of CIFAR-10; the tags are their classes (10 tags, 3.4 a
  picture). Vectors of efficientnet-lite0 at 128 pixels.
- cifar100: 10,000 photos of CIFAR-100 with fine and coarse class as tags (120 tags, 2 a photo). The same backbone.
- tfidf, minilm: 3,000 pairs of news items that are joined; the tags are their topics (4 tags, 1.75 a pair).

Missing: that share of the true tags is left out, at random. Extra: as many tags as that share of the true ones are
added, at random among the pairs of sample and tag that are not true.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from jnpl import embed
from jnpl.data.opening import open_source
from jnpl.internal.tables import load_parquet

GRIDS, PHOTOS, PAIRS = 4_000, 10_000, 3_000


@lru_cache(maxsize=4)
def vectors_and_tags(part: str, data: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors (N, F) and true tags (N, T) of a part."""
    return {"grids": _grids, "cifar100": _cifar100, "tfidf": _texts, "minilm": _texts}[part](data, part)


def _grids(data: Path, _: str) -> tuple[np.ndarray, np.ndarray]:
    source = open_source("cifar10", root=data)
    pictures, labels = np.asarray(source.inputs.array())[: 4 * GRIDS], source.labels[: 4 * GRIDS]
    tiles = pictures.reshape(GRIDS, 2, 2, 32, 32, 3)  # grid, row, column, pixels
    grids = tiles.transpose(0, 1, 3, 2, 4, 5).reshape(GRIDS, 64, 64, 3)
    tags = np.zeros((GRIDS, 10), bool)
    tags[np.arange(4 * GRIDS) // 4, labels] = True
    return _vectors(grids, "efficientnet-lite0", 128), tags


def _cifar100(data: Path, _: str) -> tuple[np.ndarray, np.ndarray]:
    from io import BytesIO  # noqa: PLC0415

    from PIL import Image  # noqa: PLC0415

    table = load_parquet(data / "cifar-100-part.parquet").slice(0, PHOTOS)
    pictures = np.stack([np.asarray(Image.open(BytesIO(cell["bytes"]))) for cell in table["image"].to_pylist()])
    print(table.column_names, flush=True)
    fine = np.array(table["fine_label"].to_pylist())
    return _vectors(pictures, "efficientnet-lite0", 128), fine


def _texts(data: Path, backbone: str) -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_csv(data / "agnews-weak.csv.gz")[: 2 * PAIRS]
    texts, (_, topics) = frame["text"].tolist(), np.unique(frame["truth"], return_inverse=True)
    joined = [f"{first} {second}" for first, second in zip(texts[::2], texts[1::2], strict=True)]
    tags = np.zeros((PAIRS, topics.max() + 1), bool)
    tags[np.arange(2 * PAIRS) // 2, topics] = True
    return _vectors(joined, backbone), tags


def _vectors(samples, backbone: str, size: int | None = None) -> np.ndarray:
    return embed(samples, [at % 2 for at in range(len(samples))], backbone=backbone, size=size, note=print).values


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--parts", nargs="*")
    arguments = parser.parse_args()
    for part in arguments.parts:
        values, tags = vectors_and_tags(part, arguments.data)
        np.savez(f"/tmp/tags-{part}.npz", x=values, tags=tags)
        print(part, values.shape, tags.shape, tags.sum(0)[:10] if tags.ndim > 1 else tags[:3], flush=True)
