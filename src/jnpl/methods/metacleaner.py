"""MetaCleaner (reconstruction): weighted mean features of samples that share a given label."""

import hashlib
from typing import Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from jnpl.data.loading.batches import Batch
from jnpl.losses import functional as JF
from jnpl.methods.base import Method, MethodSettings, StepOutput, Task
from jnpl.models.penultimate import head_of, with_features


class MetaCleaner(Method):
    """A network, and a scorer that weights the features of K samples with the same given label.

    No public code exists: the form of the scorer, K and the training plan are our choices. The saved classifier is the
    network without the scorer.
    """

    paper = "Zhang et al., CVPR 2019 (reconstruction)"
    supports_compile = False  # features are read with a hook
    networks = "1 (with a scoring head)"
    score = "K a / (1 + K a) of the weight a in a subset of K, 0.5 is neutral; mean of the last 10 epochs"

    class Settings(MethodSettings):
        """Settings of the subsets and their scorer."""

        name: str = "metacleaner"
        subset_size: int = Field(5, ge=1, description="K samples of one given label; 1: cross-entropy")
        scorer: Literal["relative", "joint"] = Field(
            "relative", description="relative: from a sample and the mean of the others; joint: from all K features"
        )
        hidden: int = Field(128, ge=1, description="units of the scorer's hidden layer")
        naive_weight: float = Field(0.0, ge=0, description="weight of an additional cross-entropy (our extension)")

    def __init__(self, task: Task, settings: Settings) -> None:
        super().__init__(task)
        self.settings = settings
        # Batches of groups of K samples with the same label.
        self.group_size = settings.subset_size if settings.subset_size > 1 else None
        width, size = head_of(self.model).in_features, settings.subset_size
        columns = (2 * width, 1) if settings.scorer == "relative" else (size * width, size)
        with torch.random.fork_rng(devices=[]):
            # The scorer's initial weights depend on the network's, thus on the seed.
            torch.default_generator.manual_seed(_seed(head_of(self.model).weight))
            self.scorer = nn.Sequential(
                nn.Linear(columns[0], settings.hidden), nn.ReLU(), nn.Linear(settings.hidden, columns[1])
            )

    def step(self, batch: Batch) -> StepOutput:
        """Compute the loss of one batch."""
        logits, features = with_features(self.model, batch.inputs)
        features = features.to(torch.promote_types(features.dtype, torch.float32))  # float16 is too coarse
        subsets = subsets_of(batch.labels, self.settings.subset_size)
        if self.settings.scorer == "relative":
            scores = self.scorer(torch.cat([features, mean_of_others(features, subsets)], 1)).squeeze(1)
        else:
            scores = self.scorer(side_by_side(features, subsets, self.settings.subset_size))[subsets.of, subsets.place]
        alpha = softmax_in_subsets(scores.to(features.dtype), subsets)
        # The weighted mean feature of each subset, (G, D):
        zeros = torch.zeros_like(features[: len(subsets.size)])
        clean = zeros.index_add(0, subsets.of, alpha.unsqueeze(1) * features)
        losses = JF.pl(head_of(self.model)(clean), batch.labels[subsets.first])
        # A mean over the subsets of the whole batch, over all processes.
        groups, size = len(subsets.size), len(batch.labels)
        counts = self.sum_over_processes(alpha.new_tensor([groups, size]))
        cleaned = losses.sum() * (counts[1] / (counts[0] * size))
        scalars = {"cleaned": cleaned, "largest_weight": _largest(alpha, subsets).mean()}
        loss = cleaned
        if self.settings.naive_weight:
            scalars["naive"] = JF.pl(logits, batch.labels).mean()
            loss = loss + self.settings.naive_weight * scalars["naive"]
        relative = (subsets.size[subsets.of] * alpha).detach()  # K a: 1 is neutral
        return StepOutput(loss, logits, scalars, relative / (1 + relative))


class Subsets(NamedTuple):
    """G subsets of at most K consecutive samples with the same given label."""

    of: Tensor  # (B,) subset of each sample
    place: Tensor  # (B,) its place in the subset
    first: Tensor  # (G,) row of the first member
    size: Tensor  # (G,) number of members


def subsets_of(labels: Tensor, most: int) -> Subsets:
    """Cut runs of equal labels into subsets of at most `most` samples: (B,) -> Subsets.

    A sample that could not be read, or a class smaller than K, makes a shorter subset.

    >>> subsets_of(torch.tensor([7, 7, 7, 2, 7]), most=2).of
    tensor([0, 0, 1, 2, 3])
    """
    rows = torch.arange(len(labels), device=labels.device)
    starts = torch.ones_like(labels, dtype=torch.bool)
    starts[1:] = labels[1:] != labels[:-1]
    begin = torch.where(starts, rows, 0).cummax(0).values  # row where the run of each sample begins
    place = (rows - begin) % most
    of = (place == 0).cumsum(0) - 1
    return Subsets(of, place, (place == 0).nonzero().squeeze(1), of.bincount())


def mean_of_others(features: Tensor, subsets: Subsets) -> Tensor:
    """The mean feature of the other samples of the subset, zero if there are none: (B, D) -> (B, D)."""
    of = subsets.of
    total = features.new_zeros(len(subsets.size), features.shape[1]).index_add(0, of, features)
    others = (subsets.size[of] - 1).unsqueeze(1)
    return (total[of] - features) * (others > 0) / others.clamp_min(1)


def side_by_side(features: Tensor, subsets: Subsets, most: int) -> Tensor:
    """The concatenated features of each subset, repeated from the first if it is short: (B, D) -> (G, most * D)."""
    places = torch.arange(most, device=features.device) % subsets.size.unsqueeze(1)  # (G, most)
    return features[subsets.first.unsqueeze(1) + places].flatten(1)


def softmax_in_subsets(scores: Tensor, subsets: Subsets) -> Tensor:
    """Softmax within each subset: (B,) -> (B,).

    >>> softmax_in_subsets(torch.tensor([1e4, 0.0, 3.0]), subsets_of(torch.tensor([5, 5, 8]), most=5))
    tensor([1., 0., 1.])
    """
    of = subsets.of
    parts = (scores - _largest(scores.detach(), subsets)[of]).exp()
    return parts / parts.new_zeros(len(subsets.size)).index_add(0, of, parts)[of]


def _largest(values: Tensor, subsets: Subsets) -> Tensor:
    """Largest value of each subset: (B,) -> (G,)."""
    empty = values.new_empty(len(subsets.size))
    return empty.scatter_reduce(0, subsets.of, values, "amax", include_self=False)


def _seed(weights: Tensor) -> int:
    digest = hashlib.sha256(weights.detach().cpu().float().numpy().tobytes()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
