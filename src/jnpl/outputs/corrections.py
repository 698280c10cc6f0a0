"""Findings and decisions in, corrected labels out."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from jnpl.internal.errors import InputError
from jnpl.outputs.export.rows import suffix_of, unescaped, writing

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from jnpl.findings.findings import Findings

Labels: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = list[tuple[str, Any]]  # id and label, as a table lists them


@dataclass(frozen=True, eq=False)
class Corrected:
    """Labels after correction, in the order of the data, without the samples that are left out.

    `rows` are positions in the findings (M,); `labels` class numbers (M,).
    """

    findings: Findings
    rows: Labels
    labels: Labels

    @property
    def changed(self) -> npt.NDArray[np.bool_]:
        """(M,) where the label is another than the given one."""
        changed: npt.NDArray[np.bool_] = self.labels != self.findings.given_labels[self.rows]
        return changed

    @property
    def dropped(self) -> int:
        """Samples that are left out."""
        return len(self.findings.given_labels) - len(self.rows)

    def table(self) -> pd.DataFrame:
        """Rows of id, label, given_label, changed."""
        names, ids = class_names(self.findings), self.findings.ids[self.rows]
        texts = isinstance(names[0], str)

        def named(labels: Labels) -> Any:
            found = [names[label] for label in labels.tolist()]
            return pd.array(found, dtype="string") if texts else np.array(found, np.int64)

        return pd.DataFrame(
            {
                "id": ids if ids.dtype.kind in "iu" else pd.array(ids.tolist(), dtype="string"),
                "label": named(self.labels),
                "given_label": named(self.findings.given_labels[self.rows]),
                "changed": self.changed,
            }
        )

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write `table` as .csv, .parquet or .json."""
        with writing(path) as write:
            write(self.table())


def correct(
    findings: Findings,
    *,
    decisions: Mapping[str, Any] | Rows | None = None,
    min_confidence: float | None = None,
    drop: bool = False,
) -> Corrected:
    """Take suggestions and decisions for the truth.

    Without `decisions` (id -> label, or rows of them) every issue takes its suggested label, if its confidence is
    `min_confidence` or more. With them they decide, and the other samples keep their labels, unless `min_confidence` is
    given too: then issues that nobody decided take suggestions as before. `drop` leaves out issues that keep a label
    nobody decided.

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
    decided = np.zeros(len(labels), bool)
    if decisions is not None:
        names = class_names(findings)
        listed = decisions if isinstance(decisions, list) else list(decisions.items())
        chosen = placed(listed, findings.ids, names, said_by="the decisions name", missing_in="the run")
        decided = chosen >= 0
        labels[decided] = chosen[decided]
    open_issues = findings.is_label_issue & ~decided
    if decisions is None or min_confidence is not None:
        sure = open_issues & (findings.suggested_confidence >= (min_confidence or 0))
        labels[sure] = findings.suggested_labels[sure]
    lost = open_issues & (labels == findings.given_labels) if drop else np.zeros(len(labels), bool)
    kept = np.flatnonzero(~lost)
    if not len(kept):
        raise InputError("no sample is left: every label is an issue without a better one")
    return Corrected(findings, kept, labels[kept])


def class_names(findings: Findings) -> tuple[str, ...] | tuple[int, ...]:
    """Names of the classes; their numbers where they have none."""
    return tuple(range(findings.num_classes)) if findings.class_names is None else findings.class_names


def held_out(run: Path) -> list[dict[str, Any]]:
    """Read id and given label (by name) of the samples that a run kept aside, which its findings do not hold."""
    try:
        noted = json.loads((run / "data.json").read_text("utf-8")).get("held_out")
    except (OSError, ValueError, AttributeError):
        noted = None
    return noted if isinstance(noted, list) else []


def with_held_out(findings: Findings, held: Sequence[dict[str, Any]]) -> Findings:
    """Add the samples that were kept aside, as ones that nobody has judged: by their row, else behind the others."""
    if not held:
        return findings
    numbers = {str(name): label for label, name in enumerate(class_names(findings))}
    try:
        given = np.array([numbers[str(each["label"])] for each in held], np.int64)
        ids = np.array([each["id"] for each in held], findings.ids.dtype)
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"data.json speaks of held-out samples that do not fit the findings: {error}") from error
    every = np.concatenate([findings.ids, ids])
    order = np.argsort(every, kind="stable") if every.dtype.kind in "iu" else np.arange(len(every))
    unknown, seen = np.full(len(held), np.nan), np.zeros(len(held), bool)

    def joined(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.concatenate([ours, theirs])[order]

    return replace(
        findings,
        ids=every[order],
        given_labels=joined(findings.given_labels, given),
        suggested_labels=joined(findings.suggested_labels, given),
        label_quality=joined(findings.label_quality, unknown),
        suggested_confidence=joined(findings.suggested_confidence, unknown),
        paths=None if findings.paths is None else joined(findings.paths, ids),
        unreadable=None if findings.unreadable is None else joined(findings.unreadable, seen),
    )


def read_labels(path: str | os.PathLike[str]) -> Rows:
    """Read rows of a .csv, .parquet or .json with the columns id and label, others aside; `apply` writes such files.

    Ids are texts, labels as they stand (texts, in a .csv). The apostrophe that a .csv has before formulas is taken
    away; `match` finds those that were there before.
    """
    suffix = suffix_of(path)
    try:
        if suffix == ".csv":
            frame = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig").map(unescaped)
        elif suffix == ".parquet":
            frame = pd.read_parquet(path)
        else:
            frame = pd.DataFrame(json.loads(Path(path).read_text("utf-8")), dtype=object)
    except FileNotFoundError as error:
        raise InputError(f"no such file: {str(path)!r}") from error
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"cannot read {str(path)!r}: not a valid {suffix} table of rows") from error
    for column in ("id", "label"):
        if column not in frame.columns:
            shown = ", ".join(map(str, frame.columns)) or "none"
            raise InputError(f"{str(path)!r} has no column {column!r}; its columns are {shown}")
    found: Rows = []
    for row, (name, label) in enumerate(zip(frame["id"].tolist(), frame["label"].tolist(), strict=True)):
        if label is None or label != label or str(label).strip() == "":  # noqa: PLR0124 - nan differs from itself
            raise InputError(f"{str(path)!r} has no label in row {row} (counted from 0), id {str(name)!r}")
        found.append((str(name), label))
    return found


def match(text: str, known: Iterable[str] | dict[str, Any]) -> str | None:
    """Return the one of the known texts that `read_labels` read, None if there is none.

    Where a table is not from here, an apostrophe may have been the text's own.
    """
    return next((each for each in (text, f"'{text}") if each in known), None)


def placed(table: Rows, ids: npt.NDArray[Any], names: Sequence[str | int], *, said_by: str, missing_in: str) -> Labels:
    """(N,) class numbers of a table of ids and labels, -1 for samples that it does not name.

    Where several samples share an id, one label is for all of them; as many as there are samples follow their order.
    `said_by` and `missing_in` tell in an error whose table it is, and what it does not fit.
    """
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(ids.tolist()):
        rows.setdefault(str(name), []).append(row)
    numbers = {str(name): label for label, name in enumerate(names)}
    told: dict[str, list[int]] = {}
    for name, label in table:
        at, to = match(name, rows), match(str(label).strip(), numbers)
        if at is None:
            like = next(iter(rows))
            raise InputError(f"{said_by} id {name!r}, which is not in {missing_in}: an id is one like {like!r}")
        if to is None:
            shown = ", ".join(list(numbers)[:20])
            raise InputError(f"{said_by} {name!r} with the label {label!r}, which is no class of {missing_in}: {shown}")
        told.setdefault(at, []).append(numbers[to])
    chosen = np.full(len(ids), -1, np.int64)
    for at, labels in told.items():
        where = rows[at]
        if len(labels) != len(where) and len(set(labels)) > 1:
            shown = " and ".join(repr(str(names[label])) for label in sorted(set(labels))[:2])
            what = f"id {at!r} in {len(labels)} rows, as {shown}"
            raise InputError(f"{said_by} {what}, but {missing_in} has {len(where)} of that id")
        chosen[where] = labels if len(labels) == len(where) else labels[0]
    return chosen
