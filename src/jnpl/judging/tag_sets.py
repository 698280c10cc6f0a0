"""Findings on samples whose label is the set of their tags, so that a review decides about sets as about labels.

Sets are numbered like classes, in the order in which they are met: a number holds within one process.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from jnpl.data.tags import tags_of_lists
from jnpl.internal.errors import InputError
from jnpl.judging.findings import Findings
from jnpl.judging.noise_model import Interval
from jnpl.judging.tag_findings import Mask, TagFindings

MARGIN = 0.1  # by which a correction must be likelier than what is given, to be made without a person
_MIN_FACTOR = 0.25  # by which the odds of a wrong tag are lowered at most


class TagSets:
    """Sets of tags, each a sorted tuple of tag numbers, and their numbers; sets are added when they are met.

    >>> sets = TagSets(("cat", "dog"))
    >>> sets.number([1, 0]), sets.number([]), sets.texts
    (0, 1, ['["cat", "dog"]', '[]'])
    """

    def __init__(self, tag_names: Sequence[str]) -> None:
        self.tag_names = tuple(tag_names)
        self.sets: list[tuple[int, ...]] = []
        self.texts: list[str] = []
        self._numbers: dict[tuple[int, ...], int] = {}
        self._lock = threading.Lock()

    def number(self, tags: Iterable[int]) -> int:
        """Return the number of a set; one with a tag that does not exist is an InputError."""
        key = tuple(sorted(set(tags)))
        if key and not 0 <= key[0] <= key[-1] < len(self.tag_names):
            raise InputError(f"there are tags 0 to {len(self.tag_names) - 1}, got {list(key)[:20]}")
        with self._lock:
            if key not in self._numbers:
                self._numbers[key] = len(self.sets)
                self.sets.append(key)
                self.texts.append(json.dumps([self.tag_names[tag] for tag in key], ensure_ascii=False))
            return self._numbers[key]

    def numbers(self, mask: Mask) -> npt.NDArray[np.int64]:
        """Return the numbers (N,) of the sets in a mask (N, T)."""
        packed, first, inverse = np.unique(np.packbits(mask, axis=1), axis=0, return_index=True, return_inverse=True)
        numbers = [self.number(np.flatnonzero(mask[row]).tolist()) for row in first.tolist()]
        return np.array(numbers, np.int64)[inverse.reshape(-1)] if len(packed) else np.zeros(0, np.int64)

    def mask(self, numbers: npt.NDArray[np.int64]) -> Mask:
        """Return (N, T) the tags in numbered sets (N,)."""
        chosen = np.zeros((len(numbers), len(self.tag_names)), bool)
        for row, number in enumerate(numbers.tolist()):
            chosen[row, list(self.sets[number])] = True
        return chosen

    def shown(self, number: int) -> str:
        """Return a set as people read it."""
        return " + ".join(self.tag_names[tag] for tag in self.sets[number]) or "no tag"

    def read(self, cells: Sequence[Any], where: str) -> list[str]:
        """Return lists of tags, in any form that tables may have, as the texts of sets."""
        if all(isinstance(cell, str) and not cell.strip() for cell in cells):
            return [self.texts[self.number([])]] * len(cells)
        tags = tags_of_lists(cells, where)
        number = {name: at for at, name in enumerate(self.tag_names)}
        if strange := [name for name in tags.names if name not in number]:
            raise InputError(f"{where} has the tag {strange[0]!r}, which is none of the run: {list(number)[:20]}")
        rows = [self.number(number[tags.names[at]] for at in np.flatnonzero(row)) for row in tags.given]
        return [self.texts[row] for row in rows]


@dataclass(frozen=True, eq=False, repr=False)
class TagSetFindings(Findings):
    """Findings whose labels are sets of tags; the quality of a label is that of its most doubtful tag.

    Args:
        tags: the findings on every tag.
        sets: the numbers of the sets, which are the labels.

    Example:
        >>> from jnpl.judging.tag_findings import TagFindings
        >>> tags = TagFindings(("cat", "dog"), np.array([[True, False]]), np.array([[0.9, 0.25]]), np.arange(1))
        >>> findings = TagSetFindings.of(tags)
        >>> findings.table[["given_label", "suggested_label", "label_quality"]].values.tolist()
        [['["cat"]', '["cat", "dog"]', 0.25]]
    """

    tags: TagFindings = field(kw_only=True)
    sets: TagSets = field(kw_only=True)

    @classmethod
    def of(cls, tags: TagFindings) -> TagSetFindings:
        """Return the findings on the sets of tags of all samples."""
        sets = TagSets(tags.tag_names)
        given, suggested = sets.numbers(tags.given), sets.numbers(tags.suggested)
        has_any = (~np.isnan(tags.quality)).any(1)
        quality = np.where(has_any, np.min(np.where(np.isnan(tags.quality), 1.0, tags.quality), axis=1), np.nan)
        is_decided = np.asarray(tags.is_decided.all(axis=1))
        return cls(
            given_labels=given,
            suggested_labels=suggested,
            label_quality=quality,
            suggested_confidence=np.where(suggested == given, quality, 1 - quality),
            num_classes=len(sets.sets),
            class_names=None,
            ids=tags.ids,
            paths=tags.paths,
            unreadable=tags.unreadable,
            threshold_info={"value": tags.threshold, "rule": "given", "reason": "given"},
            decided=is_decided if is_decided.any() else None,
            chance_wrong=1 - tags.sample_quality,
            tags=tags,
            sets=sets,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The sets as JSON lists of tags."""
        return tuple(self.sets.texts)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of ids, tag names and given tags."""
        return self.tags.fingerprint

    @property
    def pair_findings(self) -> TagFindings:
        """The findings on every tag; those of samples that a person has decided about are decided."""
        return replace(self.tags, decided=self.tags.is_decided | self.is_decided[:, None])

    def part(self, positions: npt.ArrayLike) -> TagSetFindings:
        """Return the findings of some samples, by position (M,), with the same threshold."""
        rows, of_samples = np.asarray(positions, np.int64), dict[str, Any]()
        for name in ("given", "quality", "ids", "paths", "unreadable", "decided", "index"):
            if (values := getattr(self.tags, name)) is not None:
                of_samples[name] = values[rows]
        chosen = super().part(rows)
        assert isinstance(chosen, TagSetFindings)  # noqa: S101 - for mypy
        return replace(chosen, tags=replace(self.tags, **of_samples))

    def issues_of(self, position: int) -> list[int]:
        """Return the tags of a sample that look wrong, worst first."""
        issues = np.flatnonzero(self.tags.is_issue[position])
        order = np.argsort(self.tags.quality[position, issues], kind="stable")
        return [int(tag) for tag in issues[order]]

    def turned_over(self, min_confidence: float | None = None) -> npt.NDArray[np.int64]:
        """Return (N,) the given sets with the tags turned over that are wrong with at least this probability.

        By default those where that is expected to help: wrong is likelier than right by 0.1, even if the rates of
        missing and extra tags are as low as their intervals allow.
        """
        tags = self.tags
        wrong = 1 - np.where(np.isnan(tags.quality), 1.0, tags.quality)
        if min_confidence is None:
            missing, extra = (None, None) if tags.noise is None else (tags.noise.missing, tags.noise.extra)
            factors = np.where(tags.given, _factor(extra), _factor(missing))
            wrong = factors * wrong / (factors * wrong + 1 - wrong + 1e-12)
            min_confidence = (1 + MARGIN) / 2
        return self.sets.numbers(np.logical_xor(tags.given, tags.is_issue & (wrong >= min_confidence)))

    def _names(self, labels: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        named = np.empty(len(labels), object)
        named[:] = [self.sets.texts[label] for label in labels.tolist()]
        return named


def _factor(rate: Interval | None) -> float:
    """Return by what the odds of a wrong tag are multiplied at the lower end of the rate's interval."""
    if rate is None or not 0 < rate.value < 1:
        return 1.0
    odds = rate.value / (1 - rate.value)
    return float(min(max(rate.low / (1 - min(rate.low, rate.value)) / odds, _MIN_FACTOR), 1.0))
