"""Complementary labels: classes that a sample is told it does *not* belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from jnpl.losses._checks import check_given

if TYPE_CHECKING:
    from torch import Tensor


def sample(
    labels: Tensor,
    num_classes: int,
    k: int = 1,
    generator: torch.Generator | None = None,
    rows: tuple[int, int, int] | None = None,
) -> Tensor:
    """K complementary labels per sample: (B,) -> (B, K).

    Independent draws, uniform over the C - 1 classes that are not the given label, hence with replacement, as the
    paper's predecessor has them: its 110 draws for the 99 other classes of CIFAR-100 could not be otherwise.
    Draw anew for every batch. `rows` = (start, stop, total) tells which rows of a batch shared by several processes
    these are: all of them then draw what one process alone would.

    >>> labels = torch.tensor([0, 1, 2])
    >>> draws = sample(labels, num_classes=3, k=4, generator=torch.Generator().manual_seed(0))
    >>> draws.shape, bool((draws == labels[:, None]).any())
    (torch.Size([3, 4]), False)
    """
    labels = check_given(labels, num_classes)
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"k, the number of complementary labels, must be an integer >= 1, got {k!r}")
    device = labels.device if generator is None else generator.device
    start, _, total = rows or (0, 0, len(labels))
    shift = torch.randint(1, num_classes, (total, k), generator=generator, device=device)[start : start + len(labels)]
    return (labels.unsqueeze(1) + shift.to(labels.device)) % num_classes


def default_count(num_classes: int) -> int:
    """How many complements the paper gives a sample: 1 for CIFAR-10 and Clothing1M, 110 for CIFAR-100.

    At a uniform prediction one complement moves a logit by 1 / (C (C - 1)); C (C - 1) / 90 of them restore the speed
    of C = 10. The rule gives the published 110; few classes keep the published 1.

    >>> [default_count(c) for c in (2, 10, 14, 100, 1000)]
    [1, 1, 1, 110, 11100]
    """
    return 1 if num_classes <= 14 else round(num_classes * (num_classes - 1) / 90)
