"""What is noted of a filter after each epoch and stage: where right and wrong labels lie, and how well they part."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.findings import metrics
from jnpl.internal.files import write_text

if TYPE_CHECKING:
    from pathlib import Path

    from jnpl.data.loading.feed import Feed
    from jnpl.data.source import Labels, Source
    from jnpl.training.epoch_view import EpochView

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Mask: TypeAlias = npt.NDArray[np.bool_]

BINS = 20
MOST = 400  # points of each kind
_STEPS = 1000  # a coordinate is kept in thousandths


class Stages:
    """An observer: writes the facts of a stage to a file at its last epoch, so that a run that resumes has them.

    Beside it epochs.json has figures for every epoch, by its number: an epoch that is run again replaces its own.

    The run must save itself by the clock, not by epochs: then it resumes before the epoch observed last.
    """

    def __init__(self, path: Path, source: Source, test: Source, seed: int, *, cat: int | None) -> None:
        self.path, self.source, self.test, self.seed, self.cat = path, source, test, seed, cat
        self.notes_path = path.with_name("epochs.json")
        self._whole: Feed | None = None
        self._cpu = time.process_time()

    def read(self) -> dict[str, Any]:
        """Stage -> facts, of those that are done."""
        return dict(json.loads(self.path.read_text("utf-8"))) if self.path.is_file() else {}

    def notes(self) -> dict[str, dict[str, float | None]]:
        """Epoch from 0 -> its figures; CPU seconds are since the epoch before, or since this life began."""
        return dict(json.loads(self.notes_path.read_text("utf-8"))) if self.notes_path.is_file() else {}

    def __call__(self, view: EpochView) -> None:
        """Note the epoch, and the end of a stage."""
        phase = view.phase
        now = time.process_time()
        noted: dict[str, float | None] = {"cpu_seconds": round(now - self._cpu, 3)}
        self._cpu = now
        if not phase.pseudo:
            noted |= sides(view.ledger.quality(self.source.labels), self.source)
            selected = view.line.get("selected")
            noted["selected"] = None if selected is None else round(float(selected), 4)
        write_text(self.notes_path, json.dumps({**self.notes(), str(view.epoch): noted}) + "\n")
        if view.phase_epoch + 1 < phase.plan.epochs:
            return
        told: dict[str, Any] = {
            "epoch": view.epoch + 1,
            "seconds": round(view.seconds, 1),
            "test_accuracy": self._accuracy(view),
        }
        if not phase.pseudo:  # pseudo-labels change no verdict
            told |= facts(view.ledger.mean_probs(), self.source, self.seed, self.cat)
        write_text(self.path, json.dumps({**self.read(), phase.name: told}) + "\n")

    def _accuracy(self, view: EpochView) -> float:
        """On the whole test set, the mean over networks."""
        if view.test is None or len(view.test.labels) == len(self.test):
            return float(view.line.get("test_accuracy", np.nan))
        self._whole = self._whole or view.feed(self.test)
        each = view.evaluate(self._whole)
        return sum(each.values()) / len(each)


def sides(quality: Floats, source: Source) -> dict[str, float | None]:
    """AP and the mean of right and of wrong labels, of p_y (N,); nothing where true labels are unknown or all right."""
    if source.true_labels is None or (source.labels == source.true_labels).all():
        return {}
    seen = ~np.isnan(quality)
    own, wrong = quality[seen], (source.labels != source.true_labels)[seen]
    ap = metrics.average_precision(own, wrong)
    told: dict[str, float | None] = {"ap": None if np.isnan(ap) else round(ap, 5)}
    for name, mask in (("right", ~wrong), ("wrong", wrong)):
        told[name] = round(float(own[mask].mean()), 5) if mask.any() else None
    return told


def curves(notes: dict[str, dict[str, float | None]], epochs: int) -> dict[str, list[float | None] | None]:
    """The figures of the filter's epochs as lists; None where no epoch has any."""
    told: dict[str, list[float | None] | None] = {}
    for name in ("ap", "right", "wrong", "selected"):
        values = [notes.get(str(epoch), {}).get(name) for epoch in range(epochs)]
        told[f"{name}_curve"] = values if any(value is not None for value in values) else None
    return told


def facts(probs: Floats, source: Source, seed: int, cat: int | None) -> dict[str, Any]:
    """Of mean predictions (N, C): histograms and points of p_y, AP; the same of the samples given the label `cat`."""
    if source.true_labels is None:
        return {}
    seen = ~np.isnan(probs).any(axis=1)
    given, wrong = source.labels[seen], (source.labels != source.true_labels)[seen]
    own, other = coordinates(probs[seen], given)
    told = _group(own, other, wrong, np.random.default_rng([seed, 0]))
    if cat is not None and (given == cat).any():
        here = given == cat
        told["cat"] = _group(own[here], other[here], wrong[here], np.random.default_rng([seed, 1]))
    return told


def coordinates(probs: Floats, labels: Labels) -> tuple[Floats, Floats]:
    """(N, C), (N,) -> p_y (N,), and the largest of the others (N,).

    >>> coordinates(np.array([[0.25, 0.5, 0.25]]), np.array([0]))
    (array([0.25]), array([0.5]))
    """
    rows = np.arange(len(labels))
    others = np.array(probs, np.float64)
    own = others[rows, labels]
    others[rows, labels] = -np.inf
    return own, others.max(axis=1)


def _group(own: Floats, other: Floats, wrong: Mask, generator: np.random.Generator) -> dict[str, Any]:
    told: dict[str, Any] = {"samples": len(own)}
    for name, score in (
        ("ap", metrics.average_precision),
        ("ap_clean", metrics.average_precision_clean),
        ("auc", metrics.roc_auc),
    ):
        value = score(own, wrong)
        told[name] = None if np.isnan(value) else round(value, 5)
    for name, mask in (("clean", ~wrong), ("noisy", wrong)):
        at = np.flatnonzero(mask)
        few = np.sort(generator.choice(at, MOST, replace=False)) if len(at) > MOST else at
        told[name] = {
            "histogram": np.histogram(own[mask], BINS, (0, 1))[0].tolist(),
            "mean": round(float(own[mask].mean()), 5) if len(at) else None,
            "p_y": _thousandths(own[few]),
            "p_other": _thousandths(other[few]),
        }
    return told


def _thousandths(values: Floats) -> list[int]:
    whole: list[int] = np.rint(np.clip(values, 0, 1) * _STEPS).astype(int).tolist()
    return whole
