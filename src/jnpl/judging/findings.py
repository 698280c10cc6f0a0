"""Findings: which labels look wrong, what they should be, how sure that is, and the files that hold this. No torch.

The quality of a label is a number in 0..1, LOWER is worse. By itself it is the mean probability that the network gave
the label (p_y in NLNL and in the paper). With predictions that did not see the labels (`unseen_probs`) it is
calibrated: of the labels with a quality near q, a share q is estimated to be right, in the order of the mean
probabilities. A label is an issue if its quality lies strictly below the threshold (NLNL keeps `>=`).
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from jnpl.data.label_files import WithoutLabel
from jnpl.internal.errors import InputError
from jnpl.judging import audit, findings_files
from jnpl.judging.caveats import NO_SIGNAL, above_chance, is_withheld, noise_sentence, of_few_samples
from jnpl.judging.column_checks import checked_ids, checked_labels, checked_mask, checked_names, checked_texts
from jnpl.judging.consensus import VOTE, annotator_table, ask_next
from jnpl.judging.groups import COLUMN, rates_of_groups
from jnpl.judging.noise_model import Interval, NoiseEstimate, calibrate, likeliest_other, monotone
from jnpl.judging.threshold import resolve_threshold
from jnpl.noise.noisy_labels import transition_matrix

if TYPE_CHECKING:
    import pandas as pd

    from jnpl.judging.ledger import Ledger

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Labels: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Names: TypeAlias = "Sequence[str] | Sequence[int] | Array"
Paths: TypeAlias = "Sequence[str | os.PathLike[str]]"

_MAX_MATRIX, _MAX_WRITTEN = 5000, 200  # classes up to which the C x C matrix is built, and written as JSON
_OF_ALL = ("num_classes", "class_names", "threshold_info", "noise")  # fields without an entry per sample


@dataclass(frozen=True, eq=False, repr=False)
class Findings:
    """The label quality and the suggested label of every sample, in the order of the data.

    Made by `from_ledger`, `from_probs` or `load`. Samples that were never predicted or could not be read have a quality
    of nan, are no issues and keep their label.

    Args:
        given_labels: (N,) class numbers.
        suggested_labels: (N,) the likeliest class (cleanlab's `predicted_label`). It is the given label where no other
            is likelier, even for an issue, which is then `is_unclear`; the tables name `other_labels` for those.
        label_quality: (N,) probability that the given label is right, LOWER is worse: calibrated where `noise` is
            known, else the mean predicted probability of the given label, or the method's own score.
        suggested_confidence: (N,) probability that the suggested label is right: calibrated where `noise` is known,
            else its mean predicted probability.
        num_classes: C.
        class_names: C strings or C integers, or None.
        ids: (N,) integers or strings.
        paths: (N,) paths of files, or None.
        unreadable: (N,) true where a sample could not be read, or None.
        threshold_info: the threshold, its rule and the reason for it; see `from_probs`.
        noise: the estimated noise rate, its 90 % interval and the overlap of the classes, where quality is calibrated.
        decided: (N,) true for samples that a person has decided about (`with_decisions`), or None. They are no issues.
        groups: name -> the group (N,) of each sample, such as its annotator, None where it has none; or None.
        excerpts: (N,) texts to know a sample by, or None (`jnpl.judging.excerpts`).
        votes: annotator -> class number (N,) of each sample, -1 where there is none; or None. The given labels are then
            their consensus, and the quality is the probability that it is right.
        chance_wrong: (N,) probability that the given label is wrong, where decisions have corrected 1 - quality; it is
            not saved. None: 1 - quality.
        other_labels: (N,) the likeliest class other than the given one, -1 where it is unknown, or None.
        other_confidence: (N,) its probability, or None.
        index: the index of the data frame that the samples are rows of, for `table`; it is not saved. None: positions.

    Example:
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
    noise: NoiseEstimate | None = None
    decided: Mask | None = None
    groups: dict[str, Array] | None = None
    excerpts: Array | None = None
    votes: dict[str, Labels] | None = None
    chance_wrong: Floats | None = field(default=None, compare=False)
    other_labels: Labels | None = field(default=None, compare=False)
    other_confidence: Floats | None = field(default=None, compare=False)
    index: pd.Index[Any] | None = field(default=None, compare=False)

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
        """Make findings of the predictions in a ledger.

        Args:
            ledger: the recorded predictions of N samples.
            labels: (N,) given labels.
            class_names: names of the classes.
            ids: (N,) names of the samples; by default their paths, else their positions.
            paths: (N,) paths of the samples, where they are files.
            threshold: as in `from_probs`.
            unreadable: (N,) true where a sample could not be read.
            quality: (N,) label quality in 0..1 to use in place of the ledger's.

        Returns:
            Findings of N samples.

        Example:
            >>> from jnpl import Ledger
            >>> ledger = Ledger(num_samples=2, num_classes=2)
            >>> ledger.record(index=[0, 1], probs=[[0.9, 0.1], [0.8, 0.2]], epoch=0)
            >>> Findings.from_ledger(ledger, labels=[0, 1]).is_label_issue.tolist()
            [False, True]
        """
        given = checked_labels(labels, ledger.num_samples, ledger.num_classes)
        if not ledger.seen.any():
            raise InputError("the ledger has recorded nothing yet: record predictions first")
        suggested, confidence = ledger.top()
        recorded = ledger.quality(given)
        better = _likelier(suggested, confidence, given, recorded)
        scores = recorded if quality is None else np.asarray(quality)
        if scores.shape != given.shape or not (np.isnan(scores) | ((scores >= 0) & (scores <= 1))).all():
            raise InputError(f"quality must be {len(given)} numbers in 0..1, not {scores.dtype} of {scores.shape}")
        options = (class_names, ids, paths, threshold, unreadable)
        return cls._create(given, better, scores, confidence, ledger.num_classes, *options)

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
        unseen_probs: npt.ArrayLike | None = None,
        unseen_scale: float | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Findings:
        """Make findings of probabilities from anywhere.

        Args:
            mean_probs: (N, C) probabilities of the classes.
            labels: (N,) given labels.
            class_names: names of the classes.
            ids: (N,) names of the samples; by default their paths, else their positions.
            paths: (N,) paths of the samples, where they are files.
            threshold: a number in (0, 1), by default NLNL's 0.5; "1/c", chance level; "auto", the labels that are more
                likely wrong than right (`jnpl.judging.threshold`), or, without `unseen_probs`, between the qualities
                of right and wrong labels, or 0.5 if there are no two groups; "per-class", the latter for each given
                class alone; "precision=0.9", as many labels as keep the expected share of wrong ones; "budget=200", the
                200 worst.
            unreadable: (N,) true where a sample could not be read; its probabilities are ignored.
            unseen_probs: (N, C) probabilities by models that did not see the sample's label, which calibrate quality
                and confidence and estimate the noise rate (`jnpl.judging.noise_model`).
            unseen_scale: 1 if these are known to be nearly calibrated for the true labels, as those of out-of-fold NL+
                heads are; None: unknown.
            progress: called with the share of the calibration done, 0..1; what it raises stops it.

        Returns:
            Findings of N samples.

        Example:
            >>> findings = Findings.from_probs([[0.9, 0.1], [0.6, 0.4]], labels=[0, 1], threshold=0.3)
            >>> findings.label_quality.tolist(), findings.is_label_issue.tolist()
            ([0.9, 0.4], [False, False])
        """
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
            values = f"{probs[row].min():g}..{probs[row].max():g} and {total[row]:g}"
            raise InputError(f"probabilities of sample {row} must lie in 0..1 and sum to 1, not {values}")
        rows, best = np.arange(len(given)), probs.argmax(axis=1)
        quality, confidence = probs[rows, given], probs[rows, best]
        noise, other = None, likeliest_other(probs, given)
        other_confidence = probs[rows, other]
        if unseen_probs is not None:
            quality, best, confidence, other_confidence, noise = _calibrated(
                probs, given, other, np.asarray(unseen_probs), unseen_scale, skip, progress
            )
        else:
            best = _likelier(best, confidence, given, quality)
        options = (class_names, ids, paths, threshold, unreadable)
        findings = cls._create(given, best, quality, confidence, probs.shape[1], *options, noise=noise)
        return replace(findings, other_labels=other, other_confidence=np.asarray(other_confidence, np.float64))

    @classmethod
    def _create(
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
        *,
        noise: NoiseEstimate | None = None,
    ) -> Findings:
        mask = None if unreadable is None else checked_mask(unreadable, len(given))
        has_quality = ~np.isnan(quality) if mask is None else ~np.isnan(quality) & ~mask
        quality, confidence = (
            np.where(has_quality, np.clip(p, 0, 1), np.nan).astype(np.float64) for p in (quality, confidence)
        )
        files = None if paths is None else checked_texts("paths", [os.fsdecode(path) for path in paths], len(given))
        default_ids = np.arange(len(given)) if files is None else files
        return cls(
            given_labels=given,
            suggested_labels=np.where(has_quality, suggested, given),
            label_quality=quality,
            suggested_confidence=confidence,
            num_classes=num_classes,
            class_names=checked_names(class_names, num_classes),
            ids=default_ids if ids is None else checked_ids(ids, len(given)),
            paths=files,
            unreadable=mask,
            threshold_info=_resolved(threshold, quality, given, num_classes, noise),
            noise=noise,
        )

    def with_threshold(self, threshold: float | str) -> Findings:
        """Return the same findings with another threshold; nothing is trained or predicted.

        Args:
            threshold: as in `from_probs`.

        Example:
            >>> findings = Findings.from_probs([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2]], labels=[0, 1, 1])
            >>> findings.with_threshold("budget=1").is_label_issue.tolist()
            [False, False, True]
        """
        quality = np.where(self.is_decided, np.nan, self.label_quality)
        info = _resolved(threshold, quality, self.given_labels, self.num_classes, self.noise)
        return replace(self, threshold_info=info)

    def with_decisions(self, decisions: Labels) -> Findings:
        """Return findings in which decided labels are certain: a given label has a quality of 1 or 0, and is no issue.

        The noise rate counts the decided labels as they are, and the others as before.

        Args:
            decisions: (N,) class numbers; -1 without a decision, or the value of a `WithoutLabel`: a dropped sample has
                a wrong label, an unsure one keeps its quality, or has 0.5 if that was certain.

        Example:
            >>> findings = Findings.from_probs([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]], labels=[0, 0, 0])
            >>> reviewed = findings.with_decisions(np.array([-1, 1, -1]))
            >>> reviewed.is_label_issue.tolist(), reviewed.label_quality.tolist()
            ([False, False, True], [0.9, 0.0, 0.3])
        """
        has_label = decisions >= 0
        is_certain = has_label | (decisions == WithoutLabel.DROP.value)
        if self.unreadable is not None:
            is_certain &= ~self.unreadable
        is_unsure = (decisions == WithoutLabel.UNSURE.value) & np.isin(self.label_quality, (0.0, 1.0))
        before = np.where(is_unsure, 0.5, self.label_quality)
        quality = np.where(is_certain, decisions == self.given_labels, before)
        suggested = np.where(decisions == -1, self.suggested_labels, np.where(has_label, decisions, self.given_labels))
        decided = replace(
            self,
            suggested_labels=suggested,
            label_quality=quality,
            suggested_confidence=np.where(is_certain, 1.0, self.suggested_confidence),
            decided=self.is_decided | (decisions != -1),
            chance_wrong=None,
        )
        if (left := self.wrong_left) is None:
            return decided
        share = decided.expected_left / max(left.value, 1e-12)
        return decided.with_wrong_left(Interval(decided.expected_left, left.low * share, left.high * share))

    def with_wrong_left(self, left: Interval) -> Findings:
        """Return findings by whose noise rate this many labels are wrong among those that nobody decided about."""
        if self.noise is None:
            return self
        scored = max(int(np.count_nonzero(~np.isnan(self.label_quality))), 1)
        rate, low, high = (min((self._decided_wrong + end) / scored, 1.0) for end in left)
        if self.noise.caveat is not None:  # decisions about suspects say little of the others
            high = max(high, self.noise.high)
        return replace(self, noise=self.noise._replace(rate=rate, low=low, high=high))

    @property
    def wrong_left(self) -> Interval | None:
        """How many labels are wrong among those that nobody decided about; None where quality is not calibrated."""
        if self.noise is None:
            return None
        scored, value = np.count_nonzero(~np.isnan(self.label_quality)), self.expected_left
        low, high = (end * scored - self._decided_wrong for end in (self.noise.low, self.noise.high))
        return Interval(value, min(max(low, 0.0), value), max(high, value))

    @property
    def is_withheld(self) -> bool:
        """Whether the noise rate is withheld: any larger share is possible."""
        return self.noise is not None and is_withheld(self.noise)

    @property
    def stated_left(self) -> Interval | None:
        """`wrong_left`, None where the noise rate is withheld."""
        return None if self.is_withheld else self.wrong_left

    @property
    def is_decided(self) -> Mask:
        """(N,) true for samples that a person has decided about."""
        return np.zeros(len(self.given_labels), bool) if self.decided is None else self.decided

    @property
    def open_quality(self) -> Floats:
        """(N,) label quality, nan where a decision says whether the label is wrong."""
        return np.where(self.is_certain, np.nan, self.label_quality)

    @property
    def decided_labels(self) -> Labels:
        """(N,) class numbers that a person has decided on, -1 where there is none."""
        is_lost = (self.label_quality == 0) & (self.suggested_labels == self.given_labels)
        return np.where(self.is_certain & ~is_lost, self.suggested_labels, -1)

    @property
    def chances(self) -> Floats:
        """(N,) probability that the given label is wrong; nan where it is unknown."""
        return 1 - self.label_quality if self.chance_wrong is None else self.chance_wrong

    @property
    def is_certain(self) -> Mask:
        """(N,) true where a decision says whether the label is wrong: of others, the reviewer was unsure."""
        return self.is_decided & np.isin(self.label_quality, (0.0, 1.0))

    @property
    def _decided_wrong(self) -> float:
        return float(np.count_nonzero(self.label_quality[self.is_certain] == 0))

    @property
    def expected_left(self) -> float:
        """How many labels are expected to be wrong among those that nobody decided about."""
        return float(np.nansum(self.chances[~self.is_certain]))

    def __repr__(self) -> str:
        return f"Findings({', '.join(f'{name}={value!r}' for name, value in self.summary().items())})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Findings):
            return NotImplemented
        return all(_same(getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.compare)

    __hash__ = None  # type: ignore[assignment]  # equal by content, like the arrays inside

    @property
    def names(self) -> tuple[str, ...] | tuple[int, ...]:
        """The names of the classes, or their numbers where they have none."""
        return tuple(range(self.num_classes)) if self.class_names is None else self.class_names

    @property
    def threshold(self) -> float:
        """The quality below which a label is an issue; with a threshold for each class, their mean over the samples."""
        return float(self.threshold_info["value"])

    @cached_property
    def is_label_issue(self) -> Mask:
        """(N,) true where the quality is below the threshold; never for a quality of nan, or after a decision."""
        by_class = self.threshold_info.get("by_class")
        cut = self.threshold if by_class is None else np.array(by_class)[self.given_labels]
        return (self.label_quality < cut) & ~self.is_decided

    @property
    def is_unclear(self) -> Mask:
        """(N,) true for issues of which no other label is likelier: it could be the given one, or `other_labels`."""
        unclear: Mask = self.is_label_issue & (self.suggested_labels == self.given_labels)
        return unclear

    @property
    def others(self) -> tuple[Labels, Floats]:
        """(N,) the likeliest class other than the given one, -1 where it is unknown, and its probability."""
        if self.other_labels is None or self.other_confidence is None:
            return np.full(len(self.given_labels), -1), np.full(len(self.given_labels), np.nan)
        return self.other_labels, self.other_confidence

    @property
    def noise_rate(self) -> float:
        """Estimated share of wrong labels, nan if it is withheld; without calibration, the share of issues."""
        if self.noise is not None:
            return math.nan if is_withheld(self.noise) else self.noise.rate
        scored = np.count_nonzero(~np.isnan(self.label_quality))
        return float((self.is_label_issue.sum() + self._decided_wrong) / max(scored, 1))

    @property
    def noise_sentence(self) -> str | None:
        """The noise rate in words, with its interval, or the reason why it cannot be told; None without calibration."""
        return None if self.noise is None else noise_sentence(self.noise)

    @property
    def noise_facts(self) -> dict[str, Any]:
        """Noise rate, interval, overlap and sentence, as `--json` has them."""
        rate = None if math.isnan(self.noise_rate) else self.noise_rate
        if self.noise is None:
            return {"noise_rate": rate}
        return {
            "noise_rate": rate,
            "noise_interval": [self.noise.low, self.noise.high],
            "noise_sentence": self.noise_sentence,
            "noise_checked": self.noise.checked,
            "overlap": self.noise.overlap,
        }

    @property
    def noise_interval(self) -> tuple[float, float] | None:
        """The 90 % interval of the noise rate; None where quality is not calibrated."""
        return None if self.noise is None else (self.noise.low, self.noise.high)

    def audit_sample(self, count: int = 50, seed: int = 0) -> Labels:
        """Return positions (count,) of labels to check by hand: a random sample, stratified by label quality.

        Args:
            count: how many; a smaller sample is the beginning of a larger one.
            seed: of the draw.
        """
        return audit.draw(self.open_quality, count, seed).positions

    def audited(self, labels: Mapping[int, int], seed: int = 0) -> Findings:
        """Return findings with noise rate, interval, qualities and threshold by labels that a person has checked.

        Args:
            labels: position -> right class number, for an `audit_sample` or its beginning: the given label's where that
                is right; -1: wrong, without a better one; -2: the person is unsure.
            seed: with which the sample was drawn.

        Example:
            >>> findings = Findings.from_probs([[0.9, 0.1]] * 80 + [[0.3, 0.7]] * 20, labels=[0] * 100)
            >>> checked = {at: int(at >= 80) for at in findings.audit_sample(20).tolist()}  # the last 20 are wrong
            >>> after = findings.audited(checked)
            >>> after.noise_rate, [round(end, 2) for end in after.noise_interval]
            (0.2, [0.09, 0.34])
        """
        if self.noise is not None and self.noise.checked:
            raise InputError("these findings are audited already: audit those of the run")
        return audit.audited(self, audit.draw(self.open_quality, len(self.given_labels), seed), labels)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of ids, class names and given labels: what the decisions of a person refer to."""
        digest = hashlib.sha256(repr((self.num_classes, self.class_names)).encode("utf-8", "backslashreplace"))
        digest.update(self.given_labels.astype("<i8").tobytes())
        digest.update("\0".join(map(str, self.ids.tolist())).encode("utf-8", "backslashreplace"))
        return digest.hexdigest()

    @property
    def overlap(self) -> float | None:
        """Share of samples whose class could not be told even if all labels were right; None without calibration."""
        return None if self.noise is None else self.noise.overlap

    @property
    def transition_matrix(self) -> Floats:
        """(C, C) estimate of P(given = j | true = i), by decided labels and the suggested labels of issues.

        Rows sum to 1; that of a class without samples is the identity's.
        """
        size = self.num_classes
        if size > _MAX_MATRIX:
            raise InputError(f"a matrix of {size} x {size} classes is too large (at most {_MAX_MATRIX})")
        scored = ~np.isnan(self.label_quality)
        true = np.where(self.is_label_issue | self.is_decided, self.suggested_labels, self.given_labels)[scored]
        return transition_matrix(true, self.given_labels[scored], size)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per sample, in the order of the data; labels are class names where there are any."""
        table = _frame(self._columns())
        return table if self.index is None else table.set_axis(self.index)

    def worst(self, k: int) -> pd.DataFrame:
        """Return the `k` undecided rows of `table` with the lowest quality, worst first, ties in the order of the data.

        Args:
            k: number of rows, at most as many as have a quality and no decision.

        Returns:
            Rows of `table`, the labels first, and last a text or the most unusual cells, 22 characters of them; the
            index holds the positions of the samples, or is that of the data frame.

        Example:
            >>> findings = Findings.from_probs([[0.9, 0.1], [0.6, 0.4]], labels=[0, 1])
            >>> findings.worst(1).index.tolist()
            [1]
        """
        if k < 0:
            raise InputError(f"k must be a whole number of at least 0, not {k!r}")
        order = self._waiting(np.argsort(self.label_quality, kind="stable"))[:k]
        frame = _frame(self._columns(order)).set_index(order if self.index is None else self.index[order])
        first, last = ["given_label", "suggested_label"], ["label_quality", "id"]
        if "excerpt" in frame:  # in 80 columns pandas hides the middle
            last = ["label_quality", "excerpt"]
            cells = frame["excerpt"].tolist()  # both labels and these fit into 80 columns
            frame["excerpt"] = [f"{cell[:21]}…" if cell is not None and len(cell) > 22 else cell for cell in cells]
        return frame[[*first, *(name for name in frame.columns if name not in first + last), *last]]

    def part(self, positions: npt.ArrayLike) -> Findings:
        """Return the findings of some samples, by position (M,), with the same threshold."""
        rows, changed = np.asarray(positions, np.int64), dict[str, Any]()
        for name in (entry.name for entry in fields(Findings) if entry.name not in _OF_ALL):
            if (of := getattr(self, name)) is not None:
                changed[name] = {key: values[rows] for key, values in of.items()} if isinstance(of, dict) else of[rows]
        return replace(self, **changed)

    def by_group(self, groups: str | npt.ArrayLike) -> pd.DataFrame:
        """Return the noise rate of each group, the highest first.

        Args:
            groups: the name of a group column of the data, or the groups (N,) of the samples, None for none.

        Returns:
            A row per group: `group`, `samples`, `issues`, `noise_rate` with its 90 % interval `low` and `high`, pooled
            towards the mean where the group is small, `p_value` of a difference from the other groups, `differs` (5 %
            of those that do are expected not to), `most_common_mistake`.

        Example:
            >>> probs = [[0.9, 0.1], [0.2, 0.8], [0.9, 0.1], [0.1, 0.9]] * 10
            >>> findings = Findings.from_probs(probs, [0] * 40)
            >>> findings.by_group(["ann", "bob"] * 20)[["group", "samples", "issues"]].values.tolist()
            [['bob', 20, 20], ['ann', 20, 0]]
        """
        if isinstance(groups, str):
            if groups not in (self.groups or {}):
                names = ", ".join(self.groups or {}) or "none: name them with group_columns (--group-column)"
                raise InputError(f"no group column {groups!r}; there are {names}")
            groups = (self.groups or {})[groups]
        return rates_of_groups(self, groups)

    @property
    def annotators(self) -> pd.DataFrame:
        """A row per annotator, the worst first: `labels`, `agreement` with the consensus, `quality`.

        Quality is the expected share of right labels. Only of data with several labels per sample.
        """
        return annotator_table(self._several_votes(), self.given_labels, self.label_quality)

    def ask_next(self, k: int) -> pd.DataFrame:
        """Return the `k` samples whose consensus is least sure, and in `ask` the best annotator without a label on it.

        Args:
            k: number of rows.

        Returns:
            `id`, `consensus`, `label_quality` and `ask`, None where all annotators have labelled the sample.
        """
        self._several_votes()
        return ask_next(self, k)

    def _several_votes(self) -> dict[str, Labels]:
        if self.votes is None:
            raise InputError("there is one label per sample; several are named with label_columns (--label-columns)")
        return self.votes

    def class_summary(self) -> pd.DataFrame:
        """Return, per class: samples with this label, issues, their share, the label most often suggested instead."""
        issue, size = self.is_label_issue, self.num_classes
        count = np.bincount(self.given_labels, minlength=size)
        issues = np.bincount(self.given_labels[issue], minlength=size)
        scored = np.bincount(self.given_labels[~np.isnan(self.label_quality)], minlength=size)
        moved = issue & (self.suggested_labels != self.given_labels)
        pairs, often = np.unique(self.given_labels[moved] * size + self.suggested_labels[moved], return_counts=True)
        order, names = np.argsort(often, kind="stable"), self._names(np.arange(size))
        instead = np.full(size, None, object)
        instead[pairs[order] // size] = names[pairs[order] % size]  # the most frequent comes last and stays
        columns = {"class": names, "count": count, "issues": issues, "issue_rate": issues / np.maximum(scored, 1)}
        return _frame({**columns, "most_common_suggested": instead})

    def summary(self) -> dict[str, Any]:
        """Return the findings in a few numbers; `relabelled` counts the issues with another label suggested."""
        issue = self.is_label_issue
        return {
            "samples": len(self.given_labels),
            "scored": int(np.count_nonzero(~np.isnan(self.label_quality))),
            "classes": self.num_classes,
            "issues": int(issue.sum()),
            **({} if self.decided is None else {"decided": int(self.decided.sum())}),
            "relabelled": int((issue & (self.suggested_labels != self.given_labels)).sum()),
            "noise_rate": self.noise_rate,
            "threshold": self.threshold,
        }

    def _names(self, labels: Labels) -> Array:
        if self.class_names is None:
            return labels.copy()
        return np.array(self.class_names, object if isinstance(self.class_names[0], str) else np.int64)[labels]

    def _vote_names(self, given: Labels) -> Array:
        """Return class names (M,) as texts, None where there is no vote."""
        names = np.empty(len(given), object)
        names[:] = [None if label < 0 else str(self.names[label]) for label in given.tolist()]
        return names

    def _columns(self, rows: Array | slice = slice(None)) -> dict[str, Array]:
        (other, other_confidence), unclear = self.others, self.is_unclear[rows]
        unclear = unclear & (other[rows] >= 0)
        suggested = np.where(unclear, other[rows], self.suggested_labels[rows])
        confidence = np.where(unclear, other_confidence[rows], self.suggested_confidence[rows])
        columns: dict[str, Array | None] = {
            "id": self.ids[rows],
            "path": None if self.paths is None else self.paths[rows],
            "given_label": self._names(self.given_labels[rows]),
            "suggested_label": self._names(suggested),
            "label_quality": self.label_quality[rows],
            "is_label_issue": self.is_label_issue[rows],
            "suggested_confidence": confidence,
            "is_unclear": unclear if unclear.any() else None,
            "unreadable": None if self.unreadable is None else self.unreadable[rows],
            "decided": None if self.decided is None else self.decided[rows],
            **{f"{COLUMN}{name}": of[rows] for name, of in (self.groups or {}).items()},
            "excerpt": None if self.excerpts is None else self.excerpts[rows],
            **{f"{VOTE}{name}": self._vote_names(of[rows]) for name, of in (self.votes or {}).items()},
        }
        return {name: values for name, values in columns.items() if values is not None}

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write findings.parquet (for programs), findings.csv (for people) and findings.json (settings and counts).

        The same findings give the same bytes. Each file is written whole or not at all. In the CSV, a text that a
        spreadsheet would run as a formula gets an apostrophe in front (OWASP).

        Args:
            folder: made if it is not there.

        Example:
            >>> import tempfile
            >>> findings = Findings.from_probs([[0.9, 0.1], [0.6, 0.4]], labels=[0, 1])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     findings.save(folder)
            ...     Findings.load(folder) == findings
            True
        """
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        columns = self._columns()
        content = {
            **self.summary(),
            "noise_rate": self.noise_facts["noise_rate"],
            "class_names": None if self.class_names is None else list(self.class_names),
            "threshold": self.threshold_info,
            **({} if self.noise is None else {"noise": self.noise._asdict()}),
            "transition_matrix": self.transition_matrix.tolist() if self.num_classes <= _MAX_WRITTEN else None,
        }
        findings_files.write(Path(folder), "jnpl.findings", pa.table(columns), _frame(columns), content)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Findings:
        """Read what `save` wrote.

        Args:
            folder: holds findings.parquet and findings.json, as `save` or `jnpl find DATA -o RUN` wrote them.

        Returns:
            Findings equal to those that were saved. Missing or other files are an InputError.

        Example: see `save`.
        """
        files = findings_files
        return cls(**files.read(Path(folder), "jnpl.findings", files.LabelFacts, files.label_fields))

    def worst_positions(self, most: int) -> Labels:
        """Return positions of at most `most` undecided samples with a quality, label issues first, then by quality.

        With a threshold per class, a sample that is no issue may have a lower quality than one that is.
        """
        return self._waiting(np.lexsort((self.label_quality, ~self.is_label_issue)))[:most]

    def _waiting(self, order: Labels) -> Labels:
        """Return those of some positions (M,) that have a quality and no decision."""
        return order[(~np.isnan(self.label_quality) & ~self.is_decided)[order]]

    @property
    def expected_wrong(self) -> float | None:
        """How many label issues are expected to be truly wrong; None where no noise rate is known."""
        return None if self.noise is None or self.is_withheld else float(self.chances[self.is_label_issue].sum())

    @property
    def look_wrong(self) -> bool:
        """Whether at least half of the label issues are expected to be wrong: else they are labels to check."""
        expected = self.expected_wrong
        return not self.is_withheld and (expected is None or expected >= self.is_label_issue.sum() / 2)


def _resolved(
    threshold: float | str, quality: Floats, given: Labels, num_classes: int, noise: NoiseEstimate | None
) -> dict[str, Any]:
    unlikely = None if noise is None else noise.unlikely
    info = resolve_threshold(threshold, quality, given, num_classes, calibrated=noise is not None, unlikely=unlikely)
    if noise is not None and noise.caveat == NO_SIGNAL:
        return {"rule": info["rule"], "value": 0.0, "reason": NO_SIGNAL, "asked": threshold}
    return {**info, "asked": threshold} if info["rule"] in ("precision", "budget") else info


def _calibrated(
    probs: Array,
    given: Labels,
    best: Labels,
    unseen: Array,
    expected_scale: float | None,
    skip: Mask,
    progress: Callable[[float], None] | None,
) -> tuple[Floats, Labels, Floats, Floats, NoiseEstimate]:
    """Return quality, suggested label, its confidence, that of `best`, all (N,), and the noise rate, calibrated by
    `unseen` (N, C).

    Where `unseen` tells the labels no better than chance, the quality is 1/2: nothing is known of any label.
    Else the order of the qualities is that of the given labels in `probs`. The suggested label is `best`, the likeliest
    other class there, if it is likelier than the given one by `probs` or by the calibrated probabilities.
    """
    if unseen.shape != probs.shape:
        raise InputError(f"unseen_probs must have the shape {probs.shape} of the probabilities, not {unseen.shape}")
    rows = np.arange(len(given))
    usable = ~skip & ~np.isnan(probs[:, 0]) & ~np.isnan(unseen[:, 0])
    if not usable.all():
        unseen = np.where(usable[:, None], unseen, np.nan)
    if usable.any() and not above_chance(unseen, given):
        unknown = np.where(usable, 0.5, np.nan)
        others = unknown / (probs.shape[1] - 1)
        return unknown, given, unknown, others, NoiseEstimate(0.5, 0.0, 1.0, 0.0, caveat=NO_SIGNAL)
    calibrated, noise = calibrate(unseen, given, best, expected_scale=expected_scale, progress=progress)
    quality, confidence = np.full(len(given), np.nan), np.full(len(given), np.nan)
    if usable.any():
        given_probs = probs[rows, given][usable]
        quality[usable] = monotone(given_probs, calibrated.quality[usable])
        share = calibrated.other_class[usable] / np.maximum(
            1 - calibrated.quality[usable], 1e-9
        )  # of the best class, if y is wrong
        confidence[usable] = (1 - quality[usable]) * np.clip(share, 0, 1)
        rate = float(1 - quality[usable].mean())  # but for the order of equal qualities, that of the model
        noise = noise._replace(
            rate=rate, low=min(noise.low, rate), high=max(noise.high, rate), unlikely=float((given_probs < 0.5).mean())
        )
        noise = of_few_samples(noise, unseen[usable], given[usable])
    stays = ~(confidence > quality) & ~(probs[rows, best] > probs[rows, given])
    return quality, np.where(stays, given, best), np.where(stays, quality, confidence), confidence, noise


def _likelier(suggested: Array, confidence: Array, given: Labels, quality: Array) -> Labels:
    """Return the suggested label where it is likelier than the given one, else the given one, (N,)."""
    better: Labels = np.where(np.clip(confidence, 0, 1) > np.clip(quality, 0, 1), suggested, given)
    return better


def _same(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict) and all(isinstance(value, np.ndarray) for value in a.values()):
        return a.keys() == b.keys() and all(_same(value, b[name]) for name, value in a.items())
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return type(a) is type(b) and a == b


def _frame(columns: dict[str, Array]) -> pd.DataFrame:
    """Return a data frame whose texts have dtype object under every version of pandas."""
    import pandas as pd  # noqa: PLC0415 - slow to import

    return pd.DataFrame({name: pd.Series(values, dtype=values.dtype) for name, values in columns.items()})
