"""Progress of work that consists of parts."""

from collections.abc import Callable


def part_of(progress: Callable[[float], None], begin: float, end: float) -> Callable[[float], None]:
    """Return a callback for a part of the work, whose share 0..1 is `begin` to `end` of the whole.

    >>> part_of(print, 0.5, 1.0)(0.5)
    0.75
    """
    return lambda share: progress(begin + (end - begin) * share)
