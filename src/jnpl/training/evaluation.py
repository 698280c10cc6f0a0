"""Networks in evaluation mode: the one loop that makes predictions, and what is computed from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from jnpl.data.loading.augment import Transform
from jnpl.data.loading.feed import Feed
from jnpl.data.loading.prepare import prepare
from jnpl.data.source import Source
from jnpl.internal.allocator import scratch_zeros
from jnpl.judging.posterior import posterior
from jnpl.methods.base import Method
from jnpl.training.processes import gather_objects, share_buffers

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from jnpl.judging.ledger import Ledger

Floats: TypeAlias = npt.NDArray[np.float32]
Labels: TypeAlias = npt.NDArray[np.int64]

_BATCH = 128  # samples of a source that are predicted together


def evaluate(
    network: nn.Module, batches: Iterable[tuple[Any, ...]], forward: Callable[[Tensor], Any] | None = None
) -> Iterator[tuple[Any, ...]]:
    """Yield (output, ...) for every batch (inputs, ...), in evaluation mode and without gradients.

    The output is that of `forward`, by default of the network itself. Afterwards every module is in the mode it was in.
    """
    training = [module for module in network.modules() if module.training]
    network.eval()
    try:
        for inputs, *others in batches:
            with torch.no_grad():
                output = (forward or network)(inputs)
            yield output, *others
    finally:
        for module in training:
            module.training = True


def probabilities(
    network: nn.Module, transform: Transform, batches: Iterable[Tensor], *, several: bool = False
) -> Iterator[Floats]:
    """Yield (B, C) for every batch of raw samples, which pass through the transform's evaluation form.

    `several`: a sample may have several of the classes, which are tags.
    """
    device = next(network.parameters()).device
    inputs = ((transform.evaluate(samples.to(device)),) for samples in batches)
    for (logits,) in evaluate(network, inputs):
        probs = logits.float().sigmoid() if several else logits.float().softmax(1)
        yield probs.cpu().numpy()


def source_probabilities(network: nn.Module, transform: Transform, source: Source) -> Floats:
    """Return (N, C) for a source that is an array."""
    fetched = prepare(source, None, memory_limit=0).fetch(list(torch.split(torch.arange(len(source)), _BATCH)))
    return np.concatenate(list(probabilities(network, transform, (samples for _, samples in fetched))))


def accuracy(method: Method, feed: Feed, fabric: Fabric) -> dict[str, float]:
    """Return the share of a feed's labels that each of the method's networks predicts, over all processes."""
    right: dict[str, int] = {}
    seen = 0
    for outputs, labels, _ in evaluate(method, feed.evaluation(), method.network_logits):
        for name, logits in outputs.items():
            right[name] = right.get(name, 0) + int((logits.argmax(1) == labels).sum())
        seen += len(labels)
    counts = gather_objects((right, seen), fabric)  # by name: a process may have had no sample at all
    samples = sum(size for _, size in counts)
    names = dict.fromkeys(name for right, _ in counts for name in right)
    return {name: sum(right.get(name, 0) for right, _ in counts) / samples for name in names}


def headline(by_network: dict[str, float]) -> float:
    """Return the one accuracy of several networks: that of their ensemble, if there is one, or the mean."""
    return by_network.get("ensemble", sum(by_network.values()) / len(by_network))


def vectors_of(feed: Feed, most: int) -> tuple[Labels, Floats] | None:
    """Return the positions (M,) of all readable samples of a feed and the network's inputs (M, F); None if these are no
    vectors, or more than `most` numbers."""
    positions: list[Labels] = []
    vectors, filled = np.empty((0, 0), np.float32), 0
    for inputs, _, index in feed.evaluation():
        if not positions:
            shape = (len(feed.labels), inputs.shape[-1])
            if inputs.ndim != 2 or math.prod(shape) > most:
                return None
            vectors = scratch_zeros(shape, np.float32)
        vectors[filled : filled + len(index)] = inputs.float().cpu().numpy()
        filled += len(index)
        positions.append(index.cpu().numpy())
    return (np.concatenate(positions), vectors[:filled]) if positions else None


class TrainingSet:
    """Predictions of the training set, new and recorded ones: a `methods.base.TrainingSetView`."""

    def __init__(
        self, feed: Feed, ledger: Ledger, fabric: Fabric, decided: npt.NDArray[np.int64] | None = None
    ) -> None:
        self.feed, self.ledger, self.fabric, self.decided = feed, ledger, fabric, decided

    @property
    def labels(self) -> Labels:
        """(N,) given labels."""
        return np.asarray(self.feed.labels)

    def probabilities(self, network: nn.Module) -> Floats:
        """Return (N, C) as `logits`, averaged over an image and its mirror image if the training flips images."""
        probs = self.logits(network).softmax(1)
        if self.feed.transform.flip:
            probs = (probs + self.logits(network, flipped=True).softmax(1)) / 2
        values: Floats = probs.cpu().numpy()
        return values

    def vectors(self, most: int) -> tuple[Labels, Floats] | None:
        """Return the positions (M,) of all readable samples and the network's inputs (M, F); None if these are no
        vectors, or more than `most` numbers, or shared by several processes."""
        return None if self.fabric.world_size > 1 else vectors_of(self.feed, most)

    @torch.no_grad()
    def logits(self, network: nn.Module, *, flipped: bool = False) -> Tensor:
        """Return (N, C) of the training set, not augmented; nan where a sample cannot be read."""
        share_buffers(network, self.fabric)
        collected = torch.zeros(self.ledger.num_samples, self.ledger.num_classes, device=self.fabric.device)
        seen = torch.zeros(self.ledger.num_samples, device=self.fabric.device)
        for logits, _, index in evaluate(network, self.feed.evaluation(flipped=flipped)):
            at = index.to(collected.device)
            collected[at], seen[at] = logits.float(), 1.0
        if self.fabric.world_size > 1:  # each has its own part, and zeros elsewhere
            collected = torch.as_tensor(self.fabric.all_reduce(collected, reduce_op="sum"))
            seen = torch.as_tensor(self.fabric.all_reduce(seen, reduce_op="sum"))
        collected[seen == 0] = torch.nan
        return collected

    def history(self) -> Tensor:
        """Return the mean prediction (N, C) of the last epochs during training; nan where never seen."""
        return self._tensor(self.ledger.mean_probs())

    def quality(self) -> Tensor:
        """Return the mean probability (N,) of the given label in the last epochs; nan where never seen."""
        return self._tensor(self.ledger.quality(self.feed.labels))

    def posterior(self) -> Tensor:
        """Return `history`, corrected by the given labels and the estimated transition matrix: (N, C)."""
        return self._tensor(posterior(self.ledger.mean_probs(), self.feed.labels, decided=self.decided).probs)

    def _tensor(self, values: npt.ArrayLike) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float32, device=self.fabric.device)
