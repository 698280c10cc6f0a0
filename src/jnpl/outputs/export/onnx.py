"""Export the model as ONNX: raw samples in, probabilities out; the file does not need jnpl (extra `onnx`)."""

import copy
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from jnpl.data.loading.augment import CropFlip, EmbeddingViews, Standardize
from jnpl.data.new_data import open_new
from jnpl.data.source import Source
from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing
from jnpl.internal.importing import require
from jnpl.judging.findings import Findings
from jnpl.outputs.export.targets import ExportRequest
from jnpl.outputs.image_folder import data_root, image_place, with_places
from jnpl.outputs.saved_model import Floats, SavedModel

CHECKED = 16  # samples that an exported model is checked on
TOLERANCE = 1e-4  # largest difference between probabilities of two runtimes
INPUT, OUTPUT = "samples", "probabilities"


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the model of a run; return its input, the samples it was checked on and the largest difference."""
    model = SavedModel.load(request.run.path, trust_code=request.trust_code)
    if model.text_backbone is not None:
        raise InputError(f"a model of texts cannot be exported: {model.text_backbone.name} is no torch module")
    try:
        samples, origin = samples_of(model, _check_source(request, model))
    except InputError:
        if request.data is not None or request.root is not None:
            raise
        samples, origin = samples_of(model, None)
    difference = write(model, request.out, samples)
    kind = "uint8" if model.kind == "image" else "float32"
    shape = ", ".join(map(str, ("batch", *model.sample_shape)))
    return {"input": f"{kind} ({shape})", "checked_on": origin, "largest_difference": difference}


def _check_source(request: ExportRequest, model: SavedModel) -> Source | None:
    """Data to check an exported model on: `request.data`, else the images of the run; InputError if they are gone."""
    if request.data is not None:
        return open_new(request.data, model.classes, kind=model.kind, encoding=model.encoding).source
    if model.kind == "vector":
        return None
    findings = with_places(request.run.findings, request.run)
    return None if findings.paths is None else images_of(model, findings, data_root(request.run, request.root))


def write(model: SavedModel, out: Path, samples: Tensor) -> float:
    """Export the model, check the file in onnxruntime against the network, and keep it; returns the difference.

    Batches may have any size. The class names are inside, as the metadata entry `classes`.
    """
    onnx, _, runtime = (require(name, "onnx") for name in ("onnx", "onnxscript", "onnxruntime"))
    module = deployed(model)
    with replacing(out) as draft:
        with _quiet(), torch.no_grad():
            try:
                program: Any = torch.onnx.export(
                    module,
                    (samples,),
                    dynamo=True,
                    dynamic_shapes=({0: torch.export.Dim("batch")},),
                    input_names=[INPUT],
                    output_names=[OUTPUT],
                    verbose=False,
                )
            except Exception as error:  # the network may be the user's own and raise anything
                reason = " ".join(str(error).split())[:160]
                raise InputError(f"ONNX cannot hold this network: {reason}") from error
        proto = program.model_proto
        onnx.helper.set_model_props(proto, {"classes": json.dumps(list(model.classes)), "producer": "jnpl"})
        draft.write_bytes(proto.SerializeToString())
        return check(model, samples, _runner(runtime, draft), "ONNX")


class Deployed(nn.Module):
    """Raw samples to probabilities: uint8 (B, H, W, C) or float32 (B, F) -> (B, classes).

    Images are at the size that the run decoded them to: the centre is cut, the mean subtracted, the deviation divided
    by. Vectors are standardised, after a division by their length if the recipe says so (`data.vectors = unit`). The
    same as `SavedModel.forward`, in operations that other runtimes know.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, model: SavedModel) -> None:
        super().__init__()
        transform = model.transform
        if not isinstance(transform, CropFlip | EmbeddingViews | Standardize):
            raise InputError(f"a model with the transform {type(transform).__name__} cannot be exported")
        mean, std = (torch.tensor(numbers, dtype=torch.float64) for numbers in (transform.mean, transform.std))
        self.network = model.network
        self.image = isinstance(transform, CropFlip)
        self.unit = isinstance(transform, EmbeddingViews) and transform.unit
        self.size = transform.size if isinstance(transform, CropFlip) else 0
        scale, shift = (1 / (255 * std), -mean / std) if self.image else (1 / std, -mean / std)
        shape = (1, -1, 1, 1) if self.image else (1, -1)
        self.register_buffer("scale", scale.float().view(shape))
        self.register_buffer("shift", shift.float().view(shape))

    def forward(self, samples: Tensor) -> Tensor:
        """(B, ...) -> (B, classes)."""
        values = samples.float()
        if self.image:
            top, left = (samples.shape[1] - self.size) // 2, (samples.shape[2] - self.size) // 2
            values = values[:, top : top + self.size, left : left + self.size].permute(0, 3, 1, 2)
        if self.unit:
            values = F.normalize(values, dim=1)
        logits: Tensor = self.network(values * self.scale + self.shift)
        return logits.softmax(1)


def deployed(model: SavedModel) -> Deployed:
    """Return the module, with weights of its own, in evaluation mode, without gradients and on the CPU."""
    return copy.deepcopy(Deployed(model)).eval().requires_grad_(False).cpu()


def samples_of(model: SavedModel, source: Source | None) -> tuple[Tensor, str]:
    """Return raw samples (2 to 16, ...) to check an export on, and the name of their source.

    They are the first that can be read of `source`, a single one twice; without a source, draws with the mean and
    deviation of the training data.
    """
    if source is not None:
        samples = model.first(source, CHECKED)
        # One alone would let exporters take its batch for the only size.
        return samples if len(samples) > 1 else torch.cat([samples, samples]), source.name
    generator, shape = np.random.default_rng(0), (CHECKED, *model.sample_shape)
    facts: Any = model.transform
    drawn = generator.normal(facts.mean, facts.std, shape)
    if model.kind == "image":
        return torch.from_numpy(np.clip(drawn * 255, 0, 255).astype(np.uint8)), "drawn images"
    return torch.from_numpy(drawn.astype(np.float32)), "drawn vectors"


def images_of(model: SavedModel, findings: Findings, root: Path) -> Source:
    """Return the images of a run as a source."""
    from jnpl.data.sources.images import ImageFiles  # noqa: PLC0415 - vectors do without Pillow

    paths = [] if findings.paths is None else [str(image_place(root, str(path))) for path in findings.paths]
    none = np.zeros(len(paths), np.int64)
    return Source("the images of the run", ImageFiles(paths, root), none, model.classes, findings.ids)


def check(model: SavedModel, samples: Tensor, run: Callable[[Tensor], Floats], what: str) -> float:
    """Compare an exported model with the network, on all samples and on one alone; returns the largest difference."""
    worst = 0.0
    for batch in (samples, samples[:1]):
        wanted, probs = model.forward(batch), run(batch)
        if probs.shape != wanted.shape:
            raise InputError(f"the exported {what} gives {probs.shape} for {tuple(batch.shape)}, not {wanted.shape}")
        off = float(np.abs(wanted - probs).max())
        if not off <= TOLERANCE:  # nan is no agreement
            raise InputError(f"the exported {what} differs from the network by {off:.2g}: it cannot be exported")
        worst = max(worst, off)
    return worst


def _runner(runtime: Any, path: Path) -> Any:
    session = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])

    def run(batch: Tensor) -> Floats:
        try:
            probs: Floats = session.run([OUTPUT], {INPUT: batch.numpy()})[0]
        except Exception as error:  # for instance if the exporter fixed the batch size
            reason = " ".join(str(error).split())[:160]
            raise InputError(f"the exported ONNX does not take {tuple(batch.shape)}: {reason}") from error
        return probs

    return run


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter's warnings, logs and prints about its own working; failures are still raised."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(before)
