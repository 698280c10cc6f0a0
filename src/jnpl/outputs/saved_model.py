"""The trained model of a run folder, to predict new data with."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from jnpl.data.loading.augment import CropFlip, EmbeddingViews, Standardize, Transform
from jnpl.data.loading.prepare import Prepared, prepare
from jnpl.data.source import Array, Kind, Source
from jnpl.embedding.backbones import ImageBackbone, TextBackbone, shared_backbone
from jnpl.embedding.compute import EmbeddingOptions, embed_source, image_classifier
from jnpl.internal.devices import checked_device
from jnpl.internal.errors import InputError, UntrustedCodeError
from jnpl.internal.files import require_file
from jnpl.internal.importing import refuse_code
from jnpl.internal.json_files import StoredFacts, check_facts, digest_of, read_facts, read_json
from jnpl.models.build import build
from jnpl.models.tag_head import TagHead
from jnpl.run_folder import RunFolder
from jnpl.training.evaluation import probabilities

Floats: TypeAlias = npt.NDArray[np.float32]

_BATCH = 128
_TEXTS = 1024  # texts that are embedded together
_LUMA = (0.299, 0.587, 0.114)  # colour to grey, as Pillow does it


MOST_PIXELS = 16_384  # a side
_TRANSFORMS: dict[str, Any] = {kind.__name__: kind for kind in (CropFlip, EmbeddingViews, Standardize)}
_Shape = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1, max_length=3)]


class BackboneFacts(StoredFacts):
    """The backbone of a model, as model.json names it."""

    name: str
    takes: Literal["image", "text"]
    digest: str
    size: Annotated[int, Field(ge=1, le=MOST_PIXELS)] | None = None
    views: Annotated[int, Field(ge=1)] = 1


class ModelFacts(StoredFacts):
    """model.json."""

    model: str
    input_shape: _Shape
    sample_shape: _Shape
    transform: dict[str, Any]
    encoding: dict[str, Any] | None = None
    classes: list[str] | list[int]
    backbone: BackboneFacts | None = None
    # of tags, where a sample may have several: the probability from which each is predicted
    thresholds: list[Annotated[float, Field(ge=0, le=1)]] | None = None
    sha256: str | None = None  # of model.json without this entry and the results, and of the weights


class Part(NamedTuple):
    """Predictions of consecutive samples."""

    start: int  # position of the first sample
    probs: Floats  # (B, C); nan where a sample cannot be read
    problems: dict[int, str]  # position -> why it cannot be read


@dataclass(frozen=True)
class SavedModel:
    """A trained network with the transform of its inputs and its classes; made by `load`."""

    network: nn.Module  # inputs of the transform's shape -> logits (B, C)
    transform: Transform  # raw samples -> inputs of the network
    classes: tuple[Any, ...]  # C names or numbers
    # of raw samples, (height, width, channels) or (features,): images of other sizes are resized, and grey ones become
    # colour or colour ones grey
    sample_shape: tuple[int, ...]
    encoding: dict[str, Any] | None = None  # how a table becomes vectors
    text_backbone: TextBackbone | None = None  # what turns texts into the network's vectors
    # where a sample may have several classes, which are tags: the probability from which each is predicted
    thresholds: tuple[float, ...] | None = None

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        device: str | torch.device = "cpu",
        *,
        trust_code: bool = False,
        head_only: bool = False,
    ) -> SavedModel:
        """Return the model in model.json and model.safetensors of a finished run; see the function `load`.

        With `head_only`, a head on embeddings comes without its backbone, for samples that are embedded already.
        """
        run, place = RunFolder(folder), checked_device(device)
        try:
            described = read_json(run.model_facts)
            stored = check_facts(described, ModelFacts, "model.json")
            if not trust_code:
                refuse_code(stored.model, None if stored.backbone is None else stored.backbone.name)
            files = [run.model_weights, *([run.backbone_weights] if run.backbone_weights.is_file() else [])]
            content = {name: value for name, value in described.items() if name not in ("sha256", "results")}
            if stored.sha256 not in (None, digest_of(content, *files)):
                raise InputError("model.json and its weights do not have the hash that was written with them")
            network = _network(stored)
            network.load_state_dict(_finite(load_file(require_file(run.model_weights))))
            facts = stored.model_dump()
            if head_only:
                facts["backbone"] = None
            fitted = None
            if len(files) > 1:
                fitted = {name: tensor.numpy() for name, tensor in load_file(run.backbone_weights).items()}
            return cls.assemble(network, facts, fitted, place)
        except (OSError, LookupError, TypeError, RuntimeError, ValueError, OverflowError, SafetensorError) as error:
            if isinstance(error, UntrustedCodeError):
                raise
            reason = str(error)
            if _is_unfinished(run):
                reason = "its run is not finished; repeat the command it was made with"
            elif isinstance(error, FileNotFoundError):
                reason = "it is no run folder, as `jnpl find DATA -o RUN` writes it"
            raise InputError(f"{str(folder)!r} holds no model that can be read: {reason}") from error

    @classmethod
    def assemble(
        cls,
        network: nn.Module,
        facts: dict[str, Any],
        backbone_state: dict[str, Array] | None = None,
        device: torch.device | None = None,
    ) -> SavedModel:
        """Return the model that the facts of model.json describe, with its backbone, if it has one; `backbone_state`
        are the arrays of one that was fitted to the data."""
        transform = _transform(facts["transform"])
        backbone, sample_shape = _backbone(facts.get("backbone"), backbone_state, device), tuple(facts["sample_shape"])
        texts = backbone if isinstance(backbone, TextBackbone) else None
        if isinstance(transform, EmbeddingViews):
            sample_shape = tuple(facts["input_shape"])  # the views are an axis of the cache only
        if isinstance(backbone, ImageBackbone) and isinstance(transform, EmbeddingViews):
            network, transform = image_classifier(backbone, network, transform, facts["backbone"]["views"])
            sample_shape = (backbone.size, backbone.size, 3)
        placed = network.eval().to(device or "cpu")
        thresholds = None if facts.get("thresholds") is None else tuple(facts["thresholds"])
        return cls(placed, transform, tuple(facts["classes"]), sample_shape, facts.get("encoding"), texts, thresholds)

    @property
    def kind(self) -> Kind:
        """Return "image", "text" or "vector", the kind of sample that the model takes."""
        if self.text_backbone is not None:
            return "text"
        return "image" if len(self.sample_shape) == 3 else "vector"

    def predict(self, x: Any) -> Array:
        """Return the (N,) most probable class of each sample, or the tags (N, T) where it may have several.

        Args:
            x: as in `predict_proba`, but a sample that cannot be read is an InputError.

        Returns:
            (N,) class names or numbers; of tags 0 and 1, in the order of `classes`.

        Example: see the function `load`.
        """
        source = self._opened(x)
        probs = self.probabilities(source)
        if np.isnan(probs).any():
            first = source.ids[int(np.isnan(probs).any(1).argmax())]
            raise InputError(f"sample {first} cannot be read; predict_proba has nan for such samples")
        return self.named(probs) if self.thresholds is None else self.chosen(probs).astype(np.int64)

    def chosen(self, probs: Floats) -> npt.NDArray[np.bool_]:
        """Return which tags are predicted (N, T), by their probabilities; none where these are nan."""
        return np.asarray(probs >= np.array(self.thresholds or (), np.float32))

    def predict_proba(self, x: Any) -> Floats:
        """Return the (N, C) probabilities of the classes.

        Args:
            x: an array, tensor or list (N, ...), a data frame, a Source, or what `jnpl predict` takes as DATA. Images
                are uint8, or floats in 0..1, (N, H, W, C), (N, C, H, W) or (N, H, W); vectors are (N, F).

        Returns:
            (N, C) probabilities; nan for samples that cannot be read.
        """
        return self.probabilities(self._opened(x))

    def _opened(self, x: Any) -> Source:
        if isinstance(x, Source):
            return x
        from jnpl.data.new_data import open_new  # noqa: PLC0415 (sources do without)

        return open_new(x, self.classes, kind=self.kind, encoding=self.encoding).source

    def probabilities(self, source: Source, workers: int = 0) -> Floats:
        """Return the (N, C) probabilities of all samples; nan where a sample cannot be read."""
        return np.concatenate([part.probs for part in self.parts(source, workers)])

    def named(self, probs: Floats) -> Array:
        """Return the (N,) names of the most probable classes of (N, C) probabilities."""
        whole = all(type(name) is int for name in self.classes)
        return np.asarray(np.array(self.classes, np.int64 if whole else object)[probs.argmax(1)])

    def parts(self, source: Source, workers: int = 0) -> Iterator[Part]:
        """Yield the predictions of all samples in order, a batch at a time, so that memory stays bounded.

        `workers` processes decode images. Samples that cannot be read get nan; if none can, an InputError is raised.
        """
        if self.text_backbone is not None:
            yield from self._text_parts(source, self.text_backbone)
            return
        prepared = self._prepare(source, workers)
        batches = list(torch.split(torch.arange(len(source)), _BATCH))
        for batch, (positions, samples) in zip(batches, prepared.fetch(batches), strict=True):
            start = int(batch[0])
            probs = np.full((len(batch), len(self.classes)), np.nan, np.float32)
            if len(positions):
                probs[positions.numpy() - start] = _refuse_not_finite(
                    self.forward(samples), source.ids[positions.numpy()]
                )
            lost = set(batch.tolist()) - set(positions.tolist())
            yield Part(start, probs, {position: prepared.unreadable[position] for position in sorted(lost)})

    def _text_parts(self, source: Source, backbone: TextBackbone) -> Iterator[Part]:
        if (texts := source.inputs.texts()) is None:
            raise InputError(f"{source.name} holds {source.kind}s, but the model was trained on texts")
        broken = source.unreadable or {}
        for start in range(0, len(source), _TEXTS):
            rows = [at for at in range(start, min(start + _TEXTS, len(source))) if at not in broken]
            probs = np.full((min(_TEXTS, len(source) - start), len(self.classes)), np.nan, np.float32)
            if rows:
                vectors = torch.from_numpy(backbone.encode([texts[at] for at in rows]))
                probs[np.array(rows) - start] = _refuse_not_finite(self.forward(vectors), source.ids[rows])
            lost = {at: why for at, why in broken.items() if start <= at < start + len(probs)}
            yield Part(start, probs, lost)

    def first(self, source: Source, count: int) -> Tensor:
        """Return the first `count` raw samples that can be read, or all if there are fewer, as `forward` takes them."""
        first: list[Tensor] = []
        for _, samples in self._prepare(source, 0).fetch(torch.split(torch.arange(len(source)), 1)):
            first += [self._matched(samples)] if len(samples) else []
            if len(first) == count:
                break
        return torch.cat(first)

    def forward(self, samples: Tensor) -> Floats:
        """Return the (B, C) probabilities of raw samples, uint8 (B, H, W, C) or float32 (B, F) of `sample_shape`."""
        samples = self._matched(samples)
        if isinstance(self.transform, EmbeddingViews) and samples.ndim == 2:
            samples = samples[:, None]  # one view
        several = self.thresholds is not None
        return next(probabilities(self.network, self.transform, [samples], several=several))

    def _matched(self, samples: Tensor) -> Tensor:
        return _with_channels(samples, self.sample_shape[2]) if self.kind == "image" else samples

    def _prepare(self, source: Source, workers: int) -> Prepared:
        if source.kind != self.kind:
            trained_on = f"{self.kind}s" if self.encoding is None else "the columns of a table"
            raise InputError(f"{source.name} holds {source.kind}s, but the model was trained on {trained_on}")
        height, *rest = self.sample_shape
        size = height if rest and rest[0] == height else None
        stored = source.inputs.array()
        if self.kind == "image" and size is None and (stored is None or stored.shape[1:3] != self.sample_shape[:2]):
            wanted = " x ".join(map(str, self.sample_shape[:2]))
            raise InputError(f"the model takes images of {wanted} pixels (height x width), as arrays")
        prepared = prepare(source, size, memory_limit=0, workers=workers)
        if self.kind == "vector" and (width := prepared.shape[-1]) != height:  # embeddings are (V, F)
            raise InputError(f"{source.name} has {width} features, but the model was trained on {height}")
        return prepared


def load(run: str | os.PathLike[str], device: str | torch.device = "cpu", *, trust_code: bool = False) -> SavedModel:
    """Return the trained model of a finished run.

    Args:
        run: the run folder, as `jnpl find DATA -o RUN` writes it, or "hf:USER/NAME" on the Hugging Face hub.
        device: a device of PyTorch, or "auto".
        trust_code: allow a model of your own, "package.module:factory", which loading imports and runs. Only for run
            folders that you trust.

    Returns:
        The model, with `predict` and `predict_proba`.

    Example:
        >>> import tempfile
        >>> from jnpl import find_label_issues
        >>> x, y = np.eye(2)[[0, 1] * 20], ["cat", "dog"] * 20
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = find_label_issues(x, y, out=f"{folder}/run", settings=["train.epochs=1"])
        ...     model = load(f"{folder}/run")
        >>> model.classes, model.predict(x).shape, model.predict_proba(x).shape
        (('cat', 'dog'), (40,), (40, 2))
    """
    if isinstance(run, str) and run.startswith("hf:"):
        from jnpl.outputs.hub import download  # noqa: PLC0415 (imports this module)

        run = download(run.removeprefix("hf:"))
    return SavedModel.load(run, device, trust_code=trust_code)


def embedded_as_run(run: RunFolder, source: Source, options: EmbeddingOptions) -> Source:
    """Return images or texts embedded as the run embedded its own; other data, and of other runs, as they are."""
    facts = read_facts(run.model_facts, ModelFacts).backbone
    if facts is None or source.kind == "vector":
        return source
    state = load_file(run.backbone_weights) if run.backbone_weights.is_file() else None
    fitted = None if state is None else {name: tensor.numpy() for name, tensor in state.items()}
    backbone = _backbone(facts.model_dump(), fitted, options.device)
    return source if backbone is None else embed_source(source, backbone, replace(options, views=facts.views))


def _network(stored: ModelFacts) -> nn.Module:
    """Return the network that model.json describes, without its weights."""
    classes, shape = len(stored.classes), stored.input_shape
    if stored.thresholds is None:
        return build(stored.model, num_classes=classes, input_shape=shape, seed=0)
    if len(stored.thresholds) != classes or len(shape) != 1:
        raise InputError("thresholds must be one for each tag, and the input a vector")
    return TagHead(shape[0], classes)


def _with_channels(images: Tensor, channels: int) -> Tensor:
    """Return uint8 (B, H, W, 1 or 3) images as uint8 (B, H, W, channels)."""
    if images.shape[3] == channels:
        return images
    if channels == 3:
        return images.expand(-1, -1, -1, 3)
    grey = images.float() @ torch.tensor(_LUMA, device=images.device)
    return grey.round().to(torch.uint8)[..., None]


def _transform(facts: dict[str, Any]) -> Transform:
    """Return the transform that `Feeds.describe_transform` described."""
    settings = {name: value for name, value in facts.items() if name != "kind"}
    try:
        transform: Transform = TypeAdapter(_TRANSFORMS[facts["kind"]]).validate_python(settings)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"the transform's {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    mean, std, size = transform.mean, transform.std, getattr(transform, "size", 1)  # type: ignore[attr-defined]
    if len(mean) != len(std) or not all(map(math.isfinite, (*mean, *std))) or min(std, default=0.0) <= 0:
        raise InputError("the transform's mean and std must be equally many finite numbers, and std above 0")
    if not 1 <= size <= MOST_PIXELS:
        raise InputError(f"the transform's size must lie in 1..{MOST_PIXELS} pixels, got {size}")
    return transform


def _finite(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    for name, values in weights.items():
        if values.is_floating_point() and not values.isfinite().all():
            raise InputError(f"its weights {name!r} are not finite")
    return weights


def _refuse_not_finite(probs: Floats, ids: Array) -> Floats:
    bad = ~np.isfinite(probs).all(1)
    if bad.any():
        name = ids[int(bad.argmax())]
        raise InputError(f"the prediction of sample {name} is not finite: its values are too large for the model")
    return probs


def _backbone(
    facts: dict[str, Any] | None, state: dict[str, Array] | None, device: torch.device | None
) -> ImageBackbone | TextBackbone | None:
    """Return the backbone that model.json names; one with other weights than in training is an error."""
    if facts is None:
        return None
    if state is not None:
        from jnpl.embedding.tfidf import load_tfidf  # noqa: PLC0415 - scikit-learn is not needed otherwise

        return load_tfidf(state)
    backbone = shared_backbone(facts["name"], facts["takes"], size=facts.get("size"), device=str(device or "cpu"))
    if backbone.digest != facts["digest"]:
        raise InputError(f"the backbone {facts['name']} has other weights than the one that the run was trained with")
    return backbone


def _is_unfinished(run: RunFolder) -> bool:
    try:
        return run.run_facts.status not in (None, "finished")
    except InputError:
        return False
