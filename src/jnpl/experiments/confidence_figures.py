"""Where right and wrong labels lie in p_y, after every epoch and stage: the figures of `jnpl reproduce`."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.data.source import Labels, Source
from jnpl.judging import metrics

if TYPE_CHECKING:
    from jnpl.data.loading.feed import Feed
    from jnpl.experiments.observer import Observer, Seconds
    from jnpl.training.epoch_view import EpochView

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Mask: TypeAlias = npt.NDArray[np.bool_]

BINS = 20
MOST = 400  # points of each kind
_STEPS = 1000  # a coordinate is kept in thousandths
_PSEUDO = "pseudo"


class ConfidenceFigures:
    """AP and mean p_y of right and wrong labels after every epoch; histograms and points after every stage."""

    def __init__(self, source: Source, test: Source, seed: int, *, cat: int | None) -> None:
        self.source, self.test, self.seed, self.cat = source, test, seed, cat
        self.stages: dict[str, dict[str, Any]] = {}  # by name, those that are done
        self.epochs: list[dict[str, Any]] = []
        self._all_tests: Feed | None = None

    def state(self) -> dict[str, Any]:
        """All that was noted so far, as JSON."""
        return {"stages": self.stages, "each_epoch": self.epochs}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.stages, self.epochs = state["stages"], state["each_epoch"]

    def note(self, view: EpochView, observer: Observer, began: Seconds) -> None:  # noqa: ARG002 (of the protocol)
        """Note the epoch, and the end of a stage."""
        phase = view.phase
        noted: dict[str, Any] = {"stage": phase.name, "test_accuracy": round(view.line["test_accuracy"], 4)}
        if not phase.pseudo:  # pseudo-labels change no ranking
            noted |= mean_confidence(view.ledger.quality(self.source.labels), self.source)
            selected = view.line.get("selected")
            noted["selected"] = None if selected is None else round(float(selected), 4)
        self.epochs.append(noted)
        if view.phase_epoch + 1 < phase.plan.epochs:
            return
        facts = {"epoch": observer.epochs, "seconds": round(view.seconds, 1), "test_accuracy": self._test(view)}
        if not phase.pseudo:
            facts |= stage_facts(view.ledger.mean_probs(), self.source, self.seed, self.cat)
        self.stages[phase.name] = facts

    def _test(self, view: EpochView) -> float:
        """Accuracy on the whole test set, the mean over networks."""
        if view.test is None or len(view.test.labels) == len(self.test):
            return float(view.line.get("test_accuracy", np.nan))
        self._all_tests = self._all_tests or view.feed(self.test)
        accuracies = view.evaluate(self._all_tests)
        return sum(accuracies.values()) / len(accuracies)

    def results(self, quality: Floats, total: Seconds, of_run: dict[str, Any] | None) -> dict[str, Any]:
        """Return the results of the run, given the label quality (N,), the time and the results of its run."""
        names = [str(epoch["stage"]) for epoch in self.epochs]
        filters = [name for name in self.stages if not name.startswith(_PSEUDO)]
        last = next(reversed(self.stages.values()))
        results: dict[str, Any] = {
            "curve": [epoch["test_accuracy"] for epoch in self.epochs],
            "curve_stages": [[name, len(list(same))] for name, same in groupby(names)],
            "test_accuracy": None,
            "filter_test_accuracy": self.stages[filters[-1]]["test_accuracy"],
            "ap": None,
            "ap_clean": None,
            "seconds": round(last["seconds"] if of_run is None else of_run["seconds"], 1),
            "cpu_seconds": round(total.cpu, 1),
            **self._curves(),
        }
        if of_run is not None:
            chosen = "last_test_accuracy" in of_run  # by validation data: not the last epoch's
            results["test_accuracy"] = of_run["test_accuracy"] if chosen else self.stages[names[-1]]["test_accuracy"]
        true = self.source.true_labels
        if true is not None and (true != self.source.labels).any():
            recorded = ~np.isnan(quality)
            wrong = (true != self.source.labels)[recorded]
            results["ap"] = metrics.average_precision(quality[recorded], wrong)
            results["ap_clean"] = metrics.average_precision_clean(quality[recorded], wrong)
        return results

    def _curves(self) -> dict[str, list[float | None] | None]:
        """The figures of the epochs before pseudo-labels as lists; None where no epoch has any."""
        epochs = [epoch for epoch in self.epochs if not epoch["stage"].startswith(_PSEUDO)]
        curves: dict[str, list[float | None] | None] = {}
        for name in ("ap", "right", "wrong", "selected"):
            values = [epoch.get(name) for epoch in epochs]
            curves[f"{name}_curve"] = values if any(value is not None for value in values) else None
        return curves


def mean_confidence(quality: Floats, source: Source) -> dict[str, float | None]:
    """AP of p_y (N,) and its means over right and wrong labels; nothing where true labels are unknown or all right."""
    if source.true_labels is None or (source.labels == source.true_labels).all():
        return {}
    seen = ~np.isnan(quality)
    p_y, wrong = quality[seen], (source.labels != source.true_labels)[seen]
    ap = metrics.average_precision(p_y, wrong)
    noted: dict[str, float | None] = {"ap": None if np.isnan(ap) else round(ap, 5)}
    for name, mask in (("right", ~wrong), ("wrong", wrong)):
        noted[name] = round(float(p_y[mask].mean()), 5) if mask.any() else None
    return noted


def stage_facts(probs: Floats, source: Source, seed: int, cat: int | None) -> dict[str, Any]:
    """Of mean predictions (N, C): histograms and points of p_y, AP; the same of the samples given the label `cat`."""
    if source.true_labels is None:
        return {}
    seen = ~np.isnan(probs).any(axis=1)
    labels, wrong = source.labels[seen], (source.labels != source.true_labels)[seen]
    p_y, p_other = coordinates(probs[seen], labels)
    noted = _confidence(p_y, p_other, wrong, np.random.default_rng([seed, 0]))
    if cat is not None and (labels == cat).any():
        here = labels == cat
        noted["cat"] = _confidence(p_y[here], p_other[here], wrong[here], np.random.default_rng([seed, 1]))
    return noted


def coordinates(probs: Floats, labels: Labels) -> tuple[Floats, Floats]:
    """(N, C), (N,) -> p_y (N,), and the largest of the others (N,).

    >>> coordinates(np.array([[0.25, 0.5, 0.25]]), np.array([0]))
    (array([0.25]), array([0.5]))
    """
    rows = np.arange(len(labels))
    others = np.array(probs, np.float64)
    p_y = others[rows, labels]
    others[rows, labels] = -np.inf
    return p_y, others.max(axis=1)


def _confidence(p_y: Floats, p_other: Floats, wrong: Mask, generator: np.random.Generator) -> dict[str, Any]:
    noted: dict[str, Any] = {"samples": len(p_y)}
    for name, score in (
        ("ap", metrics.average_precision),
        ("ap_clean", metrics.average_precision_clean),
        ("auc", metrics.roc_auc),
    ):
        value = score(p_y, wrong)
        noted[name] = None if np.isnan(value) else round(value, 5)
    for name, mask in (("clean", ~wrong), ("noisy", wrong)):
        places = np.flatnonzero(mask)
        few = np.sort(generator.choice(places, MOST, replace=False)) if len(places) > MOST else places
        noted[name] = {
            "histogram": np.histogram(p_y[mask], BINS, (0, 1))[0].tolist(),
            "mean": round(float(p_y[mask].mean()), 5) if len(places) else None,
            "p_y": _thousandths(p_y[few]),
            "p_other": _thousandths(p_other[few]),
        }
    return noted


def _thousandths(values: Floats) -> list[int]:
    whole: list[int] = np.rint(np.clip(values, 0, 1) * _STEPS).astype(int).tolist()
    return whole
