"""What an observer of a run sees at the end of an epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    import numpy.typing as npt

    from jnpl.data.loading.feed import Feed
    from jnpl.data.source import Source
    from jnpl.judging.ledger import Ledger
    from jnpl.training.phases import Phase


@dataclass(frozen=True)
class EpochView:
    """A run at the end of an epoch, read-only; `find(..., observe=f)` calls `f` with one in the first process.

    Attributes:
        phase: the phase that the epoch belongs to.
        phases: all phases of the run.
        epoch: number of the epoch in the run, counted from 0.
        phase_epoch: number of the epoch in its phase, counted from 0.
        line: what is logged of the epoch.
        ledger: the recorded predictions of every sample.
        test: the run's test data, if it has any.
        seconds: time of the run so far, that before a resume included.
        label_quality: () -> (N,), by which labels would be judged if this epoch were the last.
        probabilities: source of arrays -> (N, C) of the classifier, with the weights that it is tested with.
        feed: source -> feed, prepared and transformed as the run's test data.
        evaluate: feed -> accuracy of each network, with the weights that it is tested with.
        save: () -> None, writes a checkpoint at the start of the next epoch.
    """

    phase: Phase
    phases: tuple[Phase, ...]
    epoch: int
    phase_epoch: int
    line: Mapping[str, Any]
    ledger: Ledger
    test: Feed | None
    seconds: float
    label_quality: Callable[[], npt.NDArray[np.floating[Any]]]
    probabilities: Callable[[Source], npt.NDArray[np.float32]]
    feed: Callable[[Source], Feed]
    evaluate: Callable[[Feed], dict[str, float]]
    save: Callable[[], None]
