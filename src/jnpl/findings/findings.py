"""Findings: which labels are wrong, what they should be, and how sure that is. No torch in here, only arrays.

The quality of a label is the mean probability the network gave it (p_y of NLNL and the paper), in 0..1: LOWER is
worse. A label is an issue if its quality lies strictly below the threshold (NLNL keeps `>=`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.findings._checks import (
    Array,
    Labels,
    Mask,
    checked_ids,
    checked_labels,
    checked_mask,
    checked_names,
    checked_texts,
)
from jnpl.findings.store import frame, read_files, write_files
from jnpl.findings.threshold import resolve_threshold
from jnpl.internal.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from jnpl.findings.ledger import Ledger

Floats: TypeAlias = npt.NDArray[np.float64]
Names: TypeAlias = "Sequence[str] | Sequence[int] | Array"
Paths: TypeAlias = "Sequence[str | os.PathLike[str]]"

_MAX_MATRIX, _MAX_WRITTEN = 5000, 200  # classes up to which the C x C matrix is built, and written as JSON


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """The verdict on every label, in the order of the data; made by `from_ledger`, `from_probs` or `load`.

    `suggested_labels` is the class with the largest mean probability, for every sample (cleanlab's
    `predicted_label`). It is the given label where no other is likelier, even for an issue: that label is in
    doubt, but there is nothing better to offer. Samples that were never predicted or could not be read have a
    quality of nan, are no issues and keep their label.

    `threshold` is a number in (0, 1), by default NLNL's 0.5; "1/c", chance level; "auto", where the qualities of right
    and wrong labels part (see `threshold`), 0.5 if they do not; or "per-class", the same for each given class alone,
    where classes are uneven. `threshold_info` says what was chosen and why.

    >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]
    >>> findings = Findings.from_probs(probs, [0, 0, 1], class_names=["cat", "dog"])
    >>> findings.table[["given_label", "suggested_label", "label_quality", "is_label_issue"]]
      given_label suggested_label  label_quality  is_label_issue
    0         cat             cat            0.9           False
    1         cat             dog            0.2            True
    2         dog             dog            0.7           False
    >>> round(findings.noise_rate, 2), findings.transition_matrix.tolist()
    (0.33, [[1.0, 0.0], [0.5, 0.5]])
    """

    given_labels: Labels
    suggested_labels: Labels
    label_quality: Floats
    suggested_confidence: Floats
    num_classes: int
    class_names: tuple[str, ...] | tuple[int, ...] | None
    ids: Array
    paths: Array | None
    unreadable: Mask | None
    threshold_info: dict[str, Any]

    @classmethod
    def from_ledger(
        cls,
        ledger: Ledger,
        labels: npt.ArrayLike,
        *,
        class_names: Names | None = None,
        ids: npt.ArrayLike | None = None,
        paths: Paths | None = None,
        threshold: float | str = 0.5,
        unreadable: npt.ArrayLike | None = None,
        quality: npt.ArrayLike | None = None,
    ) -> Findings:
        """Judge (N,) given labels by what the ledger recorded, or by another `quality` (N,) in 0..1."""
        given = checked_labels(labels, ledger.num_samples, ledger.num_classes)
        if not ledger.seen.any():
            raise InputError("the ledger has recorded nothing yet: record predictions before judging labels")
        suggested, confidence = ledger.top()
        rest = (class_names, ids, paths, threshold, unreadable)
        own = ledger.quality(given)
        better = _better(suggested, confidence, given, own)
        scores = own if quality is None else np.asarray(quality)
        if scores.shape != given.shape or not (np.isnan(scores) | ((scores >= 0) & (scores <= 1))).all():
            raise InputError(f"quality must be {len(given)} numbers in 0..1, not {scores.dtype} of {scores.shape}")
        return cls._judge(given, better, scores, confidence, ledger.num_classes, *rest)

    @classmethod
    def from_probs(
        cls,
        mean_probs: npt.ArrayLike,
        labels: npt.ArrayLike,
        *,
        class_names: Names | None = None,
        ids: npt.ArrayLike | None = None,
        paths: Paths | None = None,
        threshold: float | str = 0.5,
        unreadable: npt.ArrayLike | None = None,
    ) -> Findings:
        """Judge (N,) given labels by (N, C) probabilities from anywhere."""
        probs = np.asarray(mean_probs)
        if probs.ndim != 2 or probs.shape[1] < 2 or probs.dtype.kind not in "fiu":
            raise InputError(f"probabilities must be numbers of shape (N, C), not {probs.dtype} of {probs.shape}")
        given = checked_labels(labels, len(probs), probs.shape[1])
        skip = np.zeros(len(given), bool) if unreadable is None else checked_mask(unreadable, len(given))
        with np.errstate(invalid="ignore"):  # inf - inf
            total = probs.sum(axis=1, dtype=np.float64)
            good = (probs.min(axis=1) >= -1e-6) & (np.abs(total - 1) <= 1e-3)
        if not (good | skip).all():
            row = int(np.argmin(good | skip))
            found = f"{probs[row].min():g}..{probs[row].max():g} and {total[row]:g}"
            raise InputError(f"probabilities of sample {row} must lie in 0..1 and sum to 1, not {found}")
        each, best = np.arange(len(given)), probs.argmax(axis=1)
        rest = (class_names, ids, paths, threshold, unreadable)
        quality, confidence = probs[each, given], probs[each, best]
        better = _better(best, confidence, given, quality)
        return cls._judge(given, better, quality, confidence, probs.shape[1], *rest)

    @classmethod
    def _judge(
        cls,
        given: Labels,
        suggested: Array,
        quality: Array,
        confidence: Array,
        num_classes: int,
        class_names: Names | None,
        ids: npt.ArrayLike | None,
        paths: Paths | None,
        threshold: float | str,
        unreadable: npt.ArrayLike | None,
    ) -> Findings:
        mask = None if unreadable is None else checked_mask(unreadable, len(given))
        known = ~np.isnan(quality) if mask is None else ~np.isnan(quality) & ~mask
        quality, confidence = (
            np.where(known, np.clip(p, 0, 1), np.nan).astype(np.float64) for p in (quality, confidence)
        )
        where = None if paths is None else checked_texts("paths", [os.fsdecode(path) for path in paths], len(given))
        position = np.arange(len(given)) if where is None else where
        return cls(
            given_labels=given,
            suggested_labels=np.where(known, suggested, given),
            label_quality=quality,
            suggested_confidence=confidence,
            num_classes=num_classes,
            class_names=checked_names(class_names, num_classes),
            ids=position if ids is None else checked_ids(ids, len(given)),
            paths=where,
            unreadable=mask,
            threshold_info=resolve_threshold(threshold, quality, given, num_classes),
        )

    def __repr__(self) -> str:
        return f"Findings({', '.join(f'{name}={value!r}' for name, value in self.summary().items())})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Findings):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]  # equal by content, like the arrays inside

    @property
    def threshold(self) -> float:
        """The quality below which a label is an issue; with a threshold for each class, their mean over the samples."""
        return float(self.threshold_info["value"])

    @cached_property
    def is_label_issue(self) -> Mask:
        """(N,) true where the quality lies strictly below the threshold; never for a quality of nan."""
        by_class = self.threshold_info.get("by_class")
        return self.label_quality < (self.threshold if by_class is None else np.array(by_class)[self.given_labels])

    @property
    def noise_rate(self) -> float:
        """Share of issues among the samples that have a quality; 0 if none has."""
        scored = np.count_nonzero(~np.isnan(self.label_quality))
        return float(self.is_label_issue.sum() / max(scored, 1))

    @property
    def noise_interval(self) -> tuple[float, float]:
        """Shares of labels of a quality below 1/4 and below 3/4."""
        scored = self.label_quality[~np.isnan(self.label_quality)]
        low, high = ((scored < bound).sum() / max(len(scored), 1) for bound in (0.25, 0.75))
        return float(min(low, self.noise_rate)), float(max(high, self.noise_rate))

    @property
    def transition_matrix(self) -> Floats:
        """(C, C) estimate of P(given = j | true = i), taking the suggestion of issues for the truth.

        Rows sum to 1; that of a class nobody belongs to is the identity's.
        """
        size = self.num_classes
        if size > _MAX_MATRIX:
            raise InputError(f"a matrix of {size} x {size} classes is too large (at most {_MAX_MATRIX})")
        scored = ~np.isnan(self.label_quality)
        true = np.where(self.is_label_issue, self.suggested_labels, self.given_labels)[scored]
        counts = np.bincount(true * size + self.given_labels[scored], minlength=size * size).reshape(size, size)
        matrix: Floats = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        empty = np.flatnonzero(counts.sum(axis=1) == 0)
        matrix[empty, empty] = 1
        return matrix

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per sample, in the order of the data; labels are class names where there are any."""
        return frame(self._columns())

    def worst(self, k: int) -> pd.DataFrame:
        """The `k` rows of `table` with the lowest quality, worst first, ties in the order of the data."""
        if k < 0:
            raise InputError(f"k must be a whole number of at least 0, not {k!r}")
        order = np.argsort(self.label_quality, kind="stable")  # nan last
        order = order[: min(k, np.count_nonzero(~np.isnan(self.label_quality)))]
        return frame(self._columns(order)).set_index(order)

    def class_summary(self) -> pd.DataFrame:
        """Per class: samples that carry it, issues, their share, and the label most often suggested instead."""
        issue, size = self.is_label_issue, self.num_classes
        count = np.bincount(self.given_labels, minlength=size)
        issues = np.bincount(self.given_labels[issue], minlength=size)
        scored = np.bincount(self.given_labels[~np.isnan(self.label_quality)], minlength=size)
        moved = issue & (self.suggested_labels != self.given_labels)
        pairs, often = np.unique(self.given_labels[moved] * size + self.suggested_labels[moved], return_counts=True)
        most = np.full(size, -1)
        for pair in pairs[np.argsort(often, kind="stable")]:  # the most frequent comes last and stays
            most[pair // size] = pair % size
        names = self._names(np.arange(size))
        instead = np.array([names[i] if i >= 0 else None for i in most.tolist()], object)
        columns = {"class": names, "count": count, "issues": issues, "issue_rate": issues / np.maximum(scored, 1)}
        return frame({**columns, "most_common_suggested": instead})

    def summary(self) -> dict[str, Any]:
        """The findings in a few plain numbers; `relabelled` counts the issues with another label suggested."""
        issue = self.is_label_issue
        return {
            "samples": len(self.given_labels),
            "scored": int(np.count_nonzero(~np.isnan(self.label_quality))),
            "classes": self.num_classes,
            "issues": int(issue.sum()),
            "relabelled": int((issue & (self.suggested_labels != self.given_labels)).sum()),
            "noise_rate": self.noise_rate,
            "threshold": self.threshold,
        }

    def _names(self, labels: Labels) -> Array:
        if self.class_names is None:
            return labels.copy()
        return np.array(self.class_names, object if isinstance(self.class_names[0], str) else np.int64)[labels]

    def _columns(self, rows: Array | slice = slice(None)) -> dict[str, Array]:
        columns: dict[str, Array | None] = {
            "id": self.ids[rows],
            "path": None if self.paths is None else self.paths[rows],
            "given_label": self._names(self.given_labels[rows]),
            "suggested_label": self._names(self.suggested_labels[rows]),
            "label_quality": self.label_quality[rows],
            "is_label_issue": self.is_label_issue[rows],
            "suggested_confidence": self.suggested_confidence[rows],
            "unreadable": None if self.unreadable is None else self.unreadable[rows],
        }
        return {name: values for name, values in columns.items() if values is not None}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write findings.parquet, findings.csv and findings.json; the same findings give the same bytes.

        In the CSV a text that a spreadsheet would take for a formula starts with an apostrophe (OWASP).
        """
        meta = {
            **self.summary(),
            "class_names": None if self.class_names is None else list(self.class_names),
            "threshold": self.threshold_info,
            "transition_matrix": self.transition_matrix.tolist() if self.num_classes <= _MAX_WRITTEN else None,
        }
        write_files(Path(folder), self._columns(), meta)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Findings:
        """Read what `save` wrote: equal findings, from the Parquet and the JSON file."""
        return cls(**read_files(Path(folder)))


def _better(suggested: Array, confidence: Array, given: Labels, quality: Array) -> Labels:
    """(N,) the suggestion where it is likelier than the given label, which stays elsewhere."""
    better: Labels = np.where(np.clip(confidence, 0, 1) > np.clip(quality, 0, 1), suggested, given)
    return better


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return type(a) is type(b) and a == b
