"""Embed on a Ray cluster, through Ray Data: workers compute blocks, this process writes them to the cache.

Workers read image files by their paths, so these must be on storage that all machines see; arrays and texts are sent to
them. The cache needs no shared storage. A block whose worker dies is computed again by another.
"""

import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from jnpl.embedding.backbones import ImageBackbone, load_backbone
from jnpl.embedding.compute import EmbeddingWork, compute_blocks
from jnpl.embedding.embedding_cache import EmbeddedBlock
from jnpl.internal.errors import InputError, one_line
from jnpl.internal.importing import require
from jnpl.internal.ray_cluster import ray_cluster

_FAILED = "embedding on Ray failed"


@dataclass(frozen=True)
class RayBlocks:
    """Computes blocks on a Ray cluster; takes the place of `compute_blocks` in `EmbeddingOptions`."""

    ray: Any  # the module, connected
    gpus: float = 0.0  # of a worker; 0: the network runs on one core

    def __call__(
        self,
        work: EmbeddingWork,
        blocks: Mapping[int, range],
        progress: Callable[[int, EmbeddedBlock], None] = lambda _start, _part: None,
    ) -> Iterator[tuple[int, EmbeddedBlock]]:
        """Yield the embeddings of blocks, in the order in which they are finished; there is no progress within them."""
        del progress
        kind, share = ("GPU", self.gpus) if self.gpus else ("CPU", 1.0)
        available = self.ray.cluster_resources().get(kind, 0.0)
        if available < share:
            raise InputError(f"a worker needs {share:g} {kind}, the Ray cluster has {available:g}")
        most = min(len(blocks), int(available / share))
        work = replace(work, workers=0, device=torch.device("cuda" if self.gpus else "cpu"))
        with _quiet_data() as data:
            try:
                # In a list, a reference reaches the constructor as it is: Ray keeps the object once on every machine.
                sent = [self._put(work)]
                items = [{"block": block, "start": rows.start, "stop": rows.stop} for block, rows in blocks.items()]
                computed = data.from_items(items, override_num_blocks=len(items)).map_batches(
                    BlockWorker,
                    batch_size=1,
                    concurrency=(1, most),
                    fn_constructor_args=(sent,),
                    num_cpus=1,
                    num_gpus=self.gpus or None,
                )
                for row in computed.iter_rows():
                    yield _unpacked(row, work, blocks)
            except self.ray.exceptions.RayError as error:
                raise InputError(f"{_FAILED}: {_reason(error)}") from error

    def _put(self, work: EmbeddingWork) -> Any:
        try:
            return self.ray.put(work)
        except TypeError as error:  # its message has a page about what cannot be pickled
            inner = one_line(error.__cause__ or error.__context__ or error)
            name = work.backbone.name
            raise InputError(f"the samples or the backbone {name} cannot be sent to workers of Ray: {inner}") from error


@contextmanager
def ray_blocks(address: str | None = None, gpus: float | None = None) -> Iterator[RayBlocks]:
    """Connect to a cluster, or start one on this machine, while the block runs.

    Args:
        address: HOST:PORT, ray://HOST:PORT or "auto"; None starts a cluster on this machine.
        gpus: GPUs per worker; None or 0: none.
    """
    with ray_cluster(address) as ray:
        yield RayBlocks(ray, gpus or 0.0)


class BlockWorker:
    """A worker process of Ray Data: has the backbone and the samples, and computes one block at a time."""

    def __init__(self, sent: list[Any]) -> None:
        self.work: EmbeddingWork = on_own_device(require("ray", "ray").get(sent[0]))
        if self.work.device.type == "cpu":
            torch.set_num_threads(1)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the bytes of the embeddings of one block, and what cannot be read, as JSON."""
        number, start, stop = (int(batch[name][0]) for name in ("block", "start", "stop"))
        content, unreadable, error = b"", dict[int, str](), ""
        try:
            [(_, (values, unreadable))] = compute_blocks(self.work, {number: range(start, stop)})
            content = values.tobytes()
        except InputError as wrong:  # for the user, not for Ray, which would show its traceback
            error = str(wrong)
        except Exception as wrong:  # noqa: BLE001 - a network of the user may raise anything
            error = f"{_FAILED}: {one_line(wrong)}"
        text = json.dumps(list(unreadable.items()))
        return {"block": [number], "values": [content], "unreadable": [text], "error": [error]}


def on_own_device(work: EmbeddingWork) -> EmbeddingWork:
    """Return the work with an encoder of texts on its device: it was sent from a process without one."""
    backbone = work.backbone
    if isinstance(backbone, ImageBackbone) or backbone.state is not None or work.device.type == "cpu":
        return work  # networks for images are moved by who uses them, and what is fitted to texts has no device
    return replace(work, backbone=load_backbone(backbone.name, "text", device=str(work.device)))


def _unpacked(row: dict[str, Any], work: EmbeddingWork, blocks: Mapping[int, range]) -> tuple[int, EmbeddedBlock]:
    if row["error"]:
        raise InputError(row["error"])
    block = int(row["block"])
    shape = (len(blocks[block]), work.views, work.backbone.width)
    values = np.frombuffer(row["values"], np.float16).reshape(shape).copy()
    return block, EmbeddedBlock(values, {int(at): str(reason) for at, reason in json.loads(row["unreadable"])})


@contextmanager
def _quiet_data() -> Iterator[Any]:
    """Yield `ray.data` without its log lines, progress bars, and the warnings that it gives about itself."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"ray\b")
        data = require("ray.data", "ray")
        context = data.DataContext.get_current()
        logger = logging.getLogger("ray.data")
        before = (context.enable_progress_bars, logger.level)
        context.enable_progress_bars = False
        logger.setLevel(logging.CRITICAL)
        try:
            yield data
        finally:
            context.enable_progress_bars = before[0]
            logger.setLevel(before[1])


def _reason(error: BaseException) -> str:
    """Return the last line of a message, which may hold a traceback from a worker, that names an exception."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (named or lines or [type(error).__name__])[-1][:200]
