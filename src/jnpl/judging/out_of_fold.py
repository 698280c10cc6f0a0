"""Out-of-fold predictions: the classes of every sample, predicted by a model that did not see its label.

The samples are dealt into folds. A model for each fold is trained on the other folds and predicts this one. What such a
model predicts can be compared with the given labels: it has not memorised them.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from jnpl.data.loading.batches import generator_for
from jnpl.internal.errors import InputError
from jnpl.internal.tensors import as_tensor
from jnpl.losses import functional as JF
from jnpl.losses.class_balance import even_weights
from jnpl.losses.short_training import WarmUp, cross_entropy_share
from jnpl.models.head_matrix import HeadMatrix
from jnpl.models.small import linear
from jnpl.recipes.load import EMBEDDINGS, load_recipe

Floats: TypeAlias = npt.NDArray[np.float32]

FOLDS = 5
_MAX_STEPS, _MIN_EPOCHS = 40_000, 4  # fewer epochs of more than 256,000 samples: a head has learnt enough by then


def out_of_fold(
    vectors: npt.ArrayLike,
    labels: npt.ArrayLike,
    num_classes: int,
    *,
    weight_decay: float = 3e-2,
    folds: int = FOLDS,
    seed: int = 0,
    progress: Callable[[float], None] = lambda _: None,
) -> Floats:
    """Return (N, C) probabilities of the classes, each row from a linear head that was trained without the row's fold.

    Heads are trained as the default recipe does in its first stage, but for a fade of cross-entropy that no head
    decides. `progress` is called with the share done, 0..1, several times a second; what it raises stops the work.

    Args:
        vectors: (N, F) numbers, scaled as a head needs them.
        labels: (N,) given labels in 0..C-1.
        num_classes: C.
        weight_decay: of the heads.
        folds: at most the number of samples.
        seed: decides the folds and the order of the samples.

    Example:
        >>> x = np.repeat([[-1.0], [1.0]], 50, axis=0)
        >>> given = np.repeat([0, 1], 50)
        >>> given[:5] = 1  # five of the first class are labelled 1
        >>> out_of_fold(x, given, num_classes=2).argmax(1)[:5].tolist()
        [0, 0, 0, 0, 0]
    """
    values, given = np.asarray(vectors, np.float32), np.asarray(labels)
    if values.ndim != 2 or given.shape != values.shape[:1] or len(given) < 2:
        raise InputError(f"vectors must be (N, F) and labels (N,), N >= 2, not {values.shape} and {given.shape}")
    fold_of = torch.from_numpy(deal_folds(given, min(folds, len(given)), seed))
    x, y, samples = as_tensor(values), torch.from_numpy(given.astype(np.int64)), len(given)
    heads = HeadMatrix(linear(x.shape[1], num_classes), samples, fold_of)
    class_weight = even_weights(y, num_classes)
    plan = load_recipe(EMBEDDINGS).train
    steps = math.ceil(samples / plan.batch_size)
    plan = plan.model_copy(update={"epochs": max(min(plan.epochs, _MAX_STEPS // steps), _MIN_EPOCHS)})
    warm_up = WarmUp(num_classes, cross_entropy=True, fade=0.5)
    for epoch in range(plan.epochs):
        cross_entropy = warm_up.cross_entropy_weight(epoch, plan.epochs)
        order = torch.randperm(samples, generator=generator_for(seed, "out of fold", epoch))
        for step, index in enumerate(torch.split(order, plan.batch_size)):
            inputs, target, rate = x[index], y[index], plan.lr_at(epoch + step / steps)
            probs = heads.probs(inputs)
            if epoch >= plan.epochs // 2:  # what the later epochs predict is averaged
                heads.record(index, probs)
            gradient = JF.nl_plus_exhaustive_gradient_of_probs(probs, target, cross_entropy)
            gradient *= class_weight[target].view(-1, 1, 1)
            learners = heads.learners(index)
            heads.descend(inputs, gradient, learners, rate=rate, momentum=plan.momentum, decay=weight_decay)
            if step % 32 == 0:
                progress((epoch + step / steps) / plan.epochs)
    progress(1.0)
    unseen: Floats = np.asarray(heads.means(torch.arange(samples))[1])
    return unseen


def expected_scale(num_classes: int) -> float:
    """Return the inverse temperature at which the linear heads are calibrated for true labels.

    Measured on the sets of docs/owners.md, whose true labels are known: 0.79 to 1.09, mean 0.95; with 100 classes,
    where the heads begin with cross-entropy, about 1.15.

    >>> expected_scale(10), round(expected_scale(100), 2)
    (0.95, 1.13)
    """
    return 0.95 + 0.2 * cross_entropy_share(num_classes)


def deal_folds(labels: npt.NDArray[np.integer], folds: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the fold (N,) of each sample; every class is spread evenly over the folds.

    >>> np.bincount(deal_folds(np.repeat([0, 1], 10), 5, seed=0)).tolist()
    [4, 4, 4, 4, 4]
    """
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]  # class by class, in random order within each
    fold = np.empty(len(labels), np.int64)
    fold[order] = np.arange(len(labels)) % folds
    return fold
