"""Checks of the arguments of the losses: a ValueError names the value received and what would be right.

The range of labels is checked on the CPU alone: to read them would make a GPU wait in every step. There torch's own
kernels fail on an index out of range.
"""

import torch
from torch import Tensor

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_logits(logits: Tensor) -> Tensor:
    """Return (B, C) logits, B >= 1 and C >= 2, in at least float32: half precision is too coarse for log(1 - p)."""
    if not isinstance(logits, Tensor):
        raise ValueError(f"logits must be a torch.Tensor of shape (B, C), got {type(logits).__name__}")  # noqa: TRY004
    if logits.ndim != 2:
        raise ValueError(f"logits must have shape (B, C), got {tuple(logits.shape)}")
    if not logits.is_floating_point():
        raise ValueError(f"logits must be floating point, got {logits.dtype}")
    if logits.shape[0] == 0:
        raise ValueError(f"logits must hold at least one sample, got an empty batch {tuple(logits.shape)}")
    if logits.shape[1] < 2:
        raise ValueError(f"logits must have at least 2 classes, got {logits.shape[1]}")
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def check_labels(labels: Tensor, logits: Tensor, name: str = "labels", *, values: bool = True) -> Tensor:
    """Return (B,) labels as int64 after checking them against (B, C) logits; without `values` a GPU need not wait."""
    _check_integers(labels, name)
    if labels.shape != logits.shape[:1]:
        raise ValueError(f"{name} must have shape ({logits.shape[0]},), got {tuple(labels.shape)}")
    return _check_range(labels, logits, name) if values else labels.long()


def check_complements(complements: Tensor, logits: Tensor) -> Tensor:
    """Return (B, K) complements as int64 from (B,) or (B, K), K >= 1, after checking them against (B, C) logits."""
    _check_integers(complements, "complements")
    if complements.ndim not in (1, 2) or complements.shape[0] != logits.shape[0] or complements.numel() == 0:
        batch = logits.shape[0]
        raise ValueError(
            f"complements must have shape ({batch},) or ({batch}, K) with K >= 1, got {tuple(complements.shape)}"
        )
    checked = _check_range(complements, logits, "complements")
    return checked.unsqueeze(1) if checked.ndim == 1 else checked


def check_gamma(gamma: float) -> float:
    """Return the exponent of a constant weight: a finite number >= 0."""
    if not 0 <= gamma < float("inf"):
        raise ValueError(f"gamma must be a finite number >= 0, got {gamma}")
    return float(gamma)


def check_n(n: int) -> int:
    """Return the N of PL+: an integer >= -1."""
    if not isinstance(n, int) or n < -1:
        raise ValueError(f"n must be an integer >= -1 (the paper has 3), got {n!r}")
    return n


def check_given_labels(labels: Tensor, num_classes: int) -> Tensor:
    """Return (B,) given labels as int64 after checking them against a number of classes."""
    if num_classes < 2:
        raise ValueError(f"num_classes must be at least 2, got {num_classes}")
    _check_integers(labels, "labels")
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(f"labels must have shape (B,) with B >= 1, got {tuple(labels.shape)}")
    return _in_range(labels, num_classes, "labels")


def _check_integers(labels: Tensor, name: str) -> None:
    if not isinstance(labels, Tensor):
        raise ValueError(f"{name} must be a torch.Tensor of class indices, got {type(labels).__name__}")  # noqa: TRY004
    if labels.dtype not in _INTEGERS:
        raise ValueError(f"{name} must be integer class indices (int64), got {labels.dtype}")


def _check_range(labels: Tensor, logits: Tensor, name: str) -> Tensor:
    if labels.device != logits.device:
        raise ValueError(f"{name} must be on {logits.device}, where the logits are, got {labels.device}")
    return _in_range(labels, logits.shape[1], name)


def _in_range(labels: Tensor, num_classes: int, name: str) -> Tensor:
    if labels.device.type == "cpu" and not is_transformed():  # values cannot be read while a graph is being traced
        low, high = torch.stack(torch.aminmax(labels)).tolist()
        if low < 0 or high >= num_classes:
            wrong = low if low < 0 else high
            raise ValueError(f"{name} must lie in 0..{num_classes - 1} (C = {num_classes}), got {wrong}")
    return labels.long()


def is_transformed() -> bool:
    """Whether torch.compile, vmap or torch.func.grad is active, so that only plain torch operations work."""
    # The functorch test is the one torch.autograd.Function.apply itself makes.
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
