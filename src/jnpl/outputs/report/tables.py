"""Tables of the report: pairs of classes, the transition matrix, classes, suspects. Names are fit to print."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.outputs.report import charts, text, thumbs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from jnpl.findings.findings import Findings
    from jnpl.outputs.report.reading import Columns

MOST_IN_MATRIX = 30  # classes up to which a heat map can be read
MOST_CLASSES = 1_000
_MOST_COLUMNS, _MOST_EPOCHS = 12, 100
_MOST_BYTES = 10_000_000  # of pictures: the page stays under 20 MB whatever lies in the folder
_NAME = 60  # letters of a class name
_FORMATS = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}


@dataclass(frozen=True)
class Pair:
    """Labels that say `given` where the run says `suggested`."""

    given: str
    suggested: str
    count: int
    share: float  # of the labels that say `given`
    bar: float  # percent of the longest


@dataclass(frozen=True)
class Cell:
    """A field of the heat map: `heat` in 0..1 is its colour."""

    text: str
    heat: float
    is_diagonal: bool
    title: str


@dataclass(frozen=True)
class Class:
    """A row of the table of classes."""

    name: str
    count: int
    issues: int
    rate: float
    quality: float
    instead: str | None
    threshold: float | None  # where each class has one of its own


@dataclass(frozen=True)
class Suspect:
    """A label that looks wrong; class numbers are there to filter by."""

    rank: int
    id: str
    given: str
    suggested: str
    given_number: int
    suggested_number: int
    quality: float
    confidence: float
    picture: str | None
    values: tuple[str, ...]

    @property
    def is_relabelled(self) -> bool:
        """Whether another label is suggested."""
        return self.given_number != self.suggested_number


def class_names(findings: Findings) -> list[str]:
    """Names of the classes, fit to print."""
    names: Sequence[object] = findings.class_names or range(findings.num_classes)
    return [text.plain(name, _NAME) for name in names]


def confused_pairs(findings: Findings, names: Sequence[str], most: int) -> list[Pair]:
    """The pairs of given and suggested label that most suspects share, the most frequent first."""
    size = findings.num_classes
    moved = findings.is_label_issue & (findings.suggested_labels != findings.given_labels)
    pairs, counts = np.unique(
        findings.given_labels[moved] * size + findings.suggested_labels[moved], return_counts=True
    )
    of_class = np.bincount(findings.given_labels, minlength=size)
    order = np.argsort(-counts, kind="stable")[:most]
    return [
        Pair(
            names[pair // size],
            names[pair % size],
            count,
            count / int(of_class[pair // size]),
            100 * count / int(counts.max()),
        )
        for pair, count in zip(pairs[order].tolist(), counts[order].tolist(), strict=True)
    ]


def heat_map(findings: Findings, names: Sequence[str]) -> list[list[Cell]] | None:
    """The transition matrix, a row per true class; None for more classes than can be read.

    Mistakes are coloured against the largest of them, or a tenth: beside the diagonal all would look the same.
    """
    if findings.num_classes > MOST_IN_MATRIX:
        return None
    matrix = findings.transition_matrix
    off = matrix[~np.eye(len(matrix), dtype=bool)]
    strongest = max(float(off.max()), 0.1)
    return [
        [
            Cell(
                _whole(share),
                round(share if i == j else share / strongest, 3),
                i == j,
                f"{names[i]} labelled {names[j]}: {text.percent(share)}",
            )
            for j, share in enumerate(row)
        ]
        for i, row in enumerate(matrix.tolist())
    ]


def _whole(share: float) -> str:
    """Whole percent for a small field: a dot for none.

    >>> [_whole(share) for share in (0, 0.001, 0.025, 1)]
    ['·', '<1', '2', '100']
    """
    if not share:
        return "·"
    return "<1" if share < 0.005 else f"{100 * share:.0f}"


def classes(findings: Findings, names: Sequence[str]) -> list[Class]:
    """A row per class, those with the largest share of suspects first; at most 1,000."""
    table = findings.class_summary()
    scored = ~np.isnan(findings.label_quality)
    number = np.bincount(findings.given_labels[scored], minlength=findings.num_classes)
    total = np.bincount(findings.given_labels[scored], findings.label_quality[scored], findings.num_classes)
    mean = np.where(number > 0, total / np.maximum(number, 1), np.nan)
    order = np.lexsort((-table["issues"].to_numpy(), -table["issue_rate"].to_numpy()))[:MOST_CLASSES]
    instead = table["most_common_suggested"].tolist()
    thresholds: list[float] | None = findings.threshold_info.get("by_class")
    return [
        Class(
            name=names[i],
            count=int(table["count"][i]),
            issues=int(table["issues"][i]),
            rate=float(table["issue_rate"][i]),
            quality=float(mean[i]),
            instead=None if instead[i] is None else text.plain(instead[i], _NAME),
            threshold=None if thresholds is None else float(thresholds[i]),
        )
        for i in order.tolist()
    ]


def worst(findings: Findings, most: int) -> npt.NDArray[np.int64]:
    """Positions of the worst samples, issues before all others: with a threshold for each class these may mix."""
    order: npt.NDArray[np.int64] = np.lexsort((findings.label_quality, ~findings.is_label_issue))  # nan last
    return order[: min(most, np.count_nonzero(~np.isnan(findings.label_quality)))]


def suspects(
    findings: Findings, names: Sequence[str], pictures: dict[int, bytes], columns: Columns | None
) -> list[Suspect]:
    """The worst suspects, worst first, at most 500, with pictures as data URIs and values from the data's table."""
    most = min(int(findings.is_label_issue.sum()), thumbs.MOST)
    room, made = _MOST_BYTES, []
    for rank, position in enumerate(worst(findings, most).tolist(), 1):
        picture = _data_uri(pictures.get(position), room)
        room -= len(picture or "")
        given, suggested = int(findings.given_labels[position]), int(findings.suggested_labels[position])
        made.append(
            Suspect(
                rank=rank,
                id=text.plain(findings.ids[position]),
                given=names[given],
                suggested=names[suggested],
                given_number=given,
                suggested_number=suggested,
                quality=float(findings.label_quality[position]),
                confidence=float(findings.suggested_confidence[position]),
                picture=picture,
                values=_values(columns, position),
            )
        )
    return made


def column_names(columns: Columns | None) -> tuple[list[str], int]:
    """The columns that are shown, and how many are not."""
    names = [] if columns is None else columns.names
    return [text.plain(name, 40) for name in names[:_MOST_COLUMNS]], max(len(names) - _MOST_COLUMNS, 0)


def _values(columns: Columns | None, position: int) -> tuple[str, ...]:
    if columns is None:
        return ()
    shown = len(columns.names[:_MOST_COLUMNS])
    values: list[Any] = columns.rows.get(position, [])[:shown]
    return tuple(text.cell(value) for value in values + [None] * (shown - len(values)))


def _data_uri(picture: bytes | None, room: int) -> str | None:
    """A picture inside the page, if it is a JPEG or PNG and there is room."""
    kind = next((kind for start, kind in _FORMATS.items() if picture and picture.startswith(start)), None)
    if picture is None or kind is None or len(picture) * 4 // 3 + 40 > room:
        return None
    return f"data:{kind};base64,{base64.b64encode(picture).decode()}"


def epochs(lines: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """The log as a table: names and rows, at most 100 of them, evenly chosen."""
    kept = charts.first_seed(lines)
    names = list(dict.fromkeys(key for line in kept for key in line if key != "seed"))[:_MOST_COLUMNS]
    chosen = np.unique(np.linspace(0, max(len(kept) - 1, 0), min(len(kept), _MOST_EPOCHS)).round().astype(int))
    rows = []
    for number in chosen.tolist():
        line = {**kept[number]}
        if charts.is_number(line.get("epoch")):
            line["epoch"] += 1  # from 1, as in the charts
        rows.append([text.cell(line.get(name), 40) for name in names])
    return [text.plain(name.replace("_", " "), 40) for name in names], rows
