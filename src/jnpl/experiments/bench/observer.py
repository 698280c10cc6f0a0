"""What a cell notes while it trains: AP after every epoch, and time, its own left out; kept beside checkpoints."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from jnpl.experiments.bench.data import true_labels
from jnpl.findings import metrics
from jnpl.internal.files import make_folder, write_text

if TYPE_CHECKING:
    from pathlib import Path

    from jnpl.data.source import Source
    from jnpl.training.epoch_view import EpochView

_KEPT = 3  # epochs whose notes are kept: a kill may leave them one before the two checkpoints there are
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

    def go_on_from(self, before: Seconds) -> None:
        """Stand where it stood in a life before."""
        self._start, self._out = Seconds.now() - before, Seconds(0.0, 0.0)

    def read(self) -> Seconds:
        """Time so far."""
        return Seconds.now() - self._start - self._out

    def leave_out(self, time_spent: Seconds) -> None:
        """Do not count this."""
        self._out = self._out.plus(time_spent)


class Observer:
    """Looks at a run at the end of each epoch; what it takes itself is left out of its watch.

    With a folder for `notes` it writes down what it knows, and only then saves a checkpoint: whatever epoch a killed
    run goes on from, there are notes of it, and saving is not in the time.
    """

    def __init__(
        self, source: Source, test: Source, score: str, *, margins: bool = False, notes: Path | None = None
    ) -> None:
        self.source, self.test, self.score, self.notes = source, test, score, notes
        self.wrong = source.labels != true_labels(source)
        self.watch = Stopwatch()
        self.epochs = 0  # of the run that are done
        self.ap_curve: list[float] = []
        self.curve_epochs: list[int] = []  # counted from 1
        self.curve_seconds: list[float] = []
        self.test_curve: list[float] = []
        self.filter_seconds = Seconds(0.0, 0.0)
        self.filter_accuracy: float | None = None  # where another network follows
        self.filtered = False  # the last epoch of the method's own is done
        self.margins = np.zeros(len(source)) if margins else None  # sums over epochs
        self._one_test: Seconds | None = None

    def __call__(self, view: EpochView) -> None:
        """Note an epoch of the filter (pseudo-labels change no verdict), and save."""
        began = Seconds.now()
        self.epochs = view.epoch + 1
        if not view.phase.pseudo:
            self._note(view, began)
        if self.notes is not None:
            self.save(self.watch.read() - (Seconds.now() - began))
            view.save()
        self.watch.leave_out(Seconds.now() - began)

    def save(self, seconds: Seconds | None = None) -> None:
        """Write down all that is known after this epoch, and the time so far."""
        if self.notes is None:
            return
        facts = {name: getattr(self, name) for name in _NOTED}
        margins = None if self.margins is None else self.margins.tolist()
        facts |= {"margins": margins, "filter_seconds": self.filter_seconds, "seconds": seconds or self.watch.read()}
        make_folder(self.notes)
        write_text(self.notes / _file(self.epochs), json.dumps(facts))
        (self.notes / _file(self.epochs - _KEPT)).unlink(missing_ok=True)

    def resume(self, epochs: int | None) -> bool:
        """Know what was known after so many epochs (None: the last there are); False if no notes tell."""
        if self.notes is None or not self.notes.is_dir():
            return False
        files = sorted(self.notes.glob("[0-9]*.json")) if epochs is None else [self.notes / _file(epochs)]
        try:
            facts = json.loads(files[-1].read_text("utf-8"))
        except (OSError, ValueError, IndexError):
            return False
        for name in _NOTED:
            setattr(self, name, facts[name])
        self.margins = None if facts["margins"] is None else np.array(facts["margins"])
        self.filter_seconds = Seconds(*facts["filter_seconds"])
        self.watch.go_on_from(Seconds(*facts["seconds"]))
        return True

    def _note(self, view: EpochView, began: Seconds) -> None:
        """Add a point to the curves."""
        if view.test is not None:
            self._leave_out_test(view)
            self.test_curve.append(float(view.line["test_accuracy"]))
        filters = [phase for phase in view.phases if not phase.pseudo]
        self.filtered = self.epochs == sum(phase.plan.epochs for phase in filters)
        if self.score != "history" and not self.filtered and self.epochs % _EVERY:
            return
        elapsed = self.watch.read() - (Seconds.now() - began)
        start = Seconds.now()
        quality = view.label_quality()
        elapsed = elapsed.plus(Seconds.now() - start)  # who stopped here would pay for the score once
        self.ap_curve.append(metrics.average_precision(quality, self.wrong))
        self.curve_epochs.append(self.epochs)
        self.curve_seconds.append(elapsed.cpu)
        self.filter_seconds = elapsed
        if self.margins is not None:
            self.margins += margin(view.ledger.newest(), self.source.labels)
        if self.filtered and len(filters) < len(view.phases):
            self.filter_accuracy = metrics.accuracy(view.probabilities(self.test).argmax(1), self.test.labels)

    def _leave_out_test(self, view: EpochView) -> None:
        """The run has just tested itself: how long that takes is measured once, by doing it again."""
        if self._one_test is None and view.test is not None:
            start = Seconds.now()
            view.evaluate(view.test)
            self._one_test = Seconds.now() - start
        if self._one_test is not None:
            self.watch.leave_out(self._one_test)


_NOTED = ("epochs", "ap_curve", "curve_epochs", "curve_seconds", "test_curve", "filter_accuracy", "filtered")


def _file(epochs: int) -> str:
    return f"{epochs:06d}.json"


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
