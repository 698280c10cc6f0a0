"""Plain arithmetic, and inputs, for the tests of the equations."""

import math

import torch


def softmax(row):
    """Return the probabilities of one row of logits, a list of numbers."""
    top = max(row)
    powers = [math.exp(value - top) for value in row]
    total = math.fsum(powers)
    return [power / total for power in powers]


def batch(num_classes, dtype, k=1, size=4, scale=3.0):
    """Return logits (size, C) and complements (size, k): one that the network is sure of, one it has ruled out."""
    g = torch.Generator().manual_seed(num_classes)
    logits = (scale * torch.randn(size, num_classes, generator=g, dtype=torch.float64)).to(dtype)
    complements = torch.randint(num_classes, (size, k), generator=g)
    complements[0, 0] = logits[0].argmax()
    complements[1, 0] = logits[1].argmin()
    return logits.requires_grad_(), complements


def sure_batch(num_classes, dtype, size=4, scale=3.0):
    """Return logits (size, C) and targets (size,), of which the network is sure of two."""
    g = torch.Generator().manual_seed(num_classes)
    logits = (scale * torch.randn(size, num_classes, generator=g, dtype=torch.float64)).to(dtype)
    targets = torch.randint(num_classes, (size,), generator=g)
    targets[:2] = logits[:2].argmax(1)
    return logits.requires_grad_(), targets


def gradient(loss, logits):
    """Return the gradient of the sum of the losses."""
    return torch.autograd.grad(loss.sum(), logits)[0]
