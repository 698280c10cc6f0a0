"""The samples of a run in the order of their label quality, and which of them a filter selects.

All columns are arrays, so that a filter over a million samples takes milliseconds and memory does not grow with use.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    import numpy.typing as npt

    from jnpl.judging.findings import Findings

Mask: TypeAlias = "npt.NDArray[np.bool_]"
Positions: TypeAlias = "npt.NDArray[np.int64]"
ListName: TypeAlias = Literal["suspects", "duplicates", "outliers", "all"]
VerdictName: TypeAlias = Literal["any", "other", "doubt", "fine"]
DecidedName: TypeAlias = Literal["any", "no", "yes", "keep", "relabel", "drop", "unsure"]
CANDIDATES = 4  # most probable classes that are kept of a sample


@dataclass(frozen=True, eq=False)
class Ranking:
    """Quality and suggested label of N samples, from the run (round 0) or from a head trained with decisions."""

    suggested: npt.NDArray[np.int32]  # (N,) class numbers
    quality: npt.NDArray[np.float32]  # (N,) label quality of the given label; nan where unknown
    confidence: npt.NDArray[np.float32]  # (N,) of the suggested label
    is_suspect: Mask  # (N,) label issues
    # (N, K) most probable classes, or None if they are computed when a sample is shown
    candidates: npt.NDArray[np.int32] | None = None
    candidate_probs: npt.NDArray[np.float32] | None = None  # (N, K) their probabilities
    number: int = 0  # of the round

    @classmethod
    def from_findings(cls, findings: Findings) -> Ranking:
        """Return the ranking of a run."""
        return cls(
            findings.suggested_labels.astype(np.int32),
            findings.label_quality.astype(np.float32),
            findings.suggested_confidence.astype(np.float32),
            findings.is_label_issue.copy(),
        )

    @cached_property
    def order(self) -> Positions:
        """(N,) positions, suspects first, the worst quality first, unknown qualities last."""
        order: Positions = np.lexsort((self.quality, ~self.is_suspect))
        return order

    def to_bytes(self) -> bytes:
        """Return the arrays as the content of an .npz."""
        file = io.BytesIO()
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        arrays.pop("order", None)
        np.savez(file, **arrays)  # type: ignore[arg-type]  # its other parameter is no array
        return file.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, number: int) -> Ranking:
        """Return what `to_bytes` wrote."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return replace(cls(**{name: arrays[name] for name in arrays.files}), number=number)


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
    search: str = Field("", max_length=200)  # part of the id (file name) or of the text, in upper or lower case


def mask_of(wanted: Filter, ranking: Ranking, given: Positions, special: Mask | None, matching: Mask | None) -> Mask:
    """Return the samples (N,) that a filter selects, whether decided or not.

    Args:
        ranking: of the N samples.
        special: (N,) members of the list, for "duplicates" and "outliers"; None if the run did not search for them.
        matching: (N,) samples that match the search; None without one.
    """
    if wanted.list == "suspects":
        mask = ranking.is_suspect.copy()
    elif wanted.list == "all":
        mask = np.ones(len(given), bool)
    else:
        mask = np.zeros(len(given), bool) if special is None else special.copy()
    if wanted.given is not None:
        mask &= given == wanted.given
    if wanted.suggested is not None:
        mask &= ranking.suggested == wanted.suggested
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


def pairs(ranking: Ranking, given: Positions, undecided: Mask, num_classes: int, most: int) -> list[dict[str, Any]]:
    """Return the most frequent pairs (given -> suggested) of suspects, with their counts and how many are undecided."""
    moved = np.flatnonzero(ranking.is_suspect & (ranking.suggested != given))
    codes = given[moved] * num_classes + ranking.suggested[moved]
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
