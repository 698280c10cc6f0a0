"""The model that a run left in its folder, for new data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from jnpl.data.loading.augment import CropFlip, Standardize, Transform
from jnpl.data.loading.prepare import Prepared, prepare
from jnpl.data.source import Source
from jnpl.internal.devices import checked_device
from jnpl.internal.errors import InputError
from jnpl.models.build import build
from jnpl.training.evaluation import probabilities

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from torch import Tensor, nn

    from jnpl.data.source import Array, Kind

Floats: TypeAlias = npt.NDArray[np.float32]

_BATCH = 128
_LUMA = (0.299, 0.587, 0.114)  # colour to grey, as Pillow does it


class Part(NamedTuple):
    """What the model says of some samples that follow each other."""

    start: int  # position of the first
    probs: Floats  # (B, C); nan where a sample cannot be read
    problems: dict[int, str]  # position -> why it cannot be read


@dataclass(frozen=True)
class SavedModel:
    """A network, what its inputs go through, and the classes that it tells apart; made by `load`.

    `sample_shape` is what the transform takes: (H, W, C) or (F,). Images of other sizes are resized to it, and grey
    becomes colour or colour grey. `encoding` turns a table into vectors as in training, where that was a table.
    """

    network: nn.Module
    transform: Transform
    classes: tuple[Any, ...]
    sample_shape: tuple[int, ...]
    encoding: dict[str, Any] | None = None

    @classmethod
    def load(cls, folder: str | os.PathLike[str], device: str | torch.device = "cpu") -> SavedModel:
        """Read model.json and model.safetensors of a finished run; `device` is one of PyTorch's, or "auto"."""
        run, place = Path(folder), checked_device(device)
        try:
            facts = json.loads((run / "model.json").read_text("utf-8"))
            shape, classes = tuple(facts["input_shape"]), tuple(facts["classes"])
            network = build(facts["model"], num_classes=len(classes), input_shape=shape, seed=0)
            network.load_state_dict(load_file(run / "model.safetensors"))
            transform = _transform(facts["transform"])
            sample_shape = tuple(facts.get("sample_shape") or _sample_shape(run, shape, transform))
        except (OSError, LookupError, TypeError, RuntimeError, ValueError, SafetensorError) as error:
            what = str(error)
            if _unfinished(run):
                what = "its run is not finished; repeat the command it was made with"
            elif isinstance(error, FileNotFoundError):
                what = "it is no run folder, as `jnpl find DATA -o RUN` writes it"
            raise InputError(f"{str(folder)!r} holds no model that can be read: {what}") from error
        return cls(network.eval().to(place), transform, classes, sample_shape, facts.get("encoding"))

    @property
    def kind(self) -> Kind:
        """What it takes: images or vectors."""
        return "image" if len(self.sample_shape) == 3 else "vector"

    def predict(self, x: Any) -> Array:
        """Predict the classes (N,) of what `predict_proba` takes; all samples must be there to be read."""
        source = self._opened(x)
        probs = self.probabilities(source)
        if np.isnan(probs).any():
            first = source.ids[int(np.isnan(probs).any(1).argmax())]
            raise InputError(f"sample {first} cannot be read; predict_proba has nan for such samples")
        return self.named(probs)

    def predict_proba(self, x: Any) -> Floats:
        """Predict the probabilities (N, C) of arrays, tensors or lists (N, ...), a data frame or a Source.

        Images are uint8, or floats in 0..1, (N, H, W, C), (N, C, H, W) or (N, H, W); vectors are (N, F). What
        `jnpl predict` takes as DATA will do too. Samples that cannot be read have nan.
        """
        return self.probabilities(self._opened(x))

    def _opened(self, x: Any) -> Source:
        if isinstance(x, Source):
            return x
        from jnpl.data.new_data import open_new  # noqa: PLC0415 (sources do without)

        return open_new(x, self.classes, kind=self.kind, encoding=self.encoding).source

    def probabilities(self, source: Source, workers: int = 0) -> Floats:
        """(N, C) of all samples, not augmented, in evaluation mode; nan where a sample cannot be read."""
        return np.concatenate([part.probs for part in self.parts(source, workers)])

    def named(self, probs: Floats) -> Array:
        """(N, C) -> (N,) the likeliest class of each, by name."""
        whole = all(type(name) is int for name in self.classes)
        names: Array = np.array(self.classes, np.int64 if whole else object)
        found: Array = names[probs.argmax(1)]
        return found

    def parts(self, source: Source, workers: int = 0) -> Iterator[Part]:
        """What the network says of all samples in their order, a batch at a time: memory stays bounded.

        `workers` processes decode images. A sample that cannot be read costs itself alone; if none can, that is an
        InputError.
        """
        prepared = self._prepare(source, workers)
        batches = list(torch.split(torch.arange(len(source)), _BATCH))
        for batch, (positions, samples) in zip(batches, prepared.fetch(batches), strict=True):
            start = int(batch[0])
            probs = np.full((len(batch), len(self.classes)), np.nan, np.float32)
            if len(positions):
                probs[positions.numpy() - start] = self.forward(samples)
            lost = set(batch.tolist()) - set(positions.tolist())
            yield Part(start, probs, {position: prepared.unreadable[position] for position in sorted(lost)})

    def first(self, source: Source, count: int) -> Tensor:
        """Up to `count` raw samples, the first that can be read, as `forward` takes them."""
        found: list[Tensor] = []
        for _, samples in self._prepare(source, 0).fetch(torch.split(torch.arange(len(source)), 1)):
            found += [self._matched(samples)] if len(samples) else []
            if len(found) == count:
                break
        return torch.cat(found)

    def forward(self, samples: Tensor) -> Floats:
        """Probabilities (B, C) of raw samples: uint8 (B, H, W, C) or float32 (B, F) as `sample_shape` says."""
        return next(probabilities(self.network, self.transform, [self._matched(samples)]))

    def _matched(self, samples: Tensor) -> Tensor:
        return _with_channels(samples, self.sample_shape[2]) if self.kind == "image" else samples

    def _prepare(self, source: Source, workers: int) -> Prepared:
        if source.kind != self.kind:
            raise InputError(f"{source.name} holds {source.kind}s, but the model was trained on {self.kind}s")
        height, *rest = self.sample_shape
        size = height if rest and rest[0] == height else None
        stored = getattr(source.inputs, "values", None)
        if self.kind == "image" and size is None and (stored is None or stored.shape[1:3] != self.sample_shape[:2]):
            wanted = " x ".join(map(str, self.sample_shape[:2]))
            raise InputError(f"the model takes images of {wanted} pixels (height x width), as arrays")
        prepared = prepare(source, size, memory_limit=0, workers=workers)
        if self.kind == "vector" and prepared.shape != self.sample_shape:
            found = prepared.shape[0]
            raise InputError(f"{source.name} has {found} features, but the model was trained on {height}")
        return prepared


def load(run: str | os.PathLike[str], device: str | torch.device = "cpu") -> SavedModel:
    """Load the model of a finished run, to predict with; `device` is one of PyTorch's, or "auto"."""
    return SavedModel.load(run, device)


def _with_channels(images: Tensor, channels: int) -> Tensor:
    """uint8 (B, H, W, 1 or 3) -> uint8 (B, H, W, channels)."""
    if images.shape[3] == channels:
        return images
    if channels == 3:
        return images.expand(-1, -1, -1, 3)
    grey = images.float() @ torch.tensor(_LUMA, device=images.device)
    return grey.round().to(torch.uint8)[..., None]


def _transform(facts: dict[str, Any]) -> Transform:
    """Return the transform that `Feeds.describe_transform` described."""
    kinds: dict[str, Any] = {kind.__name__: kind for kind in (CropFlip, Standardize)}
    own = {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items() if name != "kind"}
    transform: Transform = kinds[facts["kind"]](**own)
    return transform


def _sample_shape(run: Path, input_shape: tuple[int, ...], transform: Transform) -> tuple[int, ...]:
    """What the transform takes, where model.json does not say: images were decoded to the recipe's data.size."""
    if not isinstance(transform, CropFlip):
        return input_shape
    data = json.loads((run / "run.json").read_text("utf-8"))["recipe"]["data"]
    side = data["size"] or transform.size
    return side, side, input_shape[0]


def _unfinished(run: Path) -> bool:
    try:
        return bool(json.loads((run / "run.json").read_text("utf-8"))["status"] != "finished")
    except (OSError, ValueError, LookupError, TypeError):
        return False
