"""Tables of the report, with numbers as they are and texts ready to print (`text.plain`)."""

import base64
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jnpl.analysis.data_report import (
    MAX_COLUMNS,
    MAX_NEAR_GROUPS,
    MAX_OUTLIERS,
    MAX_SUSPECTS,
    positions_of,
    shown_members,
)
from jnpl.internal.pictures import media_type
from jnpl.judging.findings import Findings
from jnpl.judging.groups import sentences as group_sentences
from jnpl.judging.tag_sets import TagSetFindings
from jnpl.outputs.report import charts, text
from jnpl.run_folder import DataFacts, RunFacts, SameContent, TableRows, UnreadableSample

MAX_PROBLEMS = 100  # rows of each kind of problem
_MAX_VALUES = 3  # columns of a near duplicate or an outlier
_MAX_HEAT_MAP = 30  # classes up to which a heat map is readable
_MAX_CLASSES = 1_000
_MAX_EPOCHS = 100
_MAX_PICTURE_BYTES = 14_000_000  # of suspects, and an eighth each for three others: keeps the page below 20 MB
_MAX_NAME = 60  # characters of a class name


@dataclass(frozen=True)
class ConfusedPair:
    """The number of suspects with one given and one suggested label."""

    given: str
    suggested: str
    count: int
    share: float  # of the samples with this given label
    bar: float  # percent of the most frequent pair


@dataclass(frozen=True)
class Example:
    """The sample nearest to a suspect that is surely of a class; `number` is that of its picture, if it has one."""

    id: str
    label: str
    is_given: bool
    number: int | None
    values: tuple[str, ...]


@dataclass(frozen=True)
class TagIssue:
    """A tag of a sample that looks wrong; `kind` is "missing" or "extra"."""

    tag: str
    number: int
    kind: str
    confidence: float


@dataclass(frozen=True)
class Suspect:
    """A label that looks wrong; the page filters by the class numbers, or by those of extra and of missing tags."""

    rank: int
    id: str
    given: str
    suggested: str
    given_number: int
    suggested_number: int
    quality: float
    confidence: float
    is_unclear: bool  # could be the given or the suggested label
    picture: str | None
    values: tuple[str, ...]
    excerpt: str | None
    examples: tuple[Example, ...]
    tag_issues: tuple[TagIssue, ...] | None = None  # None: the labels are classes

    def key(self, kind: str) -> str:
        """Return what the filter of "given" or "suggested" labels compares: numbers between spaces."""
        if self.tag_issues is None:
            return str(self.given_number if kind == "given" else self.suggested_number)
        tag_kind = "extra" if kind == "given" else "missing"
        return " ".join(str(issue.number) for issue in self.tag_issues if issue.kind == tag_kind)

    @property
    def is_relabelled(self) -> bool:
        """Return whether another label is suggested."""
        return self.given_number != self.suggested_number


def printable_names(findings: Findings) -> list[str]:
    """Return the names of the classes, ready to print."""
    if isinstance(findings, TagSetFindings):
        return [text.plain(findings.sets.shown(number), 2 * _MAX_NAME) for number in range(len(findings.names))]
    return [text.plain(name, _MAX_NAME) for name in findings.names]


def tags(findings: Findings) -> list[dict[str, Any]]:
    """Return a row for each of at most 1,000 tags, those with the most issues first; empty with one label a sample."""
    if not isinstance(findings, TagSetFindings):
        return []
    table = findings.pair_findings.tag_summary()
    order = np.argsort(-(table["missing"] + table["extra"]).to_numpy(), kind="stable")[:_MAX_CLASSES]

    def rate(row: dict[Any, Any], kind: str) -> dict[str, Any]:
        value, low, high = (float(row.get(f"{kind}_{part}", np.nan)) for part in ("rate", "low", "high"))
        issues = int(row[kind])
        if np.isnan(value):
            return {"issues": issues, "rate": None, "value": -1.0}  # by which the table is sorted
        span = f"{text.percent(low)} to {text.percent(high)}"
        return {"issues": issues, "rate": value, "value": value, "span": span}

    return [
        {
            "name": text.plain(row["tag"], _MAX_NAME),
            "count": int(row["count"]),
            "missing": rate(row, "missing"),
            "extra": rate(row, "extra"),
        }
        for row in table.iloc[order].to_dict(orient="records")
    ]


def _tag_issues(findings: Findings, position: int) -> tuple[TagIssue, ...] | None:
    """Return the tags of a sample that look wrong, worst first; None for classes."""
    if not isinstance(findings, TagSetFindings):
        return None
    tags = findings.tags
    return tuple(
        TagIssue(
            text.plain(tags.tag_names[tag], _MAX_NAME),
            tag,
            "extra" if tags.given[position, tag] else "missing",
            float(1 - tags.quality[position, tag]),
        )
        for tag in findings.issues_of(position)
    )


def confused_pairs(findings: Findings, names: Sequence[str], most: int) -> list[ConfusedPair]:
    """Return the pairs of given and suggested label with the most suspects, the most frequent first."""
    size = findings.num_classes
    moved = findings.is_label_issue & (findings.suggested_labels != findings.given_labels)
    pairs, counts = np.unique(
        findings.given_labels[moved] * size + findings.suggested_labels[moved], return_counts=True
    )
    of_class = np.bincount(findings.given_labels, minlength=size)
    order = np.argsort(-counts, kind="stable")[:most]
    return [
        ConfusedPair(
            names[pair // size],
            names[pair % size],
            count,
            count / int(of_class[pair // size]),
            100 * count / int(counts.max()),
        )
        for pair, count in zip(pairs[order].tolist(), counts[order].tolist(), strict=True)
    ]


def heat_map(findings: Findings, names: Sequence[str]) -> list[list[dict[str, Any]]] | None:
    """Return the transition matrix, a row per true class; None for more than 30 classes.

    `heat` in 0..1 is the colour. That of a mistake is relative to the most frequent one, or to 10 % if that is more:
    relative to the diagonal all mistakes would look the same.
    """
    if findings.num_classes > _MAX_HEAT_MAP:
        return None
    matrix = findings.transition_matrix
    off = matrix[~np.eye(len(matrix), dtype=bool)]
    strongest = max(float(off.max()), 0.1)
    return [
        [
            {
                "text": _whole(share),
                "heat": round(share if i == j else share / strongest, 3),
                "is_diagonal": i == j,
                "title": f"{names[i]} labelled {names[j]}: {text.percent(share)}",
            }
            for j, share in enumerate(row)
        ]
        for i, row in enumerate(matrix.tolist())
    ]


def _whole(share: float) -> str:
    """Return a share in whole percent, a dot for 0.

    >>> [_whole(share) for share in (0, 0.001, 0.025, 1)]
    ['·', '<1', '2', '100']
    """
    if not share:
        return "·"
    return "<1" if share < 0.005 else f"{100 * share:.0f}"


def classes(findings: Findings, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row per class, those with the largest share of suspects first; at most 1,000."""
    table = findings.class_summary()
    scored = ~np.isnan(findings.label_quality)
    number = np.bincount(findings.given_labels[scored], minlength=findings.num_classes)
    total = np.bincount(findings.given_labels[scored], findings.label_quality[scored], findings.num_classes)
    mean = np.where(number > 0, total / np.maximum(number, 1), np.nan)
    order = np.lexsort((-table["issues"].to_numpy(), -table["issue_rate"].to_numpy()))[:_MAX_CLASSES]
    suggested = table["most_common_suggested"].tolist()
    thresholds: list[float] | None = findings.threshold_info.get("by_class")
    return [
        {
            "name": names[i],
            "count": int(table["count"][i]),
            "issues": int(table["issues"][i]),
            "rate": float(table["issue_rate"][i]),
            "quality": float(mean[i]),
            "most_suggested": None if suggested[i] is None else text.plain(suggested[i], _MAX_NAME),
            "threshold": None if thresholds is None else float(thresholds[i]),
        }
        for i in order.tolist()
    ]


def annotators(findings: Findings) -> list[dict[Any, Any]]:
    """Return a row for each of at most 100 annotators, the worst first; empty with one label per sample."""
    if findings.votes is None:
        return []
    rows = findings.annotators.head(MAX_PROBLEMS).to_dict(orient="records")
    return [{**row, "annotator": text.plain(row["annotator"], _MAX_NAME)} for row in rows]


def groups(findings: Findings) -> list[tuple[str, list[str], list[dict[Any, Any]]]]:
    """Return each group column with a sentence for each group that differs, and at most 100 rows, worst first."""
    listed = []
    for column in findings.groups or {}:
        rows: list[dict[Any, Any]] = findings.by_group(column).head(MAX_PROBLEMS).to_dict(orient="records")
        for row in rows:
            row["group"] = text.plain(row["group"], _MAX_NAME)
            row["most_common_mistake"] = text.plain(row["most_common_mistake"] or "-", 2 * _MAX_NAME)
        listed.append((text.plain(column, _MAX_NAME), rows))
    lines = [text.plain(line, 400) for line in group_sentences(findings)]
    return [(column, [line for line in lines if line.startswith(f"{column} ")], rows) for column, rows in listed]


def suspects(
    findings: Findings, names: Sequence[str], pictures: dict[int, bytes], data: DataFacts
) -> tuple[list[Suspect], list[str]]:
    """Return at most 2,000 suspects, worst first, with pictures as data URIs and values from the data's table; and the
    pictures of the examples to compare them with, which several suspects may share."""
    columns, examples, room_of_examples = data.columns, dict[int, str](), _MAX_PICTURE_BYTES // 8
    excerpts = findings.excerpts if columns is not None and columns.names != ["text"] else None

    label_names = names
    if isinstance(findings, TagSetFindings):
        label_names = [text.plain(name, _MAX_NAME) for name in findings.tags.tag_names]

    def example(at: int, label: int, *, is_given: bool) -> Example:
        nonlocal room_of_examples
        if at not in examples and (picture := _data_uri(pictures.get(at), room_of_examples)) is not None:
            room_of_examples -= len(picture)
            examples[at] = picture
        number = list(examples).index(at) if at in examples else None
        return Example(text.plain(findings.ids[at]), label_names[label], is_given, number, _values(columns, at))

    most = min(int(findings.is_label_issue.sum()), MAX_SUSPECTS)
    room, made = _MAX_PICTURE_BYTES, []
    for rank, position in enumerate(findings.worst_positions(most).tolist(), 1):
        picture = _data_uri(pictures.get(position), room)
        room -= len(picture or "")
        given, suggested = int(findings.given_labels[position]), int(findings.suggested_labels[position])
        confidence, is_unclear = float(findings.suggested_confidence[position]), suggested == given
        if is_unclear and (other := int(findings.others[0][position])) >= 0:
            suggested, confidence = other, float(findings.others[1][position])
        issues = _tag_issues(findings, position)
        compared, of_given = list(dict.fromkeys((given, suggested))), {given}
        if issues is not None:
            compared = [issue.number for issue in issues[:2]]
            of_given = {issue.number for issue in issues if issue.kind == "extra"}
        made.append(
            Suspect(
                rank=rank,
                id=text.plain(findings.ids[position]),
                given=names[given],
                suggested=names[suggested],
                given_number=given,
                suggested_number=suggested,
                quality=float(findings.label_quality[position]),
                confidence=confidence,
                is_unclear=is_unclear,
                picture=picture,
                values=_values(columns, position),
                excerpt=None if excerpts is None else text.plain(excerpts[position] or ""),
                examples=tuple(
                    example(at, label, is_given=label in of_given)
                    for label in compared
                    if (at := data.evidence.get(position, {}).get(label)) is not None
                    and (not findings.is_decided[at] or (not issues and findings.suggested_labels[at] == label))
                ),
                tag_issues=issues,
            )
        )
    return made, list(examples.values())


def column_names(columns: TableRows | None) -> tuple[list[str], int]:
    """Return the names of the columns that are shown, and the number of those that are not."""
    names = [] if columns is None else columns.names
    return [text.plain(name, 40) for name in names[:MAX_COLUMNS]], max(len(names) - MAX_COLUMNS, 0)


def _values(columns: TableRows | None, position: int) -> tuple[str, ...]:
    if columns is None:
        return ()
    shown = len(columns.names[:MAX_COLUMNS])
    values: list[Any] = columns.rows.get(position, [])[:shown]
    return tuple(text.cell(value) for value in values + [None] * (shown - len(values)))


def _data_uri(picture: bytes | None, room: int) -> str | None:
    """Return a JPEG or PNG as a data URI; None if it is neither, or longer than `room` allows."""
    kind = None if picture is None else media_type(picture)
    if picture is None or kind is None or len(picture) * 4 // 3 + 40 > room:
        return None
    return f"data:{kind};base64,{base64.b64encode(picture).decode()}"


_TERMS = {  # of the log, in words
    "nl_plus": "loss of complementary labels",
    "pl_plus": "loss of confident predictions",
    "selected": "share of confident samples",
}


def epochs(lines: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the log as a table, names and at most 100 rows, evenly spaced."""
    kept = charts.first_seed(lines)
    names = list(dict.fromkeys(key for line in kept for key in line if key != "seed"))[:MAX_COLUMNS]
    chosen = np.unique(np.linspace(0, max(len(kept) - 1, 0), min(len(kept), _MAX_EPOCHS)).round().astype(int))
    rows = []
    for number in chosen.tolist():
        line = {**kept[number]}
        if charts.is_number(line.get("epoch")):
            line["epoch"] += 1  # counted from 1, as in the charts
        rows.append([text.cell(line.get(name), 40) for name in names])
    return [text.plain(_TERMS.get(name, name.replace("_", " ")), 40) for name in names], rows


def filter_options(suspects: Sequence[Suspect], kind: str, findings: Findings) -> list[tuple[int, str, int]]:
    """Return number, name and count of the "given" or "suggested" classes of suspects, or of extra or missing tags."""
    names = findings.sets.tag_names if isinstance(findings, TagSetFindings) else findings.names
    counts = Counter(int(number) for suspect in suspects for number in suspect.key(kind).split())
    return [(number, text.plain(names[number], _MAX_NAME), count) for number, count in sorted(counts.items())]


def data_problems(findings: Findings, data: DataFacts, pictures: dict[int, bytes]) -> dict[str, Any]:
    """Return the problems of the data; None for those not searched for. Lists are cut, counts are not."""
    unread, samples, tiny = data.unreadable_samples, data.unreadable, None
    if samples is None and findings.unreadable is not None:
        samples = [UnreadableSample(id=name) for name in findings.ids[findings.unreadable].tolist()]
    unreadable = None if samples is None else [(text.plain(one.id), text.plain(one.reason)) for one in samples]
    if data.tiny_classes is not None:
        tiny = [(text.plain(small.name, 60), small.count) for small in data.tiny_classes]
    return {
        "unreadable": None if unreadable is None else unreadable[:MAX_PROBLEMS],
        "unread": len(unreadable or ()) if unread is None else unread,
        "compared": data.compared,
        "duplicates": _duplicates(findings, data, pictures) if data.compared else None,
        "tiny": tiny,
        **_neighbours(findings, data, pictures),
    }


def _neighbours(findings: Findings, data: DataFacts, pictures: dict[int, bytes]) -> dict[str, Any]:
    """Return near duplicates and outliers with their pictures or values; None where the run did not search."""
    room = _MAX_PICTURE_BYTES // 8
    if data.near_duplicates is None:
        return {"near": None, "outliers": None}
    groups = sorted(data.near_duplicates, key=lambda group: not group.differ)[:MAX_NEAR_GROUPS]
    members = [[group.ids[at] for at in shown_members(group.labels)] for group in groups]
    far = (data.outliers or [])[:MAX_OUTLIERS]
    listed_ids = [*(name for group in members for name in group), *(outlier.id for outlier in far)]
    position = positions_of(findings.ids, listed_ids)
    names, columns = printable_names(findings), column_names(data.columns)[0]

    def shown(name: int | str, score: float | None = None) -> dict[str, Any] | None:
        """Return a sample with its picture, or its values from the data's table, as names and values."""
        nonlocal room
        if (at := position.get(name)) is None:
            return None
        picture = _data_uri(pictures.get(at), room)
        room -= len(picture or "")
        values = tuple(zip(columns, _values(data.columns, at), strict=True))[:_MAX_VALUES]
        label = names[findings.given_labels[at]]
        return {"id": text.plain(name), "label": label, "picture": picture, "values": values, "score": score}

    listed = [
        {
            "members": [sample for name in chosen if (sample := shown(name)) is not None],
            "more": group.size - len(chosen),
            "differ": group.differ,
        }
        for group, chosen in zip(groups, members, strict=True)
    ]
    outliers = [sample for one in far if (sample := shown(one.id, one.score)) is not None]
    everything = len(data.outliers or ()) if data.outlier_samples is None else data.outlier_samples
    counts = _counts(data.near_duplicates, data.near_duplicate_samples, data.near_conflicting_samples)
    return {
        "near": {"groups": listed, "rest": counts["samples"] - sum(group.size for group in groups), **counts},
        "outliers": {"shown": outliers, "samples": everything},
        "searched": text.plain(data.neighbours_searched or "all samples were compared", 200),
    }


def _duplicates(findings: Findings, data: DataFacts, pictures: dict[int, bytes]) -> dict[str, Any] | None:
    """Return the first groups, those with differing labels before the others, and the counts of all samples."""
    if data.duplicates is None:
        return None
    groups = sorted(data.duplicates, key=lambda group: not group.differ)[:MAX_PROBLEMS]
    position = positions_of(findings.ids, [name for group in groups for name in group.ids]) if pictures else {}
    room = _MAX_PICTURE_BYTES // 8

    def picture(group: SameContent) -> str | None:
        nonlocal room
        shown = (pictures[position[name]] for name in group.ids if position.get(name) in pictures)
        made = _data_uri(next(shown, None), room)
        room -= len(made or "")
        return made

    listed = [
        {
            "ids": [text.plain(name) for name in group.ids[:10]],
            "more": max(group.size - len(group.ids[:10]), 0),
            "labels": [text.plain(name, 60) for name in dict.fromkeys(group.labels)][:10],
            "differ": group.differ,
            "picture": picture(group),
        }
        for group in groups
    ]
    counts = _counts(data.duplicates, data.duplicate_samples, data.conflicting_samples)
    rest = counts["samples"] - sum(group.size for group in groups)
    return {"groups": listed, "rest": max(rest, 0), **counts}


def _counts(groups: Sequence[SameContent], samples: int | None, differ: int | None) -> dict[str, int]:
    """Return the numbers of samples in groups, and in groups with differing labels, as counted by the run."""
    return {
        "samples": sum(group.size for group in groups) if samples is None else samples,
        "differ": sum(group.size for group in groups if group.differ) if differ is None else differ,
    }


def origin(run: RunFacts) -> list[tuple[str, str]]:
    """Return data, seed, precision, versions and fingerprint of the run, as names and values."""
    rows: list[tuple[str, object]] = [("data", run.data), ("seed", run.seed), ("precision", run.precision)]
    rows += [(f"version of {name}", version) for name, version in run.versions.items()]
    rows += [("fingerprint of the data", run.fingerprint)]
    return [(text.plain(name), text.plain(value)) for name, value in rows if value is not None]


def settings(recipe: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return nested settings as rows of dotted names and JSON values."""
    rows: list[tuple[str, str]] = []
    for key, value in recipe.items():
        if isinstance(value, dict):
            rows += settings(value, f"{before}{key}.")
        else:
            rows.append((text.plain(f"{before}{key}"), text.plain(json.dumps(value, ensure_ascii=False), 400)))
    return rows
