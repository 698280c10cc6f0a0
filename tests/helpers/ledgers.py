"""Started by torchrun: trains on two processes and writes each process's ledger (see test_processes.py)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from jnpl.data.opening import open_source
from jnpl.findings.ledger import Ledger
from jnpl.recipes.load import load_recipe
from jnpl.training import run, session
from jnpl.training.reporting import Reporter

kept: list[Ledger] = []


class Watched(Ledger):
    """Remembers itself."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        kept.append(self)


if __name__ == "__main__":
    torch.set_num_threads(1)
    session.Ledger = Watched  # type: ignore[misc]
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    changes = {
        "train.epochs": 3,
        "train.batch_size": 32,
        "train.lr": 0.01,
        "engine.devices": 2,
        "engine.accelerator": "cpu",
    }
    settings = load_recipe("small", changes)
    every = run.CheckpointInterval(epochs=1, seconds=None)
    run.find(open_source(data), settings, out / "run", seed=0, every=every, strict=False, report=Reporter())
    kept[0].save(out / f"ledger-{os.environ['RANK']}.safetensors")
