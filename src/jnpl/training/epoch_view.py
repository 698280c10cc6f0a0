"""What an observer of a run sees at the end of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jnpl.data.loading.feed import Feed
from jnpl.data.source import Source
from jnpl.judging import scoring
from jnpl.recipes.schema import Judging
from jnpl.training.evaluation import TrainingSet, accuracy, source_probabilities
from jnpl.training.learner import Learner
from jnpl.training.phases import Phase

if TYPE_CHECKING:
    from jnpl.judging.ledger import Ledger
    from jnpl.training.records import SampleRecords


@dataclass(frozen=True)
class EpochView:
    """A run at the end of an epoch, read-only; `run_recipe(..., observe=f)` calls `f` with one in the first process."""

    phase: Phase  # the phase that the epoch belongs to
    phases: tuple[Phase, ...]  # all phases of the run
    epoch: int  # number of the epoch in the run, counted from 0
    phase_epoch: int  # number of the epoch in its phase, counted from 0
    line: Mapping[str, Any]  # what is logged of the epoch
    test: Feed | None  # the run's test data, if it has any
    seconds: float  # time of the run so far, that before a resume included
    verdict: Judging  # how labels are judged
    learner: Learner  # the method being trained
    records: SampleRecords  # the recorded predictions of every sample
    training_set: TrainingSet  # the training set, whose samples can be predicted
    feed: Callable[[Source], Feed]  # source -> feed, prepared and transformed as the run's test data
    save: Callable[[], None]  # () -> None, writes a checkpoint at the start of the next epoch

    @property
    def ledger(self) -> Ledger:
        """The recorded predictions of every sample."""
        return self.records.ledger

    def label_quality(self) -> npt.NDArray[np.floating[Any]]:
        """Return the qualities (N,) by which labels would be judged if this epoch were the last."""
        with self.learner.evaluated():
            probs = scoring.final_probs(self.verdict, self.learner.method.classifier, self.training_set).probs
        labels = self.training_set.labels
        if probs is not None:
            return probs[np.arange(len(labels)), labels]
        recorded = self.records.quality()
        return self.ledger.quality(labels) if recorded is None else recorded

    def probabilities(self, source: Source) -> npt.NDArray[np.float32]:
        """Return (N, C) of the classifier, with the weights that it is tested with, for a source of arrays."""
        with self.learner.evaluated():
            return source_probabilities(self.learner.method.classifier, self.training_set.feed.transform, source)

    def evaluate(self, feed: Feed) -> dict[str, float]:
        """Return the accuracy of each network, with the weights that it is tested with."""
        with self.learner.evaluated():
            return accuracy(self.learner.method, feed, self.learner.fabric)
