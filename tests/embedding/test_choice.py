"""The backbone that suits a data set."""

import numpy as np
import torch

from jnpl.data.source import Source, Texts
from jnpl.embedding import choice
from jnpl.embedding.backbones import TextBackbone
from jnpl.embedding.compute import EmbeddingOptions


def test_an_encoder_of_texts_runs_on_the_device_of_the_embedding(monkeypatch, tmp_path):
    asked = []

    def load(name, takes, *, size=None, device="auto"):
        asked.append((name, takes, device))
        return TextBackbone(name, lambda texts: np.ones((len(texts), 3), np.float32), 3, "digest")

    monkeypatch.setattr(choice, "load_backbone", load)
    source = Source("toy", Texts(np.array(["a", "b"], object)), np.array([0, 1]), ("x", "y"), np.arange(2))
    options = EmbeddingOptions(cache=tmp_path, device=torch.device("cuda", 1))
    choice.embed_for_training(source, "hf:some/encoder", options=options)
    assert asked == [("hf:some/encoder", "text", "cuda:1")]
