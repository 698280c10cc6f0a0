"""What is recorded of every sample while a run trains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from jnpl.data.loading.batches import Batch
from jnpl.judging.ledger import Ledger
from jnpl.judging.margins import Margins
from jnpl.methods.base import StepOutput
from jnpl.training.processes import gather

if TYPE_CHECKING:
    from lightning_fabric import Fabric


@dataclass
class SampleRecords:
    """Predictions of every sample, and the label quality of methods that compute one of their own."""

    ledger: Ledger
    margins: Margins | None = None  # for `verdict.score` aum and margin
    unseen: Ledger | None = None  # by out-of-fold siblings of the network, where it has some

    @cached_property
    def scores(self) -> Ledger:
        """Of two classes, wrong and right; few methods need it."""
        return Ledger(self.ledger.num_samples, 2, self.ledger.history)

    def record(self, batch: Batch, output: StepOutput, epoch: int, fabric: Fabric) -> None:
        """Record a batch, from all processes that share it."""
        # The prediction of the augmented view, before the update, is what NLNL and the paper average.
        self.ledger.record(*gather(batch, output.logits.detach().float().softmax(1), fabric), epoch)
        if output.quality is not None:
            index, quality = gather(batch, output.quality.detach().float()[:, None], fabric)
            self.scores.record(index, torch.cat([1 - quality, quality], 1), epoch)
        if self.margins is not None:
            self.margins.record(*gather(batch, output.logits.detach().float(), fabric), epoch)

    def quality(self) -> npt.NDArray[np.float32] | None:
        """Return the label quality (N,) by the margins, or else the method's own; None if there is neither."""
        if self.margins is not None:
            return self.margins.quality()
        if "scores" not in vars(self):
            return None
        return self.scores.quality(torch.ones(self.scores.num_samples, dtype=torch.long))

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Return the state of each record that holds something, by name."""
        kept = {name: record for name, record in vars(self).items() if record is not None}
        return {name: record.state_dict() for name, record in kept.items() if record.seen.any()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Continue from `state_dict()`."""
        for name, ledger in state.items():
            getattr(self, name).load_state_dict(ledger)
