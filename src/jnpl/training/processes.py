"""The device and the processes of a run, and how the processes exchange numbers, tensors and decisions."""

from __future__ import annotations

import atexit
import gc
import logging
import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from jnpl.data.loading.batches import Batch
from jnpl.internal.devices import available_device
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from jnpl.recipes.schema import Engine

WAIT = timedelta(minutes=30)  # for other machines, and for the other processes while one of them works alone


_LAUNCHED = ("WORLD_SIZE", "LOCAL_RANK", "SLURM_NTASKS")  # set where a launcher has started this process


class OneProcess:
    """What Fabric does with one process on a CPU in float32, where everything stays as it is.

    Importing Fabric takes longer than training a head on 10,000 embeddings.
    """

    world_size, global_rank, is_global_zero = 1, 0, True
    device = torch.device("cpu")
    strategy = SimpleNamespace(precision=SimpleNamespace(state_dict=dict, load_state_dict=dict))

    def setup_module(self, module: nn.Module) -> nn.Module:
        """Return the module."""
        return module

    def setup_optimizers(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """Return the optimiser."""
        return optimizer

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients."""
        loss.backward()  # type: ignore[no-untyped-call]

    def clip_gradients(
        self, module: nn.Module, _: torch.optim.Optimizer, max_norm: float, *, error_if_nonfinite: bool
    ) -> None:
        """Clip the norm of all gradients."""
        torch.nn.utils.clip_grad_norm_(module.parameters(), max_norm, error_if_nonfinite=error_if_nonfinite)

    def broadcast(self, value: Any) -> Any:
        """Return the value."""
        return value

    def barrier(self) -> None:
        """Wait for nobody."""


def make_fabric(engine: Engine, *, has_unused_parameters: bool = False) -> Fabric:
    """Return Fabric for these engine settings, with all its processes started; `OneProcess` where that is enough.

    `has_unused_parameters` says that a step may leave parameters without a gradient.
    """
    plain = engine.accelerator in ("auto", "cpu") and available_device(engine.accelerator).type == "cpu"
    alone = engine.devices == 1 and engine.num_nodes == 1 and not any(name in os.environ for name in _LAUNCHED)
    if plain and alone and engine.precision == "32":
        return cast("Fabric", OneProcess())
    from lightning_fabric import Fabric  # noqa: PLC0415 (slow to import)

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # "Using bfloat16 Automatic Mixed Precision"

    settings = f"accelerator={engine.accelerator!r}, devices={engine.devices!r}, precision={engine.precision!r}"
    if engine.precision == "16-mixed" and available_device(engine.accelerator).type == "cpu":
        # Fabric would take bf16-mixed, with a warning.
        raise InputError(f"cannot train with {settings}: 16-mixed needs a GPU; a CPU has 32 and bf16-mixed")
    try:
        fabric = Fabric(
            accelerator=engine.accelerator,
            devices=engine.devices,
            num_nodes=engine.num_nodes,
            precision="32-true" if engine.precision == "32" else engine.precision,
            strategy="auto" if engine.devices == 1 and engine.num_nodes == 1 else _strategy(has_unused_parameters),
        )
    except (ValueError, RuntimeError, TypeError, ImportError) as error:
        raise InputError(f"cannot train with {settings}: {error}") from None
    cores = os.cpu_count() or 1
    if fabric.device.type == "cpu" and isinstance(engine.devices, int) and engine.devices > cores:
        raise InputError(f"cannot train with {settings}: there are {cores} cores, and no GPU is used")
    try:
        fabric.launch()
    except torch.distributed.DistError as error:
        waited = f"{engine.num_nodes} machines did not meet within {WAIT.total_seconds() / 60:g} minutes"
        raise InputError(f"{waited}; start the same command on all of them (docs/size.md)") from error
    if fabric.world_size > 1:
        atexit.unregister(_leave_the_group)
        atexit.register(_leave_the_group)
    return fabric


def _leave_the_group() -> None:
    """Leave the process group before the interpreter ends; else a thread of gloo may abort it ("terminate called").

    Seen on a busy machine with two processes, DDP and no Arrow: without this 10 of 80 processes ended by SIGABRT after
    all their work, with it none of 80.
    """
    if torch.distributed.is_initialized():
        gc.collect()  # wrapped networks hold the group too
        torch.distributed.destroy_process_group()


def _strategy(has_unused_parameters: bool) -> Any:
    from lightning_fabric.strategies.ddp import DDPStrategy  # noqa: PLC0415 (slow to import)

    # Batch norm's statistics are shared before they are used; per-sample state would be far too much every step.
    return DDPStrategy(timeout=WAIT, broadcast_buffers=False, find_unused_parameters=has_unused_parameters)


def total(number: int, fabric: Fabric) -> float:
    """Return the sum of a number over all processes."""
    if fabric.world_size == 1:
        return float(number)
    summed = fabric.all_reduce(torch.tensor(float(number), device=fabric.device), reduce_op="sum")
    return float(torch.as_tensor(summed))


def gather(batch: Batch, values: Tensor, fabric: Fabric) -> tuple[Tensor, Tensor]:
    """Return positions (B,) and values (B, K) of the whole batch, from all processes that share it."""
    if fabric.world_size == 1:
        return batch.index, values
    most = -(-batch.rows.total // fabric.world_size)  # all processes must send as much
    index = torch.full((most,), -1, device=values.device)
    index[: len(batch.index)] = batch.index.to(values.device)
    padded = values.new_zeros(most, values.shape[1])
    padded[: len(values)] = values
    positions = torch.as_tensor(fabric.all_gather(index)).reshape(-1)
    rows = torch.as_tensor(fabric.all_gather(padded)).reshape(-1, values.shape[1])
    return positions[positions >= 0], rows[positions >= 0]


def gather_objects(value: Any, fabric: Fabric) -> list[Any]:
    """Return the value that each process has, in the order of the processes."""
    if fabric.world_size == 1:
        return [value]
    values: list[Any] = [None] * fabric.world_size
    torch.distributed.all_gather_object(values, value)
    return values


def share(tensors: Iterable[Tensor], fabric: Fabric) -> None:
    """Overwrite tensors, in place, with those of the first process."""
    if fabric.world_size > 1:
        for tensor in tensors:
            torch.distributed.broadcast(tensor, 0)


def share_buffers(module: nn.Module, fabric: Fabric) -> None:
    """Overwrite buffers with those of the first process: batch norm's statistics differ between processes."""
    share(module.buffers(), fabric)


def agree(fabric: Fabric, call: Callable[[], dict[str, Any] | None]) -> dict[str, Any] | None:
    """Call a function in the first process and return its result in all; after an InputError all processes stop."""
    result, refusal = None, None
    if fabric.is_global_zero:
        try:
            result = call()
        except InputError as error:
            refusal = error
    refused = bool(fabric.broadcast(refusal is not None))
    if refusal is not None:
        raise refusal
    if refused:
        raise SystemExit(2)  # the first process alone says why
    return fabric.broadcast(result)
