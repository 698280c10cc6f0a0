"""THE loop. It knows no method by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from jnpl.data.batches import shuffled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from jnpl.ledger import Ledger
    from jnpl.methods.base import Method


def train(
    method: Method,
    inputs: Tensor,
    labels: Tensor,
    *,
    epochs: int,
    batch_size: int,
    optimizer: torch.optim.Optimizer,
    ledger: Ledger,
    generator: torch.Generator,
) -> Iterator[dict[str, Any]]:
    """Train on (N, ...) inputs and (N,) given labels; yields the epoch's mean of every number the method reports."""
    for epoch in range(epochs):
        method.train()
        sums: dict[str, Tensor] = {}
        for batch in shuffled(inputs, labels, batch_size, generator):
            output = method.step(batch)
            optimizer.zero_grad(set_to_none=True)
            torch.autograd.backward(output.loss)
            # The prediction of the augmented view before the update is what NLNL and the paper average.
            ledger.record(batch.index, output.logits.detach().softmax(1), epoch)
            optimizer.step()
            for name, value in {"loss": output.loss, **output.scalars}.items():
                sums[name] = sums.get(name, torch.zeros(())) + value.detach() * len(batch.labels)
        yield {"epoch": epoch, **{name: value.item() / len(labels) for name, value in sums.items()}}
