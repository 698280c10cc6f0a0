"""What the tests of single steps share: networks of a few weights, batches, looks at the training set."""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from jnpl.data.loading.batches import Batch, Rows, generator_for
from jnpl.methods.base import Method, StepOutput, Task

CLASSES = 4


def linear(number: int = 0, scale: float = 3.0, width: int = 3, classes: int = CLASSES) -> nn.Module:
    """(B, width) -> (B, classes), far enough from uniform predictions; `number` seeds it."""
    torch.manual_seed(number)
    net = nn.Linear(width, classes)
    net.weight.data *= scale
    return net


def normed(number: int = 0) -> nn.Module:
    """The same with batch norm."""
    torch.manual_seed(number)
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES))


class Scale(nn.Module):
    """One weight: logits are the inputs times it."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(value))

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, C) -> (B, C)."""
        return self.weight * inputs


def make(
    method: type[Method],
    labels: Tensor,
    build: Callable[[int], nn.Module] = linear,
    classes: int = CLASSES,
    at: tuple[int, int, int] = (0, 0, 1),
    **settings: object,
) -> Method:
    """A method at the stage, in the epoch, of so many epochs."""
    made = method(Task(build, labels, classes), method.Settings(**settings))
    made.stage, made.epoch, made.epochs = at
    return made


def batch_of(
    inputs: Tensor,
    labels: Tensor,
    index: Tensor | None = None,
    *,
    seed: int = 0,
    rows: Rows | None = None,
    views: tuple[Tensor, ...] = (),
) -> Batch:
    """These samples as a batch; `index` is their place in the data, `seed` that of the draws of the step."""
    size = len(labels)
    places = torch.arange(size) if index is None else index
    return Batch(inputs, labels, places, generator_for(seed, "step"), rows or Rows(0, size, size), views)


def noise_batch(
    labels: Tensor, seed: int = 0, *, scale: float = 1.0, width: int = 3, rows: Rows | None = None
) -> Batch:
    """Inputs (B, width) of noise with these labels."""
    inputs = scale * torch.randn(len(labels), width, generator=torch.Generator().manual_seed(seed))
    return batch_of(inputs, labels, seed=seed, rows=rows)


def again(batch: Batch) -> Batch:
    """The batch with the draws that a step has taken from it."""
    return batch._replace(generator=torch.Generator().manual_seed(batch.generator.initial_seed()))


def shares(batch: Batch, *stops: int) -> Iterator[tuple[Batch, float]]:
    """The parts of a batch that processes get, up to each stop, with their weight in the mean over the batch."""
    size = len(batch.labels)
    for start, stop in pairwise((0, *stops, size)):
        inputs, labels, index = (tensor[start:stop] for tensor in batch[:3])
        part = Batch(inputs, labels, index, again(batch).generator, Rows(start, stop, size))
        yield part, (stop - start) / size


class FakeTrainingSet:
    """Answers of one's choice to the looks that a method takes at the training set, and who asked for logits."""

    def __init__(self, *logits: Tensor, history: Tensor | None = None, quality: Tensor | None = None) -> None:
        self._logits, self._history, self._quality = list(logits), history, quality
        self.asked: list[nn.Module] = []

    def logits(self, network: nn.Module) -> Tensor:
        """The next answer; the last one stays."""
        self.asked.append(network)
        assert self._logits, "no look at the logits was expected"
        return self._logits.pop(0) if len(self._logits) > 1 else self._logits[0]

    def history(self) -> Tensor:
        """Mean predictions of the last epochs."""
        assert self._history is not None, "no look at the history was expected"
        return self._history

    def quality(self) -> Tensor:
        """Mean label quality of the last epochs."""
        assert self._quality is not None, "no look at the quality was expected"
        return self._quality


# Plain arithmetic on lists.


def softmax(row: Sequence[float]) -> list[float]:
    """Probabilities of one row of logits."""
    terms = [math.exp(value - max(row)) for value in row]
    return [term / sum(terms) for term in terms]


def affine(layer: nn.Module, row: Sequence[float]) -> list[float]:
    """What a linear layer makes of one row."""
    return [
        sum(w * x for w, x in zip(weights, row, strict=True)) + bias
        for weights, bias in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    ]


def probabilities(net: nn.Module, batch: Batch) -> list[list[float]]:
    """Predictions of a linear network."""
    return [softmax(affine(net, row)) for row in batch.inputs.tolist()]


def cross_entropies(net: nn.Module, batch: Batch) -> list[float]:
    """-log p_y of each sample under a linear network."""
    return [-math.log(p[y]) for p, y in zip(probabilities(net, batch), batch.labels.tolist(), strict=True)]


def expect_finite(method: Method, batch: Batch, *, unused: bool = False) -> StepOutput:
    """Take a step: loss, gradients and label quality are finite; with `unused` some parameters may have no gradient."""
    method.zero_grad()
    output = method(batch)
    output.loss.backward()
    assert output.loss.isfinite()
    for weight in method.parameters():
        if weight.requires_grad and not (unused and weight.grad is None):
            assert weight.grad is not None
            assert weight.grad.to_dense().isfinite().all()  # SOP has sparse ones
    assert output.quality is None or ((output.quality >= 0) & (output.quality <= 1)).all()
    return output
