"""One run: data and recipe in, a run folder out; killed at any moment, it goes on as if nothing had happened."""

from __future__ import annotations

import atexit
import gc
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch

from jnpl.internal.errors import InputError
from jnpl.internal.importing import require
from jnpl.methods.registry import METHODS
from jnpl.training import scoring as verdict
from jnpl.training.interrupt import watch
from jnpl.training.phases import second_part
from jnpl.training.run_folder import RunFolder
from jnpl.training.session import Every, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lightning_fabric import Fabric

    from jnpl.data.source import Source
    from jnpl.recipes.schema import Engine, Recipe
    from jnpl.training.progress import Reporter

__all__ = ["Every", "find", "make_fabric"]


def make_fabric(engine: Engine, *, has_unused_parameters: bool = False) -> Fabric:
    """Device, precision and processes; started if there are several."""
    from lightning_fabric import Fabric  # noqa: PLC0415 (slow to import)

    asked = f"accelerator={engine.accelerator!r}, devices={engine.devices!r}, precision={engine.precision!r}"
    gpu = engine.accelerator != "cpu" and (torch.cuda.is_available() or torch.backends.mps.is_available())
    if engine.precision == "16-mixed" and not gpu:  # Fabric would take bf16-mixed, with a warning
        raise InputError(f"cannot train with {asked}: 16-mixed needs a GPU; a CPU has 32 and bf16-mixed")
    try:
        fabric = Fabric(
            accelerator=engine.accelerator,
            devices=engine.devices,
            num_nodes=engine.num_nodes,
            precision="32-true" if engine.precision == "32" else engine.precision,
            strategy="auto" if engine.devices == 1 and engine.num_nodes == 1 else _strategy(has_unused_parameters),
        )
    except (ValueError, RuntimeError, TypeError, ImportError) as error:
        raise InputError(f"cannot train with {asked}: {error}") from None
    cores = os.cpu_count() or 1
    if fabric.device.type == "cpu" and isinstance(engine.devices, int) and engine.devices > cores:
        raise InputError(f"cannot train with {asked}: there are {cores} cores, and no GPU is used")
    fabric.launch()
    if fabric.world_size > 1:
        atexit.unregister(_leave_the_group)
        atexit.register(_leave_the_group)
    return fabric


def _leave_the_group() -> None:
    """Left to the end of the interpreter, a thread of gloo may let go of a tensor in it, and the process aborts."""
    if torch.distributed.is_initialized():
        gc.collect()  # wrapped networks hold the group too
        torch.distributed.destroy_process_group()


def _strategy(has_unused_parameters: bool) -> Any:
    from lightning_fabric.strategies.ddp import DDPStrategy  # noqa: PLC0415 (slow to import)

    # Batch norm's statistics are shared before they are used; the state of samples would be far too much every step.
    return DDPStrategy(broadcast_buffers=False, find_unused_parameters=has_unused_parameters)


def find(
    source: Source,
    recipe: Recipe,
    out: Path,
    *,
    seed: int,
    every: Every,
    strict: bool,
    report: Reporter,
    tensorboard: bool = False,
    classify: bool = False,
    observe: Callable[[Session], None] | None = None,
) -> dict[str, Any] | None:
    """Train a method on all given labels and judge them; with `classify`, go on to a classifier with pseudo-labels.

    `observe` is shown the session at the end of every epoch, in the first process. Returns what `jnpl find --json`
    prints, or None in all but the first of several processes.
    """
    if tensorboard:
        require("tensorboard", "tensorboard")  # PyTorch's writer is there without it, but does not import
    fabric = make_fabric(recipe.engine, has_unused_parameters=METHODS[recipe.method.name].has_unused_parameters)
    if not fabric.is_global_zero:
        report.quiet(True)
    folder = RunFolder(out)
    settings = recipe.model_dump(mode="json", exclude={"engine", "description", "pseudo"})  # `second` has the last
    identity = {"seed": seed, "data": source.name, "fingerprint": source.fingerprint(), "recipe": settings}
    second = second_part(recipe, METHODS[recipe.method.name]) if classify else None
    identity["second"] = None if second is None else second.facts()
    identity["precision"] = recipe.engine.precision  # the one engine setting that changes the numbers for good
    done = _agree(fabric, lambda: folder.open(identity))
    if done is not None:
        report.note(f"{out} is finished; nothing to do")
        return done if fabric.is_global_zero else None
    with ExitStack() as held:
        _agree(fabric, lambda: held.enter_context(folder.held()))
        _agree(fabric, lambda: folder.open(identity))  # another run may have been here since
        session = Session(source, recipe, folder, seed, every, fabric, report, strict=strict, second=second)
        session.observe = observe
        if fabric.is_global_zero:
            folder.begin(identity)
        session.resume()
        with watch() as session.wish, _board(tensorboard, session) as session.board:
            session.train()
        results = None
        if fabric.is_global_zero:
            results = verdict.results(session)
            verdict.write_model(session, results)
            folder.write(identity, "finished", results)
        fabric.barrier()
    return results


@contextmanager
def _board(wanted: bool, session: Session) -> Iterator[Any]:
    """A TensorBoard log, in the first process, if it is wanted; what a resumed run will log again is dropped."""
    if not wanted or not session.fabric.is_global_zero:
        yield None
        return
    from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 (an extra)

    with SummaryWriter(str(session.folder.path / "tensorboard"), purge_step=session.progress.total) as board:
        yield board


def _agree(fabric: Fabric, ask: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
    """What the first process learns, for all of them; if it is refused they all stop, and it alone says why."""
    answer, refusal = None, None
    if fabric.is_global_zero:
        try:
            answer = ask()
        except InputError as error:
            refusal = error
    refused = bool(fabric.broadcast(refusal is not None))
    if refusal is not None:
        raise refusal
    if refused:
        raise SystemExit(2)
    return fabric.broadcast(answer)
