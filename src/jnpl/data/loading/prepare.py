"""Samples ready for training: in memory, in a cache file, or decoded on demand by worker processes."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from jnpl.data.source import Array, Inputs, Source, UnreadableError
from jnpl.internal import locks
from jnpl.internal.errors import InputError
from jnpl.internal.files import make_folder, replacing, require_file, reserve
from jnpl.internal.json_files import StoredFacts, check_facts, parse_json
from jnpl.internal.tensors import as_tensor

_BATCH_BYTES = 12 * 2**20  # approximate size of a batch when a whole source is read
_AHEAD = 2  # batches that each worker reads ahead
_NONE = "none of the {} samples can be read: {}"


@dataclass(frozen=True, eq=False)
class Prepared:
    """Samples that can be fetched by position: uint8 images (N, H, W, C) or float32 vectors (N, F).

    Either `values` holds them all, in memory or as a memory map, or they are read from `inputs` batch by batch.
    `unreadable` maps positions that cannot be read to the reason; without `values`, it grows while batches are read.
    With `strict`, the first unreadable sample is an error, named by `ids` if given.
    """

    inputs: Inputs
    size: int | None
    values: npt.NDArray[np.uint8] | npt.NDArray[np.float32] | None
    unreadable: dict[int, str]
    workers: int = 0
    strict: bool = False
    ids: Array | None = None
    # (N,) all positions. Epochs are ordered over these, readable or not: a run that knows more unreadable samples from
    # the start, because it resumes or holds the data in memory, has the same batches.
    offered: npt.NDArray[np.int64] = field(init=False)
    _moved: dict[torch.device, Tensor] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "offered", np.arange(len(self.inputs)))
        self._add_unreadable(self.unreadable)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample: (H, W, C) or (F,)."""
        if self.values is not None:
            return self.values.shape[1:]
        return _shape(self.inputs, self.size, self.unreadable)

    def readable(self) -> npt.NDArray[np.int64]:
        """Return the positions (M,) that are not known to be unreadable."""
        return np.flatnonzero(self._is_readable())

    def fetch(self, batches: Sequence[Tensor], device: torch.device | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield, for each batch of positions (B,), the positions that could be read (B',) and their samples (B', ...).

        Samples in memory are moved to the device once; a memory map is not moved.
        """
        if self.unreadable:
            keep = torch.from_numpy(self._is_readable())
            batches = [index[keep[index]] for index in batches]
        if self.values is not None:
            whole = self._resident(device)
            for index in batches:
                yield index, whole.index_select(0, index.to(whole.device))
            return
        for index, samples, broken in decode(self.inputs, batches, self.size, self.workers, self.shape):
            self._add_unreadable(broken)
            yield index, samples.clone()

    def first(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the first readable of some positions (B,) and its sample: (1,), (1, ...), or (0,), (0, ...)."""
        alone = replace(self, workers=0)  # no worker processes: mostly, one sample is read
        for batch in alone.fetch(torch.split(positions, 1)):
            if len(batch[0]):
                return batch
        return positions[:0], torch.empty(0)

    def _is_readable(self) -> npt.NDArray[np.bool_]:
        keep = np.ones(len(self.inputs), bool)
        keep[list(self.unreadable)] = False
        return keep

    def _add_unreadable(self, broken: dict[int, str]) -> None:
        _refuse_unreadable(broken, self.ids, strict=self.strict)
        self.unreadable.update(broken)
        if broken and len(self.unreadable) == len(self.inputs):
            raise InputError(_NONE.format(len(self.inputs), next(iter(broken.values()))))

    def _resident(self, device: torch.device | None) -> Tensor:
        values = as_tensor(self.values)  # type: ignore[arg-type]  # not None here
        if device is None or device.type == "cpu" or isinstance(self.values, np.memmap):
            return values
        if device not in self._moved:
            self._moved[device] = values.to(device)
        return self._moved[device]


@dataclass(frozen=True)
class _ReadJob:
    """The reading of a whole source."""

    source: Source
    size: int | None
    shape: tuple[int, ...]  # of one sample
    workers: int
    strict: bool
    on_progress: Callable[[int], None]

    @property
    def whole(self) -> tuple[int, ...]:
        return (len(self.source), *self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.uint8 if self.source.kind == "image" else np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of one sample."""
        return math.prod(self.shape) * self.dtype.itemsize

    def fill(self, target: Array) -> dict[int, str]:
        """Read all samples into (N, ...) zeros; return {position: reason} of those that cannot be read."""
        broken = dict(self.source.unreadable or {})
        _refuse_unreadable(broken, self.source.ids, strict=self.strict)
        positions = torch.from_numpy(np.setdiff1d(np.arange(len(self.source)), list(broken)))
        batches = torch.split(positions, min(64, max(1, _BATCH_BYTES // self.nbytes)))
        self.on_progress(len(broken))
        for index, samples, failed in decode(self.source.inputs, batches, self.size, self.workers, self.shape):
            _refuse_unreadable(failed, self.source.ids, strict=self.strict)
            broken.update(failed)
            if len(index):
                target[_as_slice(index.numpy())] = samples.numpy()
            self.on_progress(len(index) + len(failed))
        if len(broken) == len(self.source):
            raise InputError(_NONE.format(len(self.source), next(iter(broken.values()))))
        return dict(sorted(broken.items()))


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
    """Prepare the samples of a source: arrays unchanged; files decoded into memory or a cache file, or read on demand.

    Args:
        size: pixels of images a side, needed for files; arrays of another size are resized.
        memory_limit: bytes; larger data are read on demand, unless there is a cache.
        cache: folder of cache files. Inputs without known sizes or values (a PyTorch data set) are not cached.
    """
    inputs, unreadable_so_far = source.inputs, dict(source.unreadable or {})
    made = partial(Prepared, inputs, size, workers=workers, strict=strict, ids=source.ids)
    values: Any = inputs.array()
    if values is not None and (size is None or source.kind == "vector" or values.shape[1:3] == (size, size)):
        return made(values=values, unreadable=unreadable_so_far)
    if size is None and source.kind == "image":
        raise InputError(f"{source.name} holds images of any size; name one to train at, such as size=224")
    work = _ReadJob(source, size, _shape(inputs, size, unreadable_so_far), workers, strict, on_progress)
    if cache is not None and inputs.sizes().any():
        values, broken = _cached(work, cache)
        return made(values=values, unreadable=broken)
    if len(source) * work.nbytes > memory_limit:
        return made(values=None, unreadable=unreadable_so_far)
    target: Array = np.zeros(work.whole, work.dtype)
    broken = work.fill(target)
    return made(values=target, unreadable=broken)


def _cached(work: _ReadJob, folder: Path) -> tuple[Array, dict[int, str]]:
    """Return the samples of the cache file `<fingerprint>-<size>.npy`, which is written first if it is missing.

    The unreadable samples follow the array, as JSON in the same file: if several processes write it at once, both parts
    still belong together.
    """
    path = folder / f"{work.source.inputs_fingerprint()[:32]}-{work.size}.npy"
    content = _opened(path, work)
    if content is None:
        make_folder(folder)
        locks.remove_abandoned_drafts(path)
        with replacing(path) as draft:
            target = np.lib.format.open_memmap(draft, mode="w+", dtype=work.dtype, shape=work.whole)
            reserve(draft)
            broken = work.fill(target)
            target.flush()
            facts = {"unreadable": {str(at): why for at, why in broken.items()}, "sha256": _digest(target, broken)}
            del target
            with draft.open("ab") as file:
                file.write(json.dumps(facts).encode())
        content = _opened(path, work)
    if content is None:
        raise InputError(f"the cache file {str(path)!r} cannot be read back")
    return content


def _opened(path: Path, work: _ReadJob) -> tuple[Array, dict[int, str]] | None:
    """Return the content of a cache file; None if it is missing or something else."""
    try:
        # Copy-on-write: torch needs writable memory, and other readers do not see changes.
        values = np.load(require_file(path), mmap_mode="c", allow_pickle=False)
        with path.open("rb") as file:
            file.seek(values.offset + values.nbytes)
            facts = check_facts(parse_json(file.read()), _CacheFacts, "the cache file")
    except (OSError, ValueError, EOFError):
        return None
    if values.shape != work.whole or values.dtype != work.dtype or _digest(values, facts.unreadable) != facts.sha256:
        return None
    return values, facts.unreadable


def _digest(values: Array, unreadable: dict[int, str]) -> str:
    digest = hashlib.sha256(json.dumps(sorted(unreadable.items())).encode())
    digest.update(values.data)
    return digest.hexdigest()


class _CacheFacts(StoredFacts):
    """What follows the array in a cache file."""

    unreadable: dict[int, str]
    sha256: str


def _shape(inputs: Inputs, size: int | None, unreadable: dict[int, str]) -> tuple[int, ...]:
    """Return the shape of one sample: images are RGB, vectors as long as the first one."""
    if inputs.kind == "image" and size is not None:
        return size, size, 3
    reason = ""
    for position in range(len(inputs)):
        if position not in unreadable:
            try:
                return inputs.read(position, size).shape
            except UnreadableError as error:
                reason = str(error)
    raise InputError(_NONE.format(len(inputs), reason or next(iter(unreadable.values()))))


def _refuse_unreadable(broken: dict[int, str], ids: Array | None, *, strict: bool) -> None:
    if broken and strict:
        position, reason = next(iter(broken.items()))
        name = position if ids is None else ids[position]
        raise InputError(f"sample {name} cannot be read: {reason}")


def _as_slice(positions: npt.NDArray[np.int64]) -> slice | npt.NDArray[np.int64]:
    """Return ascending positions as a slice if they are consecutive: numpy then copies one block."""
    first, last = int(positions[0]), int(positions[-1])
    return slice(first, last + 1) if last - first == len(positions) - 1 else positions


class _SlotReader(Dataset["tuple[list[int], dict[int, str]]"]):
    """Reads batches of positions into slots of shared memory, in turn; runs in worker processes.

    Only positions go through a pipe, and memory is reused: allocating it for each batch would take much time.
    """

    def __init__(
        self, inputs: Inputs, batches: Sequence[Tensor], size: int | None, shape: tuple[int, ...], slots: int
    ) -> None:
        self.inputs, self.batches, self.size, self.shape = inputs, batches, size, shape
        dtype = torch.uint8 if inputs.kind == "image" else torch.float32
        whole = (slots, max(map(len, batches), default=0), *shape)
        if slots == 1:
            self.slots = torch.empty(whole, dtype=dtype)
        else:  # `share_memory_` would allocate and copy
            shared = torch.UntypedStorage._new_shared(math.prod(whole) * dtype.itemsize)  # type: ignore[no-untyped-call]
            self.slots = torch.empty(0, dtype=dtype).set_(shared).view(whole)

    def __len__(self) -> int:
        return len(self.batches)

    def slot(self, at: int) -> Tensor:
        return self.slots[at % len(self.slots)]

    def __getitem__(self, at: int) -> tuple[list[int], dict[int, str]]:
        rows, kept, broken = self.slot(at).numpy(), list[int](), dict[int, str]()
        for position in self.batches[at].tolist():
            try:
                rows[len(kept)] = self._read(position)
            except UnreadableError as error:
                broken[position] = str(error)
            else:
                kept.append(position)
        return kept, broken

    def _read(self, position: int) -> Array:
        sample = self.inputs.read(position, self.size)
        if sample.shape == (*self.shape[:2], 1):  # grey
            sample = np.broadcast_to(sample, self.shape)
        if sample.shape != self.shape:
            raise UnreadableError(f"has shape {sample.shape}, not {self.shape}")
        return sample


def decode(
    inputs: Inputs, batches: Sequence[Tensor], size: int | None, workers: int, shape: tuple[int, ...] | None = None
) -> Iterator[tuple[Tensor, Tensor, dict[int, str]]]:
    """Read batches of positions in order: yield positions read (B',), samples (B', ...), {position: why unreadable}.

    `shape` is that of one sample, by default that of the first; samples of another shape are unreadable. Grey images
    become RGB if necessary. The samples of a batch are overwritten by the next one.
    """
    workers = min(workers, sum(len(index) > 0 for index in batches))
    # Each worker reads `_AHEAD` batches ahead while the caller uses one; workers take turns, so that with this many
    # slots a slot is always written by the same worker.
    slots = max(1, workers * (_AHEAD + 1))
    reader = _SlotReader(inputs, batches, size, shape or _shape(inputs, size, {}), slots)
    read = (reader[at] for at in range(len(batches))) if workers == 0 else _in_workers(reader, workers)
    for at, (kept, broken) in enumerate(read):
        yield torch.tensor(kept, dtype=torch.int64), reader.slot(at)[: len(kept)], broken


def _in_workers(reader: _SlotReader, workers: int) -> Iterator[tuple[list[int], dict[int, str]]]:
    with suppress(UnreadableError):  # workers inherit what the first read loads, such as Pillow's plugins
        reader.inputs.read(int(next(index[0] for index in reader.batches if len(index))), reader.size)
    yield from DataLoader(
        reader,
        batch_size=None,
        num_workers=workers,
        worker_init_fn=_one_thread,
        prefetch_factor=_AHEAD,
        generator=torch.Generator(),  # the global one would make a run depend on its workers
    )


def _one_thread(_worker: int) -> None:
    torch.set_num_threads(1)


def default_workers() -> int:
    """Return the number of cores that this process may use, where forking is safe; 0 on Windows and macOS."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
