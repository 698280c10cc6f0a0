"""Export the model as ONNX: raw samples in, probabilities out (extra `onnx`)."""

from __future__ import annotations

import io
import json
import logging
import warnings
from contextlib import contextmanager, redirect_stderr
from typing import TYPE_CHECKING, Any

import torch

from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing
from jnpl.internal.importing import require
from jnpl.outputs.export.deployed import check, deployed, export_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor

    from jnpl.outputs.export.targets import ExportRequest
    from jnpl.outputs.saved_model import Floats, SavedModel

INPUT, OUTPUT = "samples", "probabilities"


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the model of a run; returns its input, the samples it was checked on and the largest difference."""
    return export_model(request, write)


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
