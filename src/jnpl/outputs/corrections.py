"""Corrected labels, from findings and decisions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from jnpl.data.label_files import LabelRows, WithoutLabel, place_labels
from jnpl.data.tags import separator_for
from jnpl.internal.errors import InputError
from jnpl.internal.tables import suffix_of, table_writer
from jnpl.judging.findings import Findings
from jnpl.judging.tag_sets import MARGIN, TagSetFindings, TagSets

if TYPE_CHECKING:
    from jnpl.run_folder import LabelledSample

Labels: TypeAlias = npt.NDArray[np.int64]


_MIN_FACTOR = 0.25  # by which the odds of a wrong label are lowered at most


class ExpectedWrong(NamedTuple):
    """Expected number of wrong labels before and after a correction, each with its 90 % interval."""

    before: float
    before_interval: tuple[float, float]
    after: float
    after_interval: tuple[float, float]


@dataclass(frozen=True, eq=False)
class CorrectedLabels:
    """Corrected labels in the order of the data, without the samples that are left out.

    `rows` are positions in the findings (M,); `labels` class numbers (M,); `decided` is true for the samples of the
    findings (N,) that have a decision.
    """

    findings: Findings
    rows: Labels
    labels: Labels
    decided: npt.NDArray[np.bool_]

    @property
    def changed(self) -> npt.NDArray[np.bool_]:
        """(M,) true where the label differs from the given one."""
        return np.asarray(self.labels != self.findings.given_labels[self.rows])

    @property
    def dropped(self) -> int:
        """Number of samples that are left out."""
        return len(self.findings.given_labels) - len(self.rows)

    @property
    def uncertain(self) -> int:
        """Number of label issues among the rows that keep their label without a decision."""
        open_issues = self.findings.is_label_issue[self.rows] & ~self.decided[self.rows]
        return int((open_issues & ~self.changed).sum())

    def expected_wrong(self) -> ExpectedWrong | None:
        """Return how many labels are expected to be wrong before and after; None where no noise rate is known.

        A decision counts as right. The interval after the correction is in proportion to that before it.
        """
        findings, left = self.findings, self.findings.wrong_left
        if left is None or findings.noise is None or findings.noise.rate <= 0 or findings.is_withheld:
            return None
        chances, before = findings.chances, float(np.nansum(findings.chances))
        scored = np.count_nonzero(~np.isnan(findings.label_quality))
        quality, confidence = findings.label_quality[self.rows], findings.suggested_confidence[self.rows]
        better = 1 - confidence * chances[self.rows] / np.maximum(1 - quality, 1e-9)
        after = np.where(self.changed, better, chances[self.rows])
        total = float(np.nansum(np.where(self.decided[self.rows], 0.0, after)))
        low, high = (total * end / max(left.value, 1e-12) for end in left[1:])
        return ExpectedWrong(before, (findings.noise.low * scored, findings.noise.high * scored), total, (low, high))

    def tags(self) -> Iterator[tuple[list[str], list[str]]]:
        """Yield the given and the corrected tags of each sample; nothing where samples have one label."""
        if (sets := self.tag_sets) is not None:
            for given, label in zip(self.findings.given_labels[self.rows].tolist(), self.labels.tolist(), strict=True):
                yield tuple([sets.tag_names[tag] for tag in sets.sets[number]] for number in (given, label))  # type: ignore[misc]

    @property
    def tag_sets(self) -> TagSets | None:
        """The numbers of the sets of tags, where samples have several; else None."""
        return self.findings.sets if isinstance(self.findings, TagSetFindings) else None

    def table(self) -> pd.DataFrame:
        """Return M rows of id, label, given_label, changed, or id, tags, given_tags, changed; labels by name."""
        if self.tag_sets is not None:
            columns = dict(zip(("given_tags", "tags"), zip(*self.tags(), strict=True), strict=True))
            ids = self.findings.ids[self.rows]
            return pd.DataFrame(
                {"id": ids, "tags": columns["tags"], "given_tags": columns["given_tags"], "changed": self.changed}
            )
        names, ids = self.findings.names, self.findings.ids[self.rows]
        texts = isinstance(names[0], str)

        def named(labels: Labels) -> Any:
            by_name = [names[label] for label in labels.tolist()]
            return pd.array(by_name, dtype="string") if texts else np.array(by_name, np.int64)

        return pd.DataFrame(
            {
                "id": ids if ids.dtype.kind in "iu" else pd.array(ids.tolist(), dtype="string"),
                "label": named(self.labels),
                "given_label": named(self.findings.given_labels[self.rows]),
                "changed": self.changed,
            }
        )

    @contextmanager
    def writing(self, path: str | os.PathLike[str]) -> Iterator[None]:
        """Write `table` as .csv, .parquet or .json; the file appears when the block has succeeded.

        In a .csv, tags are separated as in findings.csv.
        """
        table = self.table()
        if self.tag_sets is not None and suffix_of(path) == ".csv":
            mark = separator_for(self.tag_sets.tag_names)
            table = table.assign(**{name: [mark.join(cell) for cell in table[name]] for name in ("tags", "given_tags")})
        with table_writer(path) as write:
            write(table)
            yield


def correct(
    findings: Findings,
    *,
    decisions: Mapping[str, Any] | LabelRows | Labels | None = None,
    min_confidence: float | None = None,
    drop: bool = False,
    suggest: bool | None = None,
) -> CorrectedLabels:
    """Return the labels after correction by decisions and suggested labels.

    Args:
        findings: the findings of a run.
        decisions: id -> label, rows of them, or (N,) class numbers, -1 for none; `WithoutLabel.DROP` in place of a
            label leaves the sample out, `UNSURE` keeps its label, whatever is suggested. Without decisions, an issue
            gets its suggested label where that is expected to help: the suggestion is likelier than not, and likelier
            than the given label by 0.1, even if the noise rate is as low as its interval allows. With them, all other
            samples keep their labels, unless `min_confidence` is given too.
        min_confidence: issues without a decision get their suggested label if its confidence is at least this.
        drop: leave out issues that have no decision and keep their label; unsure ones stay.
        suggest: change issues without a decision where that is expected to help; by default only without decisions.

    Example:
        >>> from jnpl import Findings
        >>> findings = Findings.from_probs([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]], [0, 0, 0], class_names=["cat", "dog"])
        >>> correct(findings, min_confidence=0.7).table()[["label", "given_label", "changed"]]
          label given_label  changed
        0   cat         cat    False
        1   dog         cat     True
        2   cat         cat    False
        >>> correct(findings, decisions={"2": "dog"}).labels
        array([0, 0, 1])
    """
    if min_confidence is not None and not 0 <= min_confidence <= 1:
        raise InputError(f"min_confidence must lie in 0..1, got {min_confidence:g}")
    labels = findings.given_labels.copy()
    decided, lost, is_unsure = np.zeros((3, len(labels)), bool)
    if decisions is not None:
        chosen = decisions if isinstance(decisions, np.ndarray) else place_decisions(decisions, findings)
        decided, lost = chosen >= 0, chosen == WithoutLabel.DROP.value
        is_unsure = chosen == WithoutLabel.UNSURE.value
        labels[decided] = chosen[decided]
    open_issues = findings.is_label_issue & ~decided
    if min_confidence is not None or (decisions is None if suggest is None else suggest):
        if isinstance(findings, TagSetFindings):
            suggested = findings.turned_over(min_confidence)
            sure = open_issues & (suggested != findings.given_labels)
        else:
            suggested = findings.suggested_labels
            is_sure = findings.suggested_confidence >= (min_confidence or 0)
            sure = open_issues & (_helps(findings) if min_confidence is None else is_sure)
        sure &= ~is_unsure
        labels[sure] = suggested[sure]
    if drop:
        lost |= open_issues & ~is_unsure & (labels == findings.given_labels)
    kept = np.flatnonzero(~lost)
    if not len(kept):
        raise InputError("no sample is left: every one is dropped, or an issue without a better label")
    return CorrectedLabels(findings, kept, labels[kept], decided)


def place_decisions(decisions: Mapping[str, Any] | LabelRows, findings: Findings) -> Labels:
    """Return decisions by id as class numbers (N,), -1 for none, or the value of a `WithoutLabel`."""
    listed = decisions if isinstance(decisions, list) else list(decisions.items())
    if isinstance(findings, TagSetFindings):
        labels = [label for _, label in listed if not isinstance(label, WithoutLabel)]
        named = iter(findings.sets.read(labels, "the table of decisions") if labels else [])
        listed = [(name, label if isinstance(label, WithoutLabel) else next(named)) for name, label in listed]
    names = findings.names
    return place_labels(listed, findings.ids, names, table_name="the decisions name", data_name="the run")


def _helps(findings: Findings) -> npt.NDArray[np.bool_]:
    """Return where (N,) the suggested label is expected to be better, at the lower end of the noise rate's interval.

    A lower rate divides the odds that a label is wrong, and with them the confidence in its suggestion.
    """
    quality, confidence = findings.label_quality, findings.suggested_confidence
    noise, factor = findings.noise, 1.0
    if noise is not None and 0 < noise.rate < 1:
        odds = noise.rate / (1 - noise.rate)
        factor = min(max(noise.low / (1 - min(noise.low, noise.rate)) / odds, _MIN_FACTOR), 1.0)
    total = quality + factor * (1 - quality)
    suggested, given = factor * confidence / total, quality / total
    differs = findings.suggested_labels != findings.given_labels
    return np.asarray(differs & (suggested > 0.5) & (suggested >= given + MARGIN))


def with_held_out(findings: Findings, held_out: Sequence[LabelledSample]) -> tuple[Findings, Labels]:
    """Return findings with the held-out samples added, without a quality: by row number, else at the end; and where
    (N,) those of the run are in them."""
    if not held_out:
        return findings, np.arange(len(findings.ids))
    try:
        labels = [str(sample.label) for sample in held_out]
        if isinstance(findings, TagSetFindings):
            labels = findings.sets.read(labels, "the list of held-out samples")
        numbers = {str(name): label for label, name in enumerate(findings.names)}
        given_labels = np.array([numbers[label] for label in labels], np.int64)
        ids = np.array([sample.id for sample in held_out], findings.ids.dtype)
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"the held-out samples in data.json do not fit the findings: {error}") from error
    every = np.concatenate([findings.ids, ids])
    order = np.argsort(every, kind="stable") if every.dtype.kind in "iu" else np.arange(len(every))
    unknown, no = np.full(len(held_out), np.nan), np.zeros(len(held_out), bool)

    def joined(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate([ours, theirs])[order]

    optional = {
        "paths": ids,
        "unreadable": no,
        "decided": no,
        "excerpts": np.full(len(held_out), None, object),
        "chance_wrong": unknown,
        "other_labels": np.full(len(held_out), -1),
        "other_confidence": unknown,
    }
    more: dict[str, Any] = {
        name: joined(ours, theirs) for name, theirs in optional.items() if (ours := getattr(findings, name)) is not None
    }
    for name, none in (("groups", np.full(len(held_out), None, object)), ("votes", np.full(len(held_out), -1))):
        if (by_name := getattr(findings, name)) is not None:
            more[name] = {key: joined(ours, none) for key, ours in by_name.items()}
    if isinstance(findings, TagSetFindings):
        more["tags"] = findings.tags.joined(every, findings.sets.mask(given_labels), order)
    whole = replace(
        findings,
        ids=every[order],
        given_labels=joined(findings.given_labels, given_labels),
        suggested_labels=joined(findings.suggested_labels, given_labels),
        label_quality=joined(findings.label_quality, unknown),
        suggested_confidence=joined(findings.suggested_confidence, unknown),
        **more,
    )
    return whole, np.argsort(order, kind="stable")[: len(findings.ids)]
