"""Embed a source: every image or text once through a pretrained backbone, into a cache that a killed run resumes."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from jnpl.data.loading.augment import CropFlip
from jnpl.data.loading.batches import generator_for
from jnpl.data.loading.prepare import decode
from jnpl.data.source import BackboneRecord, EmbeddedInputs, Source, UnreadableError
from jnpl.embedding.backbones import ImageBackbone
from jnpl.embedding.embedding_cache import EmbeddedBlock, EmbeddingCache
from jnpl.internal.allocator import keep_freed_memory
from jnpl.internal.devices import available_device
from jnpl.internal.errors import InputError, Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt
    from torch import Tensor

    from jnpl.data.loading.augment import EmbeddingViews
    from jnpl.data.source import Array, Inputs
    from jnpl.embedding.backbones import Backbone
    from jnpl.embedding.embedding_cache import EarlierRows

    Compute: TypeAlias = Callable[
        ["EmbeddingWork", Mapping[int, range], Callable[[int, "EmbeddedBlock"], None]],
        Iterator[tuple[int, "EmbeddedBlock"]],
    ]

DEFAULT_VIEWS = 2  # the image and its mirror image
_MOST = 64  # images through the network at a time
# ... on a CPU: with fewer than 16, PyTorch computes 1 x 1 convolutions on one thread in a slower way; larger batches
# leave the caches of the CPU. Above 224 pixels there are fewer: a batch has the memory of 16 at 224.
_CPU_LEAST, _CPU_SMALL, _CPU_LARGE = 16, 128, 224
_LARGEST = float(np.finfo(np.float16).max)
_CROP = 7 / 8  # side of a crop, of views beyond the first two
_BLOCKS_AT_A_TIME = 8  # of one of several processes, before it looks what the others have finished
_KEEP_SECONDS = 3.0  # after which the part of a block that is done is written


@dataclass(frozen=True, eq=False)
class EmbeddingWork:
    """What the embeddings of any block are computed from. It can be sent to another process."""

    inputs: Inputs  # the samples
    unreadable: dict[int, str]  # position -> reason, of samples that are known to be unreadable
    backbone: Backbone  # the network
    views: int  # embeddings per sample
    workers: int  # processes that decode images
    device: torch.device  # of the network


def _no_progress(_start: int, _part: EmbeddedBlock) -> None:
    return


def compute_blocks(
    work: EmbeddingWork, blocks: Mapping[int, range], progress: Callable[[int, EmbeddedBlock], None] = _no_progress
) -> Iterator[tuple[int, EmbeddedBlock]]:
    """Yield the embeddings of blocks, given by number and positions, in this process.

    `progress` is called within a block with its first position and its first samples, as far as they are done.
    """
    if isinstance(work.backbone, ImageBackbone):
        return zip(blocks, _image_blocks(work, work.backbone, list(blocks.values()), progress), strict=True)
    return zip(blocks, _text_blocks(work, work.backbone, list(blocks.values())), strict=True)


@dataclass(frozen=True)
class EmbeddingOptions:
    """How to embed, beside the backbone.

    Attributes:
        views: embeddings per image: itself, its mirror image, then random crops; texts have one.
        cache: the folder of cached embeddings; None: memory only.
        workers: processes that decode images.
        device: of the network.
        rank: number of this process, of `world` processes that share the work through the cache.
        world: number of processes.
        progress: called with the number of samples that are done and their total.
        note: called with a line for the user.
        compute: computes blocks, in any order: in this process, or on a cluster (`jnpl.embedding.ray_embedding`).
    """

    views: int = DEFAULT_VIEWS
    cache: Path | None = None
    workers: int = 0
    device: torch.device = torch.device("cpu")  # noqa: RUF009 - a constant
    rank: int = 0
    world: int = 1
    progress: Callable[[int, int], None] = lambda _done, _total: None
    note: Callable[[str], None] = lambda _line: None
    compute: Compute = compute_blocks


def describe(backbone: Backbone, views: int) -> dict[str, Any]:
    """Return what model.json says of the backbone: enough to embed new data in the same way."""
    facts: dict[str, Any] = {"name": backbone.name, "takes": backbone.takes, "digest": backbone.digest}
    if isinstance(backbone, ImageBackbone):
        facts |= {"size": backbone.size, "views": views}
    return facts


def embed_source(source: Source, backbone: Backbone, options: EmbeddingOptions | None = None) -> Source:
    """Return the source with vectors in place of its images or texts, its test and validation data too.

    Images and texts stay beside the vectors (`Source.pictures`, `Source.texts`), for reports.
    """
    options = options or EmbeddingOptions()
    if source.kind != backbone.takes:
        shown = f"{source.name} holds {source.kind}s"
        raise InputError(f"the backbone {backbone.name} takes {backbone.takes}s, but {shown}")
    if options.views < 1:
        raise InputError(f"views must be at least 1, got {options.views}")
    values, broken, key = _embedded(source, backbone, options)
    unreadable = {**(source.unreadable or {}), **broken}
    if len(unreadable) == len(source):
        reason = next(iter(unreadable.values()))
        raise InputError(f"none of the {len(source)} samples of {source.name} can be read: {reason}")
    test, validation = (
        None if other is None else embed_source(other, backbone, options) for other in (source.test, source.validation)
    )
    return replace(
        source,
        inputs=EmbeddedInputs(values, key),
        unreadable=dict(sorted(unreadable.items())) or None,
        pictures=source.inputs if source.kind == "image" else None,
        texts=source.texts if (texts := source.inputs.texts()) is None else texts,
        backbone=BackboneRecord(describe(backbone, options.views), backbone.state),
        test=test,
        validation=validation,
    )


def identity(source: Source, backbone: Backbone, views: int) -> str:
    """Return the SHA-256 of all that decides the embeddings: backbone, samples and views."""
    digest = hashlib.sha256(json.dumps(describe(backbone, views), sort_keys=True).encode())
    digest.update(source.inputs_fingerprint().encode())
    digest.update(json.dumps(sorted((source.unreadable or {}).items())).encode())
    return digest.hexdigest()


def cache_key(source: Source, backbone: Backbone, key: str) -> str:
    """Return the name of the cache: the identity, when each file was changed, and the code of the user's own network.

    Sizes alone, and weights alone, are too little to find embeddings by.
    """
    digest = hashlib.sha256(key.encode())
    times = source.inputs.modified_times()
    if times.any():  # images in memory have none
        digest.update(times.astype("<i8").tobytes())
    elif not backbone.code:
        return key
    digest.update(backbone.code.encode())
    return digest.hexdigest()


def _embedded(source: Source, backbone: Backbone, options: EmbeddingOptions) -> tuple[Array, dict[int, str], str]:
    """Return embeddings (N, V, F), the reasons of samples that turned out to be unreadable, and the identity."""
    views = options.views if isinstance(backbone, ImageBackbone) else 1
    key, shape = identity(source, backbone, views), (len(source), views, backbone.width)
    is_known = bool(source.inputs.sizes().any())  # a PyTorch data set could be anything
    cache = EmbeddingCache(options.cache if is_known else None, cache_key(source, backbone, key), shape)
    if damaged := cache.rows_damaged():
        options.note(f"{source.name}: cached embeddings of {damaged:,} samples are damaged, and computed again")
    _forget_readable(cache, source.inputs)
    parts = {block: part for block in cache.missing() if (part := cache.part(block)) is not None}
    at_work = _BlockAtWork(cache, parts, lambda done: options.progress(done, len(source)))
    if (done := at_work.rows_done()) == len(source):
        options.note(f"{source.name}: embeddings are cached, nothing to compute")
    elif done:
        options.note(f"{source.name}: embedding goes on at sample {done:,} of {len(source):,}")
    at_work.earlier, skipped = _earlier_rows(cache, source, backbone, views, options)
    for block, (values, _) in parts.items():
        skipped |= dict.fromkeys(cache.rows(block)[: len(values)], "embedded before")
    work = EmbeddingWork(
        source.inputs,
        {**skipped, **(source.unreadable or {})},
        backbone,
        views,
        options.workers,
        torch.device(options.device),
    )
    try:
        clipped = _compute_missing(work, cache, at_work, options)
    except KeyboardInterrupt:
        if not cache.is_shared:
            raise
        at_work.keep()
        done_of = f"{at_work.rows_done():,} of {len(source):,} samples of {source.name}"
        message = f"interrupted; {done_of} are embedded and kept: run the same command again"
        raise Interrupted(message, signal.SIGINT) from None
    if clipped:
        options.note(f"{source.name}: numbers of {backbone.name} beyond {_LARGEST:,.0f} (float16) are cut to it")
    return cache.values(), cache.unreadable(), key


class _BlockAtWork:
    """The block that is computed, as far as it is done: kept every few seconds, so that the next run goes on there."""

    def __init__(
        self, cache: EmbeddingCache, parts: dict[int, EmbeddedBlock], show_done: Callable[[int], None]
    ) -> None:
        self.cache, self.parts, self.show_done = cache, parts, show_done  # parts: block -> its first samples
        self.earlier: EarlierRows | None = None
        self._block: int | None = None
        self._kept_at = time.monotonic()

    def rows_done(self) -> int:
        """Return the number of samples in finished blocks and in parts."""
        missing = self.cache.missing()
        return self.cache.rows_done() + sum(len(self.parts[block].values) for block in missing if block in self.parts)

    def completed(self, block: int, computed: EmbeddedBlock) -> EmbeddedBlock:
        """Return the first samples of a block, or all, with those that were embedded before."""
        values, unreadable = computed
        if self.earlier is not None:
            self.earlier.fill(self.cache.rows(block)[: len(values)], values)
        if (part := self.parts.get(block)) is not None:
            values[: len(part.values)] = part.values
            unreadable = part.unreadable | unreadable
        return EmbeddedBlock(values, unreadable)

    def advance(self, start: int, computed: EmbeddedBlock) -> None:
        """Take the first samples of the block that begins at a position."""
        self._block = self.cache.block_of(start)
        self.parts[self._block] = self.completed(self._block, computed)
        if time.monotonic() - self._kept_at > _KEEP_SECONDS:
            self.keep()
        self.show_done(self.cache.rows_done() + len(computed.values))

    def keep(self) -> None:
        """Write what is done of the block, if it is not finished."""
        if self._block is not None:
            self.cache.write_part(self._block, self.parts[self._block])
            self._kept_at = time.monotonic()

    def finish(self, block: int, computed: EmbeddedBlock) -> None:
        """Write a whole block."""
        self.cache.write(block, *self.completed(block, computed))
        self._block = None
        self.show_done(self.cache.rows_done())


def _compute_missing(
    work: EmbeddingWork, cache: EmbeddingCache, at_work: _BlockAtWork, options: EmbeddingOptions
) -> bool:
    """Compute all blocks that are missing; return whether numbers were cut."""
    clipped = False
    while missing := cache.missing():
        at_work.show_done(at_work.rows_done())
        local_blocks = _blocks_of_process(missing, options.rank, options.world) if cache.is_shared else missing
        rows = {block: cache.rows(block) for block in local_blocks}
        for block, computed in options.compute(work, rows, at_work.advance):
            at_work.finish(block, computed)
            clipped |= bool(computed.values.max() >= _LARGEST or computed.values.min() <= -_LARGEST)
    return clipped


def _earlier_rows(
    cache: EmbeddingCache, source: Source, backbone: Backbone, views: int, options: EmbeddingOptions
) -> tuple[EarlierRows | None, dict[int, str]]:
    """Return the samples that were embedded before as part of other data, and these as positions to leave out.

    Files and texts are recognised by their content, so that a copy in another folder is not embedded again. Crops,
    beyond two views, depend on the position.
    """
    if not cache.is_shared or views > DEFAULT_VIEWS or (cache.has_names and not cache.missing()):
        return None, {}
    if (names := _sample_names(source.inputs)) is None:
        return None, {}
    facts = json.dumps([describe(backbone, views), backbone.code], sort_keys=True)
    family = hashlib.sha256(facts.encode()).hexdigest()
    earlier = cache.earlier(family, names) if cache.missing() else None
    cache.name_samples(family, names)
    if earlier is None:
        return None, {}
    there = np.flatnonzero(earlier.cache_of >= 0).tolist()
    if there:
        options.note(f"{source.name}: {len(there):,} of {len(source):,} embeddings are taken from earlier runs")
    return earlier, dict.fromkeys(there, "embedded before")


def _sample_names(inputs: Inputs) -> npt.NDArray[np.uint64] | None:
    """Return what samples (N,) are recognised by in any data: hashes; None for samples that are no files or texts."""
    if (texts := inputs.texts()) is not None:
        digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts.tolist()]
    elif len(inputs) and inputs.path(0) is not None and inputs.modified_times().all():
        paths = (inputs.path(at) for at in range(len(inputs)))
        digests = [_file_digest(path) for path in paths if path is not None]
    else:
        return None
    return np.frombuffer(b"".join(digest[:8] for digest in digests), "<u8")


def _file_digest(path: Path) -> bytes:
    """Return the hash of a file, or of its name if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return hashlib.sha256(os.fsencode(path)).digest()


def _forget_readable(cache: EmbeddingCache, inputs: Inputs) -> None:
    """Compute the blocks again whose unreadable samples can be read now: permissions change without a new time."""
    for position in cache.unreadable():
        try:
            inputs.read(position)
        except UnreadableError:
            continue
        cache.forget(position)


def _blocks_of_process(missing: list[int], rank: int, world: int) -> list[int]:
    """Return the blocks that a process computes next; one that has finished its own takes one of another process.

    Blocks of others are taken from the end: their own process computes them last.
    """
    if world == 1:
        return missing
    local_blocks = [block for block in missing if block % world == rank][:_BLOCKS_AT_A_TIME]
    return local_blocks or [missing[-1 - rank % len(missing)]]


def _text_blocks(work: EmbeddingWork, backbone: Any, blocks: Sequence[range]) -> Iterator[EmbeddedBlock]:
    texts = work.inputs.texts()
    if texts is None:
        raise InputError(f"the backbone {backbone.name} takes texts, but the data are {work.inputs.kind}s")
    for rows in blocks:
        readable = [at for at in rows if at not in work.unreadable]
        values = np.zeros((len(rows), 1, backbone.width), np.float16)
        if readable:
            embeddings = backbone.encode([texts[at] for at in readable])
            values[np.array(readable) - rows.start, 0] = _halves(embeddings, backbone.name)
        yield EmbeddedBlock(values, {})


def _image_blocks(
    work: EmbeddingWork, backbone: Any, blocks: Sequence[range], progress: Callable[[int, EmbeddedBlock], None]
) -> Iterator[EmbeddedBlock]:
    keep_freed_memory()
    network = backbone.inference_network.to(work.device)
    batches: list[Tensor] = []
    block_of: list[range] = []  # of each batch
    for rows in blocks:
        readable = torch.tensor([at for at in rows if at not in work.unreadable], dtype=torch.int64)
        batches += list(torch.split(readable, batch_size(backbone.size, work.device))) if len(readable) else [readable]
        block_of += [rows] * (len(batches) - len(block_of))
    read = decode(work.inputs, batches, backbone.size, work.workers, (backbone.size, backbone.size, 3))

    def vectors_of(index: Tensor, images: Tensor) -> npt.NDArray[np.float16]:
        if len(index) == 0:
            return np.zeros((0, work.views, backbone.width), np.float16)
        embeddings = embed_images(network, backbone, images.to(work.device), work.views, index.tolist())
        return _halves(embeddings.cpu().numpy(), backbone.name)

    values, broken = np.zeros((0, work.views, backbone.width), np.float16), dict[int, str]()
    for number, (index, vectors, failed) in enumerate(_in_threads(vectors_of, read, work.device)):
        rows = block_of[number]
        if number == 0 or block_of[number - 1] != rows:
            values, broken = np.zeros((len(rows), work.views, backbone.width), np.float16), {}
        values[index.numpy() - rows.start] = vectors
        broken |= failed
        if block_of[number + 1 : number + 2] == [rows]:
            done = max([*index.tolist(), *failed]) + 1 - rows.start
            progress(rows.start, EmbeddedBlock(values[:done], dict(broken)))
        else:
            yield EmbeddedBlock(values, broken)


def _in_threads(
    embed: Callable[[Tensor, Tensor], npt.NDArray[np.float16]],
    read: Iterator[tuple[Tensor, Tensor, dict[int, str]]],
    device: torch.device,
) -> Iterator[tuple[Tensor, npt.NDArray[np.float16], dict[int, str]]]:
    """Embed batches in order: on a CPU each with one thread, as many at a time as PyTorch has threads.

    Threads that share a layer would wait for each other hundreds of times per batch. And the embeddings do not depend
    on the number of threads.
    """
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    if threads == 1:
        for index, images, failed in read:
            yield index, embed(index, images), failed
        return
    waiting: deque[tuple[Tensor, Future[npt.NDArray[np.float16]], dict[int, str]]] = deque()
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))

    def first() -> tuple[Tensor, npt.NDArray[np.float16], dict[int, str]]:
        index, future, failed = waiting[0]
        vectors = future.result()
        waiting.popleft()
        return index, vectors, failed

    try:
        for index, images, failed in read:
            # A copy: the next batch overwrites this one.
            waiting.append((index, pool.submit(embed, index, images.clone()), failed))
            if len(waiting) > 2 * threads:
                yield first()
        while waiting:
            yield first()
    except KeyboardInterrupt:  # what has begun is kept
        while waiting and waiting[-1][1].cancel():
            waiting.pop()
        while waiting:
            yield first()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)


def batch_size(size: int, device: torch.device) -> int:
    """Return how many images of `size` pixels a side pass through the network at a time.

    >>> batch_size(128, torch.device("cpu")), batch_size(224, torch.device("cpu"))
    (16, 16)
    """
    if device.type != "cpu":
        return _MOST
    if size > _CPU_LARGE:
        return max(_CPU_LEAST * _CPU_LARGE**2 // size**2, 1)
    return min(max(_CPU_LEAST * _CPU_SMALL**2 // size**2, _CPU_LEAST), _MOST)


@torch.inference_mode()
def embed_images(
    network: nn.Module, backbone: ImageBackbone, images: Tensor, views: int, positions: Sequence[int]
) -> Tensor:
    """uint8 (B, S, S, 3) -> (B, V, F). Crops depend on the position of a sample in its data, and on nothing else."""
    inputs = backbone.inputs(images)
    return torch.stack([network(view).float() for view in make_views(inputs, views, positions)], dim=1)


def make_views(inputs: Tensor, views: int, positions: Sequence[int]) -> Iterator[Tensor]:
    """(B, 3, S, S) -> V times (B, 3, S, S): the image, its mirror image, then random crops, every second mirrored."""
    yield inputs
    if views > 1:
        yield inputs.flip(3)
    side = inputs.shape[3]
    cut = max(round(_CROP * side), 1)
    for number in range(2, views):
        crops = []
        for image, position in zip(inputs, positions, strict=True):
            place = torch.randint(side - cut + 1, (2,), generator=generator_for(0, "view", number, position))
            top, left = place.tolist()
            crops.append(image[:, top : top + cut, left : left + cut])
        resized = F.interpolate(torch.stack(crops), size=(side, side), mode="bilinear", align_corners=False)
        yield resized.flip(3) if number % 2 else resized


class EmbeddingClassifier(nn.Module):
    """Backbone and head as one network: images (B, 3, S, S) -> logits (B, C).

    The embedding is the mean of the image's and, with `mirror`, its mirror image's, standardised as in training.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, backbone: nn.Module, head: nn.Module, views: EmbeddingViews, *, mirror: bool) -> None:
        super().__init__()
        self.backbone, self.head, self.mirror, self.unit = backbone, head, mirror, views.unit
        self.register_buffer("mean", torch.tensor(views.mean))
        self.register_buffer("std", torch.tensor(views.std))

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) -> (B, C)."""
        embeddings = self._embed(images)
        if self.mirror:
            embeddings = (embeddings + self._embed(images.flip(3))) / 2
        logits: Tensor = self.head((embeddings - self.mean) / self.std)
        return logits

    def train(self, mode: bool = True) -> EmbeddingClassifier:
        """Set the mode; batch norm keeps the statistics that the backbone was trained with, also in fine-tuning."""
        super().train(mode)
        for module in self.backbone.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
        return self

    def _embed(self, images: Tensor) -> Tensor:
        embeddings: Tensor = self.backbone(images)
        return F.normalize(embeddings, dim=1) if self.unit else embeddings


def image_classifier(
    backbone: ImageBackbone, head: nn.Module, transform: EmbeddingViews, views: int
) -> tuple[EmbeddingClassifier, CropFlip]:
    """Return a head with its backbone as one network, and the transform of raw images into its inputs."""
    network = EmbeddingClassifier(backbone.inference_network, head, transform, mirror=views > 1)
    return network.eval(), CropFlip(backbone.mean, backbone.std, backbone.size, padding=0, flip=False)


def _halves(values: npt.NDArray[np.float32], name: str) -> npt.NDArray[np.float16]:
    """Return float16, after a check that all are finite; what is too large becomes the largest number."""
    if not np.isfinite(values).all():
        raise InputError(f"the backbone {name} gave embeddings that are not finite")
    return np.clip(values, -_LARGEST, _LARGEST).astype(np.float16)


def process_device(accelerator: str = "auto") -> torch.device:
    """Return the device of this process: under torchrun, each process has its own GPU."""
    device = available_device(accelerator)
    if device.type == "cuda" and (rank := os.environ.get("LOCAL_RANK", "")).isdigit():
        return torch.device("cuda", int(rank))
    return device


def process_rank() -> tuple[int, int]:
    """Return the number of this process and how many there are, as torchrun says; 0, 1 outside of it."""
    try:
        return int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except (KeyError, ValueError):
        return 0, 1
