"""From a source to pixels within reach: in memory, in a cache file, or decoded anew by worker processes."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from jnpl.data.source import Inputs, Source, UnreadableError
from jnpl.errors import InputError
from jnpl.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from torch import Tensor

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Prepared:
    """Samples that can be fetched by position: uint8 images (N, H, W, C) or float32 vectors (N, F).

    Either `values` holds them all, in memory or as a memory map, or they are read from `inputs` batch by batch.
    `unreadable` maps the positions that cannot be read to the reason; a streamed set learns of them as it goes.
    """

    inputs: Inputs
    size: int | None
    values: npt.NDArray[np.uint8] | npt.NDArray[np.float32] | None
    unreadable: dict[int, str]
    workers: int = 0
    _moved: dict[torch.device, Tensor] = field(default_factory=dict)

    def _resident(self, device: torch.device | None) -> Tensor:
        values = torch.from_numpy(self.values)
        if device is None or device.type == "cpu" or isinstance(self.values, np.memmap):
            return values
        if device not in self._moved:
            self._moved[device] = values.to(device)
        return self._moved[device]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one sample: (H, W, C) or (F,)."""
        if self.values is not None:
            return self.values.shape[1:]
        for position in range(len(self.inputs)):
            if position not in self.unreadable:
                try:
                    return self.inputs.read(position, self.size).shape
                except UnreadableError as error:
                    self.unreadable[position] = str(error)
        raise InputError("none of the samples can be read")

    def readable(self) -> npt.NDArray[np.int64]:
        """Positions not known to be unreadable: (M,)."""
        keep = np.ones(len(self.inputs), bool)
        keep[list(self.unreadable)] = False
        return np.flatnonzero(keep)

    def fetch(self, batches: Sequence[Tensor], device: torch.device | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of positions (B,) -> positions that could be read (B',) and their samples (B', ...).

        Samples in memory are moved to the device once and stay there; a memory map stays where it is.
        """
        if self.values is not None:
            whole = self._resident(device)
            for index in batches:
                yield index, whole[index.to(whole.device)]
            return
        for index, samples, broken in decode(self.inputs, batches, self.size, self.workers):
            self.unreadable.update(broken)
            if len(index):
                yield index, samples


def prepare(
    source: Source,
    size: int | None,
    *,
    memory_limit: int,
    workers: int = 0,
    cache: Path | None = None,
    strict: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Prepared:
    """Bring a source within reach: arrays as they are; files decoded into memory or a cache file, or left to stream."""
    inputs = source.inputs
    values = getattr(inputs, "values", None)
    if values is not None and (size is None or source.kind == "vector" or values.shape[1:3] == (size, size)):
        return Prepared(inputs, size, values, dict(source.unreadable or {}), workers)
    if size is None:
        raise InputError(f"{source.name} holds images of any size; name one to train at, such as size=224")
    pixels = len(source) * size * size * 3
    if cache is None and pixels > memory_limit:
        return Prepared(inputs, size, None, dict(source.unreadable or {}), workers)
    if cache is None:
        target: Pixels = np.zeros((len(source), size, size, 3), np.uint8)
        broken = _fill(target, inputs, size, workers, strict=strict, on_progress=on_progress)
        return Prepared(inputs, size, target, broken, workers)
    return _cached(source, size, cache, workers, strict=strict, on_progress=on_progress)


def _cached(
    source: Source, size: int, folder: Path, workers: int, *, strict: bool, on_progress: Callable[[int], None]
) -> Prepared:
    """Pixels in `<fingerprint>-<size>.npy`, with what could not be read beside it; written once, whole."""
    name = f"{source.fingerprint()[:32]}-{size}"
    path, notes = folder / f"{name}.npy", folder / f"{name}.json"
    if not (path.is_file() and notes.is_file()):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as draft:
            shape = (len(source), size, size, 3)
            target = np.lib.format.open_memmap(draft, mode="w+", dtype=np.uint8, shape=shape)
            broken = _fill(target, source.inputs, size, workers, strict=strict, on_progress=on_progress)
            target.flush()
            del target
        with replacing(notes) as draft:
            draft.write_text(json.dumps({"unreadable": {str(at): why for at, why in broken.items()}}), "utf-8")
    told = json.loads(notes.read_text("utf-8"))["unreadable"]
    # Copy-on-write: torch wants writable memory, other readers see none of it.
    values = np.load(path, mmap_mode="c", allow_pickle=False)
    return Prepared(source.inputs, size, values, {int(at): why for at, why in told.items()}, workers)


def _fill(
    target: Pixels, inputs: Inputs, size: int, workers: int, *, strict: bool, on_progress: Callable[[int], None]
) -> dict[int, str]:
    broken: dict[int, str] = {}
    batches = list(torch.split(torch.arange(len(inputs)), 64))
    for index, samples, failed in decode(inputs, batches, size, workers):
        if failed and strict:
            position, reason = next(iter(failed.items()))
            raise InputError(f"sample {position} cannot be read: {reason}")
        broken.update(failed)
        if len(index):
            target[index.numpy()] = samples.numpy()
        on_progress(len(index) + len(failed))
    return broken


class _Reader(Dataset["tuple[Tensor, Tensor, dict[int, str]]"]):
    """A batch of positions in, its samples out; runs in worker processes."""

    def __init__(self, inputs: Inputs, batches: Sequence[Tensor], size: int | None) -> None:
        self.inputs, self.batches, self.size = inputs, batches, size

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, at: int) -> tuple[Tensor, Tensor, dict[int, str]]:
        samples, kept, broken = [], [], {}
        for position in self.batches[at].tolist():
            try:
                sample = self.inputs.read(position, self.size)
            except UnreadableError as error:
                broken[position] = str(error)
                continue
            samples.append(np.repeat(sample, 3, 2) if sample.ndim == 3 and sample.shape[2] == 1 else sample)
            kept.append(position)
        stacked = torch.from_numpy(np.stack(samples)) if samples else torch.empty(0)
        return torch.tensor(kept, dtype=torch.int64), stacked, broken


def decode(
    inputs: Inputs, batches: Sequence[Tensor], size: int | None, workers: int
) -> Iterator[tuple[Tensor, Tensor, dict[int, str]]]:
    """Read batches of positions in order: -> positions read (B',), samples (B', ...), position -> why not."""
    loader = DataLoader(
        _Reader(inputs, batches, size),
        batch_size=None,
        num_workers=workers,
        worker_init_fn=_one_thread if workers else None,
        prefetch_factor=4 if workers else None,
    )
    yield from loader


def _one_thread(_worker: int) -> None:
    torch.set_num_threads(1)


def default_workers() -> int:
    """As many worker processes as cores this process may use, where forking is safe; none on Windows and macOS."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
