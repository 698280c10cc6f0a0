"""What a cell notes while it trains: AP after every epoch, and time, its own left out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jnpl import metrics
from jnpl.bench.data import true_labels
from jnpl.look import TrainingSet
from jnpl.saved import probabilities
from jnpl.train import accuracy
from jnpl.verdict import final_probs

if TYPE_CHECKING:
    from jnpl.data.source import Source
    from jnpl.session import Session

_EVERY = 3  # epochs between two points of a curve whose score takes passes over the data of its own
_LEAST = np.finfo(np.float32).tiny  # a probability that float32 rounds to 0 has a logarithm still


class Seconds(NamedTuple):
    """Of the clock on the wall, and of this process's work: on a busy machine they differ."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> Seconds:
        """Both clocks."""
        return cls(time.perf_counter(), time.process_time())

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall - other.wall, self.cpu - other.cpu)

    def plus(self, other: Seconds) -> Seconds:
        """The sum (`+` would join two tuples)."""
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)


class Stopwatch:
    """Time since it was made, but for what is left out."""

    def __init__(self) -> None:
        self._start, self._out = Seconds.now(), Seconds(0.0, 0.0)

    def read(self) -> Seconds:
        """Time so far."""
        return Seconds.now() - self._start - self._out

    def leave_out(self, time_spent: Seconds) -> None:
        """Do not count this."""
        self._out = self._out.plus(time_spent)


class Observer:
    """Looks at a session at the end of each epoch; what it takes itself is left out of its watch."""

    def __init__(self, source: Source, test: Source, *, margins: bool = False) -> None:
        self.source, self.test = source, test
        self.wrong = source.labels != true_labels(source)
        self.watch = Stopwatch()
        self.ap_curve: list[float] = []
        self.curve_epochs: list[int] = []  # counted from 1
        self.curve_seconds: list[float] = []
        self.test_curve: list[float] = []
        self.filter_seconds = Seconds(0.0, 0.0)
        self.filter_accuracy: float | None = None  # where another network follows
        self.filtered = False  # the last epoch of the method's own is done
        self.margins = np.zeros(len(source)) if margins else None  # sums over epochs
        self._one_test: Seconds | None = None

    def __call__(self, session: Session) -> None:
        """Note an epoch of the filter; pseudo-labels change no verdict."""
        began = Seconds.now()
        if session.phase.pseudo:
            return
        if session.feeds.test is not None:
            self._leave_out_test(session)
            self.test_curve.append(float(session.lines[-1]["test_accuracy"]))
        filters = [phase for phase in session.phases if not phase.pseudo]
        done = session.progress.total + 1
        self.filtered = done == sum(phase.plan.epochs for phase in filters)
        if session.recipe.verdict.score != "history" and not self.filtered and done % _EVERY:
            return
        elapsed = self.watch.read() - (Seconds.now() - began)
        start = Seconds.now()
        quality = self._quality(session)
        elapsed = elapsed.plus(Seconds.now() - start)  # who stopped here would pay for the score once
        self.ap_curve.append(metrics.average_precision(quality, self.wrong))
        self.curve_epochs.append(done)
        self.curve_seconds.append(elapsed.cpu)
        self.filter_seconds = elapsed
        if self.margins is not None:
            self.margins += margin(session.books.ledger.newest(), self.source.labels)
        if self.filtered and len(filters) < len(session.phases):
            with session.learner.evaluated():
                told = probabilities(session.method.classifier, session.feeds.transform, self.test).argmax(1)
            self.filter_accuracy = metrics.accuracy(told, self.test.labels)
        self.watch.leave_out(Seconds.now() - began)

    def _quality(self, session: Session) -> npt.NDArray[np.floating[Any]]:
        """(N,) what the engine would judge by if this epoch were the last."""
        books = session.books
        with session.learner.evaluated():
            look = TrainingSet(session.feed, books.ledger, session.fabric)
            probs = final_probs(session.recipe.verdict, session.method, look)
        if probs is not None:
            return probs[np.arange(len(self.source)), self.source.labels]
        own = books.quality()
        return books.ledger.quality(self.source.labels) if own is None else own

    def _leave_out_test(self, session: Session) -> None:
        """The run has just tested itself: how long that takes is measured once, by doing it again."""
        if self._one_test is None and session.feeds.test is not None:
            start = Seconds.now()
            accuracy(session.method, session.feeds.test, session.fabric)
            self._one_test = Seconds.now() - start
        if self._one_test is not None:
            self.watch.leave_out(self._one_test)


def margin(probs: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(N, C), (N,) -> (N,) log p_y - max of the others' log p: the margin of the logits, which AUM averages.

    >>> margin(np.array([[0.5, 0.25, 0.25]], np.float32), np.array([0])).round(4)
    array([0.6931])
    """
    logs = np.log(np.maximum(probs, _LEAST).astype(np.float64))
    rows = np.arange(len(labels))
    own = logs[rows, labels]
    logs[rows, labels] = -np.inf
    result: npt.NDArray[np.float64] = own - logs.max(axis=1)
    return result
