"""Samples that surely have a class, to compare a suspect with: the nearest ones by its vector."""

from typing import Any

import numpy as np
import numpy.typing as npt

from jnpl.analysis.short_vectors import mean_views
from jnpl.data.source import Source
from jnpl.judging.findings import Findings
from jnpl.judging.tag_sets import TagSetFindings

_POOL = 1000  # surest samples of a class among which the nearest are searched for
_BLOCK = 4096  # rows compared at a time

Positions = npt.NDArray[np.int64]


def vectors_of(source: Source) -> npt.NDArray[Any] | None:
    """Return the vectors (N, F) or (N, V, F) of a source; None if it has none in one place."""
    return source.inputs.array() if source.kind == "vector" else None


def surest(findings: Findings, label: int) -> Positions:
    """Return samples (M,) of a given label that nobody suspects, those of the best quality, at most 1,000.

    Where samples have several tags, `label` is a tag.
    """
    if isinstance(findings, TagSetFindings):
        quality = findings.tags.quality[:, label]
        fine = np.flatnonzero(findings.tags.given[:, label] & (quality >= findings.tags.threshold))
    else:
        quality, given = findings.label_quality, findings.given_labels
        sure = ~findings.is_label_issue & ~np.isnan(quality) & (findings.suggested_labels == given)
        fine = np.flatnonzero((given == label) & sure)
    order: Positions = fine[np.argsort(-quality[fine], kind="stable")[:_POOL]]
    return order


class UnitVectors:
    """The vectors of a source, of length 1, so that their product is the cosine similarity.

    The columns of a table are standardised first; embeddings are compared as they are.
    """

    def __init__(self, values: npt.NDArray[Any]) -> None:
        self._values, self._scale = values, None
        if values.ndim == 2:  # embeddings have views
            some = values[:: max(len(values) // 50_000, 1)]
            deviation = some.std(axis=0)
            self._scale = some.mean(axis=0), np.where(deviation > 1e-6, deviation, 1).astype(np.float32)

    def of(self, positions: Positions) -> npt.NDArray[np.float32]:
        """Return the vectors of some samples: (M, F)."""
        rows = mean_views(self._values, positions)
        if self._scale is not None:
            rows = (rows - self._scale[0]) / self._scale[1]
        unit: npt.NDArray[np.float32] = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return unit

    def nearest(self, position: int, among: Positions, count: int) -> list[int]:
        """Return those of `among` (M,) that are most similar to a sample, by cosine similarity, without itself."""
        among = among[among != position]
        vector = self.of(np.array([position]))[0]
        parts = [self.of(among[start : start + _BLOCK]) @ vector for start in range(0, len(among), _BLOCK)]
        if not parts:
            return []
        best = np.argsort(-np.concatenate(parts), kind="stable")[:count]
        return [int(at) for at in among[best]]


def evidence(source: Source, findings: Findings, positions: Positions) -> dict[int, dict[int, int]]:
    """Return for suspects (M,) the nearest samples that are surely of the given and of the suggested class.

    Returns:
        position -> class number -> position of the sample; empty without vectors. Where samples have several tags, the
        numbers are those of the two tags that look wrong most.
    """
    values = vectors_of(source)
    if values is None or not len(positions):
        return {}
    vectors, nearest_of = UnitVectors(values), {int(at): dict[int, int]() for at in positions}
    if isinstance(findings, TagSetFindings):
        compared = np.array([[*findings.issues_of(at), -1, -1][:2] for at in positions.tolist()])
    else:
        suggested = np.where(findings.is_unclear, findings.others[0], findings.suggested_labels)[positions]
        compared = np.stack([findings.given_labels[positions], suggested], axis=1)
    for label in np.unique(compared[compared >= 0]).tolist():
        pool = surest(findings, label)
        rows = positions[(compared == label).any(axis=1)]
        if not len(pool):
            continue
        unit = vectors.of(pool)
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            best = (vectors.of(block) @ unit.T).argmax(axis=1)
            for at, example in zip(block.tolist(), pool[best].tolist(), strict=True):
                nearest_of[at][label] = example
    return {at: nearest for at, nearest in nearest_of.items() if nearest}
