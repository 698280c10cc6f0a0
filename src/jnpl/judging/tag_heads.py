"""Linear heads with one output per tag, trained with two-class NL+ on vectors, together with out-of-fold siblings."""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from jnpl.data.loading.batches import generator_for
from jnpl.internal.devices import threads_for
from jnpl.internal.tensors import as_tensor
from jnpl.judging.out_of_fold import FOLDS, deal_folds
from jnpl.losses import functional as JF
from jnpl.models.head_matrix import HeadMatrix
from jnpl.models.small import linear
from jnpl.recipes.schema import Training

Floats: TypeAlias = npt.NDArray[np.float32]
Mask: TypeAlias = npt.NDArray[np.bool_]

# Share of the epochs in which binary cross-entropy fades. More than in the head of single labels: NL+ alone loses rare
# tags, because one with a probability near 0 pulls at nothing. Of 0.5, 0.7 and 1, on seed 0 of benchmarks/tags.py.
_CROSS_ENTROPY = 0.7
_MOST_WEIGHT = 5.0  # of the rarer state of a tag


class TagHeads(NamedTuple):
    """The trained head, and the mean probabilities (N, T) of head (`seen`) and siblings (`unseen`)."""

    head: nn.Linear
    seen: Floats
    unseen: Floats


def train_tag_heads(
    vectors: Floats,
    tags: Mask,
    plan: Training,
    *,
    weights: Floats | None = None,
    seed: int = 0,
    progress: Callable[[float], None] = lambda _: None,
) -> TagHeads:
    """Train a head and its siblings on vectors (N, F) with tags (N, T); binary cross-entropy fades into NL+.

    Args:
        vectors: scaled as the head needs them.
        tags: whether a sample has each tag.
        plan: epochs, learning rate, batches and weight decay.
        weights: (N,) how much each sample counts.
        seed: of the folds and the order of the samples.
        progress: called with the share done, 0..1; what it raises stops the work.

    Example:
        >>> from jnpl.recipes.load import load_recipe
        >>> x = np.repeat(np.eye(2, dtype=np.float32) * 3, 50, axis=0)
        >>> given = x > 0
        >>> given[0, 0] = False  # missing
        >>> bool(train_tag_heads(x, given, load_recipe("fast-embeddings").train).unseen[0, 0] > 0.5)
        True
    """
    x, y, samples = as_tensor(vectors), torch.from_numpy(tags).float(), len(tags)
    head = linear(vectors.shape[1], tags.shape[1])
    share = y.mean(0).clamp(1 / (2 * samples), 1 - 1 / (2 * samples))
    head.bias.data = torch.logit(share)
    heads = HeadMatrix(head, samples, torch.from_numpy(tag_folds(tags, seed)), several=True)
    balance = torch.stack([0.5 / (1 - share), 0.5 / share]).clamp_max(_MOST_WEIGHT)  # of no and yes, (2, T)
    of_sample = None if weights is None else torch.from_numpy(weights / weights.mean()).view(-1, 1, 1)
    steps = math.ceil(samples / plan.batch_size)
    with threads_for(FOLDS * vectors.shape[1] * tags.shape[1] * plan.batch_size):
        for epoch in range(plan.epochs):
            if epoch <= plan.epochs // 2:
                heads.reset()  # what the later epochs predict is averaged
            cross_entropy = max(1 - epoch / (_CROSS_ENTROPY * plan.epochs), 0.0)
            order = torch.randperm(samples, generator=generator_for(seed, "tags", epoch))
            for step, index in enumerate(torch.split(order, plan.batch_size)):
                inputs, target = x[index], y[index]
                probs = heads.probs(inputs)
                heads.record(index, probs)
                gradient = JF.nl_plus_tags_gradient_of_probs(probs, target, cross_entropy)
                gradient *= torch.where(target > 0, balance[1], balance[0]).unsqueeze(1)
                if of_sample is not None:
                    gradient *= of_sample[index]
                rate = plan.lr_at(epoch + step / steps)
                heads.descend(
                    inputs, gradient, heads.learners(index), rate=rate, momentum=plan.momentum, decay=plan.weight_decay
                )
                if step % 32 == 0:
                    progress((epoch + step / steps) / plan.epochs)
        weight, bias = head.weight.detach().T, head.bias.detach()
        last = torch.cat([torch.addmm(bias, part, weight).sigmoid() for part in torch.split(x, 4096)])
    mean, unseen = heads.means(torch.arange(samples))
    progress(1.0)
    return TagHeads(head, ((mean + last) / 2).numpy(), np.asarray(unseen))


def tag_folds(tags: Mask, seed: int) -> npt.NDArray[np.int64]:
    """Return the fold (N,) of each sample; the samples of every tag that is the rarest one of some are spread evenly.

    >>> np.bincount(tag_folds(np.repeat([[True, False], [True, True]], 10, axis=0), seed=0)).tolist()
    [4, 4, 4, 4, 4]
    """
    counts = np.where(tags, tags.sum(0), len(tags) + 1)
    rarest = np.where(tags.any(1), counts.argmin(1), tags.shape[1])
    return deal_folds(rarest, min(FOLDS, len(tags)), seed)
