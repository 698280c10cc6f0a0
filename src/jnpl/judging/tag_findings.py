"""Findings on several tags per sample: which tags are missing, which are too many, and the files that hold this.

Every pair of a sample and a tag has a quality in 0..1, LOWER is worse: the probability that the pair is right as given,
the tag being there or not. The quality of a sample is the probability that all its pairs are right.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from jnpl.data.tags import can_be_judged, separator_for
from jnpl.internal.errors import InputError
from jnpl.internal.json_files import StoredFacts
from jnpl.judging import findings_files
from jnpl.judging.column_checks import checked_ids, checked_mask, checked_names, checked_texts
from jnpl.judging.noise_model import Interval
from jnpl.judging.threshold import resolve_threshold

if TYPE_CHECKING:
    import pandas as pd

Floats: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Array: TypeAlias = npt.NDArray[Any]

THRESHOLD = 0.5  # of the quality: pairs that are more likely wrong than right


@dataclass(frozen=True, eq=False)
class TagNoise:
    """How many tags are missing and extra, each with its 90 % interval.

    missing: share of the true tags that are not given; extra: share of the given tags that are not true. The columns of
    `missing_by_tag` and `extra_by_tag` (T, 3) are rate, low and high; nan for a tag that cannot be judged.
    """

    missing: Interval
    extra: Interval
    missing_by_tag: Floats
    extra_by_tag: Floats


@dataclass(frozen=True, eq=False, repr=False)
class TagFindings:
    """The quality of every pair of N samples and T tags, in the order of the data.

    Made by `jnpl.judging.tags.judge_tags`, or by `load`.

    Args:
        tag_names: (T,) names.
        given: (N, T) whether a sample has a tag.
        quality: (N, T) probability that this is right, LOWER is worse; nan for a tag that cannot be judged (see
            `jnpl.data.tags.can_be_judged`), and for samples that could not be read.
        ids: (N,) integers or strings.
        thresholds: (T,) probability by the head from which a new sample gets the tag (`jnpl predict`).
        noise: rates of missing and of extra tags; None if they are unknown.
        paths: (N,) paths of files, or None.
        unreadable: (N,) true where a sample could not be read, or None.
        threshold: the quality below which a pair is an issue.
        decided: (N, T) true for pairs that a person has decided about, or None. They are no issues.
        index: the index of the data frame that the samples are rows of, for `table`; it is not saved.

    Example:
        >>> findings = TagFindings(("cat", "dog"), np.array([[True, False]]), np.array([[0.9, 0.25]]), np.arange(1))
        >>> findings.table[["given_tags", "suggested_tags", "missing"]].values.tolist()
        [[['cat'], ['cat', 'dog'], ['dog']]]
        >>> findings.suspects[["id", "tag", "kind", "quality"]].values.tolist()
        [[0, 'dog', 'missing', 0.25]]
    """

    tag_names: tuple[str, ...]
    given: Mask
    quality: Floats
    ids: Array
    thresholds: Floats | None = None
    noise: TagNoise | None = None
    paths: Array | None = None
    unreadable: Mask | None = None
    threshold: float = THRESHOLD
    decided: Mask | None = None
    index: pd.Index[Any] | None = None

    def __post_init__(self) -> None:
        shape = (len(self.ids), len(self.tag_names))
        for name in ("given", "quality", "decided"):
            if (values := getattr(self, name)) is not None and values.shape != shape:
                raise InputError(f"{name} must be of shape {shape}, samples and tags, not {values.shape}")
        if not (np.isnan(self.quality) | ((self.quality >= 0) & (self.quality <= 1))).all():
            raise InputError("the quality of tags must lie in 0..1")
        object.__setattr__(self, "quality", self.quality.astype(np.float32).astype(np.float64))  # as it is saved

    def __len__(self) -> int:
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TagFindings):
            return NotImplemented
        return all(_same(getattr(self, of.name), getattr(other, of.name)) for of in fields(self) if of.name != "index")

    __hash__ = None  # type: ignore[assignment]  # equal by content

    def __repr__(self) -> str:
        return f"TagFindings({', '.join(f'{name}={value!r}' for name, value in self.summary().items())})"

    @property
    def is_decided(self) -> Mask:
        """(N, T) true for pairs that a person has decided about."""
        return np.zeros(self.given.shape, bool) if self.decided is None else self.decided

    @cached_property
    def is_issue(self) -> Mask:
        """(N, T) true where the given tag, or its absence, looks wrong."""
        return (self.quality < self.threshold) & ~self.is_decided

    @property
    def suggested(self) -> Mask:
        """(N, T) the given tags with every issue turned over."""
        return np.asarray(np.logical_xor(self.given, self.is_issue))

    @cached_property
    def sample_quality(self) -> Floats:
        """(N,) probability that all tags of a sample are right; nan where no pair has a quality."""
        has_any = (~np.isnan(self.quality)).any(1)
        return np.where(has_any, np.nanprod(self.quality, axis=1), np.nan)

    @property
    def is_label_issue(self) -> Mask:
        """(N,) true for samples with an issue."""
        return np.asarray(self.is_issue.any(axis=1))

    @property
    def judged(self) -> Mask:
        """(T,) true for tags that could be judged."""
        return can_be_judged(self.given)

    def tags_of(self, row: int, mask: Mask) -> list[str]:
        """Return the names of the tags that a mask (N, T) has in one row."""
        return [self.tag_names[at] for at in np.flatnonzero(mask[row]).tolist()]

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per sample, in the order of the data; tags are lists of names.

        Columns: id, path (of files), given_tags, suggested_tags, label_quality (of the sample), is_label_issue,
        missing, extra, unreadable (where a sample is).
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        issue = self.is_issue
        columns: dict[str, Any] = {"id": self.ids}
        if self.paths is not None:
            columns["path"] = self.paths
        columns |= {
            "given_tags": self._lists(self.given),
            "suggested_tags": self._lists(self.suggested),
            "label_quality": self.sample_quality,
            "is_label_issue": self.is_label_issue,
            "missing": self._lists(issue & ~self.given),
            "extra": self._lists(issue & self.given),
        }
        if self.unreadable is not None:
            columns["unreadable"] = self.unreadable
        frame = pd.DataFrame({name: pd.Series(values, dtype=values.dtype) for name, values in columns.items()})
        return frame if self.index is None else frame.set_axis(self.index)

    def pairs(self, below: float = 1.0, most: int | None = None) -> pd.DataFrame:
        """Return a row per sample and tag with a quality below a limit and no decision, worst first.

        Columns: position, id, tag, given, quality, is_issue, kind ("missing" or "extra", what the pair would be if it
        is wrong) and confidence (that it is wrong).
        """
        import pandas as pd  # noqa: PLC0415 - slow to import

        rows, tags = np.nonzero((self.quality < below) & ~self.is_decided)
        order = np.argsort(self.quality[rows, tags], kind="stable")[:most]
        rows, tags = rows[order], tags[order]
        given, quality = self.given[rows, tags], self.quality[rows, tags]
        return pd.DataFrame(
            {
                "position": rows,
                "id": self.ids[rows],
                "tag": np.array(self.tag_names, object)[tags],
                "given": given,
                "quality": quality,
                "is_issue": self.is_issue[rows, tags],
                "kind": np.where(given, "extra", "missing").astype(object),
                "confidence": 1 - quality,
            }
        )

    @property
    def suspects(self) -> pd.DataFrame:
        """The rows of `pairs` that are issues, worst first."""
        return self.pairs(self.threshold)

    @property
    def missing(self) -> pd.DataFrame:
        """The issues whose tag seems to be missing, worst first."""
        return self.suspects.query("not given").reset_index(drop=True)

    @property
    def extra(self) -> pd.DataFrame:
        """The issues whose tag seems to be too much, worst first."""
        return self.suspects.query("given").reset_index(drop=True)

    def worst_positions(self, most: int) -> npt.NDArray[np.int64]:
        """Return positions of at most `most` samples, those with an issue first, then by quality."""
        order = np.lexsort((self.sample_quality, ~self.is_label_issue))
        return order[~np.isnan(self.sample_quality)[order]][:most]

    def tag_summary(self) -> pd.DataFrame:
        """Return a row per tag: samples with it, issues that are missing and extra, and both rates with intervals."""
        import pandas as pd  # noqa: PLC0415 - slow to import

        issue = self.is_issue
        columns: dict[str, Any] = {"tag": np.array(self.tag_names, object), "count": self.given.sum(0)}
        columns |= {"missing": (issue & ~self.given).sum(0), "extra": (issue & self.given).sum(0)}
        if self.noise is not None:
            for kind, rates in (("missing", self.noise.missing_by_tag), ("extra", self.noise.extra_by_tag)):
                columns |= {f"{kind}_{name}": rates[:, at] for at, name in enumerate(("rate", "low", "high"))}
        return pd.DataFrame(columns)

    def summary(self) -> dict[str, Any]:
        """Return the findings in a few numbers: `missing` and `extra` count issues."""
        issue = self.is_issue
        return {
            "samples": len(self),
            "scored": int((~np.isnan(self.sample_quality)).sum()),
            "tags": len(self.tag_names),
            "issues": int(self.is_label_issue.sum()),
            "missing": int((issue & ~self.given).sum()),
            "extra": int((issue & self.given).sum()),
            **self.noise_facts,
        }

    @property
    def noise_facts(self) -> dict[str, Any]:
        """Rates of missing and extra tags with their intervals, as `--json` has them."""
        if self.noise is None:
            return {}
        rates = {"missing": self.noise.missing, "extra": self.noise.extra}
        return {f"{name}_rate": rate.value for name, rate in rates.items()} | {
            f"{name}_interval": [rate.low, rate.high] for name, rate in rates.items()
        }

    @property
    def noise_sentence(self) -> str | None:
        """Both rates in words."""
        if self.noise is None:
            return None
        shown = [
            f"{rate.value:.1%} ({rate.low:.1%} to {rate.high:.1%})" for rate in (self.noise.missing, self.noise.extra)
        ]
        return f"about {shown[0]} of the true tags are missing, and {shown[1]} of the given tags are extra"

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of ids, names and given tags: what the decisions of a person refer to."""
        digest = hashlib.sha256(repr(self.tag_names).encode("utf-8", "backslashreplace"))
        digest.update(np.packbits(self.given).tobytes())
        digest.update("\0".join(map(str, self.ids.tolist())).encode("utf-8", "backslashreplace"))
        return digest.hexdigest()

    def with_threshold(self, threshold: float | str) -> TagFindings:
        """Return the same findings with another threshold of the quality of pairs.

        Args:
            threshold: a number, or a rule of `Findings.from_probs`: "auto", "precision=0.9" or "budget=200" pairs.
        """
        if threshold in ("per-class", "1/c"):
            raise InputError(f"the threshold {threshold!r} has no meaning for several tags per sample")
        quality = np.where(self.is_decided, np.nan, self.quality).ravel()
        info = resolve_threshold(threshold, quality, np.zeros(quality.size, np.int64), 2, calibrated=True)
        return replace(self, threshold=float(info["value"]))

    def joined(self, ids: Array, given: Mask, order: npt.NDArray[np.int64]) -> TagFindings:
        """Return findings with further samples, whose tags (M, T) have no quality, in another order (N + M,).

        Args:
            ids: (N + M,) before they are put in order.
            given: (M, T) the tags of the further samples.
            order: of all samples.
        """
        unknown, no = np.full(given.shape, np.nan), np.zeros(given.shape, bool)
        return TagFindings(
            self.tag_names,
            np.concatenate([self.given, given])[order],
            np.concatenate([self.quality, unknown])[order],
            ids[order],
            self.thresholds,
            self.noise,
            threshold=self.threshold,
            decided=None if self.decided is None else np.concatenate([self.decided, no])[order],
        )

    def _lists(self, mask: Mask) -> Array:
        """Return (N,) lists of the names that a mask (N, T) has."""
        lists = np.empty(len(mask), object)
        lists[:] = [[] for _ in range(len(mask))]
        for row, tag in zip(*(at.tolist() for at in np.nonzero(mask)), strict=True):
            lists[row].append(self.tag_names[tag])
        return lists

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write findings.parquet, findings.csv and findings.json, each whole or not at all.

        In the CSV, tags are separated by `;`, or by another mark if a tag has that in its name.

        Args:
            folder: made if it is not there.

        Example:
            >>> import tempfile
            >>> findings = TagFindings(("cat", "dog"), np.array([[True, False]]), np.array([[0.9, 0.25]]), np.arange(1))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     findings.save(folder)
            ...     TagFindings.load(folder) == findings
            True
        """
        import pyarrow as pa  # noqa: PLC0415 - slow to import

        size, names = len(self.tag_names), pa.list_(pa.string())
        columns = {
            name: pa.array(values.tolist(), names) if isinstance(values.iloc[0], list) else pa.array(values.to_numpy())
            for name, values in self.table.items()
        }
        columns["quality"] = pa.FixedSizeListArray.from_arrays(
            pa.array(self.quality.astype(np.float32).ravel(), pa.float32()), size
        )
        if self.decided is not None:
            columns["decided"] = pa.FixedSizeListArray.from_arrays(pa.array(self.decided.ravel()), size)
        mark = separator_for(self.tag_names)
        shown = self.table.map(lambda cell: mark.join(cell) if isinstance(cell, list) else cell)
        content = {
            **self.summary(),
            "tag_names": list(self.tag_names),
            "threshold": self.threshold,
            "thresholds": None if self.thresholds is None else self.thresholds.tolist(),
            "noise": None
            if self.noise is None
            else {of.name: _plain(getattr(self.noise, of.name)) for of in fields(TagNoise)},
        }
        findings_files.write(Path(folder), "jnpl.tag-findings", pa.table(columns), shown, content)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> TagFindings:
        """Read what `save` wrote; missing or other files are an InputError. Example: see `save`."""
        return cls(**findings_files.read(Path(folder), "jnpl.tag-findings", _TagFacts, _stored))


_Rate = Annotated[float, Field(ge=0, le=1)]
_Rates = tuple[_Rate, _Rate, _Rate]


class _TagNoiseFacts(StoredFacts):
    missing: _Rates
    extra: _Rates
    missing_by_tag: list[_Rates | None]
    extra_by_tag: list[_Rates | None]


class _TagFacts(findings_files.FilesFacts):
    """findings.json, as far as it is used."""

    tag_names: list[str]
    threshold: _Rate
    thresholds: list[_Rate] | None = None
    noise: _TagNoiseFacts | None = None


def _stored(table: Any, facts: _TagFacts) -> dict[str, Any]:
    """Return the fields of `TagFindings` after a check."""
    names, samples = checked_names(facts.tag_names, len(facts.tag_names)), facts.samples
    columns = set(table.column_names)
    shape = (samples, len(facts.tag_names))
    number = {name: at for at, name in enumerate(facts.tag_names)}
    given = np.zeros(shape, bool)
    for row, tags in enumerate(table["given_tags"].to_pylist()):
        given[row, [number[tag] for tag in tags]] = True
    noise = None
    if (stored := facts.noise) is not None:
        missing, extra = (_by_tag(rates, shape[1]) for rates in (stored.missing_by_tag, stored.extra_by_tag))
        noise = TagNoise(Interval(*stored.missing), Interval(*stored.extra), missing, extra)
    if facts.thresholds is not None and len(facts.thresholds) != shape[1]:
        raise InputError(f"{len(facts.thresholds)} thresholds for {shape[1]} tags")
    return {
        "tag_names": names,
        "given": given,
        "quality": _matrix(table, "quality", shape).astype(np.float64),
        "ids": checked_ids(table["id"].to_numpy(), samples),
        "thresholds": None if facts.thresholds is None else np.array(facts.thresholds),
        "noise": noise,
        "paths": checked_texts("paths", table["path"].to_pylist(), samples) if "path" in columns else None,
        "unreadable": checked_mask(table["unreadable"].to_numpy(), samples) if "unreadable" in columns else None,
        "threshold": facts.threshold,
        "decided": _matrix(table, "decided", shape).astype(bool) if "decided" in columns else None,
    }


def _matrix(table: Any, name: str, shape: tuple[int, int]) -> Array:
    values = table[name].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    if values.size != shape[0] * shape[1]:
        raise InputError(f"the column {name} has {values.size} numbers, not {shape[0]} x {shape[1]}")
    matrix: Array = values.reshape(shape)
    return matrix


def _by_tag(rates: list[_Rates | None], tags: int) -> Floats:
    if len(rates) != tags:
        raise InputError(f"{len(rates)} noise rates for {tags} tags")
    return np.array([(np.nan,) * 3 if rate is None else rate for rate in rates])


def _plain(rates: Interval | Floats) -> list[Any]:
    if isinstance(rates, Interval):
        return list(rates)
    return [None if np.isnan(row[0]) else row.tolist() for row in rates]


def _same(a: object, b: object) -> bool:
    if isinstance(a, TagNoise) and isinstance(b, TagNoise):
        return all(_same(getattr(a, of.name), getattr(b, of.name)) for of in fields(TagNoise))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return type(a) is type(b) and a == b
