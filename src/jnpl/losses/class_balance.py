"""Weights of classes: smaller classes count more."""

import torch
from torch import Tensor

from jnpl.losses.argument_checks import check_given_labels

_MAX_WEIGHT = 10.0  # larger class weights diverge at a high learning rate
_FULL_WEIGHT, _FULL_WEIGHT_BINARY = 2.5, 1.25  # beyond this a class weight is damped


def class_weights(labels: Tensor, num_classes: int, weights: Tensor | None = None) -> Tensor:
    """Return NLNL's class weights, largest count / own count of the given labels: (N,) -> (C,).

    Args:
        labels: given labels of the training set, (N,).
        num_classes: C.
        weights: sample weights (N,), added up in place of counts.

    Returns:
        One weight per class, (C,); 0 for a class that does not occur.

    Example:
        >>> class_weights(torch.tensor([0, 0, 0, 0, 1, 1]), num_classes=3)
        tensor([1., 2., 0.])
        >>> class_weights(torch.tensor([0, 0, 1]), num_classes=2, weights=torch.tensor([0.5, 0.5, 4.0]))
        tensor([4., 1.])
    """
    checked = check_given_labels(labels, num_classes)
    counts = torch.bincount(checked, weights, minlength=num_classes).float()
    least = 1.0 if weights is None else torch.finfo(counts.dtype).tiny  # only against 0 / 0
    return torch.where(counts > 0, counts.max() / counts.clamp_min(least), 0.0)


def even_weights(labels: Tensor, num_classes: int, weights: Tensor | None = None) -> Tensor:
    """Return `class_weights`, damped and scaled to 1 on average over the samples: (N,) -> (C,).

    Weights compensate for noise that makes the given classes uneven. Where the classes themselves are uneven, noise
    fills the small ones with samples of others, and weights by count would amplify those: a weight above 2.5 becomes
    the larger of 2.5 and its square root. With two classes none is above 1.25. All are then scaled to a mean of 1 over
    the samples, which is lower only where a weight is cut to 10.

    Args:
        labels: given labels of the training set, (N,).
        num_classes: C.
        weights: sample weights (N,), added up in place of counts.

    Returns:
        One weight per class, (C,), at most 10; 0 for a class that does not occur.

    Example:
        >>> even_weights(torch.tensor([0, 0, 0, 0, 1, 1]), num_classes=3)
        tensor([0.7500, 1.5000, 0.0000])
        >>> weights = even_weights(torch.tensor([0] * 90 + [1] * 10), num_classes=3)
        >>> weights[1] / weights[0]
        tensor(3.)
    """
    balance = class_weights(labels, num_classes, weights)
    if num_classes == 2:
        balance = balance.clamp_max(_FULL_WEIGHT_BINARY)
    else:
        balance = torch.minimum(balance, balance.sqrt().clamp_min(_FULL_WEIGHT))
    of_samples = balance[check_given_labels(labels, num_classes)]
    mean = (of_samples if weights is None else weights * of_samples).mean()
    return (balance / mean).clamp_max(_MAX_WEIGHT)
