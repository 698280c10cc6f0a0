"""What a method sees of the training set between epochs and stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import numpy.typing as npt
    from lightning_fabric import Fabric
    from torch import Tensor, nn

    from jnpl.data.loading.feed import Feed
    from jnpl.findings.ledger import Ledger


class TrainingSet:
    """The training set in evaluation mode, and what the ledger says of it: a `jnpl.methods.base.TrainingSetView`."""

    def __init__(self, feed: Feed, ledger: Ledger, fabric: Fabric) -> None:
        self.feed, self.ledger, self.fabric = feed, ledger, fabric

    def probabilities(self, network: nn.Module) -> npt.NDArray[np.float32]:
        """(N, C) as `logits`, the mean over an image and its mirror image if the training flips them."""
        probs = self.logits(network).softmax(1)
        if self.feed.transform.flip:
            probs = (probs + self.logits(network, flipped=True).softmax(1)) / 2
        told: npt.NDArray[np.float32] = probs.cpu().numpy()
        return told

    @torch.no_grad()
    def logits(self, network: nn.Module, *, flipped: bool = False) -> Tensor:
        """(N, C) of the training set, not augmented, in evaluation mode; nan where a sample cannot be read."""
        share_buffers(network, self.fabric)
        training = [module for module in network.modules() if module.training]
        network.eval()
        shape = (self.ledger.num_samples, self.ledger.num_classes)
        found = torch.zeros(shape, device=self.fabric.device)
        seen = torch.zeros(shape[0], device=self.fabric.device)
        for inputs, _, index in self.feed.evaluation(flipped=flipped):
            at = index.to(found.device)
            found[at], seen[at] = network(inputs).float(), 1.0
        for module in training:
            module.training = True
        if self.fabric.world_size > 1:  # each has its own part, and zeros elsewhere
            found = torch.as_tensor(self.fabric.all_reduce(found, reduce_op="sum"))
            seen = torch.as_tensor(self.fabric.all_reduce(seen, reduce_op="sum"))
        found[seen == 0] = torch.nan
        return found

    def history(self) -> Tensor:
        """(N, C) mean prediction of the last epochs during training; nan where never seen."""
        return self._tensor(self.ledger.mean_probs())

    def quality(self) -> Tensor:
        """(N,) mean probability of the given label in the last epochs; nan where never seen."""
        return self._tensor(self.ledger.quality(self.feed.labels))

    def _tensor(self, values: npt.ArrayLike) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float32, device=self.fabric.device)


def share_buffers(module: nn.Module, fabric: Fabric) -> None:
    """Batch norm's statistics differ between processes: the first one's are the model's."""
    share(module.buffers(), fabric)


def share(tensors: Iterable[Tensor], fabric: Fabric) -> None:
    """Give all processes what the first one has."""
    if fabric.world_size > 1:
        for tensor in tensors:
            torch.distributed.broadcast(tensor, 0)
