"""Export the model as TorchScript: raw samples in, probabilities out, for libtorch."""

from __future__ import annotations

import io
import json
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from jnpl.internal.errors import InputError
from jnpl.internal.files import replacing
from jnpl.outputs.export.deployed import check, deployed, export_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch import Tensor

    from jnpl.outputs.export.targets import ExportRequest
    from jnpl.outputs.saved_model import Floats, SavedModel


def export(request: ExportRequest) -> dict[str, Any]:
    """Write the model of a run; returns its input, the samples it was checked on and the largest difference."""
    return export_model(request, write)


def write(model: SavedModel, out: Path, samples: Tensor) -> float:
    """Trace the model, check the file against the network, and keep it; returns the largest difference.

    The class names are inside, as the extra file `classes.json`.
    """
    module = deployed(model)
    with replacing(out) as draft, _quiet(), torch.no_grad():
        try:
            traced = torch.jit.trace(module, samples, check_trace=False)  # type: ignore[no-untyped-call]
        except Exception as error:  # the network may be the user's own and raise anything
            reason = " ".join(str(error).split())[:160]
            raise InputError(f"TorchScript cannot hold this network: {reason}") from error
        content = io.BytesIO()  # PyTorch's own writer aborts the process when a disk is full
        torch.jit.save(traced, content, _extra_files={"classes.json": json.dumps(list(model.classes))})
        draft.write_bytes(content.getbuffer())
        return check(model, samples, _runner(draft), "TorchScript")


def _runner(path: Path) -> Any:
    loaded: Any = torch.jit.load(path)  # type: ignore[no-untyped-call]

    def run(batch: Tensor) -> Floats:
        probs: Floats = loaded(batch).numpy()
        return probs

    return run


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence TorchScript's deprecation warnings, and the tracer's about shapes that are constant here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning, message=r".*torch\.jit")
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # type: ignore[attr-defined]
        yield
