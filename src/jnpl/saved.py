"""The model that a run left in its folder, for new data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from jnpl.data.augment import CropFlip, Standardize, Transform
from jnpl.data.prepare import prepare
from jnpl.errors import InputError
from jnpl.models.build import build

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn

    from jnpl.data.source import Source

Floats: TypeAlias = npt.NDArray[np.float32]

_BATCH = 128


@dataclass(frozen=True)
class SavedModel:
    """A network, what its inputs go through, and the classes that it tells apart."""

    network: nn.Module
    transform: Transform
    classes: tuple[Any, ...]

    @classmethod
    def load(cls, folder: Path) -> SavedModel:
        """Read model.json and model.safetensors of a finished run."""
        try:
            facts = json.loads((folder / "model.json").read_text("utf-8"))
            shape, classes = tuple(facts["input_shape"]), tuple(facts["classes"])
            network = build(facts["model"], num_classes=len(classes), input_shape=shape, seed=0)
            network.load_state_dict(load_file(folder / "model.safetensors"))
            transform = _transform(facts["transform"])
        except (OSError, LookupError, TypeError, RuntimeError, json.JSONDecodeError, SafetensorError) as error:
            raise InputError(f"{str(folder)!r} holds no model that can be read: {error}") from error
        return cls(network.eval(), transform, classes)

    def probabilities(self, source: Source) -> Floats:
        """(N, C) of all samples, not augmented, in evaluation mode."""
        return probabilities(self.network, self.transform, source)


@torch.inference_mode()
def probabilities(network: nn.Module, transform: Transform, source: Source) -> Floats:
    """(N, C) of a network in evaluation mode, which is put back as it was; the samples are an array."""
    training = [module for module in network.modules() if module.training]
    network.eval()
    prepared = prepare(source, None, memory_limit=0)
    batches = list(torch.split(torch.arange(len(source)), _BATCH))
    device = next(network.parameters()).device
    found = [
        network(transform.evaluate(samples.to(device))).float().softmax(1).cpu().numpy()
        for _, samples in prepared.fetch(batches)
    ]
    for module in training:
        module.training = True
    return np.concatenate(found)


def _transform(facts: dict[str, Any]) -> Transform:
    """As `Feeds.transform_facts` told it."""
    kinds: dict[str, Any] = {kind.__name__: kind for kind in (CropFlip, Standardize)}
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items() if name != "kind"}
    transform: Transform = kinds[facts["kind"]](**own)
    return transform
