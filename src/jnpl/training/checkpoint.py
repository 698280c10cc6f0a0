"""Checkpoints: written whole, checked when read, never a pickle.

A checkpoint is a folder `checkpoint/<number>/` with `state.safetensors` (all tensors) and `state.json` (all other facts
and the hash of both). It is filled under another name, synced and renamed; the one before is kept. A torn
checkpoint fails its hash, and the older one is used.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from jnpl.internal.errors import InputError, UnwritableError
from jnpl.internal.files import draft_of, sync_folder
from jnpl.internal.json_files import StoredFacts, digest_of, read_json

_FORMAT = "jnpl checkpoint 1"
_KEEP = 2
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class CheckpointInterval:
    """How often a run saves itself: in epochs, or in seconds."""

    epochs: int | None = None
    seconds: float | None = 60.0


class State(NamedTuple):
    """Tensors by name, and all other values as JSON can hold them."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


class CheckpointFacts(StoredFacts):
    """The facts of a checkpoint, as `Session.state_dict` writes them."""

    phase: Count
    before: Count
    epoch: Count
    step: Count
    samples: Count
    processes: Annotated[int, Field(ge=1)]
    optimizer: dict[str, Any]
    records: dict[str, dict[str, Any]]
    kept_accuracy: float
    averaged: Count
    notes: list[str]
    judged_by: str | None = None
    unreadable: dict[Annotated[int, Field(ge=0)], str]
    precision: dict[str, Any]
    seconds: Annotated[float, Field(ge=0)]


def save(folder: Path, state: State) -> Path:
    """Write the next checkpoint and drop all but the two newest."""
    _refuse_link(folder)
    numbers = _numbers(folder)
    target = folder / f"{(numbers[-1] + 1) if numbers else 0:08d}"
    draft = draft_of(target)
    for left in folder.glob(".*.tmp"):  # a kill left it; in a container it may even have our own process number
        shutil.rmtree(left, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        save_file(_unshared(state.tensors), draft / "state.safetensors")
        digest = digest_of(state.facts, draft / "state.safetensors")
        facts = {"format": _FORMAT, "sha256": digest, "facts": state.facts}
        (draft / "state.json").write_text(json.dumps(facts, allow_nan=False), "utf-8")
        for path in draft.iterdir():
            with path.open("rb+") as file:
                os.fsync(file.fileno())
        sync_folder(draft)
        draft.rename(target)
        sync_folder(folder)
    except (OSError, SafetensorError) as error:
        raise UnwritableError(f"cannot write the checkpoint {str(target)!r}: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    for old in numbers[: -_KEEP + 1]:
        shutil.rmtree(folder / f"{old:08d}", ignore_errors=True)
    return target


def _unshared(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as safetensors takes them: on the CPU, in order, and copied where they share memory."""
    memory: set[int] = set()
    unshared = {}
    for name, tensor in tensors.items():
        value = tensor.detach().cpu().contiguous()
        whole = value.untyped_storage()
        if whole.data_ptr() in memory or whole.nbytes() != value.nbytes:
            value = value.clone()
        memory.add(whole.data_ptr())
        unshared[name] = value
    return unshared


def load(folder: Path) -> tuple[State | None, list[str]]:
    """The newest whole checkpoint, if there is one, and a line about every newer one that is not."""
    _refuse_link(folder)
    torn: list[str] = []
    for number in reversed(_numbers(folder)):
        path = folder / f"{number:08d}"
        try:
            saved = read_json(path / "state.json")
            if saved["format"] != _FORMAT:
                raise InputError(f"its format is {saved['format']!r}, not {_FORMAT!r}")
            if digest_of(saved["facts"], path / "state.safetensors") != saved["sha256"]:
                raise InputError("it does not have the hash that was written with it")
            return State(load_file(path / "state.safetensors"), saved["facts"]), torn
        except (OSError, ValueError, LookupError, TypeError, SafetensorError) as error:
            torn.append(f"the checkpoint {path} is torn or not ours ({error}); an older one is used")
    return None, torn


def newest(folder: Path) -> Path | None:
    """Return the place of the newest checkpoint, whole or not; None if there is none."""
    numbers = _numbers(folder)
    return folder / f"{numbers[-1]:08d}" if numbers else None


def _refuse_link(folder: Path) -> None:
    """Refuse a folder of checkpoints that is a link: old ones are deleted in it."""
    if folder.is_symlink():
        raise InputError(f"{str(folder)!r} is a link, and checkpoints are not written through one; remove it")


def pack_optimizer(optimizer: torch.optim.Optimizer) -> State:
    """An optimiser's state as tensors and plain facts."""
    state = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    plain: dict[str, dict[str, Any]] = {}
    for number, slots in state["state"].items():
        for name, value in slots.items():
            if isinstance(value, torch.Tensor):
                tensors[f"{number}.{name}"] = value
            else:
                plain.setdefault(str(number), {})[name] = value
    return State(tensors, {"plain": plain, "groups": state["param_groups"]})


def unpack_optimizer(optimizer: torch.optim.Optimizer, saved: State) -> None:
    """Load what `pack_optimizer` returned."""
    slots: dict[int, dict[str, Any]] = {int(number): dict(values) for number, values in saved.facts["plain"].items()}
    for key, tensor in saved.tensors.items():
        number, name = key.split(".", maxsplit=1)
        slots.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": slots, "param_groups": saved.facts["groups"]})


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names with a prefix, so that several parts share one file."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def part(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors that `prefixed` put under a prefix."""
    start = f"{prefix}/"
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit() and path.is_dir())
