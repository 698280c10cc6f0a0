"""Started once by torchrun: everything that the tests train on two processes (fixture `pair`).

`python -m tests.helpers.pair OUT` writes OUT/methods (every method, and its state on each process), OUT/fast (the
recipe `fast`, also killed and resumed) and OUT/toy (the command of `toy.py`, and a ledger of each process).
"""

import atexit
import json
import os
import sys
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from jnpl.cli.app import main as jnpl
from jnpl.data.opening import open_source
from jnpl.data.sources.arrays import from_arrays
from jnpl.judging.ledger import Ledger
from jnpl.methods.registry import METHODS
from jnpl.pipeline import CheckpointInterval, run_recipe
from jnpl.recipes.load import load_recipe
from jnpl.training import run_setup
from jnpl.training.reporting import Reporter
from jnpl.training.run_callback import RunCallback
from jnpl.training.session import Session
from tests.helpers import fast_runs, quick, toy

KILLED = "killed"  # a run of `fast` that was killed on its way
TWO = ("--accelerator", "cpu", "--devices", "2")


def all_methods(out: Path, made: list[Session]) -> None:
    """Train all methods; leave the state of each, as this process has it."""
    rank, results = os.environ.get("RANK", "0"), {}
    for name in METHODS:
        result = quick.train(quick.data(samples=quick.SHARED), quick.recipe_of(name, devices=2), out / name)
        results[name] = None if result is None else result.results
        # Batch norm's running statistics are each process's own; an MLP has none.
        state = {key: value.clone().contiguous() for key, value in made[-1].state.method.state_dict().items()}
        save_file(state, out / f"{name}-{rank}.safetensors")
    one = quick.data(samples=quick.SHARED)
    alone = replace(one, test=from_arrays(one.inputs.values[:1], one.labels[:1], class_names=list(range(4))))
    result = quick.train(alone, quick.recipe_of("co-teaching", devices=2), out / "alone", classify=False)
    results["alone"] = None if result is None else result.results
    if rank == "0":
        (out / "results.json").write_text(json.dumps(results))


def killed_on_its_way(out: Path) -> None:
    """Train `fast`, stopped after two epochs when all processes have saved themselves, and run again."""

    class KilledError(Exception):
        """Nothing is written any more."""

    save = RunCallback.save

    def last(callback: RunCallback, position: Any) -> None:
        save(callback, position)
        if position.epoch == 2:
            raise KilledError

    again: dict[str, Any] = {"devices": 2, "every": CheckpointInterval(epochs=1, seconds=None)}
    RunCallback.save = last  # type: ignore[method-assign]
    with suppress(KilledError):
        fast_runs.train_small("agreement", out, **again)
    RunCallback.save = save  # type: ignore[method-assign]
    if not (out / "checkpoint").is_dir():
        raise AssertionError("it was not killed")
    fast_runs.train_small("agreement", out, **again)


def command(data: Path, out: Path, *options: str) -> None:
    """Run the command of `toy.py` in this process; it prints its result in the first one only."""
    with redirect_stdout(StringIO()) as printed, suppress(SystemExit):
        jnpl(toy.command(data, out, *TWO, *options)[3:])
    if os.environ["RANK"] == "0":
        out.with_suffix(".json").write_text(printed.getvalue())


def ledger(data: Path, out: Path) -> None:
    """Train on data whose last batch is a single sample; leave the ledger of this process."""
    kept: list[Ledger] = []

    class Watched(Ledger):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            kept.append(self)

    run_setup.Ledger = Watched  # type: ignore[misc]
    train = {"train.epochs": 3, "train.batch_size": 32, "train.lr": 0.01}
    recipe = load_recipe("small", {**train, "engine.devices": 2, "engine.accelerator": "cpu"})
    every = CheckpointInterval(epochs=1, seconds=None)
    run_recipe(open_source(data), recipe, out / "ledger", seed=0, every=every, strict=False, report=Reporter())
    run_setup.Ledger = Ledger  # type: ignore[misc]
    kept[0].save(out / f"ledger-{os.environ['RANK']}.safetensors")


def main(out: Path) -> None:
    """Train everything."""
    torch.set_num_threads(1)
    rank = os.environ["RANK"]
    atexit.register(lambda: (out / f"left-{rank}").write_text(str(not torch.distributed.is_initialized())))
    ledger(out / "odd.npz", out / "toy")
    command(out / "shared.npz", out / "toy" / "mlp", *toy.LIKE_ONE)
    command(out / "toy.npz", out / "toy" / "peace", "--checkpoint-every", "1")
    for gamma in fast_runs.GAMMA:
        fast_runs.train_small(gamma, out / "fast" / gamma, devices=2)
    killed_on_its_way(out / "fast" / KILLED)
    made: list[Session] = []
    real = Session.__init__

    def remember(self: Session, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        made.append(self)

    Session.__init__ = remember  # type: ignore[method-assign]
    all_methods(out / "methods", made)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
