"""The samples of a run in the order of their label quality, and which of them a filter selects.

All columns are arrays, so that a filter over a million samples takes milliseconds and memory does not grow with use.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from jnpl.internal.errors import InputError, one_line
from jnpl.internal.json_files import parse_json
from jnpl.judging.findings import Findings
from jnpl.judging.findings_files import checked_noise, checked_threshold
from jnpl.judging.tag_findings import TagFindings
from jnpl.judging.tag_sets import TagSetFindings
from jnpl.judging.threshold import as_threshold

Mask: TypeAlias = "npt.NDArray[np.bool_]"
Positions: TypeAlias = "npt.NDArray[np.int64]"
ListName: TypeAlias = Literal["suspects", "duplicates", "outliers", "all"]
VerdictName: TypeAlias = Literal["any", "other", "doubt", "fine"]
DecidedName: TypeAlias = Literal["any", "no", "yes", "keep", "relabel", "drop", "unsure"]
CANDIDATES = 4  # most probable classes that are kept of a sample


@dataclass(frozen=True, eq=False)
class Ranking:
    """The findings by which the samples are listed: of the run (round 0), or of a head trained with decisions."""

    findings: Findings  # on the N samples, without the decisions of this review
    candidates: npt.NDArray[np.int32] | None = None  # (N, K) most probable classes; None: computed when one is shown
    candidate_probs: npt.NDArray[np.float32] | None = None  # (N, K) their probabilities
    number: int = 0  # of the round

    @property
    def suggested(self) -> Positions:
        """(N,) class numbers."""
        return self.findings.suggested_labels

    @property
    def quality(self) -> npt.NDArray[np.float64]:
        """(N,) label quality of the given label; nan where unknown."""
        return self.findings.label_quality

    @property
    def confidence(self) -> npt.NDArray[np.float64]:
        """(N,) of the suggested label."""
        return self.findings.suggested_confidence

    @property
    def is_suspect(self) -> Mask:
        """(N,) label issues."""
        return self.findings.is_label_issue

    def with_given(self, label: int) -> Mask:
        """Return the samples (N,) with a given label."""
        return np.asarray(self.findings.given_labels == label)

    def with_suggested(self, label: int) -> Mask:
        """Return the samples (N,) with a suggested label."""
        return np.asarray(self.suggested == label)

    def pairs(self, undecided: Mask, most: int) -> list[dict[str, Any]]:
        """Return the most frequent pairs (given -> suggested) of suspects, how many there are and are undecided."""
        given, num_classes = self.findings.given_labels, len(self.findings.names)
        moved = np.flatnonzero(self.is_suspect & (self.suggested != given))
        codes = given[moved] * num_classes + self.suggested[moved]
        kinds, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
        open_counts = np.bincount(inverse, weights=undecided[moved], minlength=len(kinds)).astype(int)
        order = np.lexsort((kinds, -counts, -open_counts))[:most]
        return [
            {
                "given": int(kinds[at] // num_classes),
                "suggested": int(kinds[at] % num_classes),
                "count": int(counts[at]),
                "undecided": int(open_counts[at]),
            }
            for at in order.tolist()
        ]

    @cached_property
    def order(self) -> Positions:
        """(N,) positions, suspects first, the worst quality first, unknown qualities last."""
        return np.lexsort((self.quality, ~self.is_suspect))

    def to_bytes(self) -> bytes:
        """Return what differs from the findings of the run as the content of an .npz."""
        file, noise = io.BytesIO(), self.findings.noise
        facts = {"threshold": self.findings.threshold_info, "noise": None if noise is None else noise._asdict()}
        arrays = {
            "suggested": self.suggested,
            "quality": self.quality,
            "confidence": self.confidence,
            "other": self.findings.others[0],
            "other_confidence": self.findings.others[1],
            "facts": np.array(json.dumps(facts)),
            **({} if self.candidates is None else {"candidates": self.candidates}),
            **({} if self.candidate_probs is None else {"candidate_probs": self.candidate_probs}),
        }
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its other parameter is no array
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, number: int, findings: Findings) -> Ranking:
        """Return what `to_bytes` wrote, about the samples of these findings."""
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            facts = parse_json(str(arrays["facts"]))
            _check(arrays, len(findings.ids), findings.num_classes)
            learnt = replace(
                findings,
                suggested_labels=arrays["suggested"],
                label_quality=arrays["quality"],
                suggested_confidence=arrays["confidence"],
                other_labels=arrays["other"],
                other_confidence=arrays["other_confidence"],
                threshold_info=checked_threshold(facts["threshold"], findings.num_classes),
                noise=None if facts["noise"] is None else checked_noise(facts["noise"]),
            )
        except Exception as error:  # a damaged .npz may raise anything
            raise InputError(f"the ranking of Learn in review.sqlite cannot be used: {one_line(error)}") from error
        if (asked := findings.threshold_info.get("asked")) is not None:  # by `jnpl report --replace`
            learnt = learnt.with_threshold(as_threshold(str(asked)))
        return cls(learnt, arrays.get("candidates"), arrays.get("candidate_probs"), number)


@dataclass(frozen=True, eq=False)
class TagRanking(Ranking):
    """The ranking of samples with several tags: filters and pairs are about single tags, extra or missing ones."""

    tags: TagFindings = field(kw_only=True)

    def with_given(self, label: int) -> Mask:
        """Return the samples (N,) whose given tag seems to be extra."""
        return self._issues(label, given=True)

    def with_suggested(self, label: int) -> Mask:
        """Return the samples (N,) on which a tag seems to be missing."""
        return self._issues(label, given=False)

    def _issues(self, tag: int, *, given: bool) -> Mask:
        if not 0 <= tag < len(self.tags.tag_names):
            raise InputError(f"there are tags 0 to {len(self.tags.tag_names) - 1}, got {tag}")
        return np.asarray(self.tags.is_issue[:, tag] & (self.tags.given[:, tag] == given))

    def pairs(self, undecided: Mask, most: int) -> list[dict[str, Any]]:
        """Return how many issues each tag has, extra (as `given`) and missing ones (as `suggested`)."""
        rows: list[dict[str, Any]] = []
        for given in (True, False):
            issues = self.tags.is_issue & (self.tags.given == given)
            counts, open_counts = issues.sum(0), issues[undecided].sum(0)
            for tag in np.flatnonzero(counts).tolist():
                pair = {"given": tag, "suggested": None} if given else {"given": None, "suggested": tag}
                rows.append(pair | {"count": int(counts[tag]), "undecided": int(open_counts[tag])})
        return sorted(rows, key=lambda row: (-row["undecided"], -row["count"]))[:most]


def ranking_of(findings: Findings) -> Ranking:
    """Return the ranking by the findings of a run."""
    return TagRanking(findings, tags=findings.tags) if isinstance(findings, TagSetFindings) else Ranking(findings)


def _check(arrays: dict[str, npt.NDArray[Any]], samples: int, classes: int) -> None:
    """Raise an InputError unless the arrays of a ranking are about so many samples and classes."""
    for name, values in arrays.items():
        if name == "facts":
            continue
        is_class = name in ("suggested", "other", "candidates")
        with np.errstate(invalid="ignore"):
            lowest = -1 if name in ("other", "candidates") else 0  # -1: of dropped samples
            inside = (values >= lowest) & (values < classes if is_class else values <= 1)
        right = values.dtype.kind == ("i" if is_class else "f") and (inside | (values != values)).all()  # noqa: PLR0124
        if not right or values.shape[:1] != (samples,) or values.ndim > 1 + name.startswith("candidate"):
            raise InputError(f"{name} is {values.dtype} of shape {values.shape}, with values that cannot be")


class Filter(BaseModel):
    """Which samples are listed, as the page asks for them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # suspects; samples in groups of near duplicates with different labels; outliers; all samples
    list: ListName = "suspects"
    given: int | None = None  # class number of the given label
    suggested: int | None = None  # class number of the suggested label
    low: float = Field(0.0, ge=0, le=1)  # smallest confidence of the suggested label
    high: float = Field(1.0, ge=0, le=1)  # largest confidence of the suggested label
    # "other", another label is suggested; "doubt", a suspect without a better label; "fine", no suspect
    verdict: VerdictName = "any"
    decided: DecidedName = "any"  # "no", "yes", or one of the actions
    group: int | None = Field(None, ge=0)  # number of the group, such as an annotator, in the list of all groups
    search: str = Field("", max_length=200)  # part of the id (file name) or of the text, in upper or lower case


def mask_of(wanted: Filter, ranking: Ranking, given: Positions, special: Mask | None, matching: Mask | None) -> Mask:
    """Return the samples (N,) that a filter selects, whether decided or not.

    `special` (N,) are the members of the lists "duplicates" and "outliers", None if the run did not search for them;
    `matching` (N,) those that match the search, None without one.
    """
    mask = np.zeros(len(given), bool) if special is None else special.copy()
    if wanted.list in ("suspects", "all"):
        mask = ranking.is_suspect | (wanted.list == "all")
    if wanted.given is not None:
        mask &= ranking.with_given(wanted.given)
    if wanted.suggested is not None:
        mask &= ranking.with_suggested(wanted.suggested)
    if wanted.low > 0:
        mask &= ranking.confidence >= np.float32(wanted.low)
    if wanted.high < 1:
        mask &= ranking.confidence <= np.float32(wanted.high)
    if wanted.verdict == "fine":
        mask &= ~ranking.is_suspect
    elif wanted.verdict != "any":
        mask &= ranking.is_suspect & ((ranking.suggested != given) == (wanted.verdict == "other"))
    if matching is not None:
        mask &= matching
    return mask
