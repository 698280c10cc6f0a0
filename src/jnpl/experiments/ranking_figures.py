"""How well a method ranks wrong labels, epoch by epoch, and what that cost: the figures of `jnpl bench`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from jnpl.data.source import Source
from jnpl.experiments.observer import Observer, Seconds
from jnpl.experiments.run_data import is_wrong
from jnpl.judging import metrics

if TYPE_CHECKING:
    from jnpl.training.epoch_view import EpochView

_EVERY = 3  # epochs between two points of a curve whose score takes passes over the data of its own
_LEAST = np.finfo(np.float32).tiny  # a probability that float32 rounds to 0 still has a logarithm
_NOTED = ("ap_curve", "curve_epochs", "curve_seconds", "test_curve", "filter_accuracy")


class RankingFigures:
    """AP after every epoch, seconds to get there, and the accuracy of the network that ranked the labels."""

    def __init__(self, source: Source, test: Source, score: str, *, margins: bool = False) -> None:
        self.source, self.test, self.score, self.wrong = source, test, score, is_wrong(source)
        self.ap_curve: list[float] = []
        self.curve_epochs: list[int] = []  # counted from 1
        self.curve_seconds: list[float] = []
        self.test_curve: list[float] = []
        self.filter_seconds = Seconds(0.0, 0.0)
        self.filter_accuracy: float | None = None  # where another network follows
        self.margins = np.zeros(len(source)) if margins else None  # sums over epochs
        self._one_test: Seconds | None = None

    def state(self) -> dict[str, Any]:
        """All that was noted so far, as JSON."""
        margins = None if self.margins is None else self.margins.tolist()
        return {**{name: getattr(self, name) for name in _NOTED}, "margins": margins, "filter": self.filter_seconds}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        for name in _NOTED:
            setattr(self, name, state[name])
        self.margins = None if state["margins"] is None else np.array(state["margins"])
        self.filter_seconds = Seconds(*state["filter"])

    def note(self, view: EpochView, observer: Observer, began: Seconds) -> None:
        """Add a point to the curves. Epochs with pseudo-labels change no ranking."""
        if view.phase.pseudo:
            return
        if view.test is not None:
            self._leave_out_test(view, observer)
            self.test_curve.append(float(view.line["test_accuracy"]))
        if self.score != "history" and not observer.filtered and observer.epochs % _EVERY:
            return
        elapsed = observer.watch.read() - (Seconds.now() - began)
        start = Seconds.now()
        quality = view.label_quality()
        elapsed = elapsed.plus(Seconds.now() - start)  # a run that ended here would compute the score once
        self.ap_curve.append(metrics.average_precision(quality, self.wrong))
        self.curve_epochs.append(observer.epochs)
        self.curve_seconds.append(elapsed.cpu)
        self.filter_seconds = elapsed
        if self.margins is not None:
            self.margins += margin(view.ledger.newest(), self.source.labels)
        if observer.filtered and any(phase.pseudo for phase in view.phases):
            self.filter_accuracy = metrics.accuracy(view.probabilities(self.test).argmax(1), self.test.labels)

    def _leave_out_test(self, view: EpochView, observer: Observer) -> None:
        """The run has just tested itself: how long that takes is measured once, by doing it again."""
        if self._one_test is None and view.test is not None:
            start = Seconds.now()
            view.evaluate(view.test)
            self._one_test = Seconds.now() - start
        if self._one_test is not None:
            observer.watch.leave_out(self._one_test)

    def results(self, quality: npt.NDArray[np.floating[Any]], total: Seconds) -> dict[str, Any]:
        """Return the results of the run, given the label quality (N,) and the whole time of its run."""
        aps, seconds, epochs = self.ap_curve, self.filter_seconds, self.curve_epochs
        results: dict[str, Any] = {
            "ap": metrics.average_precision(quality, self.wrong),
            "ap_curve": aps,
            "ap_peak": max(aps),
            "ap_epoch": None if math.isnan(aps[-1]) else epochs[aps.index(max(aps))],
            "curve_epochs": epochs,
            "curve_seconds": self.curve_seconds,
            "precision_at_noise": metrics.precision_at_k(quality, self.wrong),
            "filter_test_accuracy": self.filter_accuracy,
            "seconds": seconds.wall,
            "cpu_seconds": seconds.cpu,
            "total_seconds": total.wall,
            "total_cpu_seconds": total.cpu,
            "seconds_per_epoch": seconds.cpu / epochs[-1],
            "filter_epochs": epochs[-1],
        }
        if self.test_curve:
            results["best_test_accuracy"], results["test_curve"] = max(self.test_curve), self.test_curve
        if self.margins is not None:
            results["aum_ap"] = metrics.average_precision(self.margins, self.wrong)
        return results


def margin(probs: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(N, C), (N,) -> (N,) log p_y - max of the others' log p: the margin of the logits, which AUM averages.

    >>> margin(np.array([[0.5, 0.25, 0.25]], np.float32), np.array([0])).round(4)
    array([0.6931])
    """
    logs = np.log(np.maximum(probs, _LEAST).astype(np.float64))
    rows = np.arange(len(labels))
    given_logs = logs[rows, labels]
    logs[rows, labels] = -np.inf
    result: npt.NDArray[np.float64] = given_logs - logs.max(axis=1)
    return result
