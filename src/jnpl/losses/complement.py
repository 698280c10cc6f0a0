"""Complementary labels: classes that a sample does *not* belong to if its given label is right."""

import torch
from torch import Tensor

from jnpl.losses.argument_checks import check_given_labels

MAX_DEFAULT_COUNT = 12_000  # up to 1,039 classes; beyond, the exhaustive form costs far less


def sample(
    labels: Tensor,
    num_classes: int,
    k: int = 1,
    generator: torch.Generator | None = None,
    rows: tuple[int, int, int] | None = None,
) -> Tensor:
    """Draw K complementary labels per sample: (B,) -> (B, K).

    The draws are independent and uniform over the C - 1 classes other than the given label, hence with replacement, as
    in NLNL's code: 110 draws from the 99 other classes of CIFAR-100 cannot be distinct. Draw anew for every batch.

    Args:
        labels: given labels, (B,).
        num_classes: C.
        k: number of complementary labels per sample.
        generator: source of randomness.
        rows: (start, stop, total), which rows of a batch shared by several processes `labels` holds. The draws are then
            those that one process would make for the whole batch.

    Returns:
        Complementary labels, (B, K).

    Example:
        >>> labels = torch.tensor([0, 1, 2])
        >>> complements = sample(labels, num_classes=3, k=4, generator=torch.Generator().manual_seed(0))
        >>> complements.shape, bool((complements == labels[:, None]).any())
        (torch.Size([3, 4]), False)
    """
    labels = check_given_labels(labels, num_classes)
    if not isinstance(k, int) or k < 1:
        raise ValueError(f"k, the number of complementary labels, must be an integer >= 1, got {k!r}")
    device = labels.device if generator is None else generator.device
    start, _, total = rows or (0, 0, len(labels))
    shift = torch.randint(1, num_classes, (total, k), generator=generator, device=device)[start : start + len(labels)]
    return (labels.unsqueeze(1) + shift.to(labels.device)) % num_classes


def default_count(num_classes: int) -> int:
    """Return the number of complements per sample: 1 for CIFAR-10 and 110 for CIFAR-100, as published.

    At a uniform prediction one complement moves a logit by 1 / (C (C - 1)); C (C - 1) / 90 of them restore the speed
    of C = 10. Our choice: 1 up to 14 classes. The paper does not say it for Clothing1M, whose 14 classes would need 2.

    Args:
        num_classes: C.

    Returns:
        Number of complements.

    Example:
        >>> [default_count(c) for c in (2, 10, 14, 100, 1000)]
        [1, 1, 1, 110, 11100]
    """
    return 1 if num_classes <= 14 else round(num_classes * (num_classes - 1) / 90)
