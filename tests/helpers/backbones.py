"""A backbone of a few weights, and a process that embeds with it: `python -m tests.helpers.backbones CACHE`."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from jnpl.data.source import InMemory, Inputs, Source
from jnpl.embedding import embedding_cache
from jnpl.embedding.backbones import ImageBackbone
from jnpl.embedding.compute import EmbeddingOptions, embed_source, process_rank

BLOCK = 64  # one batch
SIZE, WIDTH = 12, 8


class TinyNet(nn.Module):
    """(B, 3, S, S) -> (B, 8). It counts its calls; at the call `dies_at` it raises, or kills its process."""

    calls: ClassVar[int] = 0
    dies_at: ClassVar[int | None] = None
    by_signal: ClassVar[bool] = False

    def __init__(self, seed: int = 0, pause: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.features = nn.Sequential(nn.Conv2d(3, WIDTH, 3, stride=2), nn.BatchNorm2d(WIDTH), nn.ReLU())
        self.features[1].running_mean.uniform_(-0.1, 0.1)
        self.features[1].running_var.uniform_(0.5, 2)
        self.pause = pause

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 3, S, S) -> (B, 8)."""
        if TinyNet.calls == TinyNet.dies_at:
            if TinyNet.by_signal:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("the network fails")
        TinyNet.calls += 1
        time.sleep(self.pause)
        means: torch.Tensor = self.features(images).mean((2, 3))
        return means


def tiny_backbone(seed: int = 0, size: int = SIZE, pause: float = 0.0) -> ImageBackbone:
    """Return a backbone for images of `size` pixels; other seeds are other weights."""
    return ImageBackbone("tiny", TinyNet(seed, pause).eval(), size, (0.5, 0.4, 0.3), (0.2, 0.25, 0.3), WIDTH)


def noise_images(count: int, side: int = SIZE) -> Source:
    """Return a source of noise in three classes."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (count, side, side, 3), np.uint8)
    return Source("noise", InMemory(pixels), random.integers(0, 3, count), (0, 1, 2), np.arange(count))


class MarkedInputs(Inputs):
    """Inputs that leave a file named by position and reading process, at the first sample of every block."""

    kind = "image"

    def __init__(self, inputs: InMemory, folder: Path) -> None:
        self.inputs, self.folder = inputs, folder

    def __len__(self) -> int:
        return len(self.inputs)

    def read(self, position: int, size: int | None = None) -> np.ndarray:
        """Return the sample."""
        if position % BLOCK == 0:
            (self.folder / f"{position}-{os.getpid()}").write_text("")
            time.sleep(0.3)
        return self.inputs.read(position, size)

    def sizes(self) -> np.ndarray:
        """Return the bytes of each sample."""
        return self.inputs.sizes()


def main() -> None:
    """Embed 400 images into the cache CACHE; with a second argument, be killed at that call of the network."""
    embedding_cache.BLOCK = BLOCK
    if len(sys.argv) > 2:
        TinyNet.dies_at, TinyNet.by_signal = int(sys.argv[2]), True
    rank, world = process_rank()
    options = EmbeddingOptions(views=1, cache=Path(sys.argv[1]), rank=rank, world=world)
    embed_source(noise_images(400), tiny_backbone(pause=0.02), options)
    sys.stdout.write(str(TinyNet.calls))


if __name__ == "__main__":
    main()
